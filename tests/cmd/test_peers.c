// SPDX-License-Identifier: Apache-2.0
// The names and arguments of the programs that gpuscale replaces.
#include "cmd/commands.h"
#include "engine/serve.h"
#include "query/query.h"
#include "unit.h"

#define PEER_OF(...)                                                                               \
    peer_of((const char *const[]){__VA_ARGS__},                                                    \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

// The command that the flags of a manifest select, or "none".
static const char *peer_of(const char *const *args, size_t n)
{
    char *argv[16];
    for (size_t i = 0; i < n; i++)
        argv[i] = (char *)(uintptr_t)args[i];
    const struct cmd_peer *peer = cmd_peer_of_flags((int)n, argv);
    return peer ? peer->command->name : "none";
}

static void test_names_of_peers(void **state)
{
    assert_ptr_equal(cmd_find_peer("/adapter")->command, &cmd_adapter);
    assert_ptr_equal(cmd_find_peer("prometheus-adapter")->command, &cmd_adapter);
    assert_ptr_equal(cmd_find_peer("/usr/bin/dcgm-exporter")->command, &cmd_exporter);
    assert_ptr_equal(cmd_find_peer("/bin/prometheus")->command, &cmd_engine);
    assert_ptr_equal(cmd_find_peer("promtool")->command, &cmd_promtool);
    assert_null(cmd_find_peer("gpuscale"));
    assert_null(cmd_find_peer("/usr/bin/gpuscale"));
    assert_null(cmd_find_peer(""));
    assert_null(cmd_find_peer("/"));
}

// The `args` of charts and operators, which set no command.
static void test_arguments_without_a_command(void **state)
{
    assert_string_equal(PEER_OF("-f", "/etc/dcgm-exporter/dcp-metrics-included.csv"), "exporter");
    assert_string_equal(PEER_OF("-a", ":9400", "-k", "--no-hostname"), "exporter");
    assert_string_equal(PEER_OF("--secure-port=6443", "--cert-dir=/tmp/cert", "--logtostderr=true",
                                "--prometheus-url=http://prometheus:9090",
                                "--metrics-relist-interval=1m", "--v=4",
                                "--config=/etc/adapter/config.yaml"),
                        "adapter");
    assert_string_equal(PEER_OF("--config.file=/etc/prometheus/config_out/prometheus.env.yaml",
                                "--web.console.templates=/etc/prometheus/consoles",
                                "--storage.tsdb.path=/prometheus", "--web.enable-lifecycle",
                                "--no-storage.tsdb.wal-compression"),
                        "engine");
    // A flag that does not exist is an error of the command that has the other flags.
    assert_string_equal(PEER_OF("--secure-port=6443", "--flag-of-next-year"), "adapter");
    assert_string_equal(PEER_OF("--log-level=debug"), "none");
    assert_string_equal(PEER_OF("--foo"), "none");
    assert_string_equal(PEER_OF("--", "--secure-port=6443"), "none");
}

static void test_prometheus_keeps_its_defaults(void **state)
{
    char *argv[8];
    int n = 0, left;
    for (const char *const *flag = cmd_find_peer("prometheus")->defaults; *flag; flag++)
        argv[n++] = (char *)(uintptr_t)*flag;
    argv[n++] = (char[]){"--storage.tsdb.retention.time=1d"};
    argv[n++] = (char[]){"--no-web.enable-lifecycle"};
    struct engine_flags f;
    struct gs_common_opts common;
    assert_ok(gs_options_parse(&cmd_engine, n, argv, &f, &common, &left));
    assert_string_equal(f.storage_path, "data");
    assert_true(f.retention_ns == INT64_C(86400) * 1000000000);
    assert_false(f.lifecycle);
    gs_options_finish(&cmd_engine, &f);
    argv[0] = (char[]){"--no-config.file"}; // not a boolean
    assert_error(gs_options_parse(&cmd_engine, 1, argv, &f, &common, &left), GS_EINVAL,
                 "unknown flag --no-config.file");
    gs_options_finish(&cmd_engine, &f);
}

// Runs promtool; returns its exit code. Its error must contain the text; NULL: none.
static int promtool(int argc, const char *const *args, const char *text)
{
    char *argv[8], opts[1024];
    int left = 0, code = 0;
    for (int i = 0; i < argc; i++)
        argv[i] = (char *)(uintptr_t)args[i];
    assert_true(cmd_promtool.opts_size <= sizeof(opts));
    struct gs_common_opts common;
    assert_ok(gs_options_parse(&cmd_promtool, argc, argv, opts, &common, &left));
    struct gs_error *err = cmd_promtool.run(opts, left, argv, &code);
    gs_options_finish(&cmd_promtool, opts);
    if (text)
        assert_error(err, GS_EINVAL, text);
    else
        assert_ok(err);
    return code;
}

static void test_promtool_has_its_commands(void **state)
{
    const char *rules = "tests/engine/rules/none.yml";
    assert_int_equal(promtool(3, (const char *const[]){"check", "rules", rules}, NULL), 1);
    (void)promtool(2, (const char *const[]){"check", "config"},
                   "usage: promtool check config FILE");
    (void)promtool(3, (const char *const[]){"query", "instant", "http://localhost:9090"},
                   "usage: promtool query instant SERVER EXPR");
    (void)promtool(3, (const char *const[]){"tsdb", "analyze", "data"},
                   "promtool tsdb analyze does not exist in gpuscale");
    (void)promtool(3, (const char *const[]){"promql", "format", "sum("}, "sum(");
}

static void test_sleep_reads_times(void **state)
{
    char *argv[] = {(char[]){"0.001"}, (char[]){"0.001s"}, (char[]){"0m"}};
    int code = 0;
    assert_ok(cmd_sleep.run(NULL, 3, argv, &code));
    static const char *const wrong[] = {"", "s", "x", "-1", "5y", "nan", "5ss"};
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        argv[0] = (char *)(uintptr_t)wrong[i];
        assert_error(cmd_sleep.run(NULL, 1, argv, &code), GS_EINVAL, "is not a time");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_peers),
        cmocka_unit_test(test_arguments_without_a_command),
        cmocka_unit_test(test_prometheus_keeps_its_defaults),
        cmocka_unit_test(test_promtool_has_its_commands),
        cmocka_unit_test(test_sleep_reads_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
