// SPDX-License-Identifier: Apache-2.0
// Pods that show parts of the program.
#include "local/kubelet_fixture.h"

#include "unit.h"

static json_t *static_pod(int port)
{
    return json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:[{s:s, s:s, s:[{s:i}]}]}}", "apiVersion", "v1",
                     "kind", "Pod", "metadata", "name", "part", "namespace", "default", "spec",
                     "containers", "name", "part", "image", "gpuscale", "ports", "containerPort",
                     port);
}

static bool is_another(const json_t *pod, const void *uid)
{
    return !gs_streq(kube_uid(pod), uid) && kube_condition_true(pod, "Ready");
}

// Neither a process nor an address of a pod is needed.
static void test_a_static_pod_is_a_part_of_the_program(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *path = gs_format("%s/part.log", f->dir);
    CODEC_AUTO_JSON json_t *definition = static_pod(1234);
    struct kubelet_log *log = NULL;
    assert_ok(kubelet_log_open(path, &log));
    kubelet_log_add(log, GS_SLICE("first line\nsecond line\n"));
    kubelet_log_close(log);
    kubelet_add_static_pod(f->kubelet, definition, path);
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, "part", "ready", is_ready, NULL);
    assert_string_equal(codec_json_str(pod, "status", "podIP", NULL), "127.0.0.1");
    assert_string_equal(codec_json_str(pod, "status", "phase", NULL), "Running");
    AUTO_REPLY struct reply r = get_log(f, "part", "?tailLines=1");
    assert_string_equal(r.text, "second line\n");
    AUTO_REPLY struct reply d =
        request(&f->h, "DELETE", "/api/v1/namespaces/default/pods/part", NULL);
    assert_status(d, 200);
    await_pod(f, "part", "there again", is_another, kube_uid(pod));
}

static bool has_port(const json_t *pod, const void *port)
{
    const json_t *container = json_array_get(codec_json_get(pod, "spec", "containers", NULL), 0);
    return codec_json_int(json_array_get(json_object_get(container, "ports"), 0), 0,
                          "containerPort", NULL) == *(const int *)port;
}

static bool is_missing(struct fixture *f, const char *name)
{
    AUTO_REPLY struct reply r = get_pod(f, name);
    return r.status == 404;
}

static void test_a_changed_static_pod_is_replaced_and_a_forgotten_one_deleted(void **state)
{
    struct fixture *f = *state;
    CODEC_AUTO_JSON json_t *before = static_pod(1), *after = static_pod(2);
    const int port = 2;
    kubelet_add_static_pod(f->kubelet, before, "/dev/null");
    await_pod(f, "part", "ready", is_ready, NULL);
    fixture_stop(f, 200);
    fixture_end_kubelet(f);
    fixture_start_kubelet(f);
    kubelet_add_static_pod(f->kubelet, after, "/dev/null");
    await_pod(f, "part", "replaced", has_port, &port);
    fixture_stop(f, 200);
    fixture_end_kubelet(f);
    fixture_start_kubelet(f);
    for (int64_t end = gs_mono_ns() + WAIT_NS; !is_missing(f, "part"); tick(f))
        assert_true(gs_mono_ns() < end);
}

static void test_a_pod_of_the_same_name_is_no_static_pod(void **state)
{
    struct fixture *f = *state;
    CODEC_AUTO_JSON json_t *definition = static_pod(1);
    create_pod(f, "part", "", "'containers':[{'name':'c','image':'sleeper'}]");
    await_pod(f, "part", "ready", is_ready, NULL);
    kubelet_add_static_pod(f->kubelet, definition, "/dev/null");
    for (int i = 0; i < 50; i++)
        tick(f);
    AUTO_REPLY struct reply r = get_log(f, "part", "");
    assert_string_equal(r.text, "mapped\n");
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)
    const struct CMUnitTest tests[] = {
        T(test_a_static_pod_is_a_part_of_the_program),
        T(test_a_changed_static_pod_is_replaced_and_a_forgotten_one_deleted),
        T(test_a_pod_of_the_same_name_is_no_static_pod),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
