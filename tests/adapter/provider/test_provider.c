// SPDX-License-Identifier: Apache-2.0
// Rules, discovery and requests, with a fake Prometheus and a fake API server.
#include "adapter/provider/provider.h"
#include "base/clock.h"
#include "base/mem.h"
#include "kube/status.h"
#include "net/http/client.h"
#include "unit.h"

static const char rules[] =
    "rules:\n"
    "- seriesQuery: '{good!=\"\"}'\n"
    "  resources: {overrides: {ns: {resource: namespace}, pod: {resource: pod}, deploy: {group: "
    "apps, resource: deployment}}}\n"
    "  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)\n"
    "- seriesQuery: '{bad!=\"\"}'\n"
    "  resources: {overrides: {pod: {resource: pod}}}\n"
    "  metricsQuery: <<.Series>>{<<.LabelMatchers>>}\n"
    "externalRules:\n"
    "- seriesQuery: '{good!=\"\"}'\n"
    "  name: {as: 'ext_$0'}\n"
    "  resources: {namespaced: false}\n"
    "  metricsQuery: <<.Series>>{<<.LabelMatchers>>}\n";

struct fixture {
    uv_loop_t loop;
    struct http_client *prometheus, *kube_http;
    struct kube_client *kube;
    struct source *source;
    struct provider_rest_mapper *mapper;
    struct adapter_config *config, *gpu_config;
    struct provider_registry *registry, *gpu;
    struct provider *provider;
    enum provider_times times;
    const char *last_answer; // to the query for the last sample; NULL: as to others
    bool no_object;
    bool bad_fails, all_fail;
    const char *answer; // to queries
    char *query;        // the last one
    int queries, list_status;
    size_t waiting;
    enum provider_outcome outcome;
    char *cause;
    double values[8];
    int64_t times_ms[8];
    bool timed_fails;
    char *names;
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
    const char *match = http_query(x, "match[]"), *query = http_query(x, "query");
    if (f->all_fail) {
        http_reply_text(x, 502, "gone");
    } else if (query) {
        free(f->query);
        f->query = gs_strdup(query);
        f->queries++;
        bool last = strstr(query, "max_over_time(timestamp(") && f->last_answer;
        if (f->timed_fails && strstr(query, "__gpuscale_time__"))
            http_reply(x, 400, "application/json",
                       GS_SLICE("{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":"
                                "\"no set operators between scalars\"}"));
        else
            reply_text(x, last ? f->last_answer : f->answer);
    } else if (strstr(match, "good")) {
        reply_text(x, "{\"status\":\"success\",\"data\":[{\"__name__\":\"m\",\"pod\":\"a\",\"ns\":"
                      "\"ml\",\"deploy\":\"d\",\"good\":\"1\"}]}");
    } else if (strstr(match, "bad") && f->bad_fails) {
        http_reply_text(x, 500, "broken");
    } else if (strstr(match, "bad")) {
        reply_text(x, "{\"status\":\"success\",\"data\":[{\"__name__\":\"b\",\"pod\":\"a\"}]}");
    } else if (strstr(match, "exported_pod")) {
        reply_text(x, "{\"status\":\"success\",\"data\":[{\"__name__\":\"DCGM_FI_DEV_GPU_UTIL\","
                      "\"exported_pod\":\"a\",\"exported_namespace\":\"ml\"}]}");
    } else {
        reply_text(x, "{\"status\":\"success\",\"data\":[]}");
    }
}

static void cluster(void *arg, struct http_exchange *x)
{
    struct fixture *f = arg;
    const char *path = http_path(x), *selector = http_query(x, "labelSelector");
    if (f->list_status) {
        kube_reply_failure(x, f->list_status, "Forbidden", "pods is forbidden");
        return;
    }
    if (gs_ends(path, "/deployments/d")) {
        reply_text(x, "{\"kind\":\"Deployment\",\"spec\":{\"selector\":{\"matchLabels\":{\"app\":"
                      "\"x\"}}}}");
        return;
    }
    if (f->no_object && gs_streq(http_query(x, "fieldSelector"), "metadata.name=a")) {
        reply_text(x, "{\"kind\":\"PodList\",\"items\":[]}");
        return;
    }
    if (gs_ends(path, "/deployments/none")) {
        kube_reply_failure(x, 404, "NotFound", "deployments.apps \"none\" not found");
        return;
    }
    bool none = selector && strstr(selector, "none");
    reply_text(
        x, none ? "{\"kind\":\"PodList\",\"items\":[]}"
                : "{\"kind\":\"PodList\",\"items\":[{\"metadata\":{\"name\":\"b\",\"labels\":{"
                  "\"app\":\"x\"}}},{\"metadata\":{\"name\":\"a\",\"labels\":{\"app\":\"x\"}}}]}");
}

static void run_until_round(struct fixture *f, struct provider_registry *r, int64_t rounds)
{
    while (provider_registry_rounds(r) < rounds)
        uv_run(&f->loop, UV_RUN_ONCE);
}

static void start(struct fixture *f)
{
    uv_loop_init(&f->loop);
    f->prometheus = http_client_new_loopback(&f->loop, prometheus, f, NULL);
    f->kube_http = http_client_new_loopback(&f->loop, cluster, f, NULL);
    f->kube = kube_client_new(f->kube_http);
    const struct source_options s = {.url = "http://test"};
    f->source = source_new_client(&f->loop, f->prometheus, "", &s);
    f->mapper = provider_rest_mapper_new();
    assert_ok(adapter_config_parse(gs_slice_of(rules), "rules.yaml", &f->config));
    assert_ok(adapter_config_parse(gs_slice_of(provider_gpu_rules()), "(GPU)", &f->gpu_config));
    struct provider_registry_options r = {
        .config = f->config, .source = f->source, .mapper = f->mapper, .relist_ms = 3600000};
    f->registry = provider_registry_new(&f->loop, &r);
    r.config = f->gpu_config;
    f->gpu = provider_registry_new(&f->loop, &r);
    const struct provider_options p = {.config = f->config,
                                       .source = f->source,
                                       .mapper = f->mapper,
                                       .registry = f->registry,
                                       .gpu = f->gpu,
                                       .times = f->times,
                                       .kube = f->kube};
    f->provider = provider_new(&p);
    run_until_round(f, f->registry, 1);
    run_until_round(f, f->gpu, 1);
}

static void stop(struct fixture *f)
{
    provider_free(f->provider);
    provider_registry_free(f->registry);
    provider_registry_free(f->gpu);
    source_free(f->source);
    provider_rest_mapper_free(f->mapper);
    adapter_config_free(f->config);
    adapter_config_free(f->gpu_config);
    kube_client_free(f->kube);
    http_client_free(f->kube_http);
    http_client_free(f->prometheus);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f->query);
    free(f->cause);
    free(f->names);
}

static void on_answer(void *arg, const struct provider_answer *a)
{
    struct fixture *f = arg;
    GS_AUTO_BUF struct gs_buf names = {0};
    f->waiting--;
    f->outcome = a->outcome;
    free(f->cause);
    f->cause = gs_strdup(a->cause);
    f->n = a->n;
    for (size_t i = 0; i < a->n && i < GS_ARRAY_LEN(f->values); i++) {
        f->values[i] = a->values[i].value;
        f->times_ms[i] = a->values[i].t_ms;
        gs_buf_addf(&names, "%s%s", i ? "," : "", a->values[i].name);
    }
    for (size_t i = 0; i < a->n_samples && i < GS_ARRAY_LEN(f->values); i++) {
        f->n = i + 1;
        f->values[i] = a->samples[i].value;
        f->times_ms[i] = a->samples[i].t_ms;
    }
    free(f->names);
    f->names = gs_buf_take(&names);
}

static void ask_only(struct fixture *f, const struct provider_request *rq)
{
    f->waiting++;
    provider_request_values(f->provider, rq, on_answer, f);
}

static void ask(struct fixture *f, const char *resource, const char *name, const char *metric,
                const char *selector)
{
    const struct provider_request rq = {.resource = resource,
                                        .ns = gs_streq(resource, "namespaces") ? NULL : "ml",
                                        .name = name,
                                        .metric = metric,
                                        .label_selector = selector};
    ask_only(f, &rq);
    while (f->waiting)
        uv_run(&f->loop, UV_RUN_ONCE);
}

static void assert_cause(const struct fixture *f, enum provider_outcome outcome, const char *text)
{
    assert_int_equal(f->outcome, outcome);
    if (!strstr(f->cause, text))
        fail_msg("cause \"%s\" does not contain \"%s\"", f->cause, text);
}

#define VECTOR(items)                                                                              \
    "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[" items "]}}"
#define SAMPLE(label, name, value)                                                                 \
    "{\"metric\":{\"" label "\":\"" name "\"},\"value\":[5,\"" value "\"]}"

static void test_values(void **state)
{
    struct fixture f = {.times = PROVIDER_TIMES_NEVER,
                        .answer = VECTOR(SAMPLE("pod", "a", "1.5") "," SAMPLE("pod", "b", "2"))};
    start(&f);
    ask(&f, "pods", "a", "m", NULL);
    assert_int_equal(f.outcome, PROVIDER_OK);
    assert_true(f.values[0] == 1.5);
    assert_string_equal(f.query, "sum(m{ns=\"ml\",pod=\"a\"}) by (pod)");
    ask(&f, "pods", "*", "m", NULL);
    assert_string_equal(f.query, "sum(m{ns=\"ml\",pod=~\"a|b\"}) by (pod)");
    assert_string_equal(f.names, "a,b");
    ask(&f, "deployments.apps", "d", "m", NULL);
    assert_string_equal(f.query, "sum(m{ns=\"ml\",deploy=\"d\"}) by (deploy)");
    f.answer = VECTOR(SAMPLE("ns", "ml", "9"));
    ask(&f, "namespaces", "ml", "m", NULL);
    assert_string_equal(f.query, "sum(m{ns=\"ml\"}) by (ns)");
    assert_true(f.values[0] == 9);
    stop(&f);
}

// An event contains the cause. A query or seriesQuery of any length must not fill it.
static void test_causes_name_rules_and_not_queries(void **state)
{
    struct fixture f = {.answer = VECTOR("")};
    (void)state;
    f.times = PROVIDER_TIMES_NEVER;
    start(&f);
    f.last_answer = "{\"status\":\"error\",\"errorType\":\"execution\",\"error\":\"x\"}";
    ask(&f, "pods", "a", "m", NULL);
    assert_cause(&f, PROVIDER_NO_SAMPLE, "rules.yaml:2 returns no sample for it");
    assert_null(strstr(f.cause, "m{"));
    GS_AUTO_BUF struct gs_buf error = {0};
    gs_buf_add_str(&error, "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"");
    for (int i = 0; i < 300; i++)
        gs_buf_add_str(&error, "größer ");
    gs_buf_add_str(&error, "\"}");
    f.answer = error.data;
    ask(&f, "pods", "a", "m", NULL);
    assert_true(strlen(f.cause) < 410);
    assert_non_null(strstr(f.cause, "…"));
    stop(&f);
}

static void test_gpu_metrics_without_series_have_no_sample_yet(void **state)
{
    struct fixture f = {.answer = VECTOR("")};
    (void)state;
    f.times = PROVIDER_TIMES_NEVER;
    start(&f);
    ask(&f, "pods", "a", "DCGM_FI_DEV_XID_ERRORS", NULL);
    assert_cause(&f, PROVIDER_NO_METRIC, "no sample yet: no series of this name exists");
    ask(&f, "pods", "a", "nope", NULL);
    assert_cause(&f, PROVIDER_NO_METRIC, "no rule serves it");
    stop(&f);
}

static void test_causes(void **state)
{
    struct fixture f = {.answer = VECTOR("")};
    f.times = PROVIDER_TIMES_NEVER;
    start(&f);
    ask(&f, "pods", "a", "nope", NULL);
    assert_cause(&f, PROVIDER_NO_METRIC, "no rule serves it");
    ask(&f, "nodes", "a", "m", NULL);
    assert_cause(&f, PROVIDER_NO_METRIC,
                 "it is served for deployments.apps, namespaces, pods only");
    ask(&f, "unicorns", "a", "m", NULL);
    assert_cause(&f, PROVIDER_NO_METRIC, "the cluster has no resource unicorns");
    ask(&f, "pods", "*", "m", "app=none");
    assert_cause(&f, PROVIDER_NO_METRIC, "no pods in namespace ml match the selector app=none");
    ask(&f, "pods", "a", "m", NULL);
    assert_cause(&f, PROVIDER_NO_SAMPLE,
                 "no series m{ns=\"ml\",pod=\"a\"} had a sample in the last hour");
    assert_string_equal(f.query, "max(max_over_time(timestamp(m{ns=\"ml\",pod=\"a\"})[1h:1m]))");
    f.last_answer = VECTOR("{\"metric\":{},\"value\":[5,\"1700000000.5\"]}");
    ask(&f, "pods", "a", "m", NULL);
    assert_cause(&f, PROVIDER_NO_SAMPLE,
                 "its series m exists, but has no sample since 2023-11-14T22:13:20Z (");
    GS_AUTO_FREE char *fresh = gs_format(VECTOR("{\"metric\":{},\"value\":[5,\"%lld\"]}"),
                                         (long long)(gs_unix_ms() / 1000 - 2));
    f.last_answer = fresh;
    ask(&f, "pods", "a", "m", NULL);
    assert_cause(&f, PROVIDER_NO_SAMPLE, "but the rule's query returns no sample for it");
    f.no_object = true;
    ask(&f, "pods", "a", "m", NULL);
    assert_cause(&f, PROVIDER_NO_SAMPLE, "pods \"a\" not found");
    f.no_object = false;
    f.last_answer = "{\"status\":\"error\",\"errorType\":\"execution\",\"error\":\"x\"}";
    ask(&f, "pods", "a", "m", NULL);
    assert_cause(&f, PROVIDER_NO_SAMPLE, "rules.yaml:2 returns no sample for it");
    f.answer = VECTOR(SAMPLE("other", "a", "1"));
    ask(&f, "pods", "a", "m", NULL);
    assert_cause(&f, PROVIDER_NO_SAMPLE, "none with pod=\"a\"");
    f.answer = VECTOR(SAMPLE("pod", "a", "NaN"));
    ask(&f, "pods", "a", "m", NULL);
    assert_cause(&f, PROVIDER_NO_SAMPLE, "NaN or infinite");
    ask(&f, "pods", "a", "b", NULL);
    assert_cause(&f, PROVIDER_NO_METRIC, "maps no label to namespaces");
    f.list_status = 403;
    ask(&f, "pods", "*", "m", NULL);
    assert_cause(&f, PROVIDER_LIST_FAILED, "pods is forbidden");
    f.all_fail = true;
    ask(&f, "pods", "a", "m", NULL);
    assert_cause(&f, PROVIDER_SOURCE_FAILED,
                 "the source is unavailable: http://test: HTTP status "
                 "502");
    stop(&f);
}

// A failing rule keeps its series and does not affect other rules.
static void test_isolation(void **state)
{
    struct fixture f = {.answer = VECTOR(SAMPLE("pod", "a", "1")), .bad_fails = true};
    struct provider_registry_rule_state s;
    start(&f);
    provider_registry_rule(f.registry, 1, &s);
    assert_non_null(strstr(s.error, "500"));
    assert_false(provider_registry_complete(f.registry));
    ask(&f, "pods", "a", "m", NULL);
    assert_int_equal(f.outcome, PROVIDER_OK);
    ask(&f, "pods", "a", "b", NULL);
    assert_cause(&f, PROVIDER_NO_METRIC, "the series of 1 rules cannot be listed");
    f.bad_fails = false;
    provider_registry_relist(f.registry);
    run_until_round(&f, f.registry, 2);
    assert_true(provider_registry_complete(f.registry));
    f.bad_fails = true;
    provider_registry_relist(f.registry);
    run_until_round(&f, f.registry, 3);
    provider_registry_rule(f.registry, 1, &s);
    assert_non_null(s.error);
    assert_int_equal(s.metrics, 1); // still there
    stop(&f);
}

static void test_equal_queries_run_once(void **state)
{
    struct fixture f = {.answer = VECTOR(SAMPLE("pod", "a", "1"))};
    const struct provider_request rq = {.resource = "pods", .ns = "ml", .name = "a", .metric = "m"};
    start(&f);
    for (int i = 0; i < 50; i++)
        ask_only(&f, &rq);
    while (f.waiting)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(f.queries, 1);
    ask_only(&f, &rq);
    while (f.waiting)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(f.queries, 2); // without an age nothing is cached
    // A cancelled call does not affect the others.
    f.waiting = 1;
    struct provider_call *gone = provider_request_values(f.provider, &rq, on_answer, &f);
    provider_request_values(f.provider, &rq, on_answer, &f);
    provider_cancel(gone);
    while (f.waiting)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(f.queries, 3);
    stop(&f);
}

// GPU metrics of workloads, without a rule.
static void test_owners(void **state)
{
    struct fixture f = {.answer = VECTOR(SAMPLE("exported_pod", "a", "80") "," SAMPLE(
                            "exported_pod", "b", "40") "," SAMPLE("exported_pod", "c", "1"))};
    start(&f);
    ask(&f, "pods", "a", "DCGM_FI_DEV_GPU_UTIL", NULL);
    assert_true(f.values[0] == 80);
    ask(&f, "deployments.apps", "d", "DCGM_FI_DEV_GPU_UTIL", NULL);
    assert_int_equal(f.outcome, PROVIDER_OK);
    assert_true(f.values[0] == 60);
    assert_string_equal(f.names, "d");
    ask(&f, "deployments.apps", "d", "DCGM_FI_DEV_GPU_UTIL_MAX", NULL);
    assert_true(f.values[0] == 80);
    ask(&f, "deployments.apps", "d", "DCGM_FI_DEV_GPU_UTIL_MIN", NULL);
    assert_true(f.values[0] == 40);
    ask(&f, "deployments.apps", "none", "DCGM_FI_DEV_GPU_UTIL", NULL);
    assert_cause(&f, PROVIDER_NO_SAMPLE, "deployments.apps \"none\" not found");
    f.answer = VECTOR("");
    ask(&f, "deployments.apps", "d", "DCGM_FI_DEV_GPU_UTIL", NULL);
    assert_cause(&f, PROVIDER_NO_SAMPLE, "none of its 2 pods has a sample");
    stop(&f);
}

#define MARKED(labels, seconds)                                                                    \
    "{\"metric\":{" labels "\"__gpuscale_time__\":\"1\"},\"value\":[5,\"" seconds "\"]}"

// A value has the timestamp of its samples, from the same query.
static void test_times(void **state)
{
    struct fixture f = {.answer = VECTOR(SAMPLE("pod", "a", "1.5") "," SAMPLE(
                            "pod", "b", "2") "," MARKED("\"pod\":\"a\",", "1700000000.25"))};
    start(&f);
    ask(&f, "pods", "a", "m", NULL);
    assert_string_equal(f.query,
                        "(sum(m{ns=\"ml\",pod=\"a\"}) by (pod)\n) or label_replace(min by (pod) "
                        "(timestamp(m{ns=\"ml\",pod=\"a\"})), \"__gpuscale_time__\", \"1\", "
                        "\"\", \"\")");
    assert_int_equal(f.times_ms[0], 1700000000250);
    ask(&f, "pods", "*", "m", NULL);
    assert_int_equal(f.n, 2);
    assert_int_equal(f.times_ms[0], 1700000000250);
    assert_int_equal(f.times_ms[1], 5000); // no timestamp: the time of the query
    // Only timestamps: the query itself has no result.
    f.answer = VECTOR(MARKED("\"pod\":\"a\",", "1700000000.25"));
    f.last_answer = VECTOR("");
    ask(&f, "pods", "a", "m", NULL);
    assert_cause(&f, PROVIDER_NO_SAMPLE, "in the last hour");
    // External metrics: one timestamp for all values.
    f.answer = VECTOR(SAMPLE("l", "1", "7") "," MARKED("", "1700000001"));
    const struct provider_request rq = {.ns = "ml", .metric = "ext_m", .external = true};
    ask_only(&f, &rq);
    while (f.waiting)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(f.n, 1);
    assert_true(f.values[0] == 7);
    assert_int_equal(f.times_ms[0], 1700000001000);
    // A query that fails with timestamps is sent without them, from then on at once.
    f.answer = VECTOR(SAMPLE("pod", "a", "1.5"));
    f.timed_fails = true;
    int before = f.queries;
    ask(&f, "pods", "a", "m", NULL);
    assert_int_equal(f.outcome, PROVIDER_OK);
    assert_int_equal(f.queries, before + 2);
    ask(&f, "pods", "a", "m", NULL);
    assert_int_equal(f.queries, before + 3);
    stop(&f);
}

static void other_prometheus(void *arg, struct http_exchange *x)
{
    if (http_query(x, "query"))
        reply_text(x, VECTOR(SAMPLE("pod", "a", "7")));
    else
        reply_text(x,
                   "{\"status\":\"success\",\"data\":[{\"__name__\":\"far\",\"pod\":\"a\",\"ns\":"
                   "\"ml\"}]}");
}

// Each rule uses its own source. A source that is down affects only its rules.
static void test_sources(void **state)
{
    struct fixture f = {.answer = VECTOR(SAMPLE("pod", "a", "1.5"))};
    start(&f);
    struct adapter_config *c = NULL;
    static const char text[] =
        "sources: [{name: other, url: http://other, rules: [far]}]\n"
        "rules:\n"
        "- seriesQuery: '{good!=\"\"}'\n"
        "  resources: &r {overrides: {ns: {resource: namespace}, pod: {resource: pod}}}\n"
        "  metricsQuery: <<.Series>>{<<.LabelMatchers>>}\n"
        "- seriesQuery: far\n"
        "  resources: *r\n"
        "  metricsQuery: <<.Series>>{<<.LabelMatchers>>}\n"
        "- seriesQuery: '{good!=\"\"}'\n"
        "  resources: *r\n"
        "  name: {as: also_far}\n"
        "  source: other\n"
        "  metricsQuery: <<.Series>>{<<.LabelMatchers>>}\n";
    assert_ok(adapter_config_parse(gs_slice_of(text), "two.yaml", &c));
    struct http_client *client = http_client_new_loopback(&f.loop, other_prometheus, NULL, NULL);
    const struct source_options s = {.url = "http://other"};
    struct source *extra_sources[] = {source_new_client(&f.loop, client, "", &s)};
    const struct provider_registry_options r = {.config = c,
                                                .source = f.source,
                                                .extra_sources = extra_sources,
                                                .mapper = f.mapper,
                                                .relist_ms = 3600000};
    struct provider_registry *registry = provider_registry_new(&f.loop, &r);
    struct provider *old = f.provider;
    const struct provider_options p = {.config = c,
                                       .source = f.source,
                                       .extra_sources = extra_sources,
                                       .mapper = f.mapper,
                                       .registry = registry,
                                       .kube = f.kube};
    f.provider = provider_new(&p);
    run_until_round(&f, registry, 1);
    ask(&f, "pods", "a", "m", NULL);
    assert_true(f.values[0] == 1.5);
    ask(&f, "pods", "a", "far", NULL);
    assert_int_equal(f.outcome, PROVIDER_OK);
    assert_true(f.values[0] == 7);
    ask(&f, "pods", "a", "also_far", NULL); // the same seriesQuery, in the other source
    assert_true(f.values[0] == 7);
    f.all_fail = true;
    ask(&f, "pods", "a", "m", NULL);
    assert_cause(&f, PROVIDER_SOURCE_FAILED, "http://test");
    ask(&f, "pods", "a", "far", NULL);
    assert_true(f.values[0] == 7);
    provider_free(f.provider);
    provider_registry_free(registry);
    source_free(extra_sources[0]);
    http_client_free(client);
    adapter_config_free(c);
    f.provider = old;
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_causes),
        cmocka_unit_test(test_causes_name_rules_and_not_queries),
        cmocka_unit_test(test_gpu_metrics_without_series_have_no_sample_yet),
        cmocka_unit_test(test_isolation),
        cmocka_unit_test(test_equal_queries_run_once),
        cmocka_unit_test(test_owners),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
