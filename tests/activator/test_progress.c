// SPDX-License-Identifier: Apache-2.0
// How long requests wait for a starting pod beyond their limit. Times are seconds after BASE.
#include "activator/activator_private.h"
#include "base/clock.h"
#include "unit.h"

#define BASE INT64_C(1800000000)
#define HOUR (INT64_C(3600) * 1000)

static json_t *time_at(int64_t s)
{
    char text[GS_RFC3339_SIZE];
    return json_string(gs_format_rfc3339((BASE + s) * 1000, text));
}

// Created at 0. started: its container runs; ready: it is ready; 0: not yet.
static json_t *make_pod(const char *name, int64_t started, int64_t ready)
{
    json_t *pod =
        json_pack("{s:s, s:{s:s, s:s, s:s, s:o, s:{s:s}, s:[{s:s, s:s, s:b}]}, s:{s:[{s:s, s:s}]}, "
                  "s:{s:[{s:s, s:s, s:o}], s:[{s:s, s:i, s:{}}]}}",
                  "kind", "Pod", "metadata", "name", name, "namespace", "ml", "uid", name,
                  "creationTimestamp", time_at(0), "labels", "pod-template-hash", "abc",
                  "ownerReferences", "kind", "ReplicaSet", "name", "api-abc", "controller", 1,
                  "spec", "containers", "name", "c", "image", "vllm:1", "status", "conditions",
                  "type", "PodScheduled", "status", "True", "lastTransitionTime", time_at(1),
                  "containerStatuses", "name", "c", "restartCount", 0, "state");
    json_t *status = json_object_get(pod, "status");
    assert_non_null(pod);
    if (started)
        codec_json_set(json_array_get(json_object_get(status, "containerStatuses"), 0),
                       time_at(started), "state", "running", "startedAt", NULL);
    if (ready)
        json_array_append_new(json_object_get(status, "conditions"),
                              json_pack("{s:s, s:s, s:o}", "type", "Ready", "status", "True",
                                        "lastTransitionTime", time_at(ready)));
    return pod;
}

// As the readings of pods while requests wait, and one after that.
static void observe_start(struct startup_learner *l, const char *name, int64_t load_s)
{
    CODEC_AUTO_JSON json_t *pending = make_pod(name, 0, 0), *ready = make_pod(name, 3, 3 + load_s);
    startup_observe_pod(l, pending, NULL, (BASE + 1) * 1000);
    startup_observe_pod(l, ready, NULL, (BASE + 3 + load_s) * 1000);
}

static void test_patience_is_learned_from_starts(void **state)
{
    (void)state;
    struct startup_learner *l = startup_learner_new();
    CODEC_AUTO_JSON json_t *pulls = make_pod("new", 0, 0), *loads = make_pod("new", 500, 0);
    observe_start(l, "a", 40);
    observe_start(l, "b", 60);
    assert_int_equal(activator_progress_patience_ms(l, loads), HOUR); // two are too few
    observe_start(l, "c", 50);
    // Its container runs since 500 s, and loads for at most twice as long as the slowest.
    assert_int_equal(activator_progress_patience_ms(l, loads), (500 + 2 * 60) * 1000);
    assert_int_equal(activator_progress_patience_ms(l, pulls), HOUR);
    startup_learner_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patience_is_learned_from_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
