// SPDX-License-Identifier: Apache-2.0
// The cache against a scripted API: what it lists, the watch streams that it opens, and what its
// handlers hear, as one line each.
#include "base/mem.h"
#include "kube/cache.h"
#include "kube/object.h"
#include "kube/selector.h"
#include "loop.h"

#include <limits.h>

struct fixture {
    uv_loop_t loop;
    struct http_client *http;
    struct kube_client *client;
    struct kube_cache *cache;
    const char *list;   // body of the next list answers
    const char *second; // of those with a continue token; NULL: it has expired
    bool limited;       // the last list had a limit
    int second_fails;   // so many times
    int list_status;
    int lists, watches;
    char *watch_version; // resourceVersion of the last watch
    int watch_status;    // 200, or what to refuse watches with
    struct http_stream *stream;
    struct gs_buf heard; // "+a@1 ~a@2 -a@2 synced "
    bool free_on_change;
};

static void stream_closed(void *arg)
{
    struct fixture *f = arg;
    f->stream = NULL;
}

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    if (!http_query(x, "watch")) {
        f->lists++;
        f->limited = http_query(x, "limit") != NULL;
        if (http_query(x, "continue")) {
            assert_string_equal(http_query(x, "continue"), "more/==");
            if (f->second_fails-- > 0) {
                http_reply_text(x, 503, "busy");
                return;
            }
            http_reply(x, f->second ? 200 : 410, "application/json",
                       gs_slice_of(f->second ? f->second : "{}"));
            return;
        }
        http_reply(x, f->list_status, "application/json", gs_slice_of(f->list));
        return;
    }
    f->watches++;
    assert_string_equal(http_query(x, "allowWatchBookmarks"), "true");
    free(f->watch_version);
    f->watch_version = gs_strdup(http_query(x, "resourceVersion"));
    if (f->watch_status != 200)
        http_reply_text(x, f->watch_status, "no");
    else
        f->stream = http_reply_stream(x, 200, "application/json", stream_closed, f);
}

static void on_change(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct fixture *f = arg;
    const json_t *obj = new_obj ? new_obj : old_obj;
    gs_buf_addf(&f->heard, "%c%s@%s ",
                !old_obj  ? '+'
                : new_obj ? '~'
                          : '-',
                kube_name(obj), kube_resource_version(obj));
    if (f->free_on_change) {
        kube_cache_free(f->cache);
        f->cache = NULL;
    }
}

static void on_synced(void *arg)
{
    struct fixture *f = arg;
    gs_buf_add_str(&f->heard, "synced ");
}

#define OBJECT(name, version)                                                                      \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"n\",\"uid\":\"u-" name                   \
    "\",\"resourceVersion\":\"" version "\"}}"
#define LIST(version, items)                                                                       \
    "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"" version     \
    "\"},\"items\":[" items "]}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"

static void setup(struct fixture *f, const char *list)
{
    *f = (struct fixture){.list = list, .list_status = 200, .watch_status = 200};
    uv_loop_init(&f->loop);
    f->http = http_client_new_loopback(&f->loop, serve, f, NULL);
    f->client = kube_client_new(f->http);
    f->cache = kube_cache_new(&f->loop, f->client, KUBE_PODS, NULL, NULL);
    struct kube_cache_handlers h = {.on_change = on_change, .on_synced = on_synced, .arg = f};
    kube_cache_add_handlers(f->cache, &h);
    kube_cache_start(f->cache);
}

static void finish(struct fixture *f)
{
    kube_cache_free(f->cache);
    kube_client_free(f->client);
    http_client_free(f->http);
    loop_finish(&f->loop);
    gs_buf_finish(&f->heard);
    free(f->watch_version);
}

static bool heard(struct fixture *f, const char *text)
{
    return strcmp(f->heard.data ? f->heard.data : "", text) == 0;
}

static void say(struct fixture *f, const char *text)
{
    loop_until(&f->loop, f->stream != NULL);
    http_stream_write(f->stream, gs_slice_of(text));
}

static void test_list_then_watch(void **state)
{
    struct fixture f;
    setup(&f, LIST("5", OBJECT("a", "3")));
    loop_until(&f.loop, heard(&f, "+a@3 synced "));
    assert_true(kube_cache_synced(f.cache));
    const json_t *a = kube_cache_get(f.cache, "n", "a");
    assert_string_equal(kube_kind(a), "Pod"); // lists say it once for all
    assert_string_equal(kube_api_version(a), "v1");
    say(&f, EVENT("ADDED", OBJECT("b", "6")) EVENT("MODIFIED", OBJECT("a", "7"))
                EVENT("DELETED", OBJECT("b", "8")));
    loop_until(&f.loop, heard(&f, "+a@3 synced +b@6 ~a@7 -b@8 "));
    assert_string_equal(f.watch_version, "5");
    assert_int_equal(kube_cache_len(f.cache), 1);
    assert_null(kube_cache_get(f.cache, "n", "b"));
    assert_null(kube_cache_error(f.cache));
    finish(&f);
}

static void test_events_in_pieces(void **state)
{
    static const char text[] = EVENT("ADDED", OBJECT("a", "2")) EVENT("ADDED", OBJECT("b", "3"));
    struct fixture f;
    setup(&f, LIST("1", ""));
    for (size_t i = 0; i + 1 < sizeof(text); i++) {
        loop_until(&f.loop, f.stream != NULL);
        http_stream_write(f.stream, gs_slice_make(text + i, 1));
        uv_run(&f.loop, UV_RUN_NOWAIT);
    }
    loop_until(&f.loop, heard(&f, "synced +a@2 +b@3 "));
    finish(&f);
}

static void test_stream_end_goes_on_from_the_last_version(void **state)
{
    struct fixture f;
    setup(&f, LIST("1", ""));
    say(&f, EVENT("ADDED", OBJECT("a", "2"))
                EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"9\"}}"));
    loop_until(&f.loop, heard(&f, "synced +a@2 "));
    http_stream_end(f.stream);
    loop_until(&f.loop, f.watches == 2);
    assert_string_equal(f.watch_version, "9");
    assert_int_equal(f.lists, 1);
    finish(&f);
}

static void test_gone_lists_again_and_tells_the_difference(void **state)
{
    struct fixture f;
    setup(&f, LIST("1", OBJECT("a", "1") "," OBJECT("b", "1") "," OBJECT("c", "1")));
    loop_until(&f.loop, f.stream != NULL);
    gs_buf_clear(&f.heard);
    f.list = LIST("9", OBJECT("a", "1") "," OBJECT("b", "8") "," OBJECT("d", "9"));
    say(&f, EVENT("ERROR", "{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}"));
    loop_until(&f.loop, f.watches == 2);
    assert_true(heard(&f, "-c@1 ~b@8 +d@9 "));
    assert_string_equal(f.watch_version, "9");
    finish(&f);
}

static void test_another_object_of_the_same_name_is_two_changes(void **state)
{
    struct fixture f;
    setup(&f, LIST("1", OBJECT("a", "1")));
    loop_until(&f.loop, f.stream != NULL);
    say(&f, EVENT("MODIFIED", "{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"uid\":\"other\","
                              "\"resourceVersion\":\"2\"}}"));
    loop_until(&f.loop, heard(&f, "+a@1 synced -a@1 +a@2 "));
    finish(&f);
}

static void test_failed_lists_are_tried_again(void **state)
{
    struct fixture f;
    setup(&f, "{\"message\":\"starting\"}");
    f.list_status = 503;
    loop_until(&f.loop, f.lists == 2);
    assert_non_null(strstr(kube_cache_error(f.cache), "starting"));
    assert_false(kube_cache_synced(f.cache));
    f.list_status = 200;
    f.list = LIST("1", OBJECT("a", "1"));
    loop_until(&f.loop, heard(&f, "+a@1 synced "));
    loop_until(&f.loop, kube_cache_error(f.cache) == NULL);
    finish(&f);
}

static void test_refused_watches_list_again(void **state)
{
    struct fixture f;
    setup(&f, LIST("1", ""));
    f.watch_status = 410;
    loop_until(&f.loop, f.watches == 3);
    assert_true(f.lists >= 3);
    f.watch_status = 200;
    say(&f, EVENT("ADDED", OBJECT("a", "2")));
    loop_until(&f.loop, heard(&f, "synced +a@2 "));
    finish(&f);
}

static void test_nonsense_on_the_stream_lists_again(void **state)
{
    struct fixture f;
    setup(&f, LIST("1", ""));
    say(&f, "<html>\n");
    loop_until(&f.loop, f.lists == 2);
    say(&f, EVENT("ADDED", OBJECT("a", "2")));
    loop_until(&f.loop, heard(&f, "synced +a@2 "));
    finish(&f);
}

#define BAD(name, version)                                                                         \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"n\",\"resourceVersion\":\"" version      \
    "\"},\"spec\":{\"number\":1e999}}"
#define WITH_NUL(name, version)                                                                    \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"n\",\"resourceVersion\":\"" version      \
    "\",\"annotations\":{\"x\":\"a\\u0000b\"}}}"

// An object that cannot be parsed costs only itself, in a list and in an event.
static void test_an_object_that_cannot_be_read_leaves_the_others(void **state)
{
    struct fixture f;
    setup(&f, LIST("5", OBJECT("a", "1") "," BAD("b", "2") "," WITH_NUL("c", "3")));
    loop_until(&f.loop, heard(&f, "+a@1 +c@3 synced "));
    assert_string_equal(kube_kind(kube_cache_get(f.cache, "n", "a")), "Pod");
    say(&f, EVENT("MODIFIED", BAD("a", "6")) EVENT("ADDED", BAD("d", "7"))
                EVENT("MODIFIED", OBJECT("b", "8")));
    loop_until(&f.loop, heard(&f, "+a@1 +c@3 synced -a@1 +b@8 "));
    assert_string_equal(f.watch_version, "5");
    assert_null(kube_cache_error(f.cache));
    assert_int_equal(f.lists, 1);
    assert_int_equal(f.watches, 1);
    finish(&f);
}

// Fifty pods of the largest size that the API takes, or ten thousand usual ones.
static void test_a_large_list_is_read(void **state)
{
    struct fixture f;
    GS_AUTO_BUF struct gs_buf list = {0};
    GS_AUTO_FREE char *large = gs_alloc(1400001);
    memset(large, 'x', 1400000);
    large[1400000] = '\0';
    gs_buf_add_str(&list, "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{"
                          "\"resourceVersion\":\"5\"},\"items\":[");
    for (int i = 0; i < 50; i++)
        gs_buf_addf(&list, "%s{\"metadata\":{\"name\":\"p%d\",\"namespace\":\"n\"},\"x\":\"%s\"}",
                    i ? "," : "", i, large);
    gs_buf_add_str(&list, "]}");
    setup(&f, list.data);
    loop_until(&f.loop, kube_cache_synced(f.cache));
    assert_int_equal(kube_cache_len(f.cache), 50);
    finish(&f);
}

static void test_late_handlers_get_a_replay(void **state)
{
    struct fixture f, late = {0};
    setup(&f, LIST("1", OBJECT("a", "1")));
    loop_until(&f.loop, kube_cache_synced(f.cache));
    struct kube_cache_handlers h = {.on_change = on_change, .on_synced = on_synced, .arg = &late};
    kube_cache_add_handlers(f.cache, &h);
    assert_true(heard(&late, "+a@1 synced "));
    kube_cache_remove_handlers(f.cache, &late);
    say(&f, EVENT("ADDED", OBJECT("b", "2")));
    loop_until(&f.loop, heard(&f, "+a@1 synced +b@2 "));
    assert_true(heard(&late, "+a@1 synced "));
    gs_buf_finish(&late.heard);
    finish(&f);
}

static void test_may_be_freed_by_a_handler(void **state)
{
    struct fixture f;
    setup(&f, LIST("1", OBJECT("a", "1") "," OBJECT("b", "1")));
    f.free_on_change = true;
    loop_until(&f.loop, f.cache == NULL);
    assert_true(f.heard.len == strlen("+a@1 ")); // and nothing more
    finish(&f);
    setup(&f, LIST("1", ""));
    loop_until(&f.loop, f.stream != NULL);
    f.free_on_change = true;
    say(&f, EVENT("ADDED", OBJECT("a", "2")) EVENT("ADDED", OBJECT("b", "3")));
    loop_until(&f.loop, f.cache == NULL);
    assert_true(heard(&f, "synced +a@2 "));
    finish(&f);
}

// --- large lists ---

#define FIRST_PAGE(items)                                                                          \
    "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"5\","         \
    "\"continue\":\"more/==\"},\"items\":[" items "]}"

static void test_a_list_comes_in_pages(void **state)
{
    struct fixture f;
    setup(&f, FIRST_PAGE(OBJECT("a", "3")));
    f.second = LIST("5", OBJECT("b", "4"));
    loop_until(&f.loop, heard(&f, "+a@3 +b@4 synced "));
    assert_int_equal(f.lists, 2);
    assert_true(f.limited);
    loop_until(&f.loop, f.stream != NULL);
    assert_string_equal(f.watch_version, "5");
    finish(&f);
}

static void test_an_expired_page_lists_all_objects_at_once(void **state)
{
    struct fixture f;
    setup(&f, FIRST_PAGE(OBJECT("a", "3")));
    loop_until(&f.loop, heard(&f, "+a@3 synced "));
    assert_int_equal(f.lists, 3);
    assert_false(f.limited);
    finish(&f);
}

static void test_a_page_that_fails_is_requested_again(void **state)
{
    struct fixture f;
    setup(&f, FIRST_PAGE(OBJECT("a", "3")));
    f.second = LIST("5", OBJECT("b", "4"));
    f.second_fails = 2;
    loop_until(&f.loop, heard(&f, "+a@3 +b@4 synced "));
    assert_int_equal(f.lists, 4); // the first page once
    finish(&f);
    setup(&f, FIRST_PAGE(OBJECT("a", "3")));
    f.second = LIST("5", OBJECT("b", "4"));
    f.second_fails = 3;
    loop_until(&f.loop, kube_cache_error(f.cache) != NULL);
    assert_non_null(strstr(kube_cache_error(f.cache), "listing /api/v1/pods"));
    loop_until(&f.loop, heard(&f, "+a@3 +b@4 synced "));
    assert_int_equal(f.lists, 6); // from the first page
    finish(&f);
}

static void test_a_page_that_is_no_list_ends_the_list(void **state)
{
    struct fixture f;
    setup(&f, FIRST_PAGE(OBJECT("a", "3")));
    f.second = "{\"metadata\":{\"continue\":\"more/==\"}}";
    loop_until(&f.loop, kube_cache_error(f.cache) != NULL);
    assert_non_null(strstr(kube_cache_error(f.cache), "is not a list"));
    f.second = LIST("5", OBJECT("b", "4"));
    loop_until(&f.loop, heard(&f, "+a@3 +b@4 synced "));
    finish(&f);
}

static void trim_label(json_t *pod)
{
    codec_json_del(pod, "metadata", "labels", "unneeded", NULL);
}

static void test_every_page_is_trimmed(void **state)
{
    struct fixture f;
    setup(&f, FIRST_PAGE("{\"metadata\":{\"name\":\"a\",\"labels\":{\"unneeded\":\"1\"}}}"));
    f.second = LIST("5", "{\"metadata\":{\"name\":\"b\",\"labels\":{\"unneeded\":\"1\"}}}");
    kube_cache_free(f.cache);
    f.cache = kube_cache_new(&f.loop, f.client, KUBE_PODS, NULL, NULL);
    kube_cache_set_trim(f.cache, trim_label);
    kube_cache_start(f.cache);
    loop_until(&f.loop, kube_cache_synced(f.cache));
    assert_int_equal(kube_cache_len(f.cache), 2);
    size_t pos = 0;
    for (const json_t *o; (o = kube_cache_next(f.cache, &pos));)
        assert_int_equal(json_object_size(codec_json_get(o, "metadata", "labels", NULL)), 0);
    finish(&f);
}

static json_t *taken[3]; // borrowed
static size_t n_taken;

static void take(json_t *pod)
{
    codec_json_del(pod, "metadata", "labels", NULL);
    if (n_taken < GS_ARRAY_LEN(taken))
        taken[n_taken++] = pod;
}

#define OWNED(name, node)                                                                          \
    "{\"metadata\":{\"name\":\"" name "\",\"uid\":\"u-" name "\",\"labels\":{\"unneeded\":\"1\"}," \
    "\"ownerReferences\":[{\"uid\":\"o\",\"controller\":true}]},\"spec\":{\"image\":\"i\"},"       \
    "\"status\":{\"node\":\"" node "\"}}"

// Sharing began after the last page: until then a list of 50,000 pods took three times as much.
static void test_objects_share_members_when_their_page_arrives(void **state)
{
    struct fixture f;
    n_taken = 0;
    setup(&f, FIRST_PAGE(OWNED("a", "1") "," OWNED("b", "2")));
    f.second = LIST("5", OWNED("c", "3"));
    f.second_fails = INT_MAX;
    kube_cache_free(f.cache);
    f.cache = kube_cache_new(&f.loop, f.client, KUBE_PODS, NULL, NULL);
    kube_cache_set_trim(f.cache, take);
    kube_cache_start(f.cache);
    loop_until(&f.loop, f.lists > 2); // the second page is not there
    assert_int_equal(n_taken, 2);
    assert_ptr_equal(json_object_get(taken[0], "spec"), json_object_get(taken[1], "spec"));
    assert_ptr_not_equal(json_object_get(taken[0], "status"), json_object_get(taken[1], "status"));
    assert_int_equal(kube_cache_len(f.cache), 0);
    finish(&f);
}

// What is removed of an object is free before the next one is read: otherwise the members that a
// page keeps have holes between them, half of the memory of a large list.
static void test_objects_are_trimmed_before_the_next_one_is_read(void **state)
{
    struct fixture f;
    n_taken = 0;
    setup(&f, LIST("5", OBJECT("a", "3")));
    kube_cache_free(f.cache);
    f.cache = kube_cache_new(&f.loop, f.client, KUBE_PODS, NULL, NULL);
    f.list = "{\"kind\":\"PodList\",\"items\":[" OBJECT("a", "3") ",{\"metadata\":";
    kube_cache_set_trim(f.cache, take);
    kube_cache_start(f.cache);
    loop_until(&f.loop, kube_cache_error(f.cache) != NULL);
    assert_int_equal(n_taken, 1);
    assert_int_equal(kube_cache_len(f.cache), 0);
    finish(&f);
}

static json_t *kept;

static void keep(json_t *pod)
{
    kept = json_incref(pod);
}

// It was kept for the objects of its owner twice, once with its page and once with the list.
static void test_the_only_object_of_a_list_is_freed(void **state)
{
    struct fixture f;
    setup(&f, LIST("5", OBJECT("a", "3")));
    kube_cache_free(f.cache);
    f.cache = kube_cache_new(&f.loop, f.client, KUBE_PODS, NULL, NULL);
    kube_cache_set_trim(f.cache, keep);
    kube_cache_start(f.cache);
    loop_until(&f.loop, kube_cache_synced(f.cache));
    finish(&f);
    assert_int_equal(kept->refcount, 1);
    json_decref(kept);
}

// --- selection ---

#define LABELED(name, ns, version, labels)                                                         \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"" ns "\",\"uid\":\"u-" ns name           \
    "\",\"resourceVersion\":\"" version "\",\"labels\":{" labels "},"                              \
    "\"ownerReferences\":[{\"uid\":\"o\",\"controller\":true}]}}"
#define APP(value) "\"app\":\"" value "\",\"part\":\"all\""

// The names of the selected objects, in order.
static char *selected(const struct fixture *f, const char *ns, const char *text)
{
    struct kube_selector s = {0};
    size_t pos = 0, n = 0;
    const char *names[8] = {0};
    struct gs_buf out = {0};
    assert_null(kube_selector_parse(text, &s));
    for (const json_t *o; (o = kube_cache_select(f->cache, ns, &s, &pos));) {
        assert_string_equal(kube_namespace(o), ns);
        names[n++] = kube_name(o);
    }
    kube_selector_finish(&s);
    qsort(names, n, sizeof(*names), gs_compare_texts);
    for (size_t i = 0; i < n; i++)
        gs_buf_addf(&out, "%s ", names[i]);
    return out.data ? gs_buf_take(&out) : gs_strdup("");
}

#define assert_selected(f, ns, text, want)                                                         \
    do {                                                                                           \
        GS_AUTO_FREE char *got = selected(f, ns, text);                                            \
        assert_string_equal(got, want);                                                            \
    } while (0)

static void test_a_selector_finds_objects_of_its_namespace(void **state)
{
    struct fixture f;
    setup(
        &f,
        LIST("5", LABELED("a", "n", "1", APP("x")) "," LABELED("b", "n", "2", APP("x")) "," LABELED(
                      "c", "n", "3", APP("y")) "," LABELED("a", "m", "4", APP("x"))));
    loop_until(&f.loop, kube_cache_synced(f.cache));
    assert_selected(&f, "n", "app=x", "a b ");
    assert_selected(&f, "n", "part=all,app=y", "c ");
    assert_selected(&f, "n", "part=all,app!=y", "a b ");
    assert_selected(&f, "n", "", "a b c ");
    assert_selected(&f, "n", "app in (x,y)", "a b c ");
    assert_selected(&f, "n", "app=z", "");
    assert_selected(&f, "n", "absent=x", "");
    assert_selected(&f, "none", "app=x", "");
    finish(&f);
}

static void test_a_selector_finds_what_has_changed(void **state)
{
    struct fixture f;
    setup(&f, LIST("5", LABELED("a", "n", "1", APP("x")) "," LABELED("b", "n", "2", APP("x"))));
    loop_until(&f.loop, kube_cache_synced(f.cache));
    assert_selected(&f, "n", "app=x", "a b ");
    say(&f, EVENT("MODIFIED", LABELED("a", "n", "6", APP("y")))
                EVENT("DELETED", LABELED("b", "n", "7", APP("x")))
                    EVENT("ADDED", LABELED("c", "n", "8", APP("x"))));
    loop_until(&f.loop, kube_cache_get(f.cache, "n", "c") != NULL);
    assert_selected(&f, "n", "app=x", "c ");
    assert_selected(&f, "n", "app=y", "a ");
    assert_selected(&f, "n", "", "a c ");
    finish(&f);
}

static void test_more_labels_than_the_index_holds(void **state)
{
    static const char *const queries[] = {"l0=v", "l1=v", "l2=v", "l3=v", "l4=v",
                                          "l5=v", "l6=v", "l7=v", "l8=v", "l9=v"};
    struct fixture f;
    setup(&f,
          LIST("5", LABELED("a", "n", "1",
                            "\"l0\":\"v\",\"l1\":\"v\",\"l2\":\"v\",\"l3\":\"v\",\"l4\":\"v\","
                            "\"l5\":\"v\",\"l6\":\"v\",\"l7\":\"v\",\"l8\":\"v\",\"l9\":\"v\"")));
    loop_until(&f.loop, kube_cache_synced(f.cache));
    for (size_t i = 0; i < GS_ARRAY_LEN(queries); i++)
        assert_selected(&f, "n", queries[i], "a ");
    finish(&f);
}

static void test_pods_of_one_owner_share_their_members(void **state)
{
    struct fixture f;
    setup(&f, LIST("5", LABELED("a", "n", "1", APP("x")) "," LABELED("b", "n", "2", APP("x"))));
    loop_until(&f.loop, kube_cache_synced(f.cache));
    const json_t *a = kube_cache_get(f.cache, "n", "a"), *b = kube_cache_get(f.cache, "n", "b");
    assert_ptr_equal(codec_json_get(a, "metadata", "labels", NULL),
                     codec_json_get(b, "metadata", "labels", NULL));
    assert_string_equal(kube_name(a), "a");
    assert_string_equal(kube_name(b), "b");
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_then_watch),
        cmocka_unit_test(test_events_in_pieces),
        cmocka_unit_test(test_stream_end_goes_on_from_the_last_version),
        cmocka_unit_test(test_gone_lists_again_and_tells_the_difference),
        cmocka_unit_test(test_another_object_of_the_same_name_is_two_changes),
        cmocka_unit_test(test_failed_lists_are_tried_again),
        cmocka_unit_test(test_refused_watches_list_again),
        cmocka_unit_test(test_nonsense_on_the_stream_lists_again),
        cmocka_unit_test(test_an_object_that_cannot_be_read_leaves_the_others),
        cmocka_unit_test(test_a_large_list_is_read),
        cmocka_unit_test(test_late_handlers_get_a_replay),
        cmocka_unit_test(test_may_be_freed_by_a_handler),
        cmocka_unit_test(test_a_list_comes_in_pages),
        cmocka_unit_test(test_an_expired_page_lists_all_objects_at_once),
        cmocka_unit_test(test_a_page_that_fails_is_requested_again),
        cmocka_unit_test(test_a_page_that_is_no_list_ends_the_list),
        cmocka_unit_test(test_every_page_is_trimmed),
        cmocka_unit_test(test_objects_share_members_when_their_page_arrives),
        cmocka_unit_test(test_objects_are_trimmed_before_the_next_one_is_read),
        cmocka_unit_test(test_the_only_object_of_a_list_is_freed),
        cmocka_unit_test(test_a_selector_finds_objects_of_its_namespace),
        cmocka_unit_test(test_a_selector_finds_what_has_changed),
        cmocka_unit_test(test_more_labels_than_the_index_holds),
        cmocka_unit_test(test_pods_of_one_owner_share_their_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
