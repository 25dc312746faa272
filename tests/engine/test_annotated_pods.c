// SPDX-License-Identifier: Apache-2.0
// Pods with the annotation prometheus.io/scrape as targets of the engine: their address, path and
// interval, and who is none.
#include "engine/engine.h"

#include "../kube/loop.h"
#include "base/mem.h"
#include "kube/client.h"
#include "net/http/server.h"

#include <stdio.h>
#include <string.h>

struct fixture {
    uv_loop_t loop;
    struct http_server *server; // of the pods
    struct http_client *http;
    struct kube_client *kube;
    struct engine *engine;
    char *pods; // items of the list
    int pages;
};

static void serve_page(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    bool right = gs_streq(http_path(x), "/own") && gs_streq(http_query(x, "part"), "queue");
    f->pages += right;
    http_reply(x, right ? 200 : 404, "text/plain; version=0.0.4", GS_SLICE("queue_depth 7\n"));
}

static void closed(void *arg)
{
    (void)arg;
}

static void serve_cluster(void *ctx, struct http_exchange *x)
{
    const struct fixture *f = ctx;
    if (http_query(x, "watch")) {
        http_reply_stream(x, 200, "application/json", closed, NULL);
        return;
    }
    GS_AUTO_FREE char *body =
        gs_format("{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[%s]}",
                  gs_ends(http_path(x), "/pods") ? f->pods : "");
    http_reply(x, 200, "application/json", gs_slice_of(body));
}

// annotations: JSON members.
static char *pod(const char *name, const char *phase, const char *annotations)
{
    return gs_format("{\"metadata\":{\"name\":\"%s\",\"namespace\":\"shop\",\"uid\":\"%s\","
                     "\"resourceVersion\":\"1\",\"annotations\":{%s}},\"spec\":{\"containers\":[{"
                     "\"name\":\"c\",\"ports\":[{\"containerPort\":1},{\"containerPort\":2}]}]},"
                     "\"status\":{\"phase\":\"%s\",\"podIP\":\"127.0.0.1\"}}",
                     name, name, annotations, phase);
}

static void start_with(struct fixture *f, const char *config, const char *interval)
{
    *f = (struct fixture){0};
    uv_loop_init(&f->loop);
    const struct http_server_config cfg = {.address = "127.0.0.1"};
    assert_ok(http_server_start(&f->loop, &cfg, serve_page, f, &f->server));
    GS_AUTO_FREE char *annotations =
        gs_format("\"prometheus.io/scrape\":\"true\",\"prometheus.io/port\":\"%d\","
                  "\"prometheus.io/path\":\"/own\",\"prometheus.io/param-part\":\"queue\","
                  "\"gpuscale.dev/scrape-interval\":\"%s\"",
                  http_server_port(f->server), interval);
    GS_AUTO_FREE char *right = pod("api-1", "Running", annotations);
    GS_AUTO_FREE char *pending = pod("api-2", "Pending", annotations);
    GS_AUTO_FREE char *other = pod("web-1", "Running", "\"prometheus.io/scrape\":\"false\"");
    f->pods = gs_format("%s,%s,%s", right, pending, other);
    f->http = http_client_new_loopback(&f->loop, serve_cluster, f, NULL);
    f->kube = kube_client_new(f->http);
    const struct engine_options o = {
        .config_text = config, .kube = f->kube, .kube_annotations = true};
    assert_ok(engine_new(&f->loop, &o, &f->engine));
}

static void start(struct fixture *f, const char *config)
{
    start_with(f, config, "1s");
}

static void finish(struct fixture *f)
{
    engine_free(f->engine);
    kube_client_free(f->kube);
    http_client_free(f->http);
    http_server_stop(f->server);
    loop_finish(&f->loop);
    free(f->pods);
}

static size_t active(struct fixture *f, json_t **ret)
{
    json_decref(*ret);
    *ret = scrape_targets_json(engine_scrapes(f->engine), "active", ENGINE_ANNOTATED_PODS_JOB);
    return json_array_size(json_object_get(*ret, "activeTargets"));
}

static void test_annotations_are_an_address_and_a_path(void **state)
{
    struct fixture f;
    json_t *targets = NULL;
    start(&f, "global: {scrape_interval: 30s}\n");
    loop_until(&f.loop, active(&f, &targets) == 1 && f.pages > 0);
    const json_t *t = json_array_get(json_object_get(targets, "activeTargets"), 0);
    GS_AUTO_FREE char *url =
        gs_format("http://127.0.0.1:%d/own?part=queue", http_server_port(f.server));
    assert_string_equal(codec_json_str(t, "scrapeUrl", NULL), url);
    assert_string_equal(codec_json_str(t, "labels", "namespace", NULL), "shop");
    assert_string_equal(codec_json_str(t, "labels", "pod", NULL), "api-1");
    assert_string_equal(codec_json_str(t, "scrapeInterval", NULL), "1s");
    json_decref(targets);
    finish(&f);
    (void)state;
}

// Any pod can have the annotation, so it has a minimum.
static void test_the_interval_has_at_least_100_ms(void **state)
{
    static const char *const rows[][2] = {{"250ms", "250ms"}, {"2m", "2m"}, {"20ms", "30s"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct fixture f;
        json_t *targets = NULL;
        start_with(&f, "global: {scrape_interval: 30s}\n", rows[i][0]);
        loop_until(&f.loop, active(&f, &targets) == 1);
        const json_t *t = json_array_get(json_object_get(targets, "activeTargets"), 0);
        assert_string_equal(codec_json_str(t, "scrapeInterval", NULL), rows[i][1]);
        json_decref(targets);
        finish(&f);
    }
    (void)state;
}

static void test_a_job_of_the_configuration_replaces_the_built_in_one(void **state)
{
    struct fixture f;
    start(&f, "scrape_configs: [{job_name: kubernetes-pods, metrics_path: /mine}]\n");
    const struct engine_config_scrape_config *job =
        scrape_pool_config(engine_scrapes(f.engine), ENGINE_ANNOTATED_PODS_JOB);
    assert_string_equal(job->metrics_path, "/mine");
    loop_for_ms(&f.loop, 50);
    json_t *targets = NULL;
    assert_int_equal(active(&f, &targets), 0);
    json_decref(targets);
    finish(&f);
    (void)state;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_annotations_are_an_address_and_a_path),
        cmocka_unit_test(test_the_interval_has_at_least_100_ms),
        cmocka_unit_test(test_a_job_of_the_configuration_replaces_the_built_in_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
