// SPDX-License-Identifier: Apache-2.0
// --config-file of dcgm-exporter 4.6, and the look at files that may change.
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"
#include "cmd/exporter/changes.h"
#include "cmd/exporter/config_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct gs_error *parse(const char *text, struct exporter_file *ret)
{
    return exporter_file_parse(gs_slice_of(text), "c.yaml", ret);
}

static void what_is_in_it(void **state)
{
    struct exporter_file f;
    assert_ok(parse("version: 1\nmetrics:\n  file: /etc/dcgm-exporter/default-counters.csv\n"
                    "collection:\n  interval: 45s\n",
                    &f));
    assert_string_equal(f.counters_file, "/etc/dcgm-exporter/default-counters.csv");
    assert_int_equal(f.interval_ms, 45000);
    assert_int_equal(f.rows.len, 0);
    exporter_file_finish(&f);

    assert_ok(
        parse("version: 1\nmetrics:\n  fields:\n"
              "  - {name: ' DCGM_FI_DEV_GPU_TEMP ', prometheusType: gauge, help: 'Say \"C\", C.'}\n"
              "  - {name: DCGM_FI_DRIVER_VERSION, prometheusType: label, help: Driver.}\n",
              &f));
    assert_string_equal(f.rows.data, "\"DCGM_FI_DEV_GPU_TEMP\",\"gauge\",\"Say \"\"C\"\", C.\"\n"
                                     "\"DCGM_FI_DRIVER_VERSION\",\"label\",\"Driver.\"\n");
    assert_null(f.counters_file);
    assert_int_equal(f.interval_ms, 0);
    exporter_file_finish(&f);

    assert_ok(parse("version: 1\ncollection:\n  watchGroups:\n  - name: slow\n    interval: 10m\n"
                    "    fields: [DCGM_FI_DEV_NVLINK_PPCNT_*]\n",
                    &f));
    assert_int_equal(f.n_watch_groups, 1);
    exporter_file_finish(&f);
    assert_ok(parse("version: 1\n", &f));
    exporter_file_finish(&f);
}

static void what_is_refused(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"metrics:\n  file: /tmp/counters.csv\n", "version must be 1"},
        {"version: 2\n", "version must be 1"},
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
        {"version: 1\n---\nversion: 1\n", "multiple YAML documents"},
        {"", "nothing in it"},
        {"[]", "want a mapping"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct exporter_file f = {0};
        struct gs_error *err = parse(rows[i].text, &f);
        if (!err || !strstr(gs_error_message(err), rows[i].error))
            fail_msg("%s\ngives \"%s\" and not \"%s\"", rows[i].text,
                     err ? gs_error_message(err) : "no error", rows[i].error);
        gs_error_free(err);
    }
}

static void write_text(const char *path, const char *text)
{
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
}

static void files_that_change(void **state)
{
    char dir[] = "/tmp/gpuscale-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *a = gs_format("%s/a", dir), *b = gs_format("%s/b", dir);
    GS_AUTO_FREE char *link_path = gs_format("%s/link", dir);
    write_text(a, "1");
    struct changes c = {0};
    changes_add(&c, a);
    changes_add(&c, NULL);
    changes_add(&c, link_path); // not there yet
    assert_false(changes_look(&c));
    write_text(a, "2");
    assert_true(changes_look(&c));
    assert_false(changes_look(&c));
    assert_int_equal(symlink(a, link_path), 0);
    assert_true(changes_look(&c));
    // As a kubelet swaps the folder of a ConfigMap.
    write_text(b, "3");
    assert_int_equal(unlink(link_path), 0);
    assert_false(changes_look(&c)); // gone: what was read stays
    assert_int_equal(symlink(b, link_path), 0);
    assert_true(changes_look(&c));
    unlink(link_path), unlink(a), unlink(b), rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_it),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(files_that_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
