// SPDX-License-Identifier: Apache-2.0
// Lists and watches: selectors, pages, versions, transitions, tables.
#include "api_setup.h"

#include "codec/encoding.h"

#define CMS   "/api/v1/namespaces/default/configmaps"
#define TABLE "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

static void make(struct harness *h, const char *name, const char *label)
{
    GS_AUTO_FREE char *body =
        gs_format("{\"metadata\":{\"name\":\"%s\",\"labels\":{\"app\":\"%s\"}}}", name, label);
    AUTO_REPLY struct reply r = request(h, "POST", CMS, body);
    assert_status(r, 201);
}

static void relabel(struct harness *h, const char *name, const char *label)
{
    GS_AUTO_FREE char *path = gs_format(CMS "/%s", name);
    GS_AUTO_FREE char *body = gs_format("{\"metadata\":{\"labels\":{\"app\":\"%s\"}}}", label);
    AUTO_REPLY struct reply r =
        request_with(h, "PATCH", path, "application/merge-patch+json", NULL, body);
    assert_status(r, 200);
}

static size_t n_items(const struct reply *r)
{
    return json_array_size(json_object_get(r->body, "items"));
}

static void test_selectors_choose(void **state)
{
    make(*state, "a", "x");
    make(*state, "b", "y");
    AUTO_REPLY struct reply by_label = request(*state, "GET", CMS "?labelSelector=app%3Dx", NULL);
    assert_int_equal(n_items(&by_label), 1);
    AUTO_REPLY struct reply set = request(*state, "GET", CMS "?labelSelector=app+in+(x,y)", NULL);
    assert_int_equal(n_items(&set), 2);
    AUTO_REPLY struct reply by_name =
        request(*state, "GET", CMS "?fieldSelector=metadata.name%3Db", NULL);
    assert_int_equal(n_items(&by_name), 1);
    AUTO_REPLY struct reply unknown = request(*state, "GET", CMS "?fieldSelector=data.k%3Db", NULL);
    assert_status(unknown, 400);
    assert_message(unknown, "field label not supported: data.k");
    AUTO_REPLY struct reply bad = request(*state, "GET", CMS "?labelSelector=a%3D%3D%3Db", NULL);
    assert_status(bad, 400);
}

static void assert_selected(struct harness *h, const char *path, size_t n)
{
    AUTO_REPLY struct reply r = request(h, "GET", path, NULL);
    assert_status(r, 200);
    assert_int_equal(n_items(&r), n);
}

// Numbers and booleans that an object lacks are 0 and false.
static void test_absent_fields_have_the_zero_of_their_type(void **state)
{
#define POD_SPEC "\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]"
    struct harness *h = *state;
    AUTO_REPLY struct reply node =
        request(h, "POST", "/api/v1/nodes", "{\"metadata\":{\"name\":\"n\"}}");
    AUTO_REPLY struct reply pod = request(h, "POST", "/api/v1/namespaces/default/pods",
                                          "{\"metadata\":{\"name\":\"p\"}," POD_SPEC "}}");
    AUTO_REPLY struct reply job =
        request(h, "POST", "/apis/batch/v1/namespaces/default/jobs",
                "{\"metadata\":{\"name\":\"j\"},\"spec\":{\"template\":{" POD_SPEC
                ",\"restartPolicy\":\"Never\"}}}}");

    assert_status(node, 201);
    assert_status(pod, 201);
    assert_status(job, 201);
    assert_selected(h, "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dfalse", 1);
    assert_selected(h, "/api/v1/nodes?fieldSelector=spec.unschedulable!%3Dfalse", 0);
    assert_selected(h, "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue", 0);
    assert_selected(h, "/api/v1/nodes?fieldSelector=spec.unschedulable!%3Dtrue", 1);
    assert_selected(h, "/api/v1/pods?fieldSelector=spec.hostNetwork%3Dfalse", 1);
    assert_selected(h, "/apis/batch/v1/jobs?fieldSelector=status.successful%3D0", 1);
    assert_selected(h, "/apis/batch/v1/jobs?fieldSelector=status.successful!%3D0", 0);
    AUTO_REPLY struct reply cordon =
        request_with(h, "PATCH", "/api/v1/nodes/n", "application/merge-patch+json", NULL,
                     "{\"spec\":{\"unschedulable\":true}}");
    assert_status(cordon, 200);
    assert_selected(h, "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dfalse", 0);
    assert_selected(h, "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue", 1);
}

static void test_collections_of_services_can_be_deleted(void **state)
{
    struct harness *h = *state;
    AUTO_REPLY struct reply service =
        request(h, "POST", "/api/v1/namespaces/default/services",
                "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"ports\":[{\"port\":80}]}}");
    AUTO_REPLY struct reply deleted =
        request(h, "DELETE", "/api/v1/namespaces/default/services", NULL);
    AUTO_REPLY struct reply namespaces = request(h, "DELETE", "/api/v1/namespaces", NULL);

    assert_status(service, 201);
    assert_status(deleted, 200);
    assert_selected(h, "/api/v1/services", 0);
    assert_status(namespaces, 405);
}

static void test_lists_come_in_pages(void **state)
{
    make(*state, "a", "x");
    make(*state, "b", "x");
    make(*state, "c", "x");
    AUTO_REPLY struct reply first = request(*state, "GET", CMS "?limit=2", NULL);
    assert_int_equal(n_items(&first), 2);
    assert_number(first, 1, "metadata", "remainingItemCount");
    GS_AUTO_BUF struct gs_buf token = {0};
    http_encode(gs_slice_of(codec_json_str(first.body, "metadata", "continue", NULL)), &token);
    GS_AUTO_FREE char *path = gs_format(CMS "?limit=2&continue=%s", token.data);
    AUTO_REPLY struct reply rest = request(*state, "GET", path, NULL);
    assert_int_equal(n_items(&rest), 1);
    assert_string_equal(codec_json_str(json_array_get(json_object_get(rest.body, "items"), 0),
                                       "metadata", "name", NULL),
                        "c");
    assert_null(codec_json_get(rest.body, "metadata", "continue", NULL));
    AUTO_REPLY struct reply bad = request(*state, "GET", CMS "?continue=bm9uc2Vuc2U=", NULL);
    assert_status(bad, 400);
}

static void test_watches_begin_with_what_is_there(void **state)
{
    struct watched w;

    make(*state, "a", "x");
    watch_start(*state, &w, CMS "?watch=1", NULL);
    assert_event(&w, "ADDED", "a");
    make(*state, "b", "x");
    assert_event(&w, "ADDED", "b");
    relabel(*state, "b", "y");
    assert_event(&w, "MODIFIED", "b");
    AUTO_REPLY struct reply del = request(*state, "DELETE", CMS "/a", NULL);
    assert_status(del, 200);
    assert_event(&w, "DELETED", "a");
    watch_stop(&w);
}

static void test_watches_continue_from_a_version(void **state)
{
    struct watched w;

    make(*state, "a", "x");
    AUTO_REPLY struct reply list = request(*state, "GET", CMS, NULL);
    GS_AUTO_FREE char *path =
        gs_format("/api/v1/configmaps?watch=true&resourceVersion=%s",
                  codec_json_str(list.body, "metadata", "resourceVersion", NULL));
    make(*state, "b", "x");
    relabel(*state, "a", "y");
    watch_start(*state, &w, path, NULL);
    assert_event(&w, "ADDED", "b");
    assert_event(&w, "MODIFIED", "a");
    watch_stop(&w);
}

static void test_selectors_turn_changes_into_comings_and_goings(void **state)
{
    struct watched w;

    make(*state, "a", "x");
    watch_start(*state, &w, CMS "?watch=1&labelSelector=app%3Dx", NULL);
    assert_event(&w, "ADDED", "a");
    relabel(*state, "a", "y");
    assert_event(&w, "DELETED", "a");
    relabel(*state, "a", "z");
    relabel(*state, "a", "x");
    assert_event(&w, "ADDED", "a");
    watch_stop(&w);
}

static void test_forgotten_versions_are_gone(void **state)
{
    struct watched w;

    make(*state, "a", "x");
    for (int i = 0; i < 10100; i++)
        relabel(*state, "a", i % 2 ? "x" : "y");
    watch_start(*state, &w, CMS "?watch=1&resourceVersion=1", NULL);
    CODEC_AUTO_JSON json_t *event = watch_next(&w);
    assert_string_equal(codec_json_str(event, "type", NULL), "ERROR");
    assert_int_equal(codec_json_int(event, 0, "object", "code", NULL), 410);
    assert_string_equal(codec_json_str(event, "object", "reason", NULL), "Expired");
    assert_null(watch_next(&w));
    watch_stop(&w);
}

static void test_watches_end_in_time(void **state)
{
    struct watched w;

    watch_start(*state, &w, CMS "?watch=1&timeoutSeconds=1", NULL);
    assert_null(watch_next(&w));
    watch_stop(&w);
}

static void test_an_open_watch_outlives_the_server(void **state)
{
    struct harness *h = gs_alloc(sizeof *h);
    struct watched w;

    harness_open(h, NULL);
    make(h, "a", "x");
    watch_start(h, &w, CMS "?watch=1", NULL);
    assert_event(&w, "ADDED", "a");
    local_api_free(h->api);
    h->api = NULL;
    assert_null(watch_next(&w));
    watch_stop(&w);
    harness_close(h);
    free(h);
}

#define INITIAL                                                                                    \
    "?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"

// A bookmark that ends the initial events. Returns the object.
static json_t *end_of_initial(struct watched *w)
{
    CODEC_AUTO_JSON json_t *event = watch_next(w);
    json_t *object = json_object_get(event, "object");

    assert_string_equal(codec_json_str(event, "type", NULL), "BOOKMARK");
    assert_string_equal(
        codec_json_str(object, "metadata", "annotations", "k8s.io/initial-events-end", NULL),
        "true");
    return json_incref(object);
}

static void test_initial_events_end_with_a_bookmark(void **state)
{
    struct watched w;

    make(*state, "a", "x");
    make(*state, "b", "x");
    AUTO_REPLY struct reply list = request(*state, "GET", CMS, NULL);
    watch_start(*state, &w, CMS INITIAL, NULL);
    assert_event(&w, "ADDED", "a");
    assert_event(&w, "ADDED", "b");
    CODEC_AUTO_JSON json_t *end = end_of_initial(&w);
    GS_AUTO_BUF struct gs_buf blueprint = {0};

    assert_string_equal(codec_json_str(end, "kind", NULL), "ConfigMap");
    assert_string_equal(codec_json_str(end, "metadata", "resourceVersion", NULL),
                        codec_json_str(list.body, "metadata", "resourceVersion", NULL));
    assert_null(codec_base64_decode(
        gs_slice_of(codec_json_str(end, "metadata", "annotations",
                                   "k8s.io/initial-events-list-blueprint", NULL)),
        &blueprint));
    assert_string_equal(
        blueprint.data,
        "{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":[]}\n");
    relabel(*state, "a", "y");
    assert_event(&w, "MODIFIED", "a");
    watch_stop(&w);
}

static void test_empty_collections_have_the_bookmark_alone(void **state)
{
    struct watched w;

    watch_start(*state, &w, "/apis/apps/v1/deployments" INITIAL, NULL);
    CODEC_AUTO_JSON json_t *end = end_of_initial(&w);
    assert_string_equal(codec_json_str(end, "apiVersion", NULL), "apps/v1");
    watch_stop(&w);
    // A watch from no version is the same, as for clients that do not know the parameter.
    watch_start(*state, &w, "/apis/apps/v1/deployments?watch=1&allowWatchBookmarks=1", NULL);
    CODEC_AUTO_JSON json_t *legacy = end_of_initial(&w);
    watch_stop(&w);
}

static void test_bookmarks_have_the_form_of_the_events(void **state)
{
    struct watched w;

    watch_start(*state, &w, CMS INITIAL,
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    CODEC_AUTO_JSON json_t *partial = end_of_initial(&w);
    assert_string_equal(codec_json_str(partial, "kind", NULL), "PartialObjectMetadata");
    watch_stop(&w);
    static const char *const paths[] = {
        CMS,
        "/api/v1/pods",
        "/api/v1/events",
        "/apis/events.k8s.io/v1/events",
        "/apis/autoscaling/v2/horizontalpodautoscalers",
        "/apis/batch/v1/jobs",
        "/api/v1/services",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(paths); i++) {
        GS_AUTO_FREE char *path = gs_format("%s" INITIAL, paths[i]);
        watch_start(*state, &w, path, TABLE);
        CODEC_AUTO_JSON json_t *event = watch_next(&w);
        const json_t *row = json_array_get(codec_json_get(event, "object", "rows", NULL), 0);
        assert_string_equal(codec_json_str(event, "type", NULL), "BOOKMARK");
        assert_string_equal(codec_json_str(event, "object", "kind", NULL), "Table");
        assert_string_equal(codec_json_str(row, "object", "metadata", "annotations",
                                           "k8s.io/initial-events-end", NULL),
                            "true");
        watch_stop(&w);
    }
}

static void test_initial_events_can_be_left_out(void **state)
{
    struct watched w;

    make(*state, "a", "x");
    watch_start(*state, &w,
                CMS "?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", NULL);
    make(*state, "b", "x");
    assert_event(&w, "ADDED", "b");
    watch_stop(&w);
}

// Changes while the existing objects are sent follow them, each once.
static void test_large_collections_are_sent_as_the_client_reads(void **state)
{
    enum { N = 400, SIZE = 32 * 1024 }; // 12 MiB, more than a stream queues
    struct harness *h = *state;
    GS_AUTO_FREE char *text = gs_alloc(SIZE + 1);
    struct watched w;

    memset(text, 'x', SIZE);
    for (int i = 0; i < N; i++) {
        GS_AUTO_FREE char *body =
            gs_format("{\"metadata\":{\"name\":\"c%03d\"},\"data\":{\"k\":\"%s\"}}", i, text);
        AUTO_REPLY struct reply r = request(h, "POST", CMS, body);
        assert_status(r, 201);
    }
    watch_start(h, &w, CMS INITIAL, NULL);
    relabel(h, "c399", "y");
    for (int i = 0; i < N; i++) {
        GS_AUTO_FREE char *name = gs_format("c%03d", i);
        assert_event(&w, "ADDED", name);
    }
    CODEC_AUTO_JSON json_t *end = end_of_initial(&w);
    assert_event(&w, "MODIFIED", "c399");
    watch_stop(&w);
}

static void test_booleans_are_read_in_any_case(void **state)
{
    struct watched w;
    AUTO_REPLY struct reply list = request(*state, "GET", CMS "?watch=False", NULL);

    assert_member(list, "ConfigMapList", "kind");
    watch_start(*state, &w, CMS "?watch=True&allowWatchBookmarks=True", NULL);
    CODEC_AUTO_JSON json_t *end = end_of_initial(&w);
    watch_stop(&w);
}

static void assert_refused(struct harness *h, const char *query, int status, const char *message)
{
    GS_AUTO_FREE char *path = gs_format(CMS "?%s", query);
    AUTO_REPLY struct reply r = request(h, "GET", path, NULL);
    assert_status(r, status);
    assert_string_equal(codec_json_str(r.body, "message", NULL), message);
}

static void test_wrong_combinations_of_options_are_refused(void **state)
{
#define OPTIONS "ListOptions.meta.k8s.io \"\" is invalid: "
    assert_refused(*state, "watch=1&sendInitialEvents=true", 422,
                   OPTIONS "resourceVersionMatch: Forbidden: sendInitialEvents requires setting "
                           "resourceVersionMatch to NotOlderThan");
    assert_refused(*state, "watch=1&resourceVersionMatch=NotOlderThan", 422,
                   OPTIONS "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for "
                           "watch unless sendInitialEvents is provided");
    assert_refused(*state, "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", 422,
                   OPTIONS "[resourceVersionMatch: Forbidden: sendInitialEvents requires setting "
                           "resourceVersionMatch to NotOlderThan, resourceVersionMatch: "
                           "Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]");
    assert_refused(*state, "sendInitialEvents=true", 422,
                   OPTIONS "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list");
    assert_refused(*state, "resourceVersionMatch=NotOlderThan", 422,
                   OPTIONS "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden "
                           "unless resourceVersion is provided");
    assert_refused(*state, "resourceVersion=0&resourceVersionMatch=Exact", 422,
                   OPTIONS "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is "
                           "forbidden for resourceVersion \"0\"");
    GS_AUTO_FREE char *path = gs_strdup(CMS INITIAL "&resourceVersion=999999");
    AUTO_REPLY struct reply large = request(*state, "GET", path, NULL);
    const json_t *cause = json_array_get(codec_json_get(large.body, "details", "causes", NULL), 0);
    assert_status(large, 504);
    assert_string_equal(codec_json_str(cause, "reason", NULL), "ResourceVersionTooLarge");
}

static void test_tables_have_columns_once(void **state)
{
    struct watched w;

    make(*state, "a", "x");
    AUTO_REPLY struct reply list = request_with(*state, "GET", CMS, NULL, TABLE, NULL);
    assert_member(list, "Table", "kind");
    assert_member(list, "meta.k8s.io/v1", "apiVersion");
    assert_int_equal(json_array_size(json_object_get(list.body, "columnDefinitions")), 3);
    json_t *row = json_array_get(json_object_get(list.body, "rows"), 0);
    assert_string_equal(json_string_value(json_array_get(json_object_get(row, "cells"), 0)), "a");
    assert_string_equal(codec_json_str(row, "object", "kind", NULL), "PartialObjectMetadata");
    watch_start(*state, &w, CMS "?watch=1", TABLE);
    CODEC_AUTO_JSON json_t *first = watch_next(&w);
    assert_int_equal(json_array_size(codec_json_get(first, "object", "columnDefinitions", NULL)),
                     3);
    make(*state, "b", "x");
    CODEC_AUTO_JSON json_t *second = watch_next(&w);
    assert_string_equal(codec_json_str(second, "object", "kind", NULL), "Table");
    assert_int_equal(json_array_size(codec_json_get(second, "object", "columnDefinitions", NULL)),
                     0);
    watch_stop(&w);
}

static void test_unknown_forms_are_refused(void **state)
{
    AUTO_REPLY struct reply proto =
        request_with(*state, "GET", CMS, NULL, "application/vnd.kubernetes.protobuf", NULL);
    AUTO_REPLY struct reply fallback = request_with(
        *state, "GET", CMS, NULL, "application/vnd.kubernetes.protobuf,application/json", NULL);
    AUTO_REPLY struct reply partial =
        request_with(*state, "GET", CMS, NULL,
                     "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", NULL);
    assert_status(proto, 406);
    assert_status(fallback, 200);
    assert_status(partial, 200);
    assert_member(partial, "PartialObjectMetadataList", "kind");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_selectors_choose, setup, teardown),
        cmocka_unit_test_setup_teardown(test_absent_fields_have_the_zero_of_their_type, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_collections_of_services_can_be_deleted, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_lists_come_in_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_watches_begin_with_what_is_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_watches_continue_from_a_version, setup, teardown),
        cmocka_unit_test_setup_teardown(test_selectors_turn_changes_into_comings_and_goings, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_forgotten_versions_are_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_watches_end_in_time, setup, teardown),
        cmocka_unit_test(test_an_open_watch_outlives_the_server),
        cmocka_unit_test_setup_teardown(test_initial_events_end_with_a_bookmark, setup, teardown),
        cmocka_unit_test_setup_teardown(test_empty_collections_have_the_bookmark_alone, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_bookmarks_have_the_form_of_the_events, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_initial_events_can_be_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_collections_are_sent_as_the_client_reads, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_booleans_are_read_in_any_case, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_combinations_of_options_are_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_tables_have_columns_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_forms_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
