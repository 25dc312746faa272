// SPDX-License-Identifier: Apache-2.0
// Rules with names of GPU metrics of dcgm-exporter 4.8 in a fleet with exporters of 4.8 and 4.9,
// from a server that knows no aliases.
#include "adapter/provider/provider.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "net/http/client.h"
#include "patience.h"
#include "tsdb/tsdb.h"
#include "unit.h"

#include <math.h>

static const char rules[] =
    "rules:\n"
    "- seriesQuery: 'DCGM_FI_DEV_GPU_UTIL{pod!=\"\"}'\n"
    "  resources: {overrides: {pod: {resource: pod}, namespace: {resource: namespace}}}\n"
    "  name: {as: gpu_util}\n"
    "  metricsQuery: avg(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)\n"
    "- seriesQuery: '{__name__=~\"DCGM_FI_DEV_(FB_USED|GPU_TEMP)\",pod!=\"\"}'\n"
    "  resources: {overrides: {pod: {resource: pod}, namespace: {resource: namespace}}}\n"
    "  name: {matches: DCGM_FI_DEV_(.*), as: gpu_$1}\n"
    "  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)\n";

struct fixture {
    uv_loop_t loop;
    struct engine *engine;
    struct http_client *http;
    struct source *source;
    struct provider_rest_mapper *mapper;
    struct adapter_config *config, *gpu_config;
    struct provider_registry *registry, *gpu;
    struct provider *provider;
    bool done;
    double value;
    enum provider_outcome outcome;
    struct gs_buf trace;
};

static void put(struct fixture *f, const char *metric, const char *pod, const char *uuid, double v)
{
    const struct metrics_label labels[] = {{GS_SLICE("__name__"), gs_slice_of(metric)},
                                           {GS_SLICE("UUID"), gs_slice_of(uuid)},
                                           {GS_SLICE("gpu"), GS_SLICE("0")},
                                           {GS_SLICE("namespace"), GS_SLICE("ml")},
                                           {GS_SLICE("pod"), gs_slice_of(pod)},
                                           {GS_SLICE("Hostname"), gs_slice_of(uuid)}};
    assert_ok(
        tsdb_append(engine_tsdb(f->engine), labels, GS_ARRAY_LEN(labels), gs_unix_ms() - 1000, v));
}

static struct provider_registry *list(struct fixture *f, const struct adapter_config *c)
{
    const struct provider_registry_options o = {.config = c,
                                                .source = f->source,
                                                .mapper = f->mapper,
                                                .relist_ms = 50,
                                                .max_age_ms = 60000};
    return provider_registry_new(&f->loop, &o);
}

// pod "old": 60 % by an exporter of 4.8. pod "new": 40 % by one of 4.9. pod "both": by both.
static void put_series(struct fixture *f)
{
    put(f, "DCGM_FI_DEV_GPU_UTIL", "old", "A", 60);
    put(f, "DCGM_FI_DEV_GPU_UTIL_RATIO", "new", "B", 0.4);
    put(f, "DCGM_FI_DEV_GPU_UTIL", "both", "C", 30);
    put(f, "DCGM_FI_DEV_GPU_UTIL_RATIO", "both", "C", 0.3);
    put(f, "DCGM_FI_DEV_FB_USED_BYTES", "new", "B", 3.0 * 1048576);
}

static void start(struct fixture *f, bool aliases)
{
    const struct engine_options e = {.config_text = "{}"};
    const struct source_options s = {0};
    *f = (struct fixture){0};
    uv_loop_init(&f->loop);
    assert_ok(engine_new(&f->loop, &e, &f->engine));
    put_series(f);
    f->http = http_client_new_loopback(&f->loop, engine_handle, f->engine, NULL);
    f->source = source_new_client(&f->loop, f->http, "", &s);
    source_set_aliases(f->source, aliases);
    f->mapper = provider_rest_mapper_new();
    assert_ok(adapter_config_parse(gs_slice_of(rules), "rules", &f->config));
    assert_ok(adapter_config_parse(gs_slice_of(provider_gpu_rules()), "(GPU)", &f->gpu_config));
    f->registry = list(f, f->config);
    f->gpu = list(f, f->gpu_config);
    const struct provider_options p = {.config = f->config,
                                       .source = f->source,
                                       .mapper = f->mapper,
                                       .registry = f->registry,
                                       .gpu = f->gpu};
    f->provider = provider_new(&p);
    while (!provider_registry_rounds(f->registry) || !provider_registry_rounds(f->gpu))
        uv_run(&f->loop, UV_RUN_ONCE);
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
    http_client_free(f->http);
    engine_free(f->engine);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    gs_buf_finish(&f->trace);
}

static void on_answer(void *arg, const struct provider_answer *a)
{
    struct fixture *f = arg;
    f->done = true;
    f->outcome = a->outcome;
    f->value = a->n ? a->values[0].value : NAN;
    gs_buf_clear(&f->trace);
    gs_buf_addf(&f->trace, "%s%s", a->trace, a->outcome == PROVIDER_OK ? "" : a->cause);
}

static void request(struct fixture *f, const char *pod, const char *metric)
{
    const struct provider_request rq = {
        .resource = "pods", .ns = "ml", .name = pod, .metric = metric, .trace = true};
    f->done = false;
    provider_request_values(f->provider, &rq, on_answer, f);
    while (!f->done)
        uv_run(&f->loop, UV_RUN_ONCE);
}

static void assert_value(struct fixture *f, const char *pod, const char *metric, double want)
{
    request(f, pod, metric);
    if (f->outcome != PROVIDER_OK || fabs(f->value - want) > 1e-9)
        fail_msg("%s of %s: want %g, got %g: %s", metric, pod, want, f->value, f->trace.data);
}

static void test_rules_serve_pods_of_both_exporters(void **state)
{
    struct fixture f;
    (void)state;
    start(&f, true);
    assert_value(&f, "old", "gpu_util", 60);
    assert_value(&f, "new", "gpu_util", 40);
    assert_value(&f, "both", "gpu_util", 30);
    assert_value(&f, "new", "gpu_FB_USED", 3);
    stop(&f);
}

static void test_metrics_without_rules_have_both_names(void **state)
{
    struct fixture f;
    (void)state;
    start(&f, true);
    assert_value(&f, "old", "DCGM_FI_DEV_GPU_UTIL", 60);
    assert_value(&f, "new", "DCGM_FI_DEV_GPU_UTIL", 40);
    assert_value(&f, "both", "DCGM_FI_DEV_GPU_UTIL", 30);
    assert_value(&f, "old", "DCGM_FI_DEV_GPU_UTIL_RATIO", 0.6);
    assert_value(&f, "new", "DCGM_FI_DEV_GPU_UTIL_RATIO", 0.4);
    assert_value(&f, "new", "DCGM_FI_DEV_FB_USED", 3);
    stop(&f);
}

static bool is_listed(const struct provider_registry *r, const char *metric)
{
    const struct provider_registry_metric *m;
    for (size_t i = 0; (m = provider_registry_nth(r, false, i)); i++)
        if (gs_slice_eq_str(m->name, metric))
            return true;
    return false;
}

// A list of metrics has the names that exporters give, and those that rules name.
static void test_lists_of_metrics(void **state)
{
    struct fixture f;
    (void)state;
    start(&f, true);
    assert_true(is_listed(f.registry, "gpu_util"));
    assert_true(is_listed(f.registry, "gpu_FB_USED"));
    assert_false(is_listed(f.registry, "gpu_FB_USED_BYTES"));
    assert_true(is_listed(f.gpu, "DCGM_FI_DEV_FB_USED_BYTES"));
    assert_false(is_listed(f.gpu, "DCGM_FI_DEV_FB_USED"));
    stop(&f);
}

static void test_explanation_names_the_alias(void **state)
{
    struct fixture f;
    (void)state;
    start(&f, true);
    request(&f, "new", "gpu_util");
    assert_non_null(
        strstr(f.trace.data, "alias of DCGM_FI_DEV_GPU_UTIL: DCGM_FI_DEV_GPU_UTIL_RATIO * 100\n"));
    assert_non_null(strstr(f.trace.data, "query with aliases: avg("));
    stop(&f);
}

static void test_without_aliases(void **state)
{
    struct fixture f;
    (void)state;
    start(&f, false);
    assert_value(&f, "old", "gpu_util", 60);
    request(&f, "new", "gpu_util");
    assert_int_not_equal(f.outcome, PROVIDER_OK);
    request(&f, "new", "gpu_FB_USED");
    assert_int_not_equal(f.outcome, PROVIDER_OK);
    assert_null(strstr(f.trace.data, "alias"));
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_serve_pods_of_both_exporters),
        cmocka_unit_test(test_metrics_without_rules_have_both_names),
        cmocka_unit_test(test_lists_of_metrics),
        cmocka_unit_test(test_explanation_names_the_alias),
        cmocka_unit_test(test_without_aliases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
