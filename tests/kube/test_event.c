// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "base/mem.h"
#include "kube/event.h"
#include "kube/kube_private.h"
#include "kube/object.h"
#include "loop.h"

struct fixture {
    uv_loop_t loop;
    struct http_client *http;
    struct kube_client *client;
    struct kube_recorder *recorder;
    json_t *event; // as last written
    int creates, patches;
    bool lose_patches; // answer 404
    int refused;       // creates are refused; their number
    bool refuse;
    json_t *about;
};

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    json_t *body = NULL;
    assert_ok(codec_json_parse(http_body(x), true, &body));
    if (strcmp(http_method(x), "PATCH") == 0) {
        f->patches++;
        if (f->lose_patches) {
            json_decref(body);
            http_reply_text(x, 404, "gone");
            return;
        }
        json_object_update(f->event, body);
        json_decref(body);
    } else if (f->refuse) {
        GS_AUTO_FREE char *text = gs_format("refusal %d", ++f->refused);
        json_decref(body);
        http_reply_text(x, 503, "%s", text);
        return;
    } else {
        f->creates++;
        json_decref(f->event);
        f->event = body;
    }
    http_reply(x, 201, "application/json", GS_SLICE("{}"));
}

static void setup(struct fixture *f)
{
    *f = (struct fixture){0};
    uv_loop_init(&f->loop);
    f->http = http_client_new_loopback(&f->loop, serve, f, NULL);
    f->client = kube_client_new(f->http);
    f->recorder = kube_recorder_new(f->client, "kubelet", "node-1");
    f->about =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:s}}", "kind", "Pod", "apiVersion", "v1",
                  "metadata", "name", "p", "namespace", "n", "uid", "u", "resourceVersion", "7");
}

static void finish(struct fixture *f)
{
    kube_recorder_free(f->recorder);
    kube_client_free(f->client);
    http_client_free(f->http);
    loop_finish(&f->loop);
    json_decref(f->event);
    json_decref(f->about);
}

static void test_an_event_has_its_fields(void **state)
{
    struct fixture f;
    setup(&f);
    kube_event(f.recorder, f.about, "Normal", "Started", "Started container %s", "c");
    loop_until(&f.loop, f.creates == 1);
    assert_true(gs_starts(kube_name(f.event), "p."));
    assert_string_equal(kube_namespace(f.event), "n");
    assert_string_equal(codec_json_str(f.event, "involvedObject", "uid", NULL), "u");
    assert_string_equal(codec_json_str(f.event, "involvedObject", "kind", NULL), "Pod");
    assert_string_equal(codec_json_str(f.event, "message", NULL), "Started container c");
    assert_string_equal(codec_json_str(f.event, "reason", NULL), "Started");
    assert_string_equal(codec_json_str(f.event, "type", NULL), "Normal");
    assert_string_equal(codec_json_str(f.event, "source", "component", NULL), "kubelet");
    assert_string_equal(codec_json_str(f.event, "source", "host", NULL), "node-1");
    assert_string_equal(codec_json_str(f.event, "reportingComponent", NULL), "kubelet");
    assert_int_equal(codec_json_int(f.event, 0, "count", NULL), 1);
    finish(&f);
}

static void test_repeats_raise_the_count(void **state)
{
    struct fixture f;
    setup(&f);
    for (int i = 0; i < 3; i++)
        kube_event(f.recorder, f.about, "Warning", "BackOff", "again");
    loop_until(&f.loop, codec_json_int(f.event, 0, "count", NULL) == 3);
    assert_int_equal(f.creates, 1);
    assert_int_equal(f.patches, 1); // two repeats while the creation was under way
    kube_event(f.recorder, f.about, "Warning", "BackOff", "another");
    loop_until(&f.loop, f.creates == 2);
    finish(&f);
}

static void test_an_expired_event_is_made_again(void **state)
{
    struct fixture f;
    setup(&f);
    kube_event(f.recorder, f.about, "Warning", "BackOff", "again");
    loop_until(&f.loop, f.creates == 1);
    loop_for_ms(&f.loop, 50);
    f.lose_patches = true;
    kube_event(f.recorder, f.about, "Warning", "BackOff", "again");
    loop_until(&f.loop, f.creates == 2);
    assert_int_equal(codec_json_int(f.event, 0, "count", NULL), 2);
    finish(&f);
}

static void test_many_different_events_stay_bounded(void **state)
{
    struct fixture f;
    setup(&f);
    for (int i = 0; i < 2000; i++) {
        GS_AUTO_FREE char *name = gs_format("p-%d", i);
        codec_json_set(f.about, json_string(name), "metadata", "name", NULL);
        kube_event(f.recorder, f.about, "Normal", "Seen", "number %d", i);
    }
    loop_until(&f.loop, f.creates >= 512);
    finish(&f);
}

static void test_similar_events_become_one(void **state)
{
    struct fixture f;
    setup(&f);
    for (int i = 0; i < 9; i++)
        kube_event(f.recorder, f.about, "Normal", "Scaled", "to %d", i);
    loop_until(&f.loop, f.creates == 9);
    kube_event(f.recorder, f.about, "Normal", "Scaled", "to 9");
    loop_until(&f.loop, f.creates == 10);
    assert_string_equal(codec_json_str(f.event, "message", NULL),
                        "(combined from similar events): to 9");
    kube_event(f.recorder, f.about, "Normal", "Scaled", "to 10");
    loop_until(&f.loop, f.patches == 1);
    assert_string_equal(codec_json_str(f.event, "message", NULL),
                        "(combined from similar events): to 10");
    assert_int_equal(codec_json_int(f.event, 0, "count", NULL), 2);
    kube_event(f.recorder, f.about, "Normal", "Scaled", "to 3"); // one of the nine
    loop_until(&f.loop, f.patches == 2);
    assert_string_equal(codec_json_str(f.event, "message", NULL), "to 3");
    kube_event(f.recorder, f.about, "Normal", "Other", "to 10"); // another reason
    loop_until(&f.loop, f.creates == 11);
    finish(&f);
}

static void test_an_object_has_so_many_events(void **state)
{
    struct fixture f;
    setup(&f);
    for (int i = 0; i < 30; i++) {
        kube_event(f.recorder, f.about, "Warning", "BackOff", "again");
        loop_for_ms(&f.loop, 5);
    }
    assert_int_equal(f.creates + f.patches, 25);
    assert_int_equal(codec_json_int(f.event, 0, "count", NULL), 25);
    kube_event(f.recorder, f.about, "Normal", "Started",
               "the other type"); // has a burst of its own
    loop_until(&f.loop, f.creates == 2);
    finish(&f);
}

static void test_the_limits_end_with_time(void **state)
{
    struct kube_event_limit *l = kube_event_limit_new();
    for (int i = 0; i < 25; i++)
        assert_true(kube_event_limit_allow(l, "a", 1000));
    assert_false(kube_event_limit_allow(l, "a", 1000));
    assert_true(kube_event_limit_allow(l, "b", 1000));
    assert_false(kube_event_limit_allow(l, "a", 1000 + 299999));
    assert_true(kube_event_limit_allow(l, "a", 1000 + 300000));
    assert_false(kube_event_limit_allow(l, "a", 1000 + 300001));
    for (int i = 0; i < 12; i++) {
        GS_AUTO_FREE char *message = gs_format("%d", i);
        assert_int_equal(kube_event_limit_combine(l, "a", message, 1000), i >= 9);
    }
    assert_true(kube_event_limit_combine(l, "a", "x", 1000 + 600000));
    assert_false(kube_event_limit_combine(l, "a", "x", 1000 + 1200001));
    // More objects than are remembered.
    for (int i = 0; i < 10000; i++) {
        GS_AUTO_FREE char *name = gs_format("object %d", i);
        assert_true(kube_event_limit_allow(l, name, 2000000 + i));
    }
    kube_event_limit_free(l);
}

static void keep_event_log(void *arg, const char *line, size_t len)
{
    gs_buf_add(arg, line, len);
}

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = text; at && (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

static void test_an_api_server_that_is_away_is_logged_once(void **state)
{
    struct fixture f;
    GS_AUTO_BUF struct gs_buf log = {0};
    setup(&f);
    f.refuse = true;
    gs_log_set_sink(keep_event_log, &log);
    for (int i = 0; i < 20; i++) {
        GS_AUTO_FREE char *name = gs_format("p%d", i);
        CODEC_AUTO_JSON json_t *about = json_deep_copy(f.about);
        codec_json_set_str(json_object_get(about, "metadata"), "name", name);
        kube_event(f.recorder, about, "Warning", "Failed", "no metric for %s", name);
    }
    loop_until(&f.loop, f.refused == 20);
    loop_until(&f.loop, count_of(log.data, "events cannot be written") > 0);
    for (int i = 0; i < 20; i++)
        uv_run(&f.loop, UV_RUN_NOWAIT);
    gs_log_set_sink(NULL, NULL);
    assert_int_equal(count_of(log.data, "events cannot be written"), 1);
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_api_server_that_is_away_is_logged_once),
        cmocka_unit_test(test_an_event_has_its_fields),
        cmocka_unit_test(test_repeats_raise_the_count),
        cmocka_unit_test(test_an_expired_event_is_made_again),
        cmocka_unit_test(test_many_different_events_stay_bounded),
        cmocka_unit_test(test_similar_events_become_one),
        cmocka_unit_test(test_an_object_has_so_many_events),
        cmocka_unit_test(test_the_limits_end_with_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
