// SPDX-License-Identifier: Apache-2.0
// The same cluster gives the same plan in a simulation and in Kubernetes: generated simulations are
// stopped, expressed as objects of an API, and read by the autoscaler of nodes.
#include "autoscaler/autoscaler_private.h"
#include "base/file.h"
#include "base/mem.h"
#include "kube/client.h"
#include "kube/object.h"
#include "kube/status.h"
#include "patience.h"
#include "replay/fleet_run.h"
#include "replay/scenario_private.h"
#include "unit.h"

#include <unistd.h>

#define CLUSTERS 200
#define TICK_MS  2

// --- generated simulations ---

static double any(uint64_t seed, uint64_t what)
{
    return replay_random(seed, 7, what);
}

static const char *one_of(uint64_t seed, uint64_t what, const char *const *texts, size_t n)
{
    return texts[(size_t)(any(seed, what) * (double)n)];
}
#define ONE_OF(seed, what, ...)                                                                    \
    one_of((seed), (what), (const char *const[]){__VA_ARGS__},                                     \
           GS_ARRAY_LEN(((const char *const[]){__VA_ARGS__})))

static void add_pool(struct gs_buf *b, uint64_t seed, uint64_t pool)
{
    uint64_t k = 100 + pool * 10;
    gs_buf_addf(b, "- {name: p%llu, min: %s, max: %s, machine: {cpu: %s, memory: 64Gi, gpus: %s}, ",
                (unsigned long long)pool, ONE_OF(seed, k, "0", "0", "1"),
                ONE_OF(seed, k + 1, "2", "4", "6"), ONE_OF(seed, k + 2, "8", "16"),
                ONE_OF(seed, k + 3, "1", "2", "4", "8"));
    gs_buf_addf(b, "price: %s, startup: {p50: 3m, p90: 6m}, fail: \"capacity:%s\"}\n",
                ONE_OF(seed, k + 4, "1", "2", "3.5"), ONE_OF(seed, k + 5, "5%", "20%"));
}

static char *scenario(uint64_t seed)
{
    GS_AUTO_BUF struct gs_buf b = {0};
    gs_buf_addf(&b, "seed: %llu\nduration: 6h\npolicy: %s\nautoscaler: {", (unsigned long long)seed,
                ONE_OF(seed, 1, "cost", "packing", "least-waste", "most-pods"));
    gs_buf_addf(&b, "scale-down-unneeded-time: %s, scale-down-delay-after-add: %s, ",
                ONE_OF(seed, 2, "1m", "5m", "10m"), ONE_OF(seed, 3, "0s", "2m", "10m"));
    gs_buf_addf(&b, "scale-down-gpu-utilization-threshold: %s, early-cordon: %s, ",
                ONE_OF(seed, 4, "0.5", "0.5", "0.25", "0.75"), ONE_OF(seed, 5, "true", "false"));
    gs_buf_addf(&b, "consolidation: %s}\npools:\n", ONE_OF(seed, 6, "true", "false"));
    size_t n = 2 + (size_t)(any(seed, 8) * 2);
    for (size_t i = 0; i < n; i++)
        add_pool(&b, seed, i);
    gs_buf_addf(
        &b,
        "workloads:\n- {name: jobs, safeToEvict: %s, jobs: {every: %s, run: {p50: 10m, p90: "
        "40m}, gpus: {1: 50, 2: 30, 4: 20}}}\n",
        ONE_OF(seed, 9, "true", "false"), ONE_OF(seed, 10, "5m", "15m", "30m"));
    gs_buf_addf(&b,
                "- {name: web, replicas: %s, gpusPerReplica: %s, drain: 10m, events: [{at: 1h, "
                "scale: 6}, {at: "
                "2h, scale: 2}]}\n",
                ONE_OF(seed, 11, "1", "3"), ONE_OF(seed, 12, "1", "2"));
    if (any(seed, 21) < 0.3)
        gs_buf_add_str(&b,
                       "- {name: cpu, safeToEvict: true, jobs: {every: 20m, run: 30m, gpus: 0}, "
                       "pod: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}}\n");
    return gs_buf_take(&b);
}

static struct replay_fleet *load(uint64_t seed)
{
    char path[] = "/tmp/gpuscale-fleet-XXXXXX";
    int fd = mkstemp(path);
    GS_AUTO_FREE char *text = scenario(seed);
    struct replay_fleet *f = NULL;
    assert_true(fd >= 0);
    close(fd);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
    assert_ok(replay_fleet_load(path, &f));
    unlink(path);
    return f;
}

// Until a time of the seed, and on until something happens.
static void run_until_busy(struct replay_fleet_run *run, uint64_t seed)
{
    int64_t until_ms = 1800000 + (int64_t)(any(seed, 13) * 4 * 3600000);
    bool wants_waiting = any(seed, 14) < 0.4;
    while (run->t_ms < until_ms)
        replay_fleet_step(run);
    for (int i = 0; i < 200 && wants_waiting && !run->waiting.len; i++)
        replay_fleet_step(run);
}

// Makes the next plan differ from the last one of the simulation: time passes, and settings change.
static void disturb(struct replay_fleet_run *run, struct replay_fleet *f, uint64_t seed)
{
    run->t_ms += (int64_t)(any(seed, 15) * 900) * 1000;
    f->plan.early_cordon ^= any(seed, 16) < 0.7;
    f->plan.max_nodes_total = any(seed, 17) < 0.1 ? 3 : 0;
    f->plan.max_drain_parallelism = 1 + (size_t)(any(seed, 18) * 3);
    f->plan.balance_similar = any(seed, 19) < 0.3;
    f->plan.enforce_min_size = any(seed, 20) < 0.5;
}

// --- the same cluster as objects of an API ---

struct world {
    uv_loop_t loop;
    struct http_client *http;
    struct kube_client *kube;
    json_t *nodes, *pods;
    const struct replay_fleet_run *run;
    int64_t now_ms;
};

static void watch_closed(void *arg)
{
    (void)arg;
}

static void handle(void *ctx, struct http_exchange *x)
{
    struct world *w = ctx;
    const char *path = http_path(x);
    CODEC_AUTO_JSON json_t *none = json_array();
    const json_t *items = gs_streq(path, "/api/v1/nodes")  ? w->nodes
                          : gs_streq(path, "/api/v1/pods") ? w->pods
                                                           : none;
    if (!gs_streq(http_method(x), "GET")) {
        kube_reply_failure(x, 404, "NotFound", "this API is read only");
    } else if (http_query(x, "watch")) {
        http_reply_stream(x, 200, "application/json", watch_closed, NULL);
    } else {
        CODEC_AUTO_JSON json_t *list =
            json_pack("{s:s, s:s, s:{s:s}, s:O}", "kind", "List", "apiVersion", "v1", "metadata",
                      "resourceVersion", "1", "items", items);
        kube_reply_json(x, 200, list);
    }
}

static void add_node(struct world *w, size_t i)
{
    const char *name = nodes_name(w->run->snapshot, i);
    json_t *node = json_deep_copy(nodes_node(w->run->snapshot, i));
    GS_AUTO_FREE char *id = gs_format("x://%s", name);
    codec_json_set(node, json_string(id), "spec", "providerID", NULL);
    codec_json_set(node, json_string(name), "metadata", "uid", NULL);
    codec_json_set(node, json_string("1"), "metadata", "resourceVersion", NULL);
    json_array_append_new(w->nodes, node);
}

static void add_pod(struct world *w, const struct replay_fleet_pod *p)
{
    json_t *pod = json_deep_copy(nodes_pod(w->run->snapshot, p->index));
    GS_AUTO_FREE char *name = gs_format("%06zu", p->index);
    codec_json_set(pod, json_string(name), "metadata", "name", NULL);
    codec_json_set(pod, json_string(name), "metadata", "uid", NULL);
    codec_json_set(pod, json_string("1"), "metadata", "resourceVersion", NULL);
    if (p->node != REPLAY_NONE)
        codec_json_set(pod, json_string(nodes_name(w->run->snapshot, p->node)), "spec", "nodeName",
                       NULL);
    else
        codec_json_set(pod,
                       json_pack("[{s:s, s:s, s:s}]", "type", "PodScheduled", "status", "False",
                                 "reason", "Unschedulable"),
                       "status", "conditions", NULL);
    json_array_append_new(w->pods, pod);
}

static void world_init(struct world *w, const struct replay_fleet_run *run)
{
    *w = (struct world){.run = run,
                        .now_ms = REPLAY_T0_MS + run->t_ms,
                        .nodes = json_array(),
                        .pods = json_array()};
    for (size_t i = 0; i < run->n_nodes; i++)
        if (run->nodes[i].state == REPLAY_NODE_READY || run->nodes[i].state == REPLAY_NODE_DRAINING)
            add_node(w, i);
    for (size_t i = 0; i < run->n_pods; i++)
        if (run->pods[i].live)
            add_pod(w, &run->pods[i]);
    uv_loop_init(&w->loop);
    w->http = http_client_new_loopback(&w->loop, handle, w, NULL);
    w->kube = kube_client_new(w->http);
}

static void world_finish(struct world *w)
{
    kube_client_free(w->kube);
    http_client_free(w->http);
    for (int64_t end = gs_mono_ns() + WAIT_NS; uv_loop_alive(&w->loop) && gs_mono_ns() < end;)
        uv_run(&w->loop, UV_RUN_NOWAIT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    json_decref(w->nodes);
    json_decref(w->pods);
}

static void tick(uv_timer_t *t)
{
    (void)t;
}

static void wait_until_synced(struct world *w, struct kube_cache *const *caches, size_t n)
{
    uv_timer_t timer;
    int64_t end = gs_mono_ns() + WAIT_NS;
    uv_timer_init(&w->loop, &timer);
    uv_timer_start(&timer, tick, TICK_MS, TICK_MS);
    for (size_t i = 0; i < n; i++)
        while (!kube_cache_synced(caches[i]) && gs_mono_ns() < end)
            uv_run(&w->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&w->loop, UV_RUN_NOWAIT);
}

// --- the cloud ---

static bool is_of(const struct replay_fleet_run *run, size_t node, const char *pool)
{
    const struct replay_fleet_node *n = &run->nodes[node];
    return n->state != REPLAY_NODE_ABSENT && gs_streq(run->pools[n->pool].pool->name, pool);
}

static size_t cloud_target(void *ctx, const char *pool)
{
    const struct world *w = ctx;
    size_t n = 0;
    for (size_t i = 0; i < w->run->n_nodes; i++)
        n += is_of(w->run, i, pool);
    return n;
}

static void cloud_each(void *ctx, const char *pool,
                       void (*fn)(void *arg, const struct nodes_instance *i), void *arg)
{
    const struct world *w = ctx;
    for (size_t i = 0; i < w->run->n_nodes; i++) {
        GS_AUTO_FREE char *id = gs_format("x://%s", nodes_name(w->run->snapshot, i));
        bool creating = w->run->nodes[i].state == REPLAY_NODE_CREATING;
        if (is_of(w->run, i, pool))
            fn(arg, &(struct nodes_instance){.provider_id = id,
                                             .state = creating ? NODES_INSTANCE_CREATING
                                                               : NODES_INSTANCE_RUNNING});
    }
}

static int64_t cloud_now(void *arg)
{
    return ((const struct world *)arg)->now_ms;
}

// --- the autoscaler in the same state ---

static struct autoscaler_settings settings_of(const struct nodes_plan_settings *p)
{
    struct autoscaler_settings s;
    autoscaler_settings_init(&s);
    s.expander = nodes_policy_name(p->policy);
    s.unneeded_time = p->unneeded_ms * GS_NS_PER_MS;
    s.delay_after_add = p->delay_after_add_ms * GS_NS_PER_MS;
    s.max_provision_time = p->max_provision_ms * GS_NS_PER_MS;
    s.utilization_threshold = p->threshold;
    s.gpu_utilization_threshold = p->gpu_threshold;
    s.max_nodes_total = (int64_t)p->max_nodes_total;
    s.max_drain_parallelism = (int64_t)p->max_drain_parallelism;
    s.balance_similar = p->balance_similar;
    s.enforce_min_size = p->enforce_min_size;
    s.early_cordon = p->early_cordon;
    s.consolidation = p->consolidation;
    return s;
}

static void take_nodes(struct autoscaler *a, const struct replay_fleet_run *run)
{
    for (size_t i = 0; i < run->n_nodes; i++) {
        const struct replay_fleet_node *from = &run->nodes[i];
        struct autoscaler_node *n = autoscaler_node_of(a, nodes_name(run->snapshot, i));
        if (from->state != REPLAY_NODE_READY && from->state != REPLAY_NODE_DRAINING)
            continue;
        assert_non_null(n);
        n->unneeded_since_ms = from->unneeded_since_ms;
        n->replaceable_since_ms = from->replaceable_since_ms;
        n->replaced_until_ms = from->replaced_until_ms;
        if (from->state == REPLAY_NODE_DRAINING)
            autoscaler_delete(a, n, true);
    }
}

static void take_pools(struct autoscaler *a, const struct replay_fleet_run *run,
                       const struct nodes_plan_input *in)
{
    for (size_t i = 0; i < in->n_groups; i++) {
        a->pools[i].backoff = in->groups[i].backoff;
        a->pools[i].scaling = run->pools[i].creating > 0;
    }
    a->last_add_ms = run->last_add_ms;
    a->runs = in->settings.seed;
}

// --- plans as texts ---

struct view {
    const struct nodes_plan_input *in;
    const struct nodes_plan *plan;
    bool simulated; // its pods are named by their numbers
};

static char *pod_name(const struct view *v, size_t pod)
{
    return v->simulated ? gs_format("%06zu", pod)
                        : gs_strdup(kube_name(nodes_pod(v->in->snapshot, pod)));
}

static void print_input(const struct view *v, struct gs_buf *b)
{
    const struct nodes_plan_input *in = v->in;
    gs_buf_addf(b, "total %zu removing %zu draining %zu add %lld delete %lld failure %lld\n",
                in->n_total, in->n_removing, in->n_draining, (long long)in->last_add_ms,
                (long long)in->last_delete_ms, (long long)in->last_failure_ms);
    for (size_t i = 0; i < in->n_groups; i++) {
        const struct nodes_group *g = &in->groups[i];
        size_t upcoming = 0;
        for (size_t k = 0; k < in->n_nodes; k++)
            upcoming += in->nodes[k].group == i && in->nodes[k].condition == NODES_UPCOMING;
        gs_buf_addf(b, "group %s: %zu of %zu, leaving %zu, growing %d, upcoming %zu, until %lld\n",
                    g->name, g->size, g->max, in->leaving[i], in->growing[i], upcoming,
                    (long long)(g->backoff.failures ? g->backoff.until_ms : 0));
    }
    for (size_t i = 0; i < nodes_pod_count(in->snapshot); i++) {
        size_t node = nodes_of_pod(in->snapshot, i);
        if (node < in->n_nodes && in->nodes[node].condition == NODES_ABSENT)
            continue;
        GS_AUTO_FREE char *name = pod_name(v, i);
        gs_buf_addf(b, "pod %s: %zu GPUs on %s\n", name, nodes_gpu_request(in->snapshot, i),
                    node == NODES_NONE ? "no node" : nodes_name(in->snapshot, node));
    }
}

static void print_node(const struct view *v, size_t node, struct gs_buf *b)
{
    const struct nodes_node_plan *n = &v->plan->nodes[node];
    GS_AUTO_FREE char *pod = n->pod == NODES_NONE ? gs_strdup("-") : pod_name(v, n->pod);
    GS_AUTO_FREE char *text =
        n->pod == NODES_NONE ? nodes_plan_node_text(v->in, v->plan, node) : gs_strdup("");
    gs_buf_addf(b, "node %s: verdict %d, keeper %d, pod %s, since %lld, %lld, %lld, used %g: %s\n",
                nodes_name(v->in->snapshot, node), n->verdict, n->keeper, pod,
                (long long)n->unneeded_since_ms, (long long)n->replaceable_since_ms,
                (long long)n->replaced_until_ms, n->utilization, text);
}

static void print_plan(const struct view *v, struct gs_buf *b)
{
    const struct nodes_plan *p = v->plan;
    for (size_t i = 0; i < v->in->n_nodes; i++)
        if (v->in->nodes[i].condition != NODES_ABSENT &&
            v->in->nodes[i].condition != NODES_UPCOMING)
            print_node(v, i, b);
    for (size_t i = 0; i < p->n_pods; i++) {
        GS_AUTO_FREE char *name = pod_name(v, p->pods[i].pod);
        GS_AUTO_FREE char *text = nodes_plan_pod_text(v->in, p, i);
        gs_buf_addf(b, "waiting %s: %d: %s\n", name, p->pods[i].wait, text);
    }
    for (size_t i = 0; i < p->n_orders; i++) {
        const struct nodes_order *o = &p->orders[i];
        gs_buf_addf(b, "order %d of %s, because %d, node %s, pods", (int)o->count,
                    v->in->groups[o->group].name, o->cause,
                    o->node == NODES_NONE ? "-" : nodes_name(v->in->snapshot, o->node));
        for (size_t k = 0; k < o->n_pods; k++) {
            GS_AUTO_FREE char *name = pod_name(v, o->pods[k]);
            gs_buf_addf(b, " %s", name);
        }
        gs_buf_add_char(b, '\n');
    }
    for (size_t i = 0; i < p->n_removals; i++)
        gs_buf_addf(b, "remove %s, drain %d\n", nodes_name(v->in->snapshot, p->removals[i].node),
                    p->removals[i].drain);
    for (size_t i = 0; i < p->cordons.len; i++)
        gs_buf_addf(b, "cordon %s: %d\n", nodes_name(v->in->snapshot, p->cordons.items[i].node),
                    p->cordons.items[i].cordon);
    gs_buf_addf(b,
                "delay %d until %lld, again %lld, unneeded %zu, unremovable %zu, awaited %d\n%s\n",
                p->delay, (long long)p->delay_until_ms, (long long)p->again_ms, p->n_unneeded,
                p->n_unremovable, p->awaited, p->decided ? p->decision.text : "no decision");
}

static char *text_of(struct nodes_plan_input *in, bool simulated, struct nodes_plan *ret)
{
    GS_AUTO_BUF struct gs_buf b = {0};
    nodes_plan(in, ret);
    const struct view v = {in, ret, simulated};
    print_input(&v, &b);
    print_plan(&v, &b);
    return gs_buf_take(&b);
}

// --- the comparison ---

struct seen { // over all clusters, so that the test compares something
    size_t orders, removals, drains, cordons, waiting, leaving, unneeded;
};

static void count(struct seen *s, const struct nodes_plan_input *in, const struct nodes_plan *p)
{
    s->orders += p->n_orders > 0;
    s->cordons += p->cordons.len > 0;
    s->waiting += p->n_pods > 0;
    s->leaving += in->n_removing > 0;
    s->unneeded += p->n_unneeded > 0;
    s->removals += p->n_removals > 0;
    s->drains += p->n_removals && p->removals[p->n_removals - 1].drain;
}

static char *autoscaler_text(struct world *w, const struct nodes_plan_input *in)
{
    const struct nodes_provider provider = {.ctx = w, .target = cloud_target, .each = cloud_each};
    struct kube_cache *caches[] = {kube_cache_new(&w->loop, w->kube, KUBE_NODES, NULL, NULL),
                                   kube_cache_new(&w->loop, w->kube, KUBE_PODS, NULL, NULL),
                                   kube_cache_new(&w->loop, w->kube,
                                                  (struct kube_gvr){"apps", "v1", "daemonsets"},
                                                  NULL, NULL)};
    for (size_t i = 0; i < GS_ARRAY_LEN(caches); i++)
        kube_cache_start(caches[i]);
    const struct autoscaler_config cfg = {.pools = w->run->f->pools.items,
                                          .n_pools = w->run->f->pools.len,
                                          .provider = &provider,
                                          .settings = settings_of(&in->settings),
                                          .pods = caches[1],
                                          .nodes = caches[0],
                                          .daemonsets = caches[2],
                                          .now_ms = cloud_now,
                                          .arg = w};
    struct autoscaler *a = autoscaler_new(&w->loop, w->kube, &cfg);
    struct kube_cache *all[] = {caches[0], caches[1], caches[2], a->pdbs};
    wait_until_synced(w, all, GS_ARRAY_LEN(all));
    autoscaler_pools_update(a, w->now_ms);
    take_nodes(a, w->run);
    autoscaler_pools_update(a, w->now_ms);
    take_pools(a, w->run, in);
    struct autoscaler_run r;
    autoscaler_run_init(a, &r, w->now_ms);
    char *text = text_of(&r.in, false, &r.plan);
    nodes_plan_finish(&r.plan);
    autoscaler_run_finish(&r);
    autoscaler_free(a);
    for (size_t i = 0; i < GS_ARRAY_LEN(caches); i++)
        kube_cache_free(caches[i]);
    return text;
}

static void compare(uint64_t seed, struct seen *s)
{
    struct replay_fleet_result result;
    struct replay_fleet_run run;
    struct replay_fleet_input simulated;
    struct nodes_plan plan;
    struct world w;
    struct replay_fleet *f = load(seed);
    assert_ok(replay_fleet_begin(&run, f, &result));
    run_until_busy(&run, seed);
    disturb(&run, f, seed);
    world_init(&w, &run);
    replay_fleet_input_init(&run, &simulated);
    GS_AUTO_FREE char *want = text_of(&simulated.in, true, &plan);
    GS_AUTO_FREE char *got = autoscaler_text(&w, &simulated.in);
    if (!gs_streq(want, got))
        fail_msg("seed %llu\n--- simulation\n%s--- autoscaler\n%s", (unsigned long long)seed, want,
                 got);
    count(s, &simulated.in, &plan);
    nodes_plan_finish(&plan);
    replay_fleet_input_finish(&simulated);
    world_finish(&w);
    replay_fleet_finish_result(&run);
    replay_fleet_result_finish(&result);
    replay_fleet_end(&run);
    replay_fleet_free(f);
}

static void test_equal_clusters_have_equal_plans(void **state)
{
    struct seen s = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= CLUSTERS; seed++)
        compare(seed, &s);
    print_message("of %d clusters: %zu order, %zu remove, %zu drain, %zu cordon, %zu have waiting "
                  "pods, %zu leaving nodes, %zu unneeded nodes\n",
                  CLUSTERS, s.orders, s.removals, s.drains, s.cordons, s.waiting, s.leaving,
                  s.unneeded);
    assert_true(s.orders && s.removals && s.drains && s.cordons && s.waiting && s.leaving &&
                s.unneeded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_equal_clusters_have_equal_plans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
