// SPDX-License-Identifier: Apache-2.0
// Flags of Prometheus' unit files are accepted.
#include "base/mem.h"
#include "cmd/commands.h"
#include "engine/serve.h"
#include "unit.h"

#include <stdlib.h>

static struct gs_error *parse(int argc, char **argv, struct engine_flags *ret)
{
    struct gs_common_opts common;
    int left;
    return gs_options_parse(&cmd_engine, argc, argv, ret, &common, &left);
}

static const char *value_of(const struct http_header *list, const char *name)
{
    while (list->name && strcmp(list->name, name) != 0)
        list++;
    return list->name ? list->value : NULL;
}

static void test_unit_file(void **state)
{
    char *argv[] = {
        (char[]){"--config.file=/etc/prometheus/prometheus.yml"},
        (char[]){"--storage.tsdb.path=/prometheus"},
        (char[]){"--storage.tsdb.retention.time=15d"},
        (char[]){"--storage.tsdb.retention.size"},
        (char[]){"10GB"},
        (char[]){"--web.console.libraries=/usr/share/prometheus/console_libraries"},
        (char[]){"--web.console.templates=/usr/share/prometheus/consoles"},
        (char[]){"--web.enable-lifecycle"},
        (char[]){"--web.enable-admin-api"},
        (char[]){"--storage.tsdb.wal-compression"},
        (char[]){"--web.listen-address=:9090"},
        (char[]){"--web.listen-address=127.0.0.1:9091"},
        (char[]){"--enable-feature=exemplar-storage"},
        (char[]){"--enable-feature=memory-snapshot-on-shutdown"},
    };
    struct engine_flags f;
    assert_ok(parse((int)GS_ARRAY_LEN(argv), argv, &f));
    assert_string_equal(f.storage_path, "/prometheus");
    assert_true(f.retention_ns == INT64_C(15) * 86400 * 1000000000);
    assert_true(f.lifecycle);
    assert_int_equal(f.listen.len, 2);
    struct http_header *list = engine_flag_values(&f, cmd_engine.opts);
    assert_string_equal(value_of(list, "config.file"), "/etc/prometheus/prometheus.yml");
    assert_string_equal(value_of(list, "web.listen-address"), ":9090,127.0.0.1:9091");
    assert_string_equal(value_of(list, "web.enable-lifecycle"), "true");
    assert_string_equal(value_of(list, "query.lookback-delta"), "5m");
    assert_null(value_of(list, "web.console.templates"));
    engine_flag_values_free(list);
    gs_options_finish(&cmd_engine, &f);
}

// Each flag without effect has a place of its own.
static void test_ignored_places(void **state)
{
    for (const struct gs_opt *a = cmd_engine.opts; a->name; a++)
        for (const struct gs_opt *b = cmd_engine.opts; b < a; b++) {
            if (a->offset == b->offset)
                fail_msg("--%s and --%s", a->name, b->name);
        }
}

static void test_sizes(void **state)
{
    static const char *const wrong[] = {"", "MB", "5", "5mb", "-1MB", "0B", "9EEB", "9000EB"};
    size_t n;
    assert_ok(engine_parse_size("512MB", &n));
    assert_int_equal(n, 512u * 1024 * 1024);
    assert_ok(engine_parse_size("1.5KB", &n));
    assert_int_equal(n, 1536);
    assert_ok(engine_parse_size("7B", &n));
    assert_int_equal(n, 7);
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++)
        assert_error(engine_parse_size(wrong[i], &n), GS_EINVAL, "is not a size such as 512MB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unit_file),
        cmocka_unit_test(test_ignored_places),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
