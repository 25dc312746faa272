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

static struct gs_error *promtool(int argc, const char *const *args, int *ret_exit)
{
    char *argv[8], opts[1024];
    int left = 0;
    for (int i = 0; i < argc; i++)
        argv[i] = (char *)(uintptr_t)args[i];
    assert_true(cmd_promtool.opts_size <= sizeof(opts));
    struct gs_common_opts common;
    assert_ok(gs_options_parse(&cmd_promtool, argc, argv, opts, &common, &left));
    struct gs_error *err = cmd_promtool.run(opts, left, argv, ret_exit);
    gs_options_finish(&cmd_promtool, opts);
    return err;
}

static void test_promtool_has_its_commands(void **state)
{
    static const struct {
        int argc;
        const char *args[3];
        enum gs_code code;
        const char *error;
    } wrong[] = {
        {2, {"check", "config"}, GS_EINVAL, "usage: promtool check config FILE"},
        {3,
         {"query", "instant", "http://localhost:9090"},
         GS_EINVAL,
         "usage: promtool query instant SERVER EXPR"},
        {3,
         {"tsdb", "analyze", "data"},
         GS_ENOTSUP,
         "promtool tsdb analyze does not exist in gpuscale: the engine has no blocks"},
        {2, {"tsdb", "unknown"}, GS_EINVAL, "promtool tsdb unknown does not exist in gpuscale"},
        {3, {"promql", "format", "sum("}, GS_EINVAL, "sum("},
    };
    int code = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++)
        assert_error(promtool(wrong[i].argc, wrong[i].args, &code), wrong[i].code, wrong[i].error);
    assert_ok(
        promtool(3, (const char *const[]){"check", "rules", "tests/engine/rules/none.yml"}, &code));
    assert_int_equal(code, 1);
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
