// SPDX-License-Identifier: Apache-2.0
// --config-file of dcgm-exporter 4.6.
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"
#include "exporter/daemon/daemon_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct gs_error *parse(const char *text, struct daemon_file *ret)
{
    return daemon_file_parse(gs_slice_of(text), "c.yaml", ret);
}

static void test_what_is_in_it(void **state)
{
    struct daemon_file f;
    assert_ok(parse("version: 1\nmetrics:\n  file: /etc/dcgm-exporter/default-counters.csv\n"
                    "collection:\n  interval: 45s\n",
                    &f));
    assert_string_equal(f.counters_file, "/etc/dcgm-exporter/default-counters.csv");
    assert_int_equal(f.interval_ms, 45000);
    assert_int_equal(f.rows.len, 0);
    daemon_file_finish(&f);

    assert_ok(
        parse("version: 1\nmetrics:\n  fields:\n"
              "  - {name: ' DCGM_FI_DEV_GPU_TEMP ', prometheusType: gauge, help: 'Say \"C\", C.'}\n"
              "  - {name: DCGM_FI_DRIVER_VERSION, prometheusType: label, help: Driver.}\n",
              &f));
    assert_string_equal(f.rows.data, "\"DCGM_FI_DEV_GPU_TEMP\",\"gauge\",\"Say \"\"C\"\", C.\"\n"
                                     "\"DCGM_FI_DRIVER_VERSION\",\"label\",\"Driver.\"\n");
    assert_null(f.counters_file);
    assert_int_equal(f.interval_ms, 0);
    daemon_file_finish(&f);

    assert_ok(parse("version: 1\ncollection:\n  watchGroups:\n  - name: slow\n    interval: 10m\n"
                    "    fields: [DCGM_FI_DEV_NVLINK_PPCNT_*]\n",
                    &f));
    assert_int_equal(f.groups.len, 1);
    assert_string_equal(f.groups.items[0].name, "slow");
    assert_int_equal(f.groups.items[0].interval_ms, 600000);
    daemon_file_finish(&f);
    assert_ok(parse("version: 1\n", &f));
    daemon_file_finish(&f);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"metrics:\n  file: /tmp/counters.csv\n", "version must be 1"},
        {"version: 3\n", "version must be 1 or 2"},
        {"version: 1\nunknown: true\n", "field unknown not found"},
        {"version: 1\nmetrics:\n  configMap: {name: m}\n", "field configMap not found"},
        {"version: 1\nmetrics: {}\n", "exactly one of file or fields"},
        {"version: 1\nmetrics:\n  file: a\n  fields: [{name: A, prometheusType: gauge, help: h}]\n",
         "exactly one of file or fields"},
        {"version: 1\nmetrics:\n  file: a\n  file: b\n", "file"}, // the YAML reader's words
        {"version: 1\nmetrics:\n  fields:\n  - {name: A, prometheusType: gauge, help: h}\n"
         "  - {name: '  A ', prometheusType: counter, help: i}\n",
         "duplicates metrics.fields"},
        {"version: 1\nmetrics:\n  fields: [{name: A, help: h}]\n",
         "metrics.fields[0].prometheusType is required"},
        {"version: 1\nmetrics:\n  fields: [{name: A, prometheusType: gauge, help: ' '}]\n",
         "metrics.fields[0].help is required"},
        {"version: 1\nmetrics:\n  fields: [A]\n", "want a mapping"},
        {"version: 1\nmetrics:\n  fields: {a: b}\n", "want a list"},
        {"version: 1\ncollection:\n  interval: 30000\n", "missing unit"},
        {"version: 1\ncollection:\n  interval: 500us\n", "whole milliseconds"},
        {"version: 1\ncollection:\n  interval: 0s\n", "greater than 0"},
        {"version: 1\ncollection:\n  interval: -1s\n", "greater than 0"},
        {"version: 1\ncollection:\n  watchGroups:\n  - {name: slow, interval: 10m}\n",
         "fields must not be empty"},
        {"version: 1\ncollection:\n  watchGroups:\n  - {name: s, interval: 1m, fields: [A]}\n"
         "  - {name: s, interval: 2m, fields: [B]}\n",
         "is duplicated"},
        {"version: 1\ncollection:\n  watchGroups:\n  - {name: s, interval: 1m, fields: ['A[']}\n",
         "watch group \"s\" has invalid field pattern \"A[\": syntax error in pattern"},
        {"version: 1\ncollection:\n  watchGroups:\n  - {name: s, interval: 1m, fields: ['[]']}\n",
         "invalid field pattern"},
        {"version: 1\ncollection:\n  watchGroups:\n  - {name: s, interval: 1m, fields: ['[a-]']}\n",
         "invalid field pattern"},
        {"version: 1\ncollection:\n  watchGroups:\n  - {name: s, interval: 1m, fields: ['A\\']}\n",
         "invalid field pattern"},
        {"version: 1\ncollection:\n  watchGroups:\n  - {name: s, interval: 1m, fields: [' ']}\n",
         "collection.watchGroups[0].fields[0] is required"},
        {"version: 1\ncollection:\n  watchGroups: 5\n", "want a list"},
        {"version: 1\n---\nversion: 1\n", "multiple YAML documents"},
        {"", "the file is empty"},
        {"[]", "want a mapping"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct daemon_file f = {0};
        struct gs_error *err = parse(rows[i].text, &f);
        if (!err || !strstr(gs_error_message(err), rows[i].error))
            fail_msg("%s\ngives \"%s\" and not \"%s\"", rows[i].text,
                     err ? gs_error_message(err) : "no error", rows[i].error);
        gs_error_free(err);
    }
}

// Version 2, of dcgm-exporter 4.8.4: collections in place of collection.
static void test_version_2(void **state)
{
    struct daemon_file f;
    assert_ok(parse("version: 2\n"
                    "server: {maxConcurrentScrapes: 16}\n"
                    "metrics:\n"
                    "  file: /etc/dcgm-exporter/default-counters.csv\n"
                    "  enableExporterMetrics: true\n"
                    "sources: {dcgm: {watch: {maxKeepAge: 10m, maxKeepSamples: 0}}}\n"
                    "collections:\n"
                    "  - {name: scrape, every: 30s, metrics: {include: ['*']}}\n"
                    "  - name: fast-thermals\n"
                    "    every: 5s\n"
                    "    sources: {dcgm: {watch: {maxKeepAge: 0s, maxKeepSamples: 2}}}\n"
                    "    metrics: {include: [DCGM_FI_DEV_GPU_TEMP, DCGM_FI_DEV_POWER_USAGE]}\n",
                    &f));
    assert_string_equal(f.counters_file, "/etc/dcgm-exporter/default-counters.csv");
    assert_true(f.exporter_metrics);
    assert_int_equal(f.interval_ms, 30000);
    assert_int_equal(f.groups.len, 1);
    assert_string_equal(f.groups.items[0].name, "fast-thermals");
    assert_int_equal(f.groups.items[0].interval_ms, 5000);
    assert_int_equal(f.groups.items[0].n_patterns, 2);
    daemon_file_finish(&f);
    assert_ok(parse("version: 2\nmetrics: {enableExporterMetrics: false}\n", &f));
    assert_null(f.counters_file);
    assert_false(f.exporter_metrics);
    assert_int_equal(f.interval_ms, 0);
    daemon_file_finish(&f);
}

static void test_what_is_refused_in_version_2(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"collection: {interval: 1s}\n", "field collection not found"},
        {"metrics: {file: a, fields: [{name: A, prometheusType: gauge, help: h}]}\n",
         "exactly one of file or fields"},
        {"metrics: {enableExporterMetrics: 5}\n", "enableExporterMetrics: want true or false"},
        {"collections: {name: a}\n", "collections: want a list"},
        {"collections: [{every: 1s, metrics: {include: [A]}}]\n",
         "collections[0].name is required"},
        {"collections: [{name: a, every: 1, metrics: {include: [A]}}]\n",
         "collections[0].every: missing unit"},
        {"collections: [{name: a, every: 1s}]\n", "collections[0].metrics: want a mapping"},
        {"collections: [{name: a, every: 1s, fields: [A]}]\n", "field fields not found"},
        {"collections: [{name: a, every: 1s, metrics: {include: []}}]\n",
         "collections[0].metrics.include must not be empty"},
        {"collections: [{name: a, every: 1s, metrics: {include: ['*']}},"
         " {name: b, every: 2s, metrics: {include: ['*']}}]\n",
         "\"a\" and \"b\" both include all fields"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct daemon_file f = {0};
        GS_AUTO_FREE char *text = gs_format("version: 2\n%s", rows[i].text);
        assert_error(parse(text, &f), GS_EINVAL, rows[i].error);
    }
    struct daemon_file f = {0};
    assert_error(parse("version: 1\ncollections: []\n", &f), GS_EINVAL,
                 "field collections not found");
}

static void assert_every(const struct exporter_counters *c, const char *name, int64_t ms)
{
    for (size_t i = 0; i < c->len; i++) {
        if (!gs_streq(c->rows[i].name, name))
            continue;
        if (c->rows[i].every_ns != ms * 1000000)
            fail_msg("%s is read every %lld ns and not every %lld ms", name,
                     (long long)c->rows[i].every_ns, (long long)ms);
        return;
    }
    fail_msg("no row of %s", name);
}

// Patterns as Go's path.Match has them, over the names of the rows.
static void test_watch_groups_name_rows(void **state)
{
    static const struct {
        const char *pattern;
        bool temp, power, clock; // DCGM_FI_DEV_GPU_TEMP, …_POWER_USAGE, dcgm_sm_clock
    } rows[] = {
        {"DCGM_FI_DEV_GPU_TEMP", true, false, false},
        {"*", true, true, true},
        {"DCGM_*", true, true, false},
        {"*_*_*E*_*E*", true, true, false},
        {"*TEMP*", true, false, false},
        {"dcgm_sm_cloc?", false, false, true},
        {"dcgm_sm_clock?", false, false, false},
        {"DCGM_FI_DEV_[G-H]*", true, false, false},
        {"DCGM_FI_DEV_[^G-H]*", false, true, false},
        {"[Dd]*[KP]", true, false, false},
        {"\\D*", true, true, false},
        {"[\\D]*P", true, false, false},
        {"GPU_TEMP", false, false, false},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct exporter_counters c = {0};
        struct daemon_file f = {0};
        GS_AUTO_FREE char *yaml =
            gs_format("version: 1\ncollection:\n  watchGroups:\n"
                      "  - {name: g, interval: 20s, fields: ['%s', 'none']}\n",
                      rows[i].pattern);
        assert_ok(exporter_counters_parse(gs_slice_of("DCGM_FI_DEV_GPU_TEMP,gauge,a\n"
                                                      "DCGM_FI_DEV_POWER_USAGE,gauge,b\n"
                                                      "dcgm_sm_clock,gauge,c\n"
                                                      "DCGM_EXP_XID_ERRORS_COUNT,gauge,d\n"
                                                      "DCGM_EXP_GPU_HEALTH_STATUS,gauge,e\n"),
                                          &c));
        assert_ok(parse(yaml, &f));
        assert_ok(daemon_watch_groups_apply(&f.groups, 3000, &c));
        assert_every(&c, "DCGM_FI_DEV_GPU_TEMP", rows[i].temp ? 20000 : 3000);
        assert_every(&c, "DCGM_FI_DEV_POWER_USAGE", rows[i].power ? 20000 : 3000);
        assert_every(&c, "dcgm_sm_clock", rows[i].clock ? 20000 : 3000);
        daemon_file_finish(&f);
        exporter_counters_finish(&c);
    }
}

static void test_a_field_has_one_watch_group(void **state)
{
    struct exporter_counters c = {0};
    struct daemon_file f = {0};
    assert_ok(exporter_counters_parse(gs_slice_of("DCGM_FI_DEV_GPU_TEMP,gauge,a\n"
                                                  "DCGM_EXP_XID_ERRORS_COUNT,gauge,d\n"),
                                      &c));
    assert_ok(parse("version: 1\ncollection:\n  watchGroups:\n"
                    "  - {name: warm, interval: 500ms, fields: [DCGM_FI_DEV_GPU_*]}\n"
                    "  - {name: xid, interval: 10s, fields: [DCGM_FI_DEV_XID_ERRORS]}\n",
                    &f));
    assert_int_equal(daemon_watch_groups_shortest_ms(&f.groups), 500);
    assert_ok(daemon_watch_groups_apply(&f.groups, 1000, &c));
    assert_every(&c, "DCGM_FI_DEV_GPU_TEMP", 500);
    assert_every(&c, "DCGM_EXP_XID_ERRORS_COUNT", 10000); // by the field that it counts
    daemon_file_finish(&f);
    assert_ok(parse("version: 1\ncollection:\n  watchGroups:\n"
                    "  - {name: gpu, interval: 1m, fields: [DCGM_FI_DEV_GPU_*]}\n"
                    "  - {name: temp, interval: 2m, fields: [DCGM_FI_DEV_GPU_TEMP]}\n",
                    &f));
    struct gs_error *err = daemon_watch_groups_apply(&f.groups, 1000, &c);
    assert_error(err, GS_EINVAL,
                 "field DCGM_FI_DEV_GPU_TEMP matches multiple watch groups: gpu and temp");
    daemon_file_finish(&f);
    exporter_counters_finish(&c);
}

// A group of a name of dcgm-exporter 4.8 holds for the metric under its name of 4.9, and the
// reverse.
static void test_groups_hold_for_both_names_of_a_metric(void **state)
{
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
    struct daemon_file f;
    assert_ok(parse("version: 2\n"
                    "collections:\n"
                    "  - {name: a, every: 20s, metrics: {include: [DCGM_FI_DEV_FB_FREE]}}\n"
                    "  - {name: b, every: 30s, metrics: {include: ['DCGM_FI_DEV_*_CELSIUS']}}\n"
                    "  - {name: c, every: 40s, metrics: {include: [DCGM_FI_DEV_GPU_UTIL]}}\n",
                    &f));
    assert_ok(exporter_counters_parse(gs_slice_of("DCGM_FI_DEV_FB_FREE_BYTES,gauge,a\n"
                                                  "DCGM_FI_DEV_GPU_TEMP,gauge,b\n"
                                                  "DCGM_FI_DEV_POWER_USAGE,gauge,c\n"),
                                      &c));
    assert_ok(daemon_watch_groups_apply(&f.groups, 1000, &c));
    assert_every(&c, "DCGM_FI_DEV_FB_FREE_BYTES", 20000);
    assert_every(&c, "DCGM_FI_DEV_GPU_TEMP", 30000);
    assert_every(&c, "DCGM_FI_DEV_POWER_USAGE", 1000);
    daemon_file_finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_in_it),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_version_2),
        cmocka_unit_test(test_what_is_refused_in_version_2),
        cmocka_unit_test(test_groups_hold_for_both_names_of_a_metric),
        cmocka_unit_test(test_watch_groups_name_rows),
        cmocka_unit_test(test_a_field_has_one_watch_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
