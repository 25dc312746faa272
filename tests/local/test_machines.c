// SPDX-License-Identifier: Apache-2.0
// Simulated machines on the real API server, with a kubelet and a scheduler.
#include "unit.h"

#include "local/kubelet_fixture.h"

#include "local/machines/machines.h"
#include "local/scheduler.h"
#include "nvmlsim/simulation/simulation.h"

#define MAX_PHASES 64

static struct {
    struct nodes_pools pools;
    struct local_scheduler *scheduler;
    struct machines *machines;
    enum machines_phase phases[MAX_PHASES];
    size_t n_phases;
} t;

static void on_phase(void *arg, const struct machines_info *m)
{
    if (t.n_phases < MAX_PHASES)
        t.phases[t.n_phases++] = m->phase;
}

static void start_machines(struct fixture *f)
{
    const struct local_kubelet_config kubelet = {
        .first = f->kubelet, .self_exe = f->exe, .work_dir = f->dir};
    const struct machines_config cfg = {.cluster = f->cluster,
                                        .api = f->h.api,
                                        .scheduler = t.scheduler,
                                        .kubelet = &kubelet,
                                        .pools = t.pools.items,
                                        .n_pools = t.pools.len,
                                        .on_phase = on_phase};
    t.machines = machines_new(&cfg);
    for (int64_t end = gs_mono_ns() + WAIT_NS; !machines_started(t.machines); tick(f))
        assert_true(gs_mono_ns() < end);
}

static void open_machines(struct fixture *f, const char *pool)
{
    memset(&t, 0, sizeof(t));
    struct gs_error *err = nodes_pools_add_option(&t.pools, pool);
    if (err)
        fail_msg("%s", gs_error_message(err));
    t.scheduler = controllers_scheduler_new(f->cluster, NULL, 0);
    start_machines(f);
}

static void on_stopped(void *arg)
{
    *(bool *)arg = true;
}

static void stop_machines(struct fixture *f)
{
    bool done = false;
    machines_stop(t.machines, 200, on_stopped, &done);
    while (!done)
        tick(f);
    machines_free(t.machines);
}

static int close_machines(void **state)
{
    struct fixture *f = *state;
    stop_machines(f);
    controllers_scheduler_free(t.scheduler);
    nodes_pools_finish(&t.pools);
    return fixture_close(state);
}

struct seen {
    size_t n;
    char id[128];
    enum nodes_instance_state state;
    char error[64];
    bool out_of_resources;
};

static void see(void *arg, const struct nodes_instance *i)
{
    struct seen *s = arg;
    s->n++;
    snprintf(s->id, sizeof(s->id), "%s", i->provider_id);
    snprintf(s->error, sizeof(s->error), "%s", i->error_code ? i->error_code : "");
    s->state = i->state;
    s->out_of_resources = i->out_of_resources;
}

// The last machine of the pool.
static struct seen instances(const char *pool)
{
    const struct nodes_provider *p = machines_provider(t.machines);
    struct seen s = {0};
    p->each(p->ctx, pool, see, &s);
    return s;
}

static size_t target(const char *pool)
{
    const struct nodes_provider *p = machines_provider(t.machines);
    return p->target(p->ctx, pool);
}

static struct gs_error *increase(const char *pool, size_t n)
{
    const struct nodes_provider *p = machines_provider(t.machines);
    return p->increase(p->ctx, pool, n);
}

static void delete_last(const char *pool)
{
    const struct nodes_provider *p = machines_provider(t.machines);
    struct seen s = instances(pool);
    assert_ok(p->delete_node(p->ctx, pool, s.id));
}

// The Node of the last machine of the pool; NULL: it does not exist. New reference.
static json_t *last_node(struct fixture *f, const char *pool)
{
    struct seen s = instances(pool);
    const char *name = s.n ? strrchr(s.id, '/') + 1 : "none";
    GS_AUTO_FREE char *path = gs_format("/api/v1/nodes/%s", name);
    AUTO_REPLY struct reply r = request(&f->h, "GET", path, NULL);
    return r.status == 200 ? json_incref(r.body) : NULL;
}

static bool last_node_is(struct fixture *f, const char *pool, const char *ready, const char *gpus)
{
    CODEC_AUTO_JSON json_t *n = last_node(f, pool);
    return n && gs_streq(codec_json_str(kube_condition(n, "Ready"), "status", NULL), ready) &&
           gs_streq(codec_json_str(n, "status", "allocatable", "nvidia.com/gpu", NULL), gpus);
}

static void wait_last_node(struct fixture *f, const char *pool, const char *ready, const char *gpus)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS; !last_node_is(f, pool, ready, gpus); tick(f))
        assert_true(gs_mono_ns() < end);
}

static size_t n_nodes(struct fixture *f)
{
    AUTO_REPLY struct reply r = request(&f->h, "GET", "/api/v1/nodes", NULL);
    return json_array_size(json_object_get(r.body, "items"));
}

static size_t n_sets(struct fixture *f)
{
    GS_AUTO_FREE char *prefix = machines_set_name(f->cluster->data_dir);
    char **names = NULL;
    size_t n = 0, ours = 0;
    assert_ok(nvmlsim_list(&names, &n));
    for (size_t i = 0; i < n; i++) {
        ours += gs_starts(names[i], prefix);
        free(names[i]);
    }
    free(names);
    return ours;
}

static void test_the_minimum_exists_at_the_start(void **state)
{
    struct fixture *f = *state;
    open_machines(f, "a=2..4x2,model=Tesla T4,startup=10h,cpu=8,memory=30Gi,label=team=ml,"
                     "taint=nvidia.com/gpu=present:NoSchedule");
    wait_last_node(f, "a", "True", "2");
    for (int64_t end = gs_mono_ns() + WAIT_NS; n_nodes(f) < 3; tick(f))
        assert_true(gs_mono_ns() < end);
    assert_int_equal(target("a"), 2);
    struct seen s = instances("a");
    assert_int_equal(s.n, 2);
    assert_int_equal(s.state, NODES_INSTANCE_RUNNING);
    CODEC_AUTO_JSON json_t *n = last_node(f, "a");
    assert_string_equal(kube_label(n, "team"), "ml");
    assert_string_equal(kube_label(n, NODES_POOL_LABEL), "a");
    assert_string_equal(kube_label(n, "nvidia.com/gpu.product"), "Tesla-T4");
    assert_string_equal(codec_json_str(n, "status", "capacity", "cpu", NULL), "8");
    assert_string_equal(codec_json_str(n, "spec", "providerID", NULL), s.id);
    const json_t *taint = json_array_get(codec_json_get(n, "spec", "taints", NULL), 0);
    assert_string_equal(codec_json_str(taint, "key", NULL), "nvidia.com/gpu");
    assert_int_equal(n_sets(f), 2);
    const struct nodes_provider *p = machines_provider(t.machines);
    assert_error(p->delete_node(p->ctx, "a", s.id), GS_ELIMIT, "min size reached");
    assert_int_equal(target("a"), 2);
}

static void test_a_machine_passes_through_its_phases(void **state)
{
    struct fixture *f = *state;
    static const enum machines_phase want[] = {MACHINES_PROVISIONING, MACHINES_REGISTERED,
                                               MACHINES_DRIVER, MACHINES_ALLOCATABLE,
                                               MACHINES_READY};
    open_machines(f, "a=0..2x1,model=Tesla-T4,startup=90ms");
    assert_int_equal(n_nodes(f), 1);
    assert_ok(increase("a", 1));
    assert_int_equal(target("a"), 1);
    assert_int_equal(instances("a").state, NODES_INSTANCE_CREATING);
    wait_last_node(f, "a", "True", "1");
    assert_int_equal(t.n_phases, GS_ARRAY_LEN(want));
    assert_memory_equal(t.phases, want, sizeof(want));
}

static void create_gpu_pod(struct fixture *f)
{
    AUTO_REPLY struct reply r =
        request(&f->h, "POST", "/api/v1/namespaces/default/pods",
                "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"terminationGracePeriodSeconds\":1,"
                "\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"command\":[\"sh\",\"-c\","
                "\"echo $GPUSCALE_SIM; exec sleep 1000\"],\"resources\":{\"limits\":{"
                "\"nvidia.com/gpu\":\"1\"}}}]}}");
    assert_status(r, 201);
}

static void test_a_deleted_machine_takes_its_pods_along(void **state)
{
    struct fixture *f = *state;
    open_machines(f, "a=0..2x1,model=Tesla-T4,startup=10ms");
    create_gpu_pod(f);
    assert_ok(increase("a", 1));
    await_pod(f, "g", "ready", is_ready, NULL);
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, "g", "ready", is_ready, NULL);
    const char *node = codec_json_str(pod, "spec", "nodeName", NULL);
    assert_true(gs_starts(node, "gpuscale-a-"));
    assert_true(gs_starts(codec_json_str(pod, "status", "hostIP", NULL), "127.98."));
    GS_AUTO_FREE char *log = wait_log(f, "g", "\n");
    assert_non_null(strstr(log, strrchr(node, '-'))); // the GPUs of this machine
    delete_last("a");
    assert_int_equal(target("a"), 0);
    assert_int_equal(instances("a").state, NODES_INSTANCE_DELETING);
    wait_pod_gone(f, "g");
    for (int64_t end = gs_mono_ns() + WAIT_NS; n_nodes(f) > 1 || instances("a").n; tick(f))
        assert_true(gs_mono_ns() < end);
    assert_int_equal(n_sets(f), 0);
    GS_AUTO_FREE char *dir = gs_format("%s/nodes/%s", f->cluster->data_dir, strrchr(node, '-') + 1);
    assert_int_not_equal(access(dir, F_OK), 0);
}

static void test_a_pool_has_limits(void **state)
{
    struct fixture *f = *state;
    const struct nodes_provider *p;
    open_machines(f, "a=0..2x1,model=Tesla-T4,startup=10h");
    p = machines_provider(t.machines);
    assert_error(increase("b", 1), GS_ENOTFOUND, "pool \"");
    assert_error(increase("a", 3), GS_ELIMIT, "pool \"");
    assert_ok(increase("a", 2));
    assert_error(increase("a", 1), GS_ELIMIT, "pool \"");
    assert_error(p->decrease_target(p->ctx, "a", 3), GS_EINVAL, "pool \"");
    assert_error(p->delete_node(p->ctx, "a", "gpuscale://a/other"), GS_ENOTFOUND, "pool \"");
    assert_ok(p->decrease_target(p->ctx, "a", 1));
    assert_int_equal(target("a"), 1);
    for (int64_t end = gs_mono_ns() + WAIT_NS; instances("a").n > 1; tick(f))
        assert_true(gs_mono_ns() < end);
}

static void test_a_pool_without_capacity(void **state)
{
    struct fixture *f = *state;
    open_machines(f, "a=0..2x1,model=Tesla-T4,startup=10ms,fail=capacity:1");
    assert_ok(increase("a", 1));
    struct seen s = instances("a");
    assert_int_equal(s.state, NODES_INSTANCE_CREATING);
    assert_string_equal(s.error, "OutOfCapacity");
    assert_true(s.out_of_resources);
    delete_last("a");
    assert_ok(increase("a", 1)); // only the first one fails
    wait_last_node(f, "a", "True", "1");
}

static void test_a_machine_that_never_registers(void **state)
{
    struct fixture *f = *state;
    open_machines(f, "a=0..2x1,model=Tesla-T4,startup=10ms,fail=never-registers:1");
    assert_ok(increase("a", 2));
    wait_last_node(f, "a", "True", "1");
    assert_int_equal(n_nodes(f), 2);
    const struct nodes_provider *p = machines_provider(t.machines);
    assert_ok(p->decrease_target(p->ctx, "a", 1));
    assert_int_equal(target("a"), 1);
}

static void test_a_machine_that_never_becomes_ready(void **state)
{
    struct fixture *f = *state;
    open_machines(f, "a=0..2x1,model=Tesla-T4,startup=10ms,fail=never-ready");
    assert_ok(increase("a", 1));
    wait_last_node(f, "a", "False", NULL);
    assert_int_equal(instances("a").state, NODES_INSTANCE_RUNNING);
    CODEC_AUTO_JSON json_t *n = last_node(f, "a");
    assert_string_equal(codec_json_str(kube_condition(n, "Ready"), "message", NULL),
                        "the GPU driver is not installed");
}

static void test_machines_of_the_last_run_are_removed(void **state)
{
    struct fixture *f = *state;
    open_machines(f, "a=1..2x1,model=Tesla-T4,startup=10ms");
    create_gpu_pod(f);
    await_pod(f, "g", "ready", is_ready, NULL);
    char former[128];
    snprintf(former, sizeof(former), "%s", instances("a").id);
    stop_machines(f);
    assert_int_equal(n_nodes(f), 2);
    start_machines(f);
    wait_pod_gone(f, "g");
    wait_last_node(f, "a", "True", "1");
    assert_int_equal(n_nodes(f), 2);
    assert_string_not_equal(instances("a").id, former);
}

int main(void)
{
    const char *build = getenv("GPUSCALE_BUILD_ROOT");
    GS_AUTO_FREE char *library =
        gs_format("%s/src/simulation/nvmlsim/" NVMLSIM_LIBRARY, build ? build : "build");
    setenv("GPUSCALE_NVMLSIM_LIBRARY", library, 0);
#define T(fn) cmocka_unit_test_setup_teardown(fn, fixture_open, close_machines)
    const struct CMUnitTest tests[] = {
        T(test_the_minimum_exists_at_the_start),
        T(test_a_machine_passes_through_its_phases),
        T(test_a_deleted_machine_takes_its_pods_along),
        T(test_a_pool_has_limits),
        T(test_a_pool_without_capacity),
        T(test_a_machine_that_never_registers),
        T(test_a_machine_that_never_becomes_ready),
        T(test_machines_of_the_last_run_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
