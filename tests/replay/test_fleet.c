// SPDX-License-Identifier: Apache-2.0
// Scenarios with several workloads on pools of nodes.
#include "base/file.h"
#include "base/mem.h"
#include "replay/replay.h"
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

#define CPU "- {name: cpu, min: 1, max: 1, machine: {cpu: 4, memory: 8Gi}}\n"
#define GPU_POOL(name, gpus, more)                                                                 \
    "- {name: " name ", max: 4, machine: {cpu: 16, memory: 64Gi, gpus: " gpus                      \
    "}, startup: 5m, " more "}\n"
#define FAST "autoscaler: {scale-down-unneeded-time: 5m, scale-down-delay-after-add: 5m}\n"
#define HPA                                                                                        \
    "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {minReplicas: 1, "          \
    "maxReplicas: 8, metrics: [{type: Pods, pods: {metric: {name: util}, target: {type: "          \
    "AverageValue, averageValue: 50}}}]}}"

static struct gs_error *load(const char *text, struct replay_fleet **ret)
{
    char path[] = "/tmp/gpuscale-fleet-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
    assert_true(replay_is_fleet(path));
    struct gs_error *err = replay_fleet_load(path, ret);
    unlink(path);
    return err;
}

static void assert_refused_setting(struct replay_fleet *f, const char *name, const char *value)
{
    struct gs_error *err = replay_fleet_set(f, name, value);
    if (!err)
        fail_msg("%s=%s was accepted", name, value);
    gs_error_free(err);
}

struct run {
    struct replay_fleet *fleet;
    struct replay_fleet_result r;
    struct gs_buf table;
};

static struct run run_text(const char *text)
{
    struct run run = {0};
    assert_ok(load(text, &run.fleet));
    assert_ok(replay_fleet_run(run.fleet, &run.r));
    replay_fleet_print_table(&run.r, &run.table);
    for (size_t i = 0; i < run.r.n_rows; i++)
        assert_true(run.r.rows[i].used <= run.r.rows[i].gpus);
    return run;
}

static void run_finish(struct run *run)
{
    replay_fleet_result_finish(&run->r);
    replay_fleet_free(run->fleet);
    gs_buf_finish(&run->table);
}

static void assert_contains(const struct run *run, const char *part)
{
    if (!strstr(run->table.data, part))
        fail_msg("no \"%s\" in:\n%s", part, run->table.data);
}

static const struct replay_fleet_pool_summary *pool_of(const struct run *run, const char *name)
{
    for (size_t i = 0; i < run->r.n_pools; i++)
        if (gs_streq(run->r.pools[i].name, name))
            return &run->r.pools[i];
    fail_msg("no pool %s", name);
    return NULL;
}

// --- the node autoscaler ---

static void test_a_small_pod_on_an_idle_large_node_strands_its_gpus(void **state)
{
    (void)state;
    struct run run =
        run_text("duration: 3h\npools:\n" CPU GPU_POOL("v100-1", "1", "price: 2.48")
                     GPU_POOL("v100-4", "4", "price: 9.92") FAST
                 "workloads:\n"
                 "- name: training\n"
                 "  startup: 20s\n"
                 "  jobs: [{at: 0s, run: 40m, gpus: 4}, {at: 50m, run: 40m, gpus: 4}]\n"
                 "- name: notebook\n"
                 "  startup: 20s\n"
                 "  jobs: [{at: 47m, run: 1h, gpus: 1}]\n");
    // The pod with one GPU never waits; the pod with four waits for a second node.
    assert_int_equal(run.r.workloads[1].waits.max_s, 0);
    assert_int_equal(run.r.workloads[0].waits.max_s, 300);
    assert_int_equal(pool_of(&run, "v100-4")->added, 2);
    assert_int_equal(pool_of(&run, "v100-1")->added, 0);
    // Three GPUs for an hour, of no use for two of three pods.
    assert_true(run.r.summary.stranded_gpu_hours > 1.99 && run.r.summary.stranded_gpu_hours < 2.02);
    assert_contains(&run, "v100-4 0->1 (max: 4)");
    assert_contains(&run, "0:05:00  node v100-4-1 ready after 300 s");
    assert_int_equal(run.r.summary.nodes_removed, 2);
    run_finish(&run);
}

static void test_nodes_follow_an_autoscaler(void **state)
{
    (void)state;
    struct run run = run_text("duration: 2h\npools:\n" CPU GPU_POOL("gpu", "2", "price: 1") FAST
                              "workloads:\n"
                              "- name: web\n"
                              "  hpa: " HPA "\n"
                              "  capacity: 10\n"
                              "  metrics: {util: utilization}\n"
                              "  load: [[0s, 4], [10m, 4], [10m, 38], [1h, 38], [1h, 4]]\n");
    const struct replay_fleet_workload_summary *w = &run.r.workloads[0];
    assert_true(w->has_load);
    assert_int_equal(w->load.max_replicas, 8);
    assert_int_equal(pool_of(&run, "gpu")->max_nodes, 4);
    assert_int_equal(run.r.rows[run.r.n_rows - 1].pool_nodes[1], 1); // after the load
    assert_true(w->load.wait_p99_s > 0);                             // while nodes start
    assert_int_equal(w->waits.waiting, 0);
    run_finish(&run);
}

static void test_without_capacity_another_pool_is_used(void **state)
{
    (void)state;
    struct run run = run_text(
        "duration: 2h\npools:\n" GPU_POOL("spot", "1",
                                          "price: 1, noCapacity: [{from: 0s, until: 1h}]")
            GPU_POOL("demand", "1",
                     "price: 3") "workloads:\n"
                                 "- {name: a, jobs: [{at: 0s, run: 10m}, {at: 70m, run: 10m}]}\n");
    assert_int_equal(run.r.summary.capacity_failures, 1);
    assert_int_equal(pool_of(&run, "spot")->failures, 1);
    assert_int_equal(pool_of(&run, "demand")->added, 1);
    assert_contains(&run, "node spot-1 failed: no capacity; back-off of the pool for 300 s");
    assert_contains(&run, "1:10:00  spot 0->1");
    run_finish(&run);
}

static void test_a_node_that_does_not_register_is_given_up(void **state)
{
    (void)state;
    struct run run = run_text(
        "duration: 2h\npools:\n" GPU_POOL("a", "1", "price: 1, fail: never-registers")
            GPU_POOL("b", "1", "price: 3") "autoscaler: {max-node-provision-time: 10m}\n"
                                           "workloads:\n- {name: w, jobs: [{at: 0s, run: 10m}]}\n");
    assert_int_equal(run.r.summary.start_failures, 1);
    assert_int_equal(pool_of(&run, "b")->added, 1);
    assert_contains(&run, "0:10:00  node a-1 failed");
    run_finish(&run);
}

static void test_pods_leave_a_node_that_is_hardly_used(void **state)
{
    (void)state;
    // Two nodes with four GPUs; when the large job ends, the replica of one node fits on the other.
    struct run run =
        run_text("duration: 2h\npools:\n" GPU_POOL("gpu", "4", "price: 1") FAST
                 "workloads:\n"
                 "- {name: big, jobs: [{at: 0s, run: 30m, gpus: 3}]}\n"
                 "- {name: web, replicas: 1, capacity: 10, gpusPerReplica: 2, load: "
                 "[[0s, 5]]}\n"
                 "- {name: long, safeToEvict: true, jobs: [{at: 0s, run: 90m, gpus: 1}]}\n");
    assert_true(run.r.summary.nodes_removed >= 1);
    assert_int_equal(run.r.workloads[1].waits.waiting, 0);
    run_finish(&run);
}

// At exactly the threshold, a node is unneeded, as for the Cluster Autoscaler. It was kept, and
// this scenario cost 12.46.
static void test_a_node_at_the_threshold_is_removed(void **state)
{
    (void)state;
    static const struct {
        const char *gpus, *share;
    } cases[] = {{"2", "1"}, {"4", "2"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *text = gs_format(
            "duration: 4h\npools:\n"
            "- {name: t4, max: 4, machine: {cpu: 8, memory: 32Gi, gpus: %s}, startup: 5m, price: "
            "1.59}\n"
            "workloads:\n"
            "- {name: web, replicas: 1, gpusPerReplica: %s, events: [{at: 10m, scale: 2}]}\n"
            "- {name: first, jobs: [{at: 0s, run: 40m, gpus: %s}]}\n"
            "- {name: second, jobs: [{at: 10m, run: 40m, gpus: %s}]}\n",
            cases[i].gpus, cases[i].share, cases[i].share, cases[i].share);
        struct run run = run_text(text);
        assert_contains(&run, "1:05:30  node t4-1 drained: unneeded for 10m0s; its pods fit on "
                              "other nodes\n");
        assert_contains(&run, "; price 7.83 USD\n");
        run_finish(&run);
    }
}

static void test_pods_that_no_pool_fits_wait_until_the_end(void **state)
{
    (void)state;
    struct run run = run_text("duration: 1h\npools:\n" GPU_POOL(
        "gpu", "2",
        "price: 1") "workloads:\n- {name: big, jobs: [{at: 10m, run: 10m, gpus: 4}]}\n");
    assert_int_equal(run.r.summary.waits.waiting, 1);
    assert_int_equal(run.r.summary.waits.max_s, 3000);
    assert_int_equal(run.r.summary.nodes_added, 0);
    run_finish(&run);
}

static void test_selectors_and_taints_choose_the_pool(void **state)
{
    (void)state;
    struct run run = run_text(
        "duration: 1h\npools:\n" GPU_POOL("cheap", "1", "price: 1, taints: [team=a:NoSchedule]")
            GPU_POOL("dear", "1",
                     "price: 9, labels: {disk: ssd}") "workloads:\n"
                                                      "- {name: any, jobs: [{at: 0s, run: 10m}]}\n"
                                                      "- name: a\n"
                                                      "  jobs: [{at: 0s, run: 10m}]\n"
                                                      "  pod: {tolerations: [{key: team, operator: "
                                                      "Exists}], nodeSelector: {disk: hdd}}\n");
    assert_int_equal(pool_of(&run, "cheap")->added, 0);
    assert_int_equal(pool_of(&run, "dear")->added, 1);
    assert_int_equal(run.r.workloads[1].waits.waiting, 1);
    run_finish(&run);
}

// --- policies ---

static double price_with(const char *policy)
{
    GS_AUTO_FREE char *text = gs_format(
        "policy: %s\n"
        "duration: 1h\npools:\n" GPU_POOL("small", "1", "price: 1")
            GPU_POOL("big", "4",
                     "price: 5, priority: 1") "workloads:\n"
                                              "- {name: a, jobs: [{at: 0s, run: 10m, pods: 2}]}\n",
        policy);
    struct run run = run_text(text);
    double price = run.r.summary.price;
    assert_int_equal(run.r.summary.waits.waiting, 0);
    run_finish(&run);
    return price;
}

static void test_policies_choose_different_pools(void **state)
{
    (void)state;
    assert_true(price_with("cost") < price_with("priority"));
    assert_true(price_with("packing") < price_with("least-nodes"));
}

#define FRAGMENTATION                                                                              \
    "duration: 3h\npools:\n" GPU_POOL("v100-1", "1", "price: 2.48")                                \
        GPU_POOL("v100-4", "4", "price: 9.92") FAST                                                \
        "workloads:\n"                                                                             \
        "- {name: training, jobs: [{at: 0s, run: 40m, gpus: 4}, {at: 50m, run: 40m, gpus: 4}]}\n"  \
        "- {name: notebook, jobs: [{at: 47m, run: 1h, gpus: 1}]}\n"

static void test_an_early_cordon_keeps_a_large_node_whole(void **state)
{
    (void)state;
    struct replay_fleet *f = NULL;
    struct replay_fleet_result r;
    assert_ok(load(FRAGMENTATION, &f));
    assert_ok(replay_fleet_set(f, "early-cordon", "true"));
    assert_ok(replay_fleet_run(f, &r));
    // The large node serves both trainings, the notebook has a small node.
    assert_int_equal(r.pools[0].added, 1);
    assert_int_equal(r.pools[1].added, 1);
    assert_true(r.summary.price < 19.1);
    replay_fleet_result_finish(&r);
    assert_refused_setting(f, "early-cordon", "maybe");
    replay_fleet_free(f);
}

static void test_consolidation_empties_a_node_above_the_threshold(void **state)
{
    (void)state;
    // Three of the four GPUs of the small node are in use; they fit on the large one after the job.
    static const char text[] = "duration: 3h\npools:\n" GPU_POOL("large", "8", "price: 8")
        GPU_POOL("small", "4", "price: 4") FAST
        "workloads:\n"
        "- {name: web, replicas: 1, gpusPerReplica: 5}\n"
        "- {name: job, jobs: [{at: 0s, run: 40m, gpus: 3}]}\n"
        "- {name: api, replicas: 0, gpusPerReplica: 3, events: [{at: 10m, scale: 1}]}\n";
    struct replay_fleet *f = NULL;
    double hours[2];
    for (size_t i = 0; i < 2; i++) {
        struct replay_fleet_result r;
        assert_ok(load(text, &f));
        assert_ok(replay_fleet_set(f, "consolidation", i ? "true" : "false"));
        assert_ok(replay_fleet_run(f, &r));
        hours[i] = r.summary.node_hours;
        assert_int_equal(r.summary.waits.waiting, 0);
        assert_int_equal(r.rows[r.n_rows - 1].nodes, i ? 1 : 2);
        replay_fleet_result_finish(&r);
        replay_fleet_free(f);
    }
    assert_true(hours[1] < hours[0] - 1);
}

static void test_a_pod_that_waits_has_a_reason(void **state)
{
    (void)state;
    struct run run = run_text("duration: 1h\npools:\n" GPU_POOL("gpu", "2", "price: 1") GPU_POOL(
        "free", "1", "") "workloads:\n- {name: big, jobs: [{at: 10m, run: 10m, gpus: 4}]}\n");
    assert_contains(&run, "big waits: no nodes available to schedule pods; pool gpu");
    assert_contains(&run, "; pool free: Insufficient nvidia.com/gpu");
    assert_contains(&run, "warning: ");
    assert_contains(&run, "pool free has no price");
    run_finish(&run);
}

// --- repeatability ---

#define RANDOM                                                                                     \
    "duration: 24h\npools:\n"                                                                      \
    "- {name: a, max: 9, machine: {cpu: 8, memory: 8Gi, gpus: 1}, price: 1, fail: capacity:20%, "  \
    "startup: {p50: 4m, p90: 8m}}\n"                                                               \
    "- {name: b, max: 9, machine: {cpu: 8, memory: 8Gi, gpus: 4}, price: 5, startup: {p50: 4m, "   \
    "p90: 8m}}\n"                                                                                  \
    "workloads:\n"                                                                                 \
    "- {name: x, jobs: {every: 5m, run: {p50: 10m, p90: 1h}, gpus: {1: 60, 2: 20, 4: 20}}}\n"

static void test_equal_scenarios_have_equal_results(void **state)
{
    (void)state;
    struct run first = run_text(RANDOM), second = run_text(RANDOM),
               other = run_text("seed: 2\n" RANDOM);
    // Before it, the temporary file is named, also in warnings.
    static const char after[] = ", policy ";
    const char *a = strstr(first.table.data, after), *b = strstr(second.table.data, after);
    assert_non_null(a);
    assert_string_equal(a, b);
    assert_string_not_equal(a, strstr(other.table.data, after));
    assert_true(first.r.summary.waits.pods > 200);
    assert_true(first.r.summary.capacity_failures > 0);
    run_finish(&first);
    run_finish(&second);
    run_finish(&other);
}

#define SPOT                                                                                       \
    "duration: 24h\npools:\n"                                                                      \
    "- {name: spot, max: 2, machine: {cpu: 8, memory: 32Gi, gpus: 1}, startup: 3m, price: 0.74, "  \
    "spot: true, preemption: 2h}\n"                                                                \
    "workloads:\n"                                                                                 \
    "- {name: job, jobs: [{at: 0s, run: 3h, gpus: 1}]}\n"                                          \
    "- {name: web, replicas: 1, gpusPerReplica: 1, capacity: 10, load: [[0s, 5], [1h, 5]]}\n"

static void test_preempted_pods_wait_for_another_node(void **state)
{
    (void)state;
    struct run run = run_text(SPOT);
    const struct replay_fleet_summary *u = &run.r.summary;
    assert_true(u->preemptions >= 4);
    assert_int_equal(u->preemptions, pool_of(&run, "spot")->preempted);
    assert_true(u->evictions >= 4 && u->evictions <= u->preemptions);
    assert_int_equal(u->waits.pods, 2 + u->evictions); // each is Pending again
    assert_int_equal(u->waits.waiting, 0);
    assert_true(u->nodes_added >= u->preemptions);
    assert_contains(&run, "preempted with 1 pod\n");
    assert_contains(&run, " preempted, at most 2;");
    CODEC_AUTO_JSON json_t *json = replay_fleet_json(&run.r);
    assert_int_equal(codec_json_int(json, 0, "summary", "preemptions", NULL), u->preemptions);
    run_finish(&run);
}

static void test_the_mean_time_until_preemption_can_be_set(void **state)
{
    (void)state;
    struct replay_fleet *f = NULL;
    struct replay_fleet_result r;
    assert_ok(load(SPOT "- {name: late, jobs: [{at: 1h, run: 1h}]}\n", &f));
    assert_refused_setting(f, "preemption.other", "1h");
    assert_refused_setting(f, "preemption.spot", "1ms");
    assert_refused_setting(f, "preemption.spot", "often");
    assert_ok(replay_fleet_set(f, "preemption.spot", "0s"));
    assert_ok(replay_fleet_run(f, &r));
    assert_int_equal(r.summary.preemptions, 0);
    replay_fleet_result_finish(&r);
    replay_fleet_free(f);
    assert_ok(load(RANDOM, &f));
    assert_refused_setting(f, "preemption.a", "1h"); // not spot
    replay_fleet_free(f);
}

static void test_packing_keeps_the_invariants(void **state)
{
    (void)state;
    for (int seed = 1; seed <= 10; seed++) {
        // Pods without GPUs keep nodes busy whose GPUs are idle.
        GS_AUTO_FREE char *text = gs_format(
            "seed: %d\n%s", seed,
            "autoscaler: {early-cordon: true, consolidation: true, scale-down-unneeded-time: 2m, "
            "scale-down-delay-after-add: 1m}\n" RANDOM
            "- {name: cpu, safeToEvict: true, jobs: {every: 10m, run: 20m, gpus: 0}}\n");
        struct run run = run_text(text);
        const struct replay_fleet_summary *u = &run.r.summary;
        assert_true(u->used_gpu_hours <= u->gpu_hours && u->stranded_gpu_hours <= u->gpu_hours);
        assert_true(u->nodes_removed + u->capacity_failures + u->start_failures <= u->nodes_added);
        assert_true(u->waits.p50_s >= 0 && u->waits.p50_s <= u->waits.p99_s &&
                    u->waits.p99_s <= u->waits.max_s);
        assert_true(u->evictions > 0);
        run_finish(&run);
    }
}

static void test_outputs_agree(void **state)
{
    (void)state;
    struct run run = run_text(RANDOM);
    GS_AUTO_BUF struct gs_buf svg = {0}, csv = {0};
    const char *name = "a & b";
    CODEC_AUTO_JSON json_t *j = replay_fleet_json(&run.r);
    replay_fleet_print_svg(&name, &run.r, 1, &svg);
    replay_fleet_print_csv(&run.r, &csv);
    assert_non_null(strstr(svg.data, "a &amp; b"));
    assert_non_null(strstr(csv.data, "seconds,waiting,nodes,gpus,used,stranded,\"a\",\"b\"\n"));
    assert_int_equal(codec_json_int(j, 0, "summary", "nodesAdded", NULL),
                     run.r.summary.nodes_added);
    assert_int_equal(json_array_size(json_object_get(j, "states")), run.r.n_rows);
    // The sums are those of the pools.
    double price = 0;
    for (size_t i = 0; i < run.r.n_pools; i++)
        price += run.r.pools[i].price;
    assert_true(price > run.r.summary.price - 0.01 && price < run.r.summary.price + 0.01);
    run_finish(&run);
}

// --- traces ---

static struct gs_error *load_trace(const char *csv, struct replay_fleet **ret)
{
    char path[] = "/tmp/gpuscale-trace-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(csv)));
    GS_AUTO_FREE char *text = gs_format(
        "pools:\n" GPU_POOL("a", "4", "price: 1") "workloads:\n- {name: w, jobs: %s}\n", path);
    struct gs_error *err = load(text, ret);
    unlink(path);
    return err;
}

static void test_jobs_of_a_trace(void **state)
{
    (void)state;
    static const struct {
        const char *csv, *error;
    } wrong[] = {
        {"", ":1: want the columns"},
        {"at,run\n", "no jobs"},
        {"at,at,run\n1,2,3\n", "twice"},
        {"at,run,gpus\n0,60,1\n\nx,60,1\n", ":4: at: "},
        {"at,run,gpus\n0,nan,1\n", ":2: run: "},
        {"at,run,gpus\n0,60,1.5\n", ":2: gpus: "},
        {"at,run,gpus\n0,60\n", ":2: gpus: "},
        {"at,run\n5,60\n4,60\n", ":3: rows must be in the order"},
    };
    struct replay_fleet *f = NULL;
    struct replay_fleet_result r;
    assert_ok(load_trace("name, at, run, gpus\r\nx, 0, 60.5, 4\r\ny, 600, 60, 1\r\n", &f));
    assert_ok(replay_fleet_run(f, &r));
    assert_int_equal(r.summary.waits.pods, 2);
    assert_int_equal(r.pools[0].added, 1);
    replay_fleet_result_finish(&r);
    replay_fleet_free(f);
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        struct gs_error *err = load_trace(wrong[i].csv, &f);
        if (!err || !strstr(gs_error_message(err), wrong[i].error))
            fail_msg("case %zu: %s", i, err ? gs_error_message(err) : "accepted");
        gs_error_free(err);
    }
}

// --- the command ---

static struct gs_error *execute(const struct replay_options *o, const char *text,
                                struct gs_buf *out)
{
    char path[] = "/tmp/gpuscale-fleet-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
    struct replay_options with_path = *o;
    const char *same[] = {path};
    if (o->compare.len)
        with_path.compare.items = same;
    struct gs_error *err = replay_execute(&with_path, path, out);
    unlink(path);
    return err;
}

static void test_the_command(void **state)
{
    (void)state;
    const char *seeds[] = {"seed=1,2"}, *set[] = {"policy=speed", "duration=3h"}, *any[] = {""};
    const char *wrong[] = {"seed"};
    const struct {
        struct replay_options o;
        const char *part; // of the output, or of the error
        bool fails;
    } cases[] = {
        {{.output = "table"}, "wait of the pods", false},
        {{.output = "csv", .set = {set, 2, 2}}, "seconds,waiting", false},
        {{.output = "json"}, "\"states\": [", false},
        {{.output = "svg"}, "nodes of the pools", false},
        {{.output = "table", .sweep = {seeds, 1, 1}}, "\nseed=2 ", false},
        {{.output = "json", .sweep = {seeds, 1, 1}}, "\"name\": \"seed=2\"", false},
        {{.output = "table", .compare = {any, 1, 1}}, "used%", false},
        {{.output = "csv", .sweep = {seeds, 1, 1}}, "have no csv", true},
        {{.output = "table", .sweep = {wrong, 1, 1}}, "write NAME=", true},
        {{.output = "table", .set = {wrong, 1, 1}}, "write NAME=VALUE", true},
        {{.output = "table", .prices = "/nonexistent"}, "/nonexistent", true},
        {{.output = "table", .start_times = "/nonexistent"}, "/nonexistent", true},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_BUF struct gs_buf out = {0};
        struct gs_error *err = execute(&cases[i].o, FRAGMENTATION, &out);
        const char *text = err ? gs_error_message(err) : out.data;
        if (cases[i].fails != (err != NULL) || !strstr(text, cases[i].part))
            fail_msg("case %zu: no \"%s\" in: %s", i, cases[i].part, text);
        gs_error_free(err);
    }
}

// --- settings and errors ---

static struct gs_error *learn(struct replay_fleet *f, const char *json)
{
    char path[] = "/tmp/gpuscale-times-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(json)));
    struct gs_error *err = replay_fleet_start_times(f, path);
    unlink(path);
    return err;
}

static void test_learned_start_times(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "{", "{}", "{\"pools\": [{\"name\": \"v100-4\"}]}",
        "{\"pools\": [{\"name\": \"x\", \"startup\": {\"p50Seconds\": 1, \"p90Seconds\": 2}}]}",
        "{\"pools\": [{\"name\": \"v100-4\", \"startup\": {\"p50Seconds\": 9, \"p90Seconds\": "
        "2}}]}"};
    struct replay_fleet *f = NULL;
    struct replay_fleet_result r;
    assert_ok(load(FRAGMENTATION, &f));
    assert_ok(learn(f, "{\"pools\": [{\"name\": \"v100-4\", \"startup\": {\"samples\": 2, "
                       "\"p50Seconds\": 100, \"p90Seconds\": 100}}]}"));
    assert_ok(replay_fleet_run(f, &r));
    assert_int_equal(r.workloads[0].waits.max_s, 100);
    replay_fleet_result_finish(&r);
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        struct gs_error *err = learn(f, wrong[i]);
        if (!err)
            fail_msg("accepted: %s", wrong[i]);
        gs_error_free(err);
    }
    replay_fleet_free(f);
}

static void test_settings(void **state)
{
    (void)state;
    struct replay_fleet *f = NULL;
    static const char *const wrong[][2] = {
        {"nothing", "1"},    {"max.c", "1"},     {"max.a", "x"},
        {"max.a", "100000"}, {"x.target", "50"}, {"y.target", "50"},
        {"seed", "-1"},      {"duration", "0s"}, {"scan-interval", "1ms"}};
    assert_ok(load(RANDOM, &f));
    assert_ok(replay_fleet_set(f, "max.a", "2"));
    assert_ok(replay_fleet_set(f, "price.a", "0.5"));
    assert_ok(replay_fleet_set(f, "seed", "3"));
    assert_ok(replay_fleet_set(f, "duration", "2h"));
    assert_ok(replay_fleet_set(f, "scale-down-unneeded-time", "1m"));
    struct replay_fleet_result r;
    assert_ok(replay_fleet_run(f, &r));
    assert_true(r.pools[0].max_nodes <= 2);
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++)
        assert_refused_setting(f, wrong[i][0], wrong[i][1]);
    replay_fleet_result_finish(&r);
    replay_fleet_free(f);
}

static void test_wrong_scenarios_name_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"pools:\n" CPU, "workloads: want a list"},
        {"workloads: [{name: a, jobs: [{run: 1m}]}]\n", "pools: want"},
        {"workloads: []\npools:\n" CPU, ":1:"},
        {"pools:\n" CPU "workloads:\n- {name: a, jobs: [{at: 1m}]}\n",
         ":4:20: a job needs \"run\""},
        {"pools:\n" CPU "workloads:\n- {name: a, jobs: {run: 1m}}\n", "jobs need \"every\""},
        {"pools:\n" CPU "workloads:\n- {name: a, jobs: [{run: 1m, gpus: 5000}]}\n",
         "want a whole number from 0 to 1024"},
        {"pools:\n" CPU "workloads:\n- {name: a, jobs: {every: 1m, run: 1m, gpus: {x: 1}}}\n",
         "\"x\" is not a number of GPUs"},
        {"pools:\n" CPU "workloads:\n- {name: a, jobs: [{run: 1m}], pod: {nodeSelectors: {}}}\n",
         "nodeSelectors"},
        {"pools:\n" CPU "workloads:\n- {name: a, jobs: [{run: 1m}], load: [[0s, 1]]}\n",
         "either jobs"},
        {"pools:\n" CPU "workloads:\n- {jobs: [{run: 1m}]}\n", "needs a name"},
        {"pools:\n" CPU "workloads:\n- &a {name: a, jobs: [{run: 1m}]}\n- *a\n", "two workloads"},
        {"pools:\n" CPU "workloads:\n- {name: a, hpa: {apiVersion: autoscaling/v2, kind: "
         "HorizontalPodAutoscaler, spec: {maxReplicas: 0}}, load: [[0s, 1]]}\n",
         "maxReplicas"},
        {"pools:\n" CPU "autoscaler: {scan: 1s}\nworkloads:\n- {name: a, jobs: [{run: 1m}]}\n",
         "scan"},
        {"policy: cheap\npools:\n" CPU "workloads:\n- {name: a, jobs: [{run: 1m}]}\n", ":1:9:"},
        {"pools:\n- {name: a, labels: {nvidia.com/gpu.present: x}}\n"
         "workloads:\n- {name: a, jobs: [{run: 1m}]}\n",
         "GPU label"},
        {"pools:\n- {name: a, preemption: 1h}\nworkloads:\n- {name: a, jobs: [{run: 1m}]}\n",
         ":2:1: pool a: preemption needs spot: true"},
        {"pools:\n- {name: a, spot: true, preemption: 1ms}\nworkloads:\n- {name: a, jobs: [{run: "
         "1m}]}\n",
         "want a preemption of at least 1s"},
        {"pools:\n- {name: a, maximum: 1}\nworkloads:\n- {name: a, jobs: [{run: 1m}]}\n", ":2:"},
        {"pools: /nonexistent/pools.yaml\nworkloads:\n- {name: a, jobs: [{run: 1m}]}\n",
         "/nonexistent/pools.yaml"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct replay_fleet *f = NULL;
        struct gs_error *err = load(cases[i].text, &f);
        if (!err)
            fail_msg("accepted: %s", cases[i].text);
        if (!strstr(gs_error_message(err), cases[i].error))
            fail_msg("no \"%s\" in: %s", cases[i].error, gs_error_message(err));
        gs_error_free(err);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_small_pod_on_an_idle_large_node_strands_its_gpus),
        cmocka_unit_test(test_nodes_follow_an_autoscaler),
        cmocka_unit_test(test_without_capacity_another_pool_is_used),
        cmocka_unit_test(test_a_node_that_does_not_register_is_given_up),
        cmocka_unit_test(test_pods_leave_a_node_that_is_hardly_used),
        cmocka_unit_test(test_a_node_at_the_threshold_is_removed),
        cmocka_unit_test(test_pods_that_no_pool_fits_wait_until_the_end),
        cmocka_unit_test(test_selectors_and_taints_choose_the_pool),
        cmocka_unit_test(test_policies_choose_different_pools),
        cmocka_unit_test(test_an_early_cordon_keeps_a_large_node_whole),
        cmocka_unit_test(test_consolidation_empties_a_node_above_the_threshold),
        cmocka_unit_test(test_preempted_pods_wait_for_another_node),
        cmocka_unit_test(test_the_mean_time_until_preemption_can_be_set),
        cmocka_unit_test(test_a_pod_that_waits_has_a_reason),
        cmocka_unit_test(test_equal_scenarios_have_equal_results),
        cmocka_unit_test(test_packing_keeps_the_invariants),
        cmocka_unit_test(test_outputs_agree),
        cmocka_unit_test(test_jobs_of_a_trace),
        cmocka_unit_test(test_the_command),
        cmocka_unit_test(test_learned_start_times),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_wrong_scenarios_name_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
