// SPDX-License-Identifier: Apache-2.0
// Every series with namespace and pod as a metric without a rule: names, workloads, limits, what
// rules hide, and what is said about a name that does not exist.
#include "adapter/provider/provider.h"
#include "base/mem.h"
#include "net/http/client.h"
#include "unit.h"

static const char user_rules[] =
    "rules:\n"
    "- seriesQuery: '{job=\"own\"}'\n"
    "  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}\n"
    "  name: {as: shown}\n"
    "  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)\n";

struct fixture {
    uv_loop_t loop;
    struct http_client *prometheus, *kube_http;
    struct kube_client *kube;
    struct source *source;
    struct provider_rest_mapper *mapper;
    struct adapter_config *config, *pod_config;
    struct provider_registry *registry, *pod_series;
    struct provider *provider;
    const char *series; // names of the series, as JSON
    size_t max_names;
    char *query, *cause, *trace;
    bool trace_wanted, done;
    enum provider_outcome outcome;
    double value;
    size_t n;
};

static void reply_text(struct http_exchange *x, const char *text)
{
    http_reply(x, 200, "application/json", gs_slice_of(text));
}

static void prometheus(void *arg, struct http_exchange *x)
{
    struct fixture *f = arg;
    gs_error_free(http_read_form(x));
    if (gs_streq(http_path(x), "/api/v1/label/__name__/values")) {
        assert_non_null(strstr(http_query(x, "match[]"), "namespace!=\"\",pod!=\"\""));
        assert_non_null(http_query(x, "start"));
        GS_AUTO_FREE char *body = gs_format("{\"status\":\"success\",\"data\":[%s]}", f->series);
        reply_text(x, body);
    } else if (gs_streq(http_path(x), "/api/v1/series")) {
        reply_text(x, "{\"status\":\"success\",\"data\":[{\"__name__\":\"own\",\"pod\":\"a\","
                      "\"namespace\":\"ml\"}]}");
    } else {
        free(f->query);
        f->query = gs_strdup(http_query(x, "query"));
        reply_text(x, "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":["
                      "{\"metric\":{\"pod\":\"a\"},\"value\":[5,\"3\"]},"
                      "{\"metric\":{\"pod\":\"b\"},\"value\":[5,\"4\"]}]}}");
    }
}

static void cluster(void *arg, struct http_exchange *x)
{
    (void)arg;
    if (gs_ends(http_path(x), "/deployments/d"))
        reply_text(x, "{\"kind\":\"Deployment\",\"spec\":{\"selector\":{\"matchLabels\":{\"app\":"
                      "\"x\"}}}}");
    else
        reply_text(x, "{\"kind\":\"PodList\",\"items\":[{\"metadata\":{\"name\":\"b\",\"labels\":{"
                      "\"app\":\"x\"}}},{\"metadata\":{\"name\":\"a\",\"labels\":{\"app\":\"x\"}}}"
                      "]}");
}

static void run_round(struct fixture *f, struct provider_registry *r)
{
    while (!provider_registry_rounds(r))
        uv_run(&f->loop, UV_RUN_ONCE);
}

static void start(struct fixture *f)
{
    GS_AUTO_FREE char *rules = provider_pod_series_rules(30000);
    uv_loop_init(&f->loop);
    f->prometheus = http_client_new_loopback(&f->loop, prometheus, f, NULL);
    f->kube_http = http_client_new_loopback(&f->loop, cluster, f, NULL);
    f->kube = kube_client_new(f->kube_http);
    const struct source_options s = {.url = "http://test"};
    f->source = source_new_client(&f->loop, f->prometheus, "", &s);
    f->mapper = provider_rest_mapper_new();
    assert_ok(adapter_config_parse(gs_slice_of(user_rules), "rules.yaml", &f->config));
    assert_ok(adapter_config_parse(gs_slice_of(rules), "(pod series)", &f->pod_config));
    struct provider_registry_options r = {
        .config = f->config, .source = f->source, .mapper = f->mapper, .relist_ms = 3600000};
    f->registry = provider_registry_new(&f->loop, &r);
    r.config = f->pod_config;
    r.names_only = true;
    r.max_names = f->max_names;
    f->pod_series = provider_registry_new(&f->loop, &r);
    const struct provider_options p = {.config = f->config,
                                       .source = f->source,
                                       .mapper = f->mapper,
                                       .registry = f->registry,
                                       .pod_series = f->pod_series,
                                       .times = PROVIDER_TIMES_NEVER,
                                       .kube = f->kube};
    f->provider = provider_new(&p);
    run_round(f, f->registry);
    run_round(f, f->pod_series);
}

static void stop(struct fixture *f)
{
    provider_free(f->provider);
    provider_registry_free(f->registry);
    provider_registry_free(f->pod_series);
    source_free(f->source);
    provider_rest_mapper_free(f->mapper);
    adapter_config_free(f->config);
    adapter_config_free(f->pod_config);
    kube_client_free(f->kube);
    http_client_free(f->kube_http);
    http_client_free(f->prometheus);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f->query);
    free(f->cause);
    free(f->trace);
}

static void on_answer(void *arg, const struct provider_answer *a)
{
    struct fixture *f = arg;
    f->done = true;
    f->outcome = a->outcome;
    f->n = a->n;
    f->value = a->n ? a->values[0].value : 0;
    free(f->cause);
    f->cause = gs_strdup(a->cause);
    free(f->trace);
    f->trace = gs_strdup(a->trace);
}

static void ask(struct fixture *f, const char *resource, const char *name, const char *metric)
{
    const struct provider_request rq = {
        .resource = resource, .ns = "ml", .name = name, .metric = metric, .trace = f->trace_wanted};
    f->done = false;
    provider_request_values(f->provider, &rq, on_answer, f);
    while (!f->done)
        uv_run(&f->loop, UV_RUN_ONCE);
}

static void test_gauges_and_counters_of_pods_are_served(void **state)
{
    struct fixture f = {.series = "\"queue_depth\",\"done_total\",\"work_seconds_total\""};
    start(&f);
    ask(&f, "pods", "*", "queue_depth");
    assert_int_equal(f.outcome, PROVIDER_OK);
    assert_int_equal(f.n, 2);
    assert_string_equal(f.query, "sum by (pod) (queue_depth{namespace=\"ml\",pod=~\"a|b\"})");
    ask(&f, "pods", "a", "done");
    assert_string_equal(f.query,
                        "sum by (pod) (rate(done_total{namespace=\"ml\",pod=\"a\"}[30s]))");
    ask(&f, "pods", "a", "work");
    assert_string_equal(f.query,
                        "sum by (pod) (rate(work_seconds_total{namespace=\"ml\",pod=\"a\"}[30s]))");
    ask(&f, "pods", "a", "done_total");
    assert_int_equal(f.outcome, PROVIDER_NO_METRIC);
    stop(&f);
}

static void test_a_pod_counts_once_beside_its_containers(void **state)
{
    struct fixture f = {.series = "\"container_memory_bytes\",\"container_cpu_seconds_total\""};
    start(&f);
    ask(&f, "pods", "a", "memory_bytes");
    assert_string_equal(
        f.query, "sum by (pod) (container_memory_bytes{namespace=\"ml\",pod=\"a\",container!~\"|POD"
                 "\"}) or sum by (pod) (container_memory_bytes{namespace=\"ml\",pod=\"a\"})");
    ask(&f, "pods", "a", "cpu");
    assert_int_equal(f.outcome, PROVIDER_OK);
    stop(&f);
}

static void test_a_workload_has_the_sum_or_the_maximum_of_its_pods(void **state)
{
    struct fixture f = {.series = "\"queue_depth\",\"used_ratio\""};
    start(&f);
    ask(&f, "deployments.apps", "d", "queue_depth");
    assert_int_equal(f.outcome, PROVIDER_OK);
    assert_true(f.value == 7);
    ask(&f, "deployments.apps", "d", "used_ratio");
    assert_true(f.value == 4);
    ask(&f, "deployments.apps", "d", "queue_depth_AVG");
    assert_true(f.value == 3.5);
    ask(&f, "deployments.apps", "d", "queue_depth_MIN");
    assert_true(f.value == 3);
    stop(&f);
}

static void test_rules_come_first_and_hide_visibly(void **state)
{
    struct fixture f = {.series = "\"shown\",\"x\",\"x_total\"", .trace_wanted = true};
    start(&f);
    ask(&f, "pods", "a", "shown");
    assert_string_equal(f.query, "sum(own{namespace=\"ml\",pod=\"a\"}) by (pod)");
    assert_non_null(strstr(f.trace, "instead of the series shown, which has this name, too"));
    // A series that has the name itself comes before the rate of another one.
    ask(&f, "pods", "a", "x");
    assert_string_equal(f.query, "sum by (pod) (x{namespace=\"ml\",pod=\"a\"})");
    assert_non_null(strstr(f.trace, "instead of the series x_total"));
    stop(&f);
}

static void test_names_over_the_limit_are_counted(void **state)
{
    struct fixture f = {.series = "\"d\",\"b\",\"a\",\"c\"", .max_names = 2};
    start(&f);
    assert_int_equal(provider_registry_left_out(f.pod_series), 2);
    ask(&f, "pods", "a", "b");
    assert_int_equal(f.outcome, PROVIDER_OK);
    ask(&f, "pods", "a", "c");
    assert_int_equal(f.outcome, PROVIDER_NO_METRIC);
    stop(&f);
}

static void test_a_wrong_name_gets_a_similar_one(void **state)
{
    struct fixture f = {.series = "\"queue_depth\""};
    start(&f);
    ask(&f, "pods", "*", "queue_depht");
    assert_int_equal(f.outcome, PROVIDER_NO_METRIC);
    assert_non_null(strstr(f.cause, "; similar: queue_depth"));
    ask(&f, "pods", "*", "latency");
    assert_int_equal(f.outcome, PROVIDER_NO_METRIC);
    assert_null(strstr(f.cause, "similar"));
    stop(&f);
}

// --- what is stored of pods ---

struct facts {
    bool done;
    size_t pods, n;
};

static void on_facts(void *arg, const struct provider_pod_facts *f)
{
    struct facts *out = arg;
    assert_non_null(f);
    *out = (struct facts){true, f->pods, f->n};
}

static void test_the_series_of_pods_are_read_on_demand(void **state)
{
    struct fixture f = {.series = ""};
    struct facts facts = {0};
    start(&f);
    provider_pod_facts_find(f.provider, "ml", "app=x", on_facts, &facts);
    while (!facts.done)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(facts.pods, 2);
    assert_int_equal(facts.n, 2);
    assert_string_equal(f.query, "up{namespace=\"ml\",pod=~\"a|b\"} or count by (__name__) "
                                 "({__name__!=\"up\",namespace=\"ml\",pod=~\"a|b\"})");
    struct provider_pod_facts_op *op =
        provider_pod_facts_find(f.provider, "ml", "app=y", on_facts, &facts);
    provider_pod_facts_cancel(op);
    stop(&f);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gauges_and_counters_of_pods_are_served),
        cmocka_unit_test(test_a_pod_counts_once_beside_its_containers),
        cmocka_unit_test(test_a_workload_has_the_sum_or_the_maximum_of_its_pods),
        cmocka_unit_test(test_rules_come_first_and_hide_visibly),
        cmocka_unit_test(test_names_over_the_limit_are_counted),
        cmocka_unit_test(test_a_wrong_name_gets_a_similar_one),
        cmocka_unit_test(test_the_series_of_pods_are_read_on_demand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
