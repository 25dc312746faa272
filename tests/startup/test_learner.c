// SPDX-License-Identifier: Apache-2.0
// Starts of pods as watch caches report them: changes of a pod, events in any order, and the first
// signal of an engine. Times of the tests are seconds after BASE.
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "startup/startup.h"

#define BASE INT64_C(1800000000)

static json_t *time_at(int64_t s)
{
    char text[GS_RFC3339_SIZE];
    return json_string(gs_format_rfc3339((BASE + s) * 1000, text));
}

static int64_t ms(int64_t s)
{
    return (BASE + s) * 1000;
}

// Times after the creation; 0: not yet.
struct pod {
    const char *name, *image, *digest;
    int64_t created, unschedulable, scheduled, started, ready;
    const char *waiting; // reason of the container
    bool restarted, deleting;
};

static void add_condition(json_t *conditions, const char *type, const char *status,
                          const char *reason, int64_t at)
{
    json_t *c = json_pack("{s:s, s:s}", "type", type, "status", status);
    codec_json_set_str(c, "reason", reason);
    json_object_set_new(c, "lastTransitionTime", time_at(at));
    json_array_append_new(conditions, c);
}

static json_t *statuses_of(const struct pod *p)
{
    json_t *state = json_object();
    if (p->waiting)
        codec_json_set(state, json_string(p->waiting), "waiting", "reason", NULL);
    else if (p->started)
        codec_json_set(state, time_at(p->started), "running", "startedAt", NULL);
    json_t *s = json_pack("{s:s, s:i, s:o}", "name", "c", "restartCount", p->restarted ? 1 : 0,
                          "state", state);
    codec_json_set_str(s, "imageID", p->digest);
    return json_pack("[o]", s);
}

static json_t *pod_object(const struct pod *p)
{
    json_t *conditions = json_array();
    json_t *pod = json_pack(
        "{s:s, s:{s:s, s:s, s:s, s:o, s:{s:s}, s:[{s:s, s:s, s:b}]}, s:{s:[{s:s, s:s}]}, s:{}}",
        "kind", "Pod", "metadata", "name", p->name, "namespace", "ml", "uid", p->name,
        "creationTimestamp", time_at(p->created), "labels", "pod-template-hash", "abc",
        "ownerReferences", "kind", "ReplicaSet", "name", "api-abc", "controller", 1, "spec",
        "containers", "name", "c", "image", p->image ? p->image : "vllm:1", "status");
    if (p->scheduled)
        add_condition(conditions, "PodScheduled", "True", NULL, p->scheduled);
    else if (p->unschedulable)
        add_condition(conditions, "PodScheduled", "False", "Unschedulable", p->unschedulable);
    if (p->ready)
        add_condition(conditions, "Ready", "True", NULL, p->ready);
    if (p->deleting)
        codec_json_set(pod, time_at(0), "metadata", "deletionTimestamp", NULL);
    codec_json_set(pod, conditions, "status", "conditions", NULL);
    codec_json_set(pod, statuses_of(p), "status", "containerStatuses", NULL);
    assert_non_null(pod);
    return pod;
}

static json_t *node_object(const char *gpu, int64_t created)
{
    json_t *n = json_pack("{s:{s:s, s:o, s:{}}}", "metadata", "name", "n", "creationTimestamp",
                          time_at(created), "labels");
    codec_json_set(n, json_string(gpu), "metadata", "labels", "nvidia.com/gpu.product", NULL);
    return n;
}

static void observe(struct startup_learner *l, const struct pod *p, int64_t now)
{
    CODEC_AUTO_JSON json_t *pod = pod_object(p);
    startup_observe_pod(l, pod, NULL, ms(now));
}

static void event(struct startup_learner *l, const char *pod, const char *reason,
                  const char *message, int64_t at)
{
    CODEC_AUTO_JSON json_t *e =
        json_pack("{s:{s:s, s:s, s:s, s:s}, s:s, s:s, s:o}", "involvedObject", "kind", "Pod",
                  "namespace", "ml", "name", pod, "uid", pod, "reason", reason, "message", message,
                  "lastTimestamp", time_at(at));
    startup_observe_event(l, e, ms(at));
}

// A start in two observations: it is bound, and it is ready after `load` seconds.
static void start(struct startup_learner *l, const char *name, int64_t created, int64_t load)
{
    struct pod p = {.name = name, .created = created, .scheduled = created + 1};
    observe(l, &p, created + 1);
    p.started = created + 2;
    p.ready = created + 2 + load;
    observe(l, &p, p.ready);
}

static struct startup_expected expected(const struct startup_learner *l, const char *workload)
{
    struct startup_expected e;
    startup_expected_of_workload(l, "ml", workload, &e);
    return e;
}

static enum startup_state state_of(const struct startup_learner *l, const struct pod *p,
                                   int64_t now)
{
    CODEC_AUTO_JSON json_t *pod = pod_object(p);
    struct startup_progress progress;
    startup_progress_of(l, pod, ms(now), &progress);
    return progress.state;
}

static bool start_of(const struct startup_learner *l, const struct pod *p,
                     struct startup_start *ret)
{
    CODEC_AUTO_JSON json_t *pod = pod_object(p);
    return startup_start_of(l, pod, ret);
}

static void test_phases_of_a_start_with_a_new_node_and_a_pull(void **state)
{
    struct startup_learner *l = startup_learner_new();
    struct pod p = {.name = "a", .unschedulable = 1};
    observe(l, &p, 1);
    event(l, "a", "TriggeredScaleUp", "pod triggered scale-up: [{pool 0->1 (max: 4)}]", 11);
    p.scheduled = 91;
    observe(l, &p, 91);
    event(l, "a", "Pulling", "Pulling image \"vllm:1\"", 92);
    event(l, "a", "Pulled",
          "Successfully pulled image \"vllm:1\" in 40.5s (40.5s including waiting). Image size: 1 "
          "bytes.",
          133);
    p.started = 134;
    p.ready = 200;
    observe(l, &p, 200);
    struct startup_expected e = expected(l, "deployment/api");
    assert_int_equal(e.basis, STARTUP_BASIS_SAME);
    assert_int_equal(e.total.n, 1);
    assert_int_equal(e.total.p90_ms, 200000);
    assert_int_equal(e.phases[STARTUP_PENDING].p90_ms, 11000);
    assert_int_equal(e.phases[STARTUP_NODE].p90_ms, 80000);
    assert_int_equal(e.phases[STARTUP_PULL].p90_ms, 40500);
    assert_int_equal(e.phases[STARTUP_CONTAINER].p90_ms, 2500);
    assert_int_equal(e.phases[STARTUP_LOAD].p90_ms, 66000);
    startup_learner_free(l);
}

static void test_events_may_come_before_the_pod_and_after_it_is_ready(void **state)
{
    struct startup_learner *l = startup_learner_new();
    event(l, "a", "TriggeredScaleUp", "pod triggered scale-up", 5);
    struct pod p = {.name = "a", .scheduled = 65, .started = 80, .ready = 90};
    observe(l, &p, 90);
    event(l, "a", "Pulled", "Successfully pulled image \"vllm:1\" in 10s", 76);
    event(l, "a", "Pulled", "Successfully pulled image \"vllm:1\" in 10s", 76); // relisted
    struct startup_expected e = expected(l, "deployment/api");
    assert_int_equal(e.phases[STARTUP_NODE].p90_ms, 60000);
    assert_int_equal(e.phases[STARTUP_PULL].p90_ms, 10000);
    assert_int_equal(e.phases[STARTUP_CONTAINER].p90_ms, 5000);
    startup_learner_free(l);
}

static void test_a_node_that_is_newer_than_its_pod_was_to_come(void **state)
{
    struct startup_learner *l = startup_learner_new();
    CODEC_AUTO_JSON json_t *node = node_object("H100", 20);
    struct pod p = {.name = "a", .scheduled = 30, .started = 31, .ready = 40};
    CODEC_AUTO_JSON json_t *pod = pod_object(&p);
    startup_observe_pod(l, pod, node, ms(40));
    CODEC_AUTO_JSON json_t *all = startup_workload_json(l, "ml", "deployment/api");
    const json_t *first = json_array_get(all, 0);
    assert_string_equal(codec_json_str(first, "path", NULL), "node to come");
    assert_string_equal(codec_json_str(first, "gpu", NULL), "H100");
    assert_int_equal(codec_json_int(first, 0, "p90Seconds", NULL), 40);
    startup_learner_free(l);
}

static void test_the_p90_of_five_starts_is_near_the_truth(void **state)
{
    struct startup_learner *l = startup_learner_new();
    static const int64_t loads[] = {50, 55, 48, 58, 52};
    for (int i = 0; i < 5; i++)
        start(l, (char[]){(char)('a' + i), 0}, i * 100, loads[i]);
    struct startup_expected e = expected(l, "deployment/api");
    assert_int_equal(e.total.n, 5);
    assert_int_equal(e.total.p50_ms, 54000);
    assert_int_equal(e.total.p90_ms, 60000);
    assert_int_equal(expected(l, "deployment/other").basis, STARTUP_BASIS_OTHERS);
    startup_learner_free(l);
}

static void test_the_first_start_has_a_default_and_says_so(void **state)
{
    struct startup_learner *l = startup_learner_new();
    struct startup_expected e = expected(l, "deployment/api");
    struct gs_buf text = {0};
    assert_int_equal(e.basis, STARTUP_BASIS_DEFAULT);
    assert_int_equal(e.total.p90_ms, STARTUP_DEFAULT_MS);
    CODEC_AUTO_JSON json_t *json = startup_expected_json(&e);
    startup_expected_text(json, &text);
    assert_string_equal(text.data, "p90 5m, any path, a default: no start was observed yet");
    gs_buf_finish(&text);
    startup_learner_free(l);
}

static void test_a_new_image_starts_again_from_the_starts_of_others(void **state)
{
    struct startup_learner *l = startup_learner_new();
    struct pod old = {.name = "a", .digest = "vllm@sha256:1", .scheduled = 1, .started = 2};
    old.ready = 52;
    observe(l, &old, 52);
    struct pod next = {.name = "b", .digest = "vllm@sha256:2", .created = 100, .scheduled = 101};
    next.started = 102;
    next.ready = 110;
    observe(l, &next, 110);
    struct startup_expected e = expected(l, "deployment/api");
    assert_int_equal(e.basis, STARTUP_BASIS_SAME);
    assert_int_equal(e.total.n, 1);
    assert_int_equal(e.total.p90_ms, 10000);
    struct pod third = {.name = "c", .image = "vllm:2", .created = 200, .scheduled = 201};
    CODEC_AUTO_JSON json_t *pod = pod_object(&third);
    startup_expected_of_pod(l, pod, &e);
    assert_int_equal(e.basis, STARTUP_BASIS_WORKLOAD);
    assert_int_equal(e.total.n, 2);
    startup_learner_free(l);
}

static void test_a_node_to_come_adds_to_starts_on_free_nodes(void **state)
{
    struct startup_learner *l = startup_learner_new();
    start(l, "a", 0, 50);
    struct pod p = {.name = "b", .created = 100, .unschedulable = 100};
    observe(l, &p, 100);
    event(l, "b", "TriggeredScaleUp", "pod triggered scale-up", 105);
    CODEC_AUTO_JSON json_t *pod = pod_object(&p);
    struct startup_expected e;
    startup_expected_of_pod(l, pod, &e);
    assert_int_equal(e.basis, STARTUP_BASIS_PATHS);
    assert_true(e.path.node_to_come);
    assert_int_equal(e.total.p90_ms, 52000 + 180000); // the default of a node
    startup_learner_free(l);
}

static void test_the_start_of_one_pod(void **state)
{
    struct startup_learner *l = startup_learner_new();
    struct startup_start start;
    struct pod a = {.name = "a", .scheduled = 1, .started = 3};
    observe(l, &a, 3);
    assert_false(start_of(l, &a, &start));
    a.ready = 10;
    observe(l, &a, 10);
    assert_true(start_of(l, &a, &start));
    assert_int_equal(start.total_ms, 10000);
    assert_int_equal(start.ms[STARTUP_PENDING], 1000);
    assert_int_equal(start.ms[STARTUP_CONTAINER], 2000);
    assert_int_equal(start.ms[STARTUP_LOAD], 7000);
    assert_true(start.ms[STARTUP_PULL] < 0); // nothing is known of the image
    struct pod unknown = {.name = "b", .scheduled = 1, .started = 3, .ready = 4};
    assert_false(start_of(l, &unknown, &start));
    startup_learner_free(l);
}

static void test_readiness_does_not_end_a_start_if_the_workload_has_an_engine(void **state)
{
    struct startup_learner *l = startup_learner_new();
    struct pod a = {.name = "a", .scheduled = 1, .started = 2};
    observe(l, &a, 2);
    a.ready = 3;
    observe(l, &a, 3);
    startup_engine_ready(l, "ml", "a", ms(62));
    assert_int_equal(expected(l, "deployment/api").total.p90_ms, 62000);
    struct pod b = {.name = "b", .created = 100, .scheduled = 101, .started = 102};
    observe(l, &b, 102);
    b.ready = 103;
    observe(l, &b, 103);
    assert_int_equal(state_of(l, &b, 110), STARTUP_STARTING);
    assert_int_equal(state_of(l, &b, 400), STARTUP_READY); // its engine has no signals any more
    startup_engine_ready(l, "ml", "b", ms(150));
    assert_int_equal(state_of(l, &b, 151), STARTUP_READY);
    assert_int_equal(expected(l, "deployment/api").total.n, 2);
    startup_learner_free(l);
}

static void test_engines_that_were_ready_before_are_no_starts_of_now(void **state)
{
    struct startup_learner *l = startup_learner_new();
    struct pod a = {.name = "a", .scheduled = 1, .started = 2, .ready = 30};
    observe(l, &a, 1000);
    startup_engine_ready(l, "ml", "a", ms(1001));
    assert_int_equal(expected(l, "deployment/api").total.p90_ms, 30000);
    assert_int_equal(state_of(l, &a, 1002), STARTUP_READY);
    startup_learner_free(l);
}

static void test_failed_starts_are_counted_once_and_have_no_time(void **state)
{
    struct startup_learner *l = startup_learner_new();
    start(l, "a", 0, 50);
    struct pod b = {.name = "b", .created = 100, .scheduled = 101, .waiting = "CrashLoopBackOff"};
    observe(l, &b, 110);
    observe(l, &b, 120);
    assert_int_equal(state_of(l, &b, 121), STARTUP_FAILED);
    struct startup_expected e = expected(l, "deployment/api");
    assert_int_equal(e.failed, 1);
    assert_int_equal(e.total.n, 1);
    assert_int_equal(e.total.p90_ms, 52000);
    startup_learner_free(l);
}

static void test_a_late_pod_that_is_deleted_has_failed_and_a_young_one_has_not(void **state)
{
    struct startup_learner *l = startup_learner_new();
    start(l, "a", 0, 50);
    struct pod young = {.name = "b", .created = 100, .scheduled = 101};
    struct pod hung = {.name = "c", .created = 100, .scheduled = 101};
    observe(l, &young, 101);
    observe(l, &hung, 101);
    young.deleting = hung.deleting = true;
    observe(l, &young, 110);
    assert_int_equal(expected(l, "deployment/api").failed, 0);
    observe(l, &hung, 300);
    assert_int_equal(expected(l, "deployment/api").failed, 1);
    startup_learner_free(l);
}

static void test_states_of_pods_that_are_not_ready(void **state)
{
    struct startup_learner *l = startup_learner_new();
    start(l, "a", 0, 50); // p90 52 s: late after 65 s
    struct pod p = {.name = "b", .created = 100, .scheduled = 101};
    assert_int_equal(state_of(l, &p, 160), STARTUP_STARTING);
    assert_int_equal(state_of(l, &p, 166), STARTUP_LATE);
    struct pod u = {.name = "c", .created = 100, .unschedulable = 100};
    observe(l, &u, 100);
    assert_int_equal(state_of(l, &u, 120), STARTUP_STARTING); // a node may be ordered
    assert_int_equal(state_of(l, &u, 131), STARTUP_UNSCHEDULABLE);
    event(l, "c", "TriggeredScaleUp", "pod triggered scale-up", 125);
    assert_int_equal(state_of(l, &u, 131), STARTUP_STARTING);
    event(l, "c", "NotTriggerScaleUp", "pod didn't trigger scale-up: max limit reached", 140);
    assert_int_equal(state_of(l, &u, 141), STARTUP_UNSCHEDULABLE);
    u.deleting = true;
    assert_int_equal(state_of(l, &u, 141), STARTUP_ENDED);
    startup_learner_free(l);
}

static void test_a_pod_that_loses_its_readiness_is_not_coming(void **state)
{
    struct startup_learner *l = startup_learner_new();
    start(l, "a", 0, 50);
    struct pod p = {.name = "a", .scheduled = 1, .started = 2};
    assert_int_equal(state_of(l, &p, 54), STARTUP_LATE);
    startup_learner_free(l);
}

static void test_another_pod_of_the_same_name_is_another_start(void **state)
{
    struct startup_learner *l = startup_learner_new();
    start(l, "a", 0, 50);
    struct pod p = {.name = "a", .created = 100, .scheduled = 101, .started = 102, .ready = 132};
    CODEC_AUTO_JSON json_t *pod = pod_object(&p);
    codec_json_set(pod, json_string("other"), "metadata", "uid", NULL);
    startup_observe_pod(l, pod, NULL, ms(132));
    assert_int_equal(expected(l, "deployment/api").total.n, 2);
    assert_int_equal(expected(l, "deployment/api").total.p50_ms, 32000);
    startup_learner_free(l);
}

static void test_what_is_coming(void **state)
{
    struct startup_learner *l = startup_learner_new();
    struct startup_coming c = {0};
    start(l, "a", 0, 50);
    static const struct pod pods[] = {
        {.name = "a", .scheduled = 1, .started = 2, .ready = 52},
        {.name = "b", .created = 40, .scheduled = 41},
        {.name = "d", .created = 20, .scheduled = 21, .started = 22},
        {.name = "e", .created = -100, .scheduled = -99},
        {.name = "f", .created = 0, .unschedulable = 1},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(pods); i++) {
        CODEC_AUTO_JSON json_t *pod = pod_object(&pods[i]);
        struct startup_progress p;
        startup_progress_of(l, pod, ms(60), &p);
        startup_coming_add(&c, &p, ms(60));
    }
    CODEC_AUTO_JSON json_t *json = startup_coming_json(&c, ms(60));
    GS_AUTO_FREE char *text = codec_json_text(json);
    assert_string_equal(text, "{\"ready\":1,\"starting\":2,\"settling\":1,\"late\":1,"
                              "\"unschedulable\":1,\"failed\":0,\"firstSeconds\":12,"
                              "\"lastSeconds\":32}");
    struct startup_coming copy;
    struct gs_buf words = {0};
    assert_true(startup_coming_from_json(json, ms(60), &copy));
    assert_memory_equal(&copy, &c, sizeof(c));
    startup_coming_text(json, &words);
    assert_string_equal(words.data, "1 ready, 2 starting (the last one serves in 32s), 1 late, "
                                    "1 unschedulable");
    gs_buf_finish(&words);
    startup_learner_free(l);
}

// The clock of this machine was set back by an hour: pods that are ready did not start just now.
static void test_ready_pods_settle_only_for_a_while(void **state)
{
    (void)state;
    struct startup_coming c = {0};
    const struct startup_progress p = {.state = STARTUP_READY, .ready_ms = ms(3600)};
    startup_coming_add(&c, &p, ms(0));
    assert_int_equal(c.settling, 0);
    startup_coming_add(&c, &p, ms(3598)); // clocks differ by some seconds
    assert_int_equal(c.settling, 1);
    assert_int_equal(c.ready, 2);
}

static void test_messages_about_images(void **state)
{
    static const struct {
        const char *message, *path;
    } rows[] = {
        {"Container image \"vllm:1\" already present on machine", "node free, image present"},
        {"Successfully pulled image \"vllm:1\" in 2m3s (2m3s including waiting)",
         "node free, image pulled"},
        {"Container image \"vllm:1\" is substituted by vllm of this machine", "node free"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct startup_learner *l = startup_learner_new();
        start(l, "a", 0, 50);
        event(l, "a", "Pulled", rows[i].message, 2);
        CODEC_AUTO_JSON json_t *all = startup_workload_json(l, "ml", "deployment/api");
        assert_string_equal(codec_json_str(json_array_get(all, 0), "path", NULL), rows[i].path);
        startup_learner_free(l);
    }
}

static void test_only_the_last_starts_count(void **state)
{
    struct startup_learner *l = startup_learner_new();
    for (int i = 0; i < 100; i++) {
        GS_AUTO_FREE char *name = gs_format("pod-%d", i);
        start(l, name, i * 100, i < 60 ? 90 : 8); // the engine starts from a snapshot now
    }
    assert_int_equal(expected(l, "deployment/api").total.n, 32);
    assert_int_equal(expected(l, "deployment/api").total.p99_ms, 10000);
    startup_learner_free(l);
}

// Jobs are workloads that come once. Those of last week must not keep out a new workload.
static void test_workloads_that_are_gone_make_room(void **state)
{
    (void)state;
    struct startup_learner *l = startup_learner_new();
    start(l, "api", 0, 8);
    for (int i = 0; i < 1200; i++) {
        GS_AUTO_FREE char *name = gs_format("train-%d", i);
        const struct pod p = {.name = name, .scheduled = 1, .started = 2, .ready = 30};
        CODEC_AUTO_JSON json_t *pod = pod_object(&p);
        json_t *owner = json_array_get(codec_json_get(pod, "metadata", "ownerReferences", NULL), 0);
        codec_json_set_str(owner, "kind", "Job");
        codec_json_set_str(owner, "name", name);
        startup_observe_pod(l, pod, NULL, ms(30));
        startup_forget_pod(l, pod, ms(40));
    }
    assert_int_equal(expected(l, "job/train-1199").basis, STARTUP_BASIS_SAME);
    assert_int_equal(expected(l, "job/train-0").basis, STARTUP_BASIS_OTHERS);
    assert_int_equal(expected(l, "deployment/api").basis, STARTUP_BASIS_SAME); // its pod exists
    startup_learner_free(l);
}

static void test_wrong_objects_are_harmless(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{\"metadata\":7,\"status\":[]}",
        "{\"metadata\":{\"name\":\"x\",\"creationTimestamp\":\"2027-01-01T00:00:00Z\"},\"status\":"
        "{\"conditions\":{},\"containerStatuses\":\"no\"},\"spec\":{\"containers\":7}}",
        "{\"involvedObject\":{\"kind\":\"Pod\",\"name\":\"x\"},\"reason\":\"Pulled\",\"message\":"
        "\"Successfully pulled image \\\" in \\\" in -99999999999999h\",\"lastTimestamp\":"
        "\"2027-01-01T00:00:00Z\"}",
    };
    struct startup_learner *l = startup_learner_new();
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        CODEC_AUTO_JSON json_t *j = NULL;
        struct startup_progress p;
        assert_ok(codec_json_parse(gs_slice_of(texts[i]), true, &j));
        startup_observe_pod(l, j, j, ms(0));
        startup_observe_event(l, j, ms(0));
        startup_progress_of(l, j, ms(0), &p);
        assert_int_not_equal(p.state, STARTUP_READY);
        startup_forget_pod(l, j, ms(0));
    }
    assert_int_equal(expected(l, "deployment/api").basis, STARTUP_BASIS_DEFAULT);
    startup_learner_free(l);
}

// --- restarts of the controller ---

static struct startup_learner *restart(const struct startup_learner *l, int64_t at)
{
    struct startup_learner *next = startup_learner_new();
    CODEC_AUTO_JSON json_t *saved = startup_learner_json(l, ms(at));
    assert_ok(startup_learner_restore(next, saved, ms(at + 10)));
    return next;
}

static void test_starts_are_known_after_a_restart_and_count_once(void **state)
{
    struct startup_learner *l = startup_learner_new();
    start(l, "a", 0, 50);
    start(l, "b", 100, 70);
    struct startup_learner *next = restart(l, 200);
    const struct pod b = {
        .name = "b", .created = 100, .scheduled = 101, .started = 102, .ready = 172};
    observe(next, &b, 215); // of the first list of pods
    struct startup_expected before = expected(l, "deployment/api"),
                            after = expected(next, "deployment/api");
    assert_memory_equal(&before, &after, sizeof(before));
    assert_int_equal(after.total.n, 2);
    // A pod that became ready between two processes is a start.
    const struct pod c = {
        .name = "c", .created = 190, .scheduled = 191, .started = 192, .ready = 205};
    observe(next, &c, 215);
    assert_int_equal(expected(next, "deployment/api").total.n, 3);
    startup_learner_free(next);
    startup_learner_free(l);
}

static void test_starts_that_are_read_late_are_merged(void **state)
{
    struct startup_learner *old = startup_learner_new(), *l = startup_learner_new();
    (void)state;
    start(old, "a", 0, 50);
    start(old, "b", 100, 70);
    start(old, "c", 200, 60);
    CODEC_AUTO_JSON json_t *saved = startup_learner_json(old, ms(300));
    start(l, "d", 310, 40); // before it was read
    assert_ok(startup_learner_restore(l, saved, ms(400)));
    assert_int_equal(expected(l, "deployment/api").total.n, 3);
    start(l, "e", 410, 40);
    assert_int_equal(expected(l, "deployment/api").total.n, 4);
    // A shorter list replaces nothing.
    assert_ok(startup_learner_restore(l, saved, ms(500)));
    assert_int_equal(expected(l, "deployment/api").total.n, 4);
    startup_learner_free(l);
    startup_learner_free(old);
}

static void test_wrong_files_of_starts_are_harmless(void **state)
{
    static const char text[] =
        "{\"savedMs\":5,\"groups\":[{\"workload\":\"ml deployment/api\",\"image\":\"vllm:1\","
        "\"digest\":\"\",\"gpu\":\"\",\"starts\":[[0,9,0,1000,0,0,0,0,0,0],[0,0,0,-1,0,0,0,0,0,0],["
        "0,"
        "0,0,99999999999,0,0,0,0,0,0],[0,0],{},[0,1,0,7000,0,0,0,1000,6000,-1]]},{},7],\"others\":"
        "3}";
    struct startup_learner *l = startup_learner_new();
    CODEC_AUTO_JSON json_t *in = json_loads(text, 0, NULL);
    CODEC_AUTO_JSON json_t *other = json_loads("{\"savedMs\":5,\"groups\":{}}", 0, NULL);
    assert_error(startup_learner_restore(l, other, ms(0)), GS_EINVAL, "groups");
    assert_error(startup_learner_restore(l, in, 4), GS_EINVAL, "past");
    assert_ok(startup_learner_restore(l, in, ms(0)));
    assert_int_equal(expected(l, "deployment/api").total.n, 1);
    assert_int_equal(expected(l, "deployment/api").total.p90_ms, 7000);
    startup_learner_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_phases_of_a_start_with_a_new_node_and_a_pull),
        cmocka_unit_test(test_events_may_come_before_the_pod_and_after_it_is_ready),
        cmocka_unit_test(test_a_node_that_is_newer_than_its_pod_was_to_come),
        cmocka_unit_test(test_the_p90_of_five_starts_is_near_the_truth),
        cmocka_unit_test(test_the_first_start_has_a_default_and_says_so),
        cmocka_unit_test(test_a_new_image_starts_again_from_the_starts_of_others),
        cmocka_unit_test(test_a_node_to_come_adds_to_starts_on_free_nodes),
        cmocka_unit_test(test_the_start_of_one_pod),
        cmocka_unit_test(test_readiness_does_not_end_a_start_if_the_workload_has_an_engine),
        cmocka_unit_test(test_engines_that_were_ready_before_are_no_starts_of_now),
        cmocka_unit_test(test_failed_starts_are_counted_once_and_have_no_time),
        cmocka_unit_test(test_a_late_pod_that_is_deleted_has_failed_and_a_young_one_has_not),
        cmocka_unit_test(test_states_of_pods_that_are_not_ready),
        cmocka_unit_test(test_a_pod_that_loses_its_readiness_is_not_coming),
        cmocka_unit_test(test_another_pod_of_the_same_name_is_another_start),
        cmocka_unit_test(test_what_is_coming),
        cmocka_unit_test(test_ready_pods_settle_only_for_a_while),
        cmocka_unit_test(test_messages_about_images),
        cmocka_unit_test(test_only_the_last_starts_count),
        cmocka_unit_test(test_workloads_that_are_gone_make_room),
        cmocka_unit_test(test_wrong_objects_are_harmless),
        cmocka_unit_test(test_starts_are_known_after_a_restart_and_count_once),
        cmocka_unit_test(test_starts_that_are_read_late_are_merged),
        cmocka_unit_test(test_wrong_files_of_starts_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
