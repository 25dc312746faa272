// SPDX-License-Identifier: Apache-2.0
// Series of pools, nodes, GPUs and waiting pods. Start-up times are learned from changes of
// objects: an object counts once, when it is ready for the first time, and summaries are over the
// last 64 starts. Numbers of names are limited, as they become labels.
#include "base/hmap.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "metrics/write.h"
#include "nodes/inspect/inspect_private.h"
#include "nodes/pool.h"

#include <stdlib.h>

#define MAX_KEYS     1000 // pools, and workloads; starts of further ones are not learned
#define MAX_OBJECTS  100000
#define RING         64 // last starts of which quantiles are calculated
#define MAX_PHASE_MS (INT64_C(3600) * 1000)
#define MAX_PHASES   4

static const char *const pool_phases[MAX_PHASES] = {"provision", "ready", "total", NULL};
static const char *const workload_phases[MAX_PHASES] = {"pending", "image", "ready", "total"};

struct starts {
    struct {
        int64_t ms[RING];
        size_t next;
        uint64_t count;
        double sum; // seconds
    } phases[MAX_PHASES];
};

struct inspect_metrics {
    struct gs_hmap *pools;     // name -> struct starts
    struct gs_hmap *workloads; // "namespace workload" -> struct starts
    struct gs_hmap *learned;   // uid of each object that has been learned -> the map itself
    struct gs_hmap *ordered;   // uid of a node -> int64_t: when its machine was needed
};

struct inspect_metrics *inspect_metrics_new(void)
{
    struct inspect_metrics *m = gs_alloc(sizeof(*m));

    m->pools = gs_hmap_new(free);
    m->workloads = gs_hmap_new(free);
    m->learned = gs_hmap_new(NULL);
    m->ordered = gs_hmap_new(free);
    return m;
}

void inspect_metrics_free(struct inspect_metrics *m)
{
    if (!m)
        return;
    gs_hmap_free(m->pools);
    gs_hmap_free(m->workloads);
    gs_hmap_free(m->learned);
    gs_hmap_free(m->ordered);
    free(m);
}

// --- learning ---

static struct starts *starts_of(struct gs_hmap *map, const char *key)
{
    struct starts *s = gs_hmap_get_str(map, key);

    if (s || gs_hmap_len(map) >= MAX_KEYS)
        return s;
    s = gs_alloc(sizeof(*s));
    gs_hmap_put_str(map, key, s);
    return s;
}

static void add_start(struct starts *s, size_t phase, int64_t ms)
{
    if (!s || ms < 0 || ms > MAX_PHASE_MS)
        return;
    s->phases[phase].ms[s->phases[phase].next] = ms;
    s->phases[phase].next = (s->phases[phase].next + 1) % RING;
    s->phases[phase].count++;
    s->phases[phase].sum += (double)ms / 1000;
}

// Whether the object is ready for the first time.
static bool is_first(struct inspect_metrics *m, const json_t *obj)
{
    const char *uid = kube_uid(obj);

    if (!uid || !kube_condition_true(obj, "Ready") || gs_hmap_get_str(m->learned, uid) ||
        gs_hmap_len(m->learned) >= MAX_OBJECTS)
        return false;
    gs_hmap_put_str(m->learned, uid, m);
    return true;
}

static void forget(struct inspect_metrics *m, const json_t *obj)
{
    const char *uid = kube_uid(obj);

    if (!uid)
        return;
    gs_hmap_remove_str(m->learned, uid);
    free(gs_hmap_remove_str(m->ordered, uid));
}

void inspect_metrics_pod(struct inspect_metrics *m, const json_t *old, const json_t *next)
{
    struct inspect_start start;

    if (!next)
        forget(m, old);
    // Pods without a controller have no successors that could be compared.
    if (!next || !kube_controller_ref(next) || !is_first(m, next) ||
        !inspect_pod_start(next, &start))
        return;
    GS_AUTO_FREE char *workload = kube_workload(next);
    GS_AUTO_FREE char *key =
        gs_format("%s %s", kube_namespace(next) ? kube_namespace(next) : "", workload);
    struct starts *s = starts_of(m->workloads, key);
    add_start(s, 0, start.pending_ms);
    add_start(s, 1, start.image_ms);
    add_start(s, 2, start.ready_ms);
    add_start(s, 3, start.pending_ms + start.image_ms + start.ready_ms);
}

int64_t inspect_waiting_since(const json_t *pod)
{
    const json_t *c = kube_condition(pod, "PodScheduled");

    if (!gs_streq(codec_json_str(c, "reason", NULL), "Unschedulable") || kube_is_deleting(pod))
        return 0;
    return kube_time_ms(json_object_get(c, "lastTransitionTime"), 0);
}

void inspect_metrics_node(struct inspect_metrics *m, const json_t *old, const json_t *next,
                          int64_t waiting_ms)
{
    const char *pool = next ? nodes_pool_label(next) : NULL;
    const char *uid = kube_uid(next ? next : old);
    int64_t created = kube_created_ms(next ? next : old, 0);

    if (!next)
        forget(m, old);
    if (!pool || !uid || !created)
        return;
    if (!old && waiting_ms > 0 && waiting_ms <= created &&
        !kube_condition_true(next, "Ready")) { // it has just appeared
        int64_t *since = gs_alloc(sizeof(*since));
        *since = waiting_ms;
        gs_hmap_put_str(m->ordered, uid, since);
    }
    if (!is_first(m, next))
        return;
    const int64_t *ordered = gs_hmap_get_str(m->ordered, uid);
    int64_t ready = inspect_condition_since(next, "Ready") - created;
    struct starts *s = starts_of(m->pools, pool);
    add_start(s, 1, ready);
    if (ordered) {
        add_start(s, 0, created - *ordered);
        add_start(s, 2, created - *ordered + ready);
    }
}

// --- writing ---

static struct metrics_label label(const char *name, const char *value)
{
    return (struct metrics_label){gs_slice_of(name), gs_slice_of(value ? value : "")};
}

static void write_summary(const char *family, const struct starts *s, size_t phase,
                          struct metrics_label *labels, size_t n, struct gs_buf *out)
{
    static const struct {
        const char *text;
        size_t percent;
    } quantiles[] = {{"0.5", 50}, {"0.9", 90}};
    size_t len = s->phases[phase].count < RING ? (size_t)s->phases[phase].count : RING;
    int64_t sorted[RING];
    GS_AUTO_FREE char *sum = gs_format("%s_sum", family);
    GS_AUTO_FREE char *count = gs_format("%s_count", family);

    if (len == 0)
        return;
    memcpy(sorted, s->phases[phase].ms, len * sizeof(*sorted));
    qsort(sorted, len, sizeof(*sorted), gs_compare_int64s);
    for (size_t i = 0; i < GS_ARRAY_LEN(quantiles); i++) {
        size_t rank = (len * quantiles[i].percent + 99) / 100;
        labels[n] = label("quantile", quantiles[i].text);
        metrics_write_sample(out, family, labels, n + 1, (double)sorted[rank - 1] / 1000);
    }
    metrics_write_sample(out, sum, labels, n, s->phases[phase].sum);
    metrics_write_sample(out, count, labels, n, (double)s->phases[phase].count);
}

static void write_starts(const struct inspect_metrics *m, struct gs_buf *out)
{
    static const char pool[] = "gpuscale_pool_startup_seconds";
    static const char workload[] = "gpuscale_workload_startup_seconds";
    struct metrics_label labels[4];
    struct gs_slice key;
    void *starts;

    metrics_write_family(out, pool, METRICS_SUMMARY,
                         "How long the last starts of nodes of a pool took, by phase.");
    for (size_t pos = 0; gs_hmap_next(m->pools, &pos, &key, &starts);)
        for (size_t p = 0; p < MAX_PHASES && pool_phases[p]; p++) {
            labels[0] = (struct metrics_label){gs_slice_of("pool"), key};
            labels[1] = label("phase", pool_phases[p]);
            write_summary(pool, starts, p, labels, 2, out);
        }
    metrics_write_family(out, workload, METRICS_SUMMARY,
                         "How long the last starts of pods of a workload took, by phase.");
    for (size_t pos = 0; gs_hmap_next(m->workloads, &pos, &key, &starts);)
        for (size_t p = 0; p < MAX_PHASES; p++) {
            struct gs_slice rest = key;
            struct gs_slice ns = gs_slice_cut(&rest, ' ');
            labels[0] = (struct metrics_label){gs_slice_of("namespace"), ns};
            labels[1] = (struct metrics_label){gs_slice_of("workload"), rest};
            labels[2] = label("phase", workload_phases[p]);
            write_summary(workload, starts, p, labels, 3, out);
        }
}

static void write_pool_gauge(const json_t *pools, const char *name, const char *help,
                             const char *first, const char *second, struct gs_buf *out)
{
    size_t i;
    json_t *p;

    metrics_write_family(out, name, METRICS_GAUGE, help);
    json_array_foreach ((json_t *)pools, i, p) {
        const struct metrics_label l = label("pool", codec_json_str(p, "name", NULL));
        metrics_write_sample(out, name, &l, 1,
                             (double)(second ? codec_json_int(p, 0, first, second, NULL)
                                             : codec_json_int(p, 0, first, NULL)));
    }
}

static void write_pools(const json_t *pools, struct gs_buf *out)
{
    write_pool_gauge(pools, "gpuscale_pool_nodes", "Nodes of a pool.", "nodes", NULL, out);
    write_pool_gauge(pools, "gpuscale_pool_ready_nodes", "Nodes of a pool that take pods.", "ready",
                     NULL, out);
    write_pool_gauge(pools, "gpuscale_pool_coming_nodes",
                     "Machines of a pool that were ordered and have no Node yet.", "coming", NULL,
                     out);
    write_pool_gauge(pools, "gpuscale_pool_gpus", "Allocatable GPUs of a pool.", "gpus", "total",
                     out);
    write_pool_gauge(pools, "gpuscale_pool_used_gpus", "GPUs of a pool that pods request.", "gpus",
                     "used", out);
    write_pool_gauge(pools, "gpuscale_pool_stranded_gpus",
                     "Free GPUs of a pool on nodes where no workload with GPUs fits.", "gpus",
                     "stranded", out);
}

static void write_nodes(const json_t *nodes, struct gs_buf *out)
{
    static const char name[] = "gpuscale_node_stranded_gpus";
    size_t i;
    json_t *node;

    metrics_write_family(out, name, METRICS_GAUGE,
                         "Free GPUs of a node on which no workload with GPUs fits.");
    json_array_foreach ((json_t *)nodes, i, node) {
        const struct metrics_label l = label("node", codec_json_str(node, "name", NULL));
        if (codec_json_int(node, 0, "gpus", "total", NULL))
            metrics_write_sample(out, name, &l, 1,
                                 (double)codec_json_int(node, 0, "gpus", "stranded", NULL));
    }
}

static void write_gpus(const json_t *gpus, struct gs_buf *out)
{
    static const struct {
        const char *name, *key, *help;
    } rows[] = {
        {"gpuscale_free_gpus", "free", "GPUs on nodes that take pods, not requested."},
        {"gpuscale_fragmented_gpus", "fragmented",
         "Expected number of free GPUs that the typical pod cannot use."},
        {"gpuscale_stranded_gpus", "stranded",
         "Free GPUs on nodes where no workload with GPUs fits."},
        {"gpuscale_largest_pod_gpus", "largestPod", "GPUs of the largest pod that fits now."},
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        metrics_write_family(out, rows[i].name, METRICS_GAUGE, rows[i].help);
        metrics_write_sample(out, rows[i].name, NULL, 0,
                             json_number_value(json_object_get(gpus, rows[i].key)));
    }
}

static void write_pending(const json_t *pending, struct gs_buf *out)
{
    static const char name[] = "gpuscale_pending_pods", gpus[] = "gpuscale_pending_gpus";
    CODEC_AUTO_JSON json_t *pods = json_object();
    CODEC_AUTO_JSON json_t *needed = json_object();
    size_t i;
    json_t *pod, *n;
    const char *reason;

    json_array_foreach ((json_t *)pending, i, pod) {
        reason = codec_json_str(pod, "reason", NULL);
        codec_json_set_int(pods, reason, codec_json_int(pods, 0, reason, NULL) + 1);
        codec_json_set_int(needed, reason,
                           codec_json_int(needed, 0, reason, NULL) +
                               codec_json_int(pod, 0, "gpus", NULL));
    }
    metrics_write_family(out, name, METRICS_GAUGE, "Pods without a node, by reason.");
    json_object_foreach (pods, reason, n) {
        const struct metrics_label l = label("reason", reason);
        metrics_write_sample(out, name, &l, 1, (double)json_integer_value(n));
    }
    metrics_write_family(out, gpus, METRICS_GAUGE, "GPUs that these pods request.");
    json_object_foreach (needed, reason, n) {
        const struct metrics_label l = label("reason", reason);
        metrics_write_sample(out, gpus, &l, 1, (double)json_integer_value(n));
    }
}

void inspect_metrics_write(const struct inspect_metrics *m, const struct inspect_input *in,
                           struct gs_buf *out)
{
    CODEC_AUTO_JSON json_t *view = inspect_nodes(in);

    write_pools(json_object_get(view, "pools"), out);
    write_nodes(json_object_get(view, "nodes"), out);
    write_gpus(json_object_get(view, "gpus"), out);
    write_pending(json_object_get(view, "pending"), out);
    write_starts(m, out);
}
