// SPDX-License-Identifier: Apache-2.0
// PrometheusRule objects of a scripted API as rules of the manager: evaluated rules, changes,
// errors.
#include "engine/rules/rules.h"

#include "../../kube/loop.h"
#include "base/mem.h"
#include "engine/rules/rules_private.h"
#include "net/http/client.h"

struct fixture {
    const struct engine_config_selection *selection;
    uv_loop_t loop;
    struct http_client *http;
    struct kube_client *client;
    struct tsdb *db;
    struct promql_engine *promql;
    struct rules_manager *manager;
    struct rules_objects *objects;
    struct http_stream *stream;
    const char *items;
    char *path, *query; // of the last list
    bool absent;
};

static void closed(void *arg)
{
    struct fixture *f = arg;
    f->stream = NULL;
}

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    if (f->absent) {
        http_reply_text(x, 404, "404 page not found");
        return;
    }
    if (http_query(x, "watch")) {
        f->stream = http_reply_stream(x, 200, "application/json", closed, f);
        return;
    }
    free(f->path);
    free(f->query);
    f->path = gs_strdup(http_path(x));
    f->query = gs_strdup(http_query(x, "labelSelector"));
    GS_AUTO_FREE char *list =
        gs_format("{\"kind\":\"PrometheusRuleList\",\"metadata\":{\"resourceVersion\":\"1\"},"
                  "\"items\":[%s]}",
                  f->items ? f->items : "");
    http_reply(x, 200, "application/json", gs_slice_of(list));
}

static void start(struct fixture *f, const char *ns, const char *selector)
{
    uv_loop_init(&f->loop);
    f->http = http_client_new_loopback(&f->loop, serve, f, NULL);
    f->client = kube_client_new(f->http);
    f->db = tsdb_new(NULL);
    f->promql = promql_engine_new(f->db, &(struct promql_config){0});
    f->manager = rules_manager_new(&f->loop, f->db, f->promql, NULL);
    struct rules_problems problems = {0};
    const struct engine_config cfg = {.evaluation_interval_ms = 50};
    assert_ok(rules_manager_apply(f->manager, &cfg, &problems));
    rules_problems_finish(&problems);
    f->objects = rules_objects_new(&f->loop, f->client, ns, selector, f->selection, f->manager);
}

static void finish(struct fixture *f)
{
    rules_objects_free(f->objects);
    rules_manager_free(f->manager);
    promql_engine_free(f->promql);
    kube_client_free(f->client);
    http_client_free(f->http);
    loop_finish(&f->loop);
    tsdb_free(f->db);
    free(f->path);
    free(f->query);
}

static void send_event(struct fixture *f, const char *type, const char *obj)
{
    loop_until(&f->loop, f->stream);
    GS_AUTO_FREE char *line = gs_format("{\"type\":\"%s\",\"object\":%s}\n", type, obj);
    http_stream_write(f->stream, gs_slice_of(line));
}

// "file/group: rule health, rule health" of all groups.
static char *rules(const struct fixture *f)
{
    struct gs_buf out = {0};
    CODEC_AUTO_JSON json_t *all = rules_json(f->manager, NULL);
    size_t i, k;
    json_t *group, *rule;
    json_array_foreach (codec_json_get(all, "groups", NULL), i, group) {
        gs_buf_addf(&out, "%s %s:", codec_json_str(group, "file", NULL),
                    codec_json_str(group, "name", NULL));
        json_array_foreach (codec_json_get(group, "rules", NULL), k, rule)
            gs_buf_addf(&out, " %s", codec_json_str(rule, "name", NULL));
        gs_buf_add_str(&out, ".\n");
    }
    return out.data ? gs_buf_take(&out) : gs_strdup("");
}

static bool rules_are(const struct fixture *f, const char *want)
{
    GS_AUTO_FREE char *got = rules(f);
    return gs_streq(got, want);
}

static bool has_series(const struct fixture *f, const char *name)
{
    struct tsdb_refs refs = {0};
    const struct tsdb_matcher m = {GS_SLICE("__name__"), gs_slice_of(name), TSDB_EQ, NULL};
    assert_ok(tsdb_find(f->db, &m, 1, INT64_MIN, INT64_MAX, 0, &refs));
    size_t n = refs.len;
    tsdb_refs_finish(&refs);
    return n > 0;
}

#define OBJECT(name, version, groups)                                                              \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"gpu\",\"resourceVersion\":\"" version    \
    "\"},\"spec\":{\"groups\":[" groups "]}}"
#define GROUP(name, rules) "{\"name\":\"" name "\",\"rules\":[" rules "]}"
#define RECORD(name, expr) "{\"record\":\"" name "\",\"expr\":\"" expr "\"}"

static void test_objects_are_sets_of_rules(void **state)
{
    struct fixture f = {.items = OBJECT("a", "1", GROUP("g", RECORD("one", "1"))) "," OBJECT(
                            "b", "1", GROUP("g", RECORD("two", "one + 1")))};
    start(&f, NULL, NULL);
    loop_until(&f.loop, rules_are(&f, "prometheusrule/gpu/a g: one.\n"
                                      "prometheusrule/gpu/b g: two.\n"));
    assert_string_equal(f.path, "/apis/monitoring.coreos.com/v1/prometheusrules");
    loop_until(&f.loop, has_series(&f, "one") && has_series(&f, "two"));

    send_event(&f, "MODIFIED",
               OBJECT("a", "2", GROUP("g", RECORD("one", "1")) "," GROUP("h", RECORD("x", "3"))));
    loop_until(&f.loop, rules_are(&f, "prometheusrule/gpu/a g: one.\n"
                                      "prometheusrule/gpu/a h: x.\n"
                                      "prometheusrule/gpu/b g: two.\n"));
    send_event(&f, "DELETED", OBJECT("a", "3", ""));
    loop_until(&f.loop, rules_are(&f, "prometheusrule/gpu/b g: two.\n"));
    send_event(&f, "ADDED", OBJECT("c", "4", GROUP("g", RECORD("three", "3"))));
    loop_until(&f.loop, has_series(&f, "three"));
    finish(&f);
    (void)state;
}

static enum engine_config_choice decide(void *arg, enum engine_config_kind kind, const json_t *obj,
                                        const json_t **ret_global)
{
    (void)ret_global;
    assert_int_equal(kind, ENGINE_CONFIG_RULE);
    return gs_streq(codec_json_str(obj, "metadata", "name", NULL), "a")
               ? *(enum engine_config_choice *)arg
               : ENGINE_CONFIG_BY_LABELS;
}

static void test_a_selection_decides_at_run_time(void **state)
{
    enum engine_config_choice of_a = ENGINE_CONFIG_UNUSED;
    const struct engine_config_selection selection = {decide, &of_a};
    struct fixture f = {.items = OBJECT("a", "1", GROUP("g", RECORD("one", "1"))) "," OBJECT(
                            "b", "1", GROUP("g", RECORD("two", "2"))),
                        .selection = &selection};
    start(&f, NULL, NULL);
    loop_until(&f.loop, rules_are(&f, "prometheusrule/gpu/b g: two.\n"));
    of_a = ENGINE_CONFIG_USED;
    rules_objects_select_again(f.objects);
    assert_true(rules_are(&f, "prometheusrule/gpu/a g: one.\nprometheusrule/gpu/b g: two.\n"));
    of_a = ENGINE_CONFIG_UNUSED;
    rules_objects_select_again(f.objects);
    assert_true(rules_are(&f, "prometheusrule/gpu/b g: two.\n"));
    finish(&f);
    (void)state;
}

static void test_labels_decide_where_the_selection_does_not(void **state)
{
    enum engine_config_choice of_a = ENGINE_CONFIG_USED;
    const struct engine_config_selection selection = {decide, &of_a};
    struct fixture f = {.items = OBJECT("a", "1", GROUP("g", RECORD("one", "1"))) "," OBJECT(
                            "b", "1", GROUP("g", RECORD("two", "2"))),
                        .selection = &selection};
    start(&f, NULL, "team=x");
    loop_until(&f.loop, rules_are(&f, "prometheusrule/gpu/a g: one.\n"));
    finish(&f);
    (void)state;
}

static void test_one_wrong_rule_is_off_alone(void **state)
{
    struct fixture f = {
        .items = OBJECT("a", "1",
                        GROUP("g", RECORD("right", "1") "," RECORD(
                                       "wrong", "sum(") ","
                                                        "{\"alert\":"
                                                        "\"Also\","
                                                        "\"expr\":\"1\""
                                                        ",\"for\":"
                                                        "\"soon\"}," RECORD("after", "2")))};
    start(&f, NULL, NULL);
    loop_until(&f.loop, has_series(&f, "right") && has_series(&f, "after"));
    assert_false(has_series(&f, "wrong"));
    CODEC_AUTO_JSON json_t *all = rules_json(f.manager, NULL);
    json_t *list =
        codec_json_get(json_array_get(codec_json_get(all, "groups", NULL), 0), "rules", NULL);
    size_t ok = 0, off = 0, i;
    json_t *rule;
    json_array_foreach (list, i, rule) {
        ok += gs_streq(codec_json_str(rule, "health", NULL), "ok");
        off += gs_streq(codec_json_str(rule, "health", NULL), "err");
    }
    assert_int_equal(ok, 2);
    assert_int_equal(off, 2);
    finish(&f);
    (void)state;
}

// Unknown fields, a rule that is no mapping, a group with a wrong field, and a second group with
// the same name cost only themselves.
static void test_a_wrong_part_of_an_object_leaves_the_others(void **state)
{
    struct fixture f = {
        .items =
            "{\"metadata\":{\"name\":\"a\",\"namespace\":\"gpu\",\"resourceVersion\":\"1\"},"
            "\"spec\":{\"group\":[],\"groups\":["
            "{\"name\":\"g\",\"intervall\":\"30s\",\"rules\":[" RECORD("one", "1") ",7," RECORD(
                "two", "2") "]},"
                            "{\"name\":\"h\",\"interval\":\"soon\",\"rules\":[" RECORD(
                                "no", "1") "]},"
                                           "\"text\"," GROUP("g", RECORD("no", "1")) "," GROUP(
                                               "i", RECORD("three", "3")) "]}}"};
    GS_AUTO_BUF struct gs_buf metrics = {0};
    start(&f, NULL, NULL);
    loop_until(&f.loop, rules_are(&f, "prometheusrule/gpu/a g: one two.\n"
                                      "prometheusrule/gpu/a i: three.\n"));
    loop_until(&f.loop, has_series(&f, "two") && has_series(&f, "three"));
    rules_objects_write_metrics(f.objects, &metrics);
    assert_non_null(strstr(metrics.data, "\ngpuscale_rule_objects_invalid 1\n"));
    send_event(&f, "MODIFIED", OBJECT("a", "2", GROUP("g", RECORD("one", "1"))));
    loop_until(&f.loop, rules_are(&f, "prometheusrule/gpu/a g: one.\n"));
    gs_buf_clear(&metrics);
    rules_objects_write_metrics(f.objects, &metrics);
    assert_non_null(strstr(metrics.data, "\ngpuscale_rule_objects_invalid 0\n"));
    finish(&f);
    (void)state;
}

// If an object is not a valid set of rules, its previous rules are kept.
static void test_an_object_that_makes_no_sense_keeps_its_rules(void **state)
{
    struct fixture f = {.items = OBJECT("a", "1", GROUP("g", RECORD("one", "1")))};
    start(&f, NULL, NULL);
    loop_until(&f.loop, rules_are(&f, "prometheusrule/gpu/a g: one.\n"));
    send_event(&f, "MODIFIED",
               "{\"metadata\":{\"name\":\"a\",\"namespace\":\"gpu\",\"resourceVersion\":\"2\"},"
               "\"spec\":{\"groups\":7}}");
    send_event(&f, "ADDED", OBJECT("b", "3", GROUP("g", RECORD("two", "2"))));
    loop_until(&f.loop, has_series(&f, "two"));
    assert_true(rules_are(&f, "prometheusrule/gpu/a g: one.\nprometheusrule/gpu/b g: two.\n"));
    finish(&f);
    (void)state;
}

static void test_a_change_of_labels_only_leaves_the_group_alone(void **state)
{
    struct fixture f = {
        .items = OBJECT("a", "1",
                        GROUP("g", "{\"alert\":\"A\",\"expr\":\"vector(1)\",\"for\":\"1h\"}"))};
    start(&f, NULL, NULL);
    loop_until(&f.loop, has_series(&f, "ALERTS"));
    CODEC_AUTO_JSON json_t *before = rules_alerts_json(f.manager);
    send_event(&f, "MODIFIED",
               "{\"metadata\":{\"name\":\"a\",\"namespace\":\"gpu\",\"resourceVersion\":\"2\","
               "\"labels\":{\"x\":\"y\"}},\"spec\":{\"groups\":[" GROUP(
                   "g", "{\"alert\":\"A\",\"expr\":\"vector(1)\",\"for\":\"1h\"}") "]}}");
    loop_for_ms(&f.loop, 200);
    CODEC_AUTO_JSON json_t *after = rules_alerts_json(f.manager);
    assert_true(json_equal(before, after));
    assert_int_equal(json_array_size(codec_json_get(after, "alerts", NULL)), 1);
    finish(&f);
    (void)state;
}

static void test_namespace_and_selector_are_asked_for(void **state)
{
    struct fixture f = {.items = ""};
    start(&f, "gpu", "role in (alert,record)");
    loop_until(&f.loop, f.stream);
    assert_string_equal(f.path, "/apis/monitoring.coreos.com/v1/namespaces/gpu/prometheusrules");
    assert_string_equal(f.query, "role in (alert,record)");
    finish(&f);
    (void)state;
}

static void test_a_cluster_without_the_resource_has_no_such_rules(void **state)
{
    struct fixture f = {.absent = true};
    start(&f, NULL, NULL);
    loop_until(&f.loop, rules_objects_error(f.objects));
    assert_true(rules_are(&f, ""));
    finish(&f);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects_are_sets_of_rules),
        cmocka_unit_test(test_a_selection_decides_at_run_time),
        cmocka_unit_test(test_labels_decide_where_the_selection_does_not),
        cmocka_unit_test(test_one_wrong_rule_is_off_alone),
        cmocka_unit_test(test_a_wrong_part_of_an_object_leaves_the_others),
        cmocka_unit_test(test_an_object_that_makes_no_sense_keeps_its_rules),
        cmocka_unit_test(test_a_change_of_labels_only_leaves_the_group_alone),
        cmocka_unit_test(test_namespace_and_selector_are_asked_for),
        cmocka_unit_test(test_a_cluster_without_the_resource_has_no_such_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
