// SPDX-License-Identifier: Apache-2.0
// --values, --scrape-config and --alertmanager as the configuration of the metrics engine.
#include "base/file.h"
#include "base/mem.h"
#include "engine/config/config.h"
#include "up/up_private.h"

#include "unit.h"

static char dir[] = "/tmp/gpuscale-values-test-XXXXXX";

static char *file_with(const char *name, const char *text)
{
    char *path = gs_format("%s/%s", dir, name);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
    return path;
}

static struct engine_config *written(const struct up_options *o, const char *hidden)
{
    struct up_values v = {0};
    struct engine_config *cfg = NULL;
    GS_AUTO_FREE char *path = gs_format("%s/prometheus.yml", dir);
    const struct up_engine_config c = {
        .exporter = "127.0.0.1:9400", .interval_ms = 500, .hidden = hidden};
    assert_ok(up_values_load(o, &v));
    assert_ok(up_engine_config_write(&c, o, &v, path));
    assert_ok(engine_config_load(path, &cfg));
    up_values_finish(&v);
    unlink(path);
    return cfg;
}

static void refused(const struct up_options *o, const char *part)
{
    struct up_values v = {0};
    struct gs_error *err = up_values_load(o, &v);
    assert_non_null(err);
    if (!strstr(gs_error_message(err), part))
        fail_msg("\"%s\" lacks \"%s\"", gs_error_message(err), part);
    gs_error_free(err);
    up_values_finish(&v);
}

static void test_without_options_only_the_exporter_is_scraped(void **state)
{
    struct engine_config *c = written(&(struct up_options){0}, NULL);
    assert_int_equal(c->n_scrapes, 1);
    assert_string_equal(c->scrapes[0].job_name, UP_EXPORTER_JOB);
    assert_int_equal(c->scrapes[0].interval_ms, 500);
    assert_int_equal(c->evaluation_interval_ms, 1000);
    assert_int_equal(c->scrapes[0].metric_relabel.n, 1);
    engine_config_free(c);
    c = written(&(struct up_options){0}, "A|B");
    assert_int_equal(c->scrapes[0].metric_relabel.n, 2);
    engine_config_free(c);
}

static void test_jobs_of_values_and_files_are_added(void **state)
{
    GS_AUTO_FREE char *values =
        file_with("values.yaml", "prometheus:\n  prometheusSpec:\n    evaluationInterval: 7s\n"
                                 "    additionalScrapeConfigs: [{job_name: a, scheme: https}]\n"
                                 "rules: {custom: []}\n");
    GS_AUTO_FREE char *jobs = file_with("jobs.yaml", "scrape_configs: [{job_name: b}]\n");
    const char *values_list[] = {values}, *jobs_list[] = {jobs};
    const struct up_options o = {.values = {.items = values_list, .len = 1},
                                 .scrape_configs = {.items = jobs_list, .len = 1}};
    struct engine_config *c = written(&o, NULL);
    assert_int_equal(c->n_scrapes, 3);
    assert_string_equal(c->scrapes[1].scheme, "https");
    assert_string_equal(c->scrapes[2].job_name, "b");
    assert_int_equal(c->evaluation_interval_ms, 7000);
    engine_config_free(c);
    struct up_values v = {0};
    assert_ok(up_values_load(&o, &v));
    assert_string_equal(v.adapter, values);
    up_values_finish(&v);
    struct up_options twice = o;
    twice.adapter_config = "rules.yaml";
    refused(&twice, "choose one");
    unlink(values);
    unlink(jobs);
}

static void test_alertmanagers(void **state)
{
    const char *list[] = {"am", "am:1", "https://[::1]:2/prefix", "http://x/"};
    const struct up_options o = {.alertmanagers = {.items = list, .len = 4}};
    struct engine_config *c = written(&o, NULL);
    static const struct {
        const char *scheme, *target, *prefix;
    } want[] = {{"http", "am:9093", NULL},
                {"http", "am:1", NULL},
                {"https", "[::1]:2", "/prefix"},
                {"http", "x:9093", NULL}};
    assert_int_equal(c->n_alertmanagers, GS_ARRAY_LEN(want));
    for (size_t i = 0; i < GS_ARRAY_LEN(want); i++) {
        const struct engine_config_alertmanager_config *am = &c->alertmanagers[i];
        assert_string_equal(am->scheme, want[i].scheme);
        assert_string_equal(am->sd.statics[0].targets[0], want[i].target);
        if (want[i].prefix)
            assert_string_equal(am->path_prefix, want[i].prefix);
    }
    engine_config_free(c);
    static const char *const wrong[] = {"", ":9093", "ftp://x", "http://u:p@x", "http:///p"};
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        const char *one[] = {wrong[i]};
        const struct up_options bad = {.alertmanagers = {.items = one, .len = 1}};
        const struct up_engine_config cfg = {.exporter = "x:1", .interval_ms = 1};
        struct gs_error *err =
            up_engine_config_write(&cfg, &bad, &(struct up_values){0}, "/nowhere/x");
        assert_non_null(err);
        assert_non_null(strstr(gs_error_message(err), "write HOST:PORT or a URL"));
        gs_error_free(err);
    }
}

static void test_metrics_of_the_exporters_chart(void **state)
{
    GS_AUTO_FREE char *values =
        file_with("exporter.yaml", "customMetrics: |\n  DCGM_FI_DEV_GPU_UTIL, gauge, x\n");
    const char *list[] = {values};
    const struct up_options o = {.values = {.items = list, .len = 1}};
    struct up_values v = {0};
    assert_ok(up_values_load(&o, &v));
    assert_string_equal(v.counters, "DCGM_FI_DEV_GPU_UTIL, gauge, x\n");
    up_values_finish(&v);
    unlink(values);
    free(values);
    values = file_with("exporter.yaml",
                       "arguments: ['-f', '/etc/dcgm-exporter/1.x-compatibility-metrics.csv']\n");
    list[0] = values;
    assert_ok(up_values_load(&o, &v));
    assert_string_equal(v.collectors, "/etc/dcgm-exporter/1.x-compatibility-metrics.csv");
    up_values_finish(&v);
    unlink(values);
    GS_AUTO_FREE char *wrong = file_with("wrong.yaml", "customMetrics: 'DCGM_NO, gauge, x'\n");
    list[0] = wrong;
    refused(&o, "customMetrics");
    unlink(wrong);
    refused(&(struct up_options){.collectors = "/nowhere/x.csv"}, "--collectors");
}

static void test_files_without_known_values_are_refused(void **state)
{
    GS_AUTO_FREE char *other = file_with("other.yaml", "grafana: {enabled: true}\n");
    GS_AUTO_FREE char *wrong = file_with("wrong.yaml", "prometheus:\n  prometheusSpec: 1\n");
    const char *list[] = {other};
    struct up_options o = {.values = {.items = list, .len = 1}};
    refused(&o, "no values of kube-prometheus-stack");
    list[0] = wrong;
    refused(&o, "wrong.yaml:2:");
    list[0] = "/nowhere/values.yaml";
    refused(&o, "/nowhere/values.yaml");
    unlink(other);
    unlink(wrong);
}

static int make_dir(void **state)
{
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_options_only_the_exporter_is_scraped),
        cmocka_unit_test(test_jobs_of_values_and_files_are_added),
        cmocka_unit_test(test_alertmanagers),
        cmocka_unit_test(test_metrics_of_the_exporters_chart),
        cmocka_unit_test(test_files_without_known_values_are_refused),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
