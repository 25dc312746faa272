// SPDX-License-Identifier: Apache-2.0
// Pods during which the process has ended. A guard that is freed between enter and leave is what a
// process leaves that ended there.
#include "local/kubelet/start_guard.h"

#include "base/file.h"
#include "local/kubelet_fixture.h"

static struct kubelet_guard *open_guard(const char *dir)
{
    struct kubelet_guard *g = NULL;
    assert_null(kubelet_guard_open(dir, &g));
    return g;
}

static void end_during(const char *dir, const char *uid)
{
    struct kubelet_guard *g = open_guard(dir);
    kubelet_guard_enter(g, uid, "default", "bomb");
    kubelet_guard_enter(g, "inner", "default", "other");
    kubelet_guard_leave(g);
    kubelet_guard_free(g);
}

static bool skips(const char *dir, const char *uid)
{
    struct kubelet_guard *g = open_guard(dir);
    bool result = kubelet_guard_skips(g, uid);
    kubelet_guard_free(g);
    return result;
}

static void test_a_pod_is_skipped_after_two_ends_in_a_row(void **state)
{
    struct fixture *f = *state;
    end_during(f->dir, "u1");
    assert_false(skips(f->dir, "u1"));
    end_during(f->dir, "u2"); // another one: the first begins again
    end_during(f->dir, "u1");
    assert_false(skips(f->dir, "u1"));
    end_during(f->dir, "u1");
    assert_true(skips(f->dir, "u1"));
    assert_true(skips(f->dir, "u1")); // at each start from now on
    assert_false(skips(f->dir, "u2"));
    assert_false(skips(f->dir, "inner"));

    struct kubelet_guard *g = open_guard(f->dir);
    kubelet_guard_forget(g, "u1");
    kubelet_guard_free(g);
    assert_false(skips(f->dir, "u1"));
}

static void test_a_pod_that_runs_is_not_suspected(void **state)
{
    struct fixture *f = *state;
    end_during(f->dir, "u1");
    struct kubelet_guard *g = open_guard(f->dir);
    kubelet_guard_enter(g, "u1", "default", "bomb");
    kubelet_guard_started(g, "u1");
    kubelet_guard_leave(g);
    kubelet_guard_free(g);
    end_during(f->dir, "u1");
    assert_false(skips(f->dir, "u1"));
}

static void test_damaged_files_skip_nothing(void **state)
{
    struct fixture *f = *state;
    static const char *const texts[] = {"", "{", "[]", "{\"skipped\":[\"u1\"]}", "{\"skipped\":3}"};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        GS_AUTO_FREE char *state_path = gs_format("%s/skipped-pods.json", f->dir);
        GS_AUTO_FREE char *progress = gs_format("%s/pod-in-progress", f->dir);
        assert_null(gs_file_write_atomic(state_path, 0600, gs_slice_of(texts[i])));
        assert_null(gs_file_write_atomic(progress, 0600, gs_slice_of("no-space-in-this-line")));
        assert_false(skips(f->dir, "u1"));
    }
}

static void test_the_kubelet_starts_without_the_pod_that_ended_it(void **state)
{
    struct fixture *f = *state;
    static const char sleeper[] = "'containers':[{'name':'c','image':'sleeper'}]";
    fixture_stop(f, 200);
    fixture_end_kubelet(f);
    create_pod(f, "bomb", "", sleeper);
    create_pod(f, "good", "", sleeper);
    AUTO_REPLY struct reply bomb = get_pod(f, "bomb");
    end_during(f->dir, kube_uid(bomb.body));
    end_during(f->dir, kube_uid(bomb.body));
    fixture_start_kubelet(f);
    await_pod(f, "bomb", "skipped", has_waiting_reason, KUBELET_SKIPPED_REASON);
    await_pod(f, "good", "running", has_phase, "Running");
    wait_event(f, KUBELET_SKIPPED_REASON, "delete the pod");
    delete_pod(f, "bomb", "");
    wait_pod_gone(f, "bomb");
    create_pod(f, "bomb", "", sleeper); // another pod
    await_pod(f, "bomb", "running", has_phase, "Running");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_pod_is_skipped_after_two_ends_in_a_row, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(test_a_pod_that_runs_is_not_suspected, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(test_damaged_files_skip_nothing, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(test_the_kubelet_starts_without_the_pod_that_ended_it,
                                        fixture_open, fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
