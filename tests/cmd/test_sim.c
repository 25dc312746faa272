// SPDX-License-Identifier: Apache-2.0
// Command lines of gpuscale sim.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

#include <jansson.h>
#include <stdio.h>
#include <sys/wait.h>

static char dir[] = "/tmp/gpuscale-sim-test-XXXXXX";
static char sim_name[64];

// Runs "gpuscale sim …" on this test's set; returns the exit code, the output of both streams in
// out.
static int sim(struct gs_buf *out, const char *arguments)
{
    const char *root = getenv("GPUSCALE_BUILD_ROOT");
    GS_AUTO_FREE char *line = gs_format("'%s/src/cmd/gpuscale' sim --name=%s %s 2>&1",
                                        root ? root : "build", sim_name, arguments);
    gs_buf_clear(out);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    char piece[4096];
    for (size_t n; (n = fread(piece, 1, sizeof(piece), f)) > 0;)
        gs_buf_add(out, piece, n);
    int status = pclose(f);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void gives(int code, const char *arguments, const char *part)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    int got = sim(&out, arguments);
    const char *text = out.data ? out.data : "";
    if (got != code || !strstr(text, part))
        fail_msg("sim %s: wanted exit %d and \"%s\", got %d: %s", arguments, code, part, got, text);
}

static json_t *status_json(void)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    assert_int_equal(sim(&out, "status -o json"), 0);
    json_t *j = json_loadb(out.data, out.len, 0, NULL);
    assert_non_null(j);
    return j;
}

static json_t *gpu(json_t *status, size_t i)
{
    return json_array_get(json_object_get(status, "gpus"), i);
}

static void test_life_of_a_set(void **state)
{
    gives(1, "status", "create them with \"gpuscale sim create");
    gives(0, "create 2xTesla-T4", "SIMULATED");
    gives(0, "list", sim_name);
    gives(0, "status", "Tesla-T4");
    json_t *j = status_json();
    assert_true(json_is_true(json_object_get(j, "simulated")));
    assert_int_equal(json_array_size(json_object_get(j, "gpus")), 2);
    assert_int_equal(json_integer_value(json_object_get(gpu(j, 0), "memoryUsedBytes")), 0);
    json_decref(j);
    gives(0, "load --gpu=1 --util=80 --for=300ms --memory=2GiB", "of kernels on simulated GPU 1");
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    gives(0, "load --for=100ms", "of kernels on simulated GPU 1");
    gives(0, "load --gpu=0 --for=100ms", "of kernels on simulated GPU 0");
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    gives(1, "load --for=1ms", "CUDA_VISIBLE_DEVICES= selects 0");
    unsetenv("CUDA_VISIBLE_DEVICES");
    gives(1, "load --memory=99Gi --for=1ms", "out of memory");
    gives(0, "lose 1", "");
    gives(0, "status", "lost, last XID 79");
    gives(1, "load --gpu=1 --for=1ms", "is lost");
    gives(0, "restore 1", "");
    gives(0, "xid 0 31", "");
    j = status_json();
    assert_int_equal(json_integer_value(json_object_get(gpu(j, 0), "lastXid")), 31);
    assert_true(json_is_false(json_object_get(gpu(j, 1), "lost")));
    json_decref(j);
    gives(0, "fail nvmlDeviceGetName --gpu=0 --code=UNKNOWN --count=3", "");
    gives(0, "hang '*' --for=1ms", "");
    gives(0, "clear", "");
    gives(0, "delete", "");
    gives(1, "delete", "do not exist");
}

static void test_wrong_use(void **state)
{
    gives(0, "create L4", "SIMULATED");
    gives(2, "statos", "did you mean \"sim status\"");
    gives(2, "create", "usage: gpuscale sim create SPEC");
    gives(2, "load 0 50", "unexpected argument \"0\"; usage: gpuscale sim load [--gpu=N] [--util=");
    gives(2, "create 2xTesla-T5", "did you mean Tesla-T4");
    gives(2, "lose 1", "has no GPU 1");
    gives(2, "lose x", "number of a GPU");
    gives(2, "load --gpu=3", "has no GPU 3");
    gives(2, "load --util=101", "0 to 100");
    gives(2, "load --sm-share=0", "--sm-share");
    gives(2, "load --memory=2GiX", "--memory");
    gives(2, "fail nvmlDeviceGetName", "--code");
    gives(2, "fail nvmlDeviceGetNam --code=3", "did you mean nvmlDeviceGetName");
    gives(2, "fail nvmlDeviceGetName --code=NOPE", "not an NVML error");
    gives(2, "hang nvmlDeviceGetName", "--for");
    gives(2, "xid 0 5000", "not an XID");
    gives(2, "status -o xml", "table, json or yaml");
    gives(0, "delete", "");
}

static void file_gives(int code, const char *text, const char *part)
{
    GS_AUTO_FREE char *path = gs_format("%s/gpus.yaml", dir);
    GS_AUTO_FREE char *arguments = gs_format("create %s", path);
    struct gs_error *err = gs_file_write_atomic(path, 0600, gs_slice_of(text));
    assert_null(err);
    gives(code, arguments, part);
    assert_int_equal(unlink(path), 0);
}

// One period of a load is 100 ms.
static void test_a_load_can_take_milliseconds(void **state)
{
    (void)state;
    gives(0, "create 1xTesla-T4", "Tesla-T4");
    gives(0, "load --for=20ms", "ran 20 ms of kernels on simulated GPU 0");
    gives(0, "load --for=120ms --util=50", "ran 60 ms of kernels");
    gives(0, "delete", "");
}

static void test_a_yaml_file(void **state)
{
    file_gives(0,
               "# three\n"
               "gpus:\n"
               "- model: a100-sxm4-80gb\n"
               "  count: 2\n"
               "  mig: [1g.10gb, 3g.40gb]\n"
               "- model: Odd-GPU\n"
               "  memory: 24Gi\n"
               "  timeSlicing:\n"
               "    replicas: 4\n"
               "    renameByDefault: true\n"
               "    failRequestsGreaterThanOne: true\n",
               "4 time slices");
    json_t *j = status_json();
    assert_int_equal(json_array_size(json_object_get(j, "gpus")), 3);
    assert_int_equal(json_array_size(json_object_get(gpu(j, 1), "mig")), 2);
    assert_int_equal(json_integer_value(json_object_get(gpu(j, 2), "memoryTotalBytes")),
                     24LL << 30);
    assert_int_equal(json_integer_value(json_object_get(gpu(j, 2), "timeSlices")), 4);
    json_decref(j);
    gives(0, "load --gpu=0 --for=10ms", "of kernels"); // on its first instance
    gives(0, "delete", "");
}

static void test_errors_of_a_yaml_file_name_the_line(void **state)
{
    file_gives(2, "gpus:\n- model: L4\n  cuont: 2\n", "gpus.yaml:3: unknown field \"cuont\"");
    file_gives(2, "gpus:\n- model: L4\n- model: T5\n", "gpus.yaml:3: unknown GPU model \"T5\"");
    file_gives(2, "gpus:\n- count: 2\n", "gpus.yaml:2: a GPU needs a model");
    file_gives(2, "gpus:\n- model: L4\n  count: many\n", "gpus.yaml:3: count: want a number");
    file_gives(2, "gpus:\n- model: L4\n  memory: 24Gx\n", "gpus.yaml:3: memory: ");
    file_gives(2, "gpus:\n- model: L4\n  memory: 1Mi\n", "too small");
    file_gives(2, "gpus:\n- model: A30\n\n  mig:\n  - 2g.12gb\n  - 4g.24gb\n",
               "gpus.yaml:5: the MIG");
    file_gives(2, "gpus:\n- model: L4\n  timeSlicing:\n    replica: 2\n",
               "gpus.yaml:4: unknown field");
    file_gives(2, "gpus:\n- model: L4\n  timeSlicing:\n    renameByDefault: 1\n",
               "gpus.yaml:4: renameByDefault: want true or false");
    file_gives(2, "gpus:\n- model: L4\n  count: 16\n- model: L4\n", "gpus.yaml:4: 17 GPUs");
    file_gives(2, "gpus: [ {", "gpus.yaml:2:1: ");
    file_gives(2, "gpus: 3\n", "want one document with a list \"gpus:\"");
    file_gives(2, "---\ngpus: []\n---\ngpus: []\n", "want one document with a list \"gpus:\"");
    file_gives(2, "gpus:\n- [1]\n", "gpus.yaml:2: a GPU: want model: NAME");
    gives(1, "create /nonexistent/gpus.yaml", "No such file");
}

static int set_up(void **state)
{
    snprintf(sim_name, sizeof(sim_name), "/gpuscale-test-cmd-%d", (int)getpid());
    return mkdtemp(dir) ? 0 : 1;
}

static int tear_down(void **state)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    sim(&out, "delete"); // what a failed test left
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life_of_a_set),
        cmocka_unit_test(test_wrong_use),
        cmocka_unit_test(test_a_load_can_take_milliseconds),
        cmocka_unit_test(test_a_yaml_file),
        cmocka_unit_test(test_errors_of_a_yaml_file_name_the_line),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
