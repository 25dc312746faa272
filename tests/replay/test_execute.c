// SPDX-License-Identifier: Apache-2.0
// The output of gpuscale replay: one scenario, a comparison, a sweep, and a scenario from the
// responses of a simulated Prometheus.
#include "base/file.h"
#include "base/mem.h"
#include "net/http/server.h"
#include "replay/replay.h"
#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCENARIO                                                                                   \
    "name: steady\n"                                                                               \
    "hpa: {apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {minReplicas: 1, "     \
    "maxReplicas: 10, metrics: [{type: Pods, pods: {metric: {name: util}, target: {type: "         \
    "AverageValue, averageValue: 50}}}]}}\n"                                                       \
    "duration: 10m\n"                                                                              \
    "replicas: 1\n"                                                                                \
    "workload: {capacity: 10, startup: 5s, load: [[0s, 20]]}\n"                                    \
    "metrics: {util: utilization}\n"

#define HPA                                                                                        \
    "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\n"           \
    "spec:\n"                                                                                      \
    "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n"                       \
    "  minReplicas: 1\n  maxReplicas: 10\n"                                                        \
    "  metrics: [{type: Pods, pods: {metric: {name: util}, target: {type: AverageValue, "          \
    "averageValue: 50}}}]\n"

struct fixture {
    char path[64], other[64];
    struct gs_buf out;
};

static void write_new_file(char *path, const char *text)
{
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
}

static int set_up(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    strcpy(f->path, "/tmp/gpuscale-execute-XXXXXX");
    strcpy(f->other, "/tmp/gpuscale-execute-XXXXXX");
    write_new_file(f->path, SCENARIO);
    write_new_file(f->other, HPA);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    unlink(f->path);
    unlink(f->other);
    gs_buf_finish(&f->out);
    free(f);
    return 0;
}

static void assert_prints(struct fixture *f, const char *part)
{
    gs_buf_add(&f->out, "", 1);
    if (!strstr(f->out.data, part))
        fail_msg("no \"%s\" in:\n%s", part, f->out.data);
}

static void assert_refused(struct gs_error *err, const char *part)
{
    assert_non_null(err);
    if (!strstr(gs_error_message(err), part))
        fail_msg("no \"%s\" in: %s", part, gs_error_message(err));
    gs_error_free(err);
}

static struct gs_opt_list list_of(const char **items, size_t n)
{
    return (struct gs_opt_list){.items = items, .len = n};
}

static void test_one_scenario(void **state)
{
    struct fixture *f = *state;
    const struct replay_options o = {.output = "csv"};
    assert_ok(replay_execute(&o, f->path, &f->out));
    assert_prints(f, "\n0,");
}

static void test_a_changed_value(void **state)
{
    struct fixture *f = *state;
    const char *settings[] = {"max=2"};
    const struct replay_options o = {.output = "json", .set = list_of(settings, 1)};
    assert_ok(replay_execute(&o, f->path, &f->out));
    assert_prints(f, "\"maxReplicas\": 2");
}

static void test_a_comparison(void **state)
{
    struct fixture *f = *state;
    const char *others[] = {f->path};
    struct replay_options o = {.output = "table", .compare = list_of(others, 1)};
    assert_ok(replay_execute(&o, f->path, &f->out));
    assert_prints(f, "GPU hours");
    o.output = "csv";
    assert_refused(replay_execute(&o, f->path, &f->out), "--compare has no csv");
}

// On all processors: each column belongs to its value.
static void test_a_sweep(void **state)
{
    struct fixture *f = *state;
    const char *sweeps[] = {"max=1..4"};
    struct replay_options o = {.output = "table", .sweep = list_of(sweeps, 1)};
    assert_ok(replay_execute(&o, f->path, &f->out));
    assert_prints(f, "max=1");
    assert_prints(f, "max=4");
    sweeps[0] = "max";
    assert_refused(replay_execute(&o, f->path, &f->out), "write NAME=FROM..TO:STEP");
    sweeps[0] = "max=5..1";
    assert_refused(replay_execute(&o, f->path, &f->out), "want FROM..TO:STEP");
}

static void test_wrong_options(void **state)
{
    struct fixture *f = *state;
    struct replay_options o = {.output = "xml"};
    assert_refused(replay_execute(&o, f->path, &f->out), "want table, csv, json or svg");
    o.output = "table";
    assert_refused(replay_execute(&o, NULL, &f->out), "replay needs a SCENARIO");
    o.recording.from = "http://127.0.0.1:1";
    assert_refused(replay_execute(&o, f->path, &f->out), "replay needs a SCENARIO");
    assert_refused(replay_execute(&o, NULL, &f->out), "a recording needs --hpa");
}

// --- a recording ---

static void answer_range_query(void *arg, struct http_exchange *x)
{
    static const char body[] =
        "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":{},"
        "\"values\":[[1000,\"100\"],[1060,\"100\"],[1120,\"100\"]]}]}}";
    (void)arg;
    http_reply(x, 200, "application/json", gs_slice_of(body));
}

// A process of its own, because the query blocks. Returns its port.
static uint16_t start_prometheus(pid_t *ret_pid)
{
    int fds[2];
    uint16_t port = 0;
    assert_int_equal(pipe(fds), 0);
    *ret_pid = fork();
    if (*ret_pid == 0) {
        uv_loop_t loop;
        struct http_server *server;
        const struct http_server_config cfg = {.address = "127.0.0.1"};
        uv_loop_init(&loop);
        if (http_server_start(&loop, &cfg, answer_range_query, NULL, &server))
            _exit(1);
        port = http_server_port(server);
        if (write(fds[1], &port, sizeof(port)) != sizeof(port))
            _exit(1);
        uv_run(&loop, UV_RUN_DEFAULT);
        _exit(0);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &port, sizeof(port)), sizeof(port));
    close(fds[0]);
    return port;
}

static void test_a_recording(void **state)
{
    struct fixture *f = *state;
    pid_t pid;
    GS_AUTO_FREE char *url = gs_format("http://127.0.0.1:%u", start_prometheus(&pid));
    const char *queries[] = {"avg(util)", "max(util)"};
    struct replay_options o = {.output = "csv",
                               .recording = {.hpa = f->other,
                                             .from = url,
                                             .queries = list_of(queries, 1),
                                             .end = "1120",
                                             .range_ns = INT64_C(120000000000),
                                             .step_ns = INT64_C(60000000000)}};
    struct gs_error *err = replay_execute(&o, NULL, &f->out);
    o.recording.queries.len = 2;
    struct gs_error *too_many = replay_execute(&o, NULL, &f->out);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_ok(err);
    assert_refused(too_many, "the autoscaler has 1 metric, but 2 --query are given");
    // 100 of a target of 50: one replica becomes two.
    assert_prints(f, ",2,");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_scenario, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_changed_value, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_comparison, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_sweep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_options, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_recording, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
