// SPDX-License-Identifier: Apache-2.0
// What is learned from nodes and events of a scripted API.
#include "../kube/loop.h"
#include "patience.h"
#include "requests.h"

#include "base/clock.h"
#include "expander/expander_private.h"
#include "net/http/client.h"

#include <stdlib.h>

enum { MAX_WATCHES = 8 };

struct fixture {
    uv_loop_t loop;
    json_t *nodes, *events;
    struct http_stream *watches[MAX_WATCHES];
    struct http_stream *node_watch;
    struct http_client *http;
    struct kube_client *kube;
    struct expander_cluster *cluster;
};

static void on_watch_closed(void *arg)
{
    *(struct http_stream **)arg = NULL;
}

static void handle(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    const json_t *items = strstr(http_path(x), "/nodes") ? f->nodes : f->events;
    if (http_query(x, "watch")) {
        struct http_stream **slot = f->watches;
        while (*slot)
            slot++;
        assert_true(slot < f->watches + MAX_WATCHES);
        *slot = http_reply_stream(x, 200, "application/json", on_watch_closed, slot);
        if (items == f->nodes)
            f->node_watch = *slot;
        return;
    }
    CODEC_AUTO_JSON json_t *list = json_pack("{s:s, s:{s:s}, s:O}", "kind", "List", "metadata",
                                             "resourceVersion", "1", "items", items);
    GS_AUTO_BUF struct gs_buf out = {0};
    codec_json_dump(list, &out);
    http_reply(x, 200, "application/json", gs_buf_slice(&out));
}

static void setup(struct fixture *f)
{
    *f = (struct fixture){.nodes = json_array(), .events = json_array()};
    uv_loop_init(&f->loop);
}

static void start(struct fixture *f)
{
    f->http = http_client_new_loopback(&f->loop, handle, f, NULL);
    f->kube = kube_client_new(f->http);
    f->cluster = expander_cluster_new(&f->loop, f->kube, false);
}

static void teardown(struct fixture *f)
{
    expander_cluster_free(f->cluster);
    kube_client_free(f->kube);
    http_client_free(f->http);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    json_decref(f->nodes);
    json_decref(f->events);
}

// Seconds before now, as the API writes it.
static json_t *ago(int seconds)
{
    char text[GS_RFC3339_SIZE];
    return json_string(gs_format_rfc3339((gs_unix_ms() / 1000 - seconds) * 1000, text));
}

static void add_event(struct fixture *f, const char *reason, const char *message, int seconds)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "event-%zu", json_array_size(f->events));
    json_array_append_new(f->events, json_pack("{s:{s:s, s:s}, s:s, s:s, s:o}", "metadata", "name",
                                               name, "namespace", "kube-system", "reason", reason,
                                               "message", message, "lastTimestamp", ago(seconds)));
}

static void add_node(struct fixture *f, const char *pool, int created, int ready)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "node-%zu", json_array_size(f->nodes));
    json_array_append_new(f->nodes, json_pack("{s:{s:s, s:{s:s}, s:o}, s:{s:[{s:s, s:s, s:o}]}}",
                                              "metadata", "name", name, "labels",
                                              "gpuscale.dev/pool", pool, "creationTimestamp",
                                              ago(created), "status", "conditions", "type", "Ready",
                                              "status", "True", "lastTransitionTime", ago(ready)));
}

static void describe(struct fixture *f, const char *group, const char *pool,
                     struct nodes_group *ret)
{
    CODEC_AUTO_JSON json_t *node =
        json_pack("{s:{s:{s:s}}}", "metadata", "labels", "gpuscale.dev/pool", pool);
    *ret = (struct nodes_group){.name = group, .node = node};
    expander_cluster_describe(f->cluster, ret);
    ret->node = NULL;
}

static void test_start_up_times(void **state)
{
    struct fixture f;
    struct nodes_group g = {0};
    setup(&f);
    add_event(&f, "ScaledUpGroup",
              "Scale-up: setting group g/gpu-1 size to 2 instead of 0 (max: 8)", 600);
    add_event(&f, "ScaledUpGroup", "Scale-up: group other size set to 3 instead of 2 (max: 8)",
              900);
    add_node(&f, "gpu-1", 560, 500); // ready 100 s after the order
    add_node(&f, "gpu-1", 550, 480); // 120 s
    add_node(&f, "gpu-1", 540, 300); // 300 s
    add_node(&f, "gpu-1", 4000, 10); // older than the order
    add_node(&f, "gpu-9", 560, 500); // of a pool without a group
    start(&f);
    int64_t end = gs_mono_ns() + WAIT_NS;
    while (!g.startup_ms && gs_mono_ns() < end) {
        describe(&f, "g/gpu-1", "gpu-1", &g);
        uv_run(&f.loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    assert_int_equal(g.startup_ms, 120000);
    assert_int_equal(g.backoff.failures, 0);
    describe(&f, "other", "gpu-2", &g);
    assert_int_equal(g.startup_ms, 0);
    teardown(&f);
}

static void test_a_start_ends_when_the_gpus_are_allocatable(void **state)
{
    struct fixture f;
    setup(&f);
    add_event(&f, "ScaledUpGroup", "Scale-up: group gpu-1 size set to 1 instead of 0 (max: 8)",
              200);
    add_node(&f, "gpu-1", 180, 150);
    start(&f);
    CODEC_AUTO_JSON json_t *template =
        json_pack("{s:{s:{s:s}}, s:{s:{s:s}}}", "metadata", "labels", "gpuscale.dev/pool", "gpu-1",
                  "status", "allocatable", "nvidia.com/gpu", "1");
    struct nodes_group g = {.name = "gpu-1", .node = template};
    expander_cluster_describe(f.cluster, &g);
    loop_until(&f.loop, f.node_watch);
    CODEC_AUTO_JSON json_t *node = json_deep_copy(json_array_get(f.nodes, 0));
    codec_json_set(node, json_string("2"), "metadata", "resourceVersion", NULL);
    codec_json_set(node, json_string("1"), "status", "allocatable", "nvidia.com/gpu", NULL);
    CODEC_AUTO_JSON json_t *event = json_pack("{s:s, s:O}", "type", "MODIFIED", "object", node);
    GS_AUTO_BUF struct gs_buf text = {0};
    codec_json_dump(event, &text);
    gs_buf_add_str(&text, "\n");
    http_stream_write(f.node_watch, gs_buf_slice(&text));
    loop_until(&f.loop, (expander_cluster_describe(f.cluster, &g), g.startup_ms > 0));
    assert_true(g.startup_ms >= 199000); // 50 s until the node was ready
    teardown(&f);
}

static void test_failures(void **state)
{
    static const struct {
        const char *reason, *message, *group;
    } cases[] = {
        {"FailedToScaleUpGroup", "Scale-up failed for group gpu-1: rpc error: quota", "gpu-1"},
        {"ScaleUpTimedOut", "Nodes added to group gpu-4 failed to register within 15m0s", "gpu-4"},
        {"ScaleUpFailed", "Failed adding 2 nodes to group a:b/c due to OutOfResource; source",
         "a:b/c"},
    };
    struct fixture f;
    struct nodes_group g;
    setup(&f);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        add_event(&f, cases[i].reason, cases[i].message, 20);
    add_event(&f, "ScaleDownEmpty", "Scale-down: removing empty node in group fine", 20);
    add_event(&f, "ScaleUpFailed", "no name", 20);
    add_event(&f, "ScaledUpGroup", "Scale-up: group silent size set to 1 instead of 0 (max: 8)",
              40);
    add_event(&f, "ScaledUpGroup", "Scale-up: group slow size set to 1 instead of 0 (max: 8)", 40);
    add_event(&f, "DeleteUnregistered", "Removed unregistered node aws:///eu-1a/i-0123", 20);
    add_event(&f, "DeleteUnregistered", "Removed unregistered node gpuscale://silent/x7k2p", 15);
    start(&f);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        int64_t end = gs_mono_ns() + WAIT_NS;
        do {
            describe(&f, cases[i].group, "p", &g);
            uv_run(&f.loop, UV_RUN_NOWAIT);
        } while (!g.backoff.failures && gs_mono_ns() < end);
        assert_int_equal(g.backoff.failures, 1);
        assert_true(nodes_backoff_active(&g.backoff, gs_unix_ms()));
    }
    describe(&f, "silent", "p", &g);
    assert_int_equal(g.backoff.failures, 1);
    describe(&f, "fine", "p", &g);
    assert_int_equal(g.backoff.failures, 0);
    describe(&f, "slow", "p", &g); // another group waited, too
    assert_int_equal(g.backoff.failures, 0);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_up_times),
        cmocka_unit_test(test_a_start_ends_when_the_gpus_are_allocatable),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
