// SPDX-License-Identifier: Apache-2.0
// How long nodes and pods took to start, from the times in conditions and events. Times of the API
// have whole seconds.
#include "startup/startup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "nodes/inspect/inspect_private.h"
#include "nodes/pool.h"

#include <stdlib.h>

#define MAX_PHASE_MS (INT64_C(3600) * 1000) // longer: the object was changed again later
#define MAX_SAMPLES  1000

struct samples {
    int64_t *ms;
    size_t len, cap;
};

static void add_sample(struct samples *s, int64_t ms)
{
    if (ms < 0 || ms > MAX_PHASE_MS || s->len == MAX_SAMPLES)
        return;
    gs_grow(&s->ms, &s->cap, s->len, sizeof(*s->ms));
    s->ms[s->len++] = ms;
}

// The smallest sample that at least this share of the samples does not exceed.
static int64_t quantile(const struct samples *s, size_t percent)
{
    size_t rank = (s->len * percent + 99) / 100;
    return s->ms[rank ? rank - 1 : 0];
}

static json_t *summary(struct samples *s)
{
    json_t *out = json_object();

    if (s->len)
        qsort(s->ms, s->len, sizeof(*s->ms), gs_compare_int64s);
    codec_json_set_int(out, "samples", (int64_t)s->len);
    if (s->len) {
        codec_json_set_int(out, "p50Seconds", quantile(s, 50) / 1000);
        codec_json_set_int(out, "p90Seconds", quantile(s, 90) / 1000);
    }
    free(s->ms);
    *s = (struct samples){0};
    return out;
}

// --- pools ---

static bool event_mentions(const json_t *event, const char *pool)
{
    const char *message = codec_json_str(event, "message", NULL);
    struct gs_slice rest = gs_slice_of(message);
    struct inspect_scale_up up;

    while (message && inspect_next_scale_up(&rest, &up)) {
        GS_AUTO_FREE char *group = gs_slice_dup(up.group);
        if (inspect_group_is(group, pool))
            return true;
    }
    return false;
}

// When the machine of a node was ordered. 0: unknown.
static int64_t ordered_ms(const struct inspect_input *in, const json_t *node, const char *pool)
{
    const json_t *claim = inspect_claim_of(in, kube_name(node));
    int64_t created = kube_created_ms(node, 0), found = claim ? kube_created_ms(claim, 0) : 0;
    size_t i;
    json_t *event;

    json_array_foreach ((json_t *)in->events, i, event) {
        int64_t at = kube_event_ms(event);
        if (!claim && at > found && at <= created &&
            inspect_event_is(event, "cluster-autoscaler", "TriggeredScaleUp") &&
            event_mentions(event, pool))
            found = at;
    }
    return found;
}

static json_t *startup_of_pool(const struct inspect_input *in, const char *pool)
{
    struct samples provision = {0}, ready = {0}, total = {0};
    size_t i;
    json_t *node;

    json_array_foreach ((json_t *)in->nodes, i, node) {
        int64_t created = kube_created_ms(node, 0), since = inspect_condition_since(node, "Ready");
        if (!gs_streq(nodes_pool_label(node), pool) || !kube_condition_true(node, "Ready") ||
            !created || since < created)
            continue;
        int64_t ordered = ordered_ms(in, node, pool);
        add_sample(&ready, since - created);
        if (ordered)
            add_sample(&provision, created - ordered);
        add_sample(&total, since - (ordered ? ordered : created));
    }
    json_t *phases = json_object();
    json_object_set_new(phases, "provision", summary(&provision));
    json_object_set_new(phases, "ready", summary(&ready));
    json_t *out = summary(&total);
    json_object_set_new(out, "phases", phases);
    return out;
}

json_t *inspect_pool_startup(const struct inspect_input *in)
{
    json_t *out = json_object();
    size_t i;
    json_t *node;

    json_array_foreach ((json_t *)in->nodes, i, node) {
        const char *pool = nodes_pool_label(node);
        if (pool && !json_object_get(out, pool))
            json_object_set_new(out, pool, startup_of_pool(in, pool));
    }
    return out;
}

// --- workloads ---

bool inspect_pod_start(const json_t *pod, struct inspect_start *ret)
{
    struct startup_times t;

    if (!startup_times_of(pod, &t))
        return false;
    *ret = (struct inspect_start){t.scheduled_ms - t.created_ms, t.started_ms - t.scheduled_ms,
                                  t.ready_ms - t.started_ms};
    return true;
}

struct pod_samples {
    struct samples pending, image, ready, total;
};

static void add_pod_start(struct pod_samples *s, const json_t *pod)
{
    struct inspect_start start;

    if (!inspect_pod_start(pod, &start))
        return;
    add_sample(&s->pending, start.pending_ms);
    add_sample(&s->image, start.image_ms);
    add_sample(&s->ready, start.ready_ms);
    add_sample(&s->total, start.pending_ms + start.image_ms + start.ready_ms);
}

// NULL: no sample.
static json_t *pod_summary(struct pod_samples *s)
{
    bool any = s->total.len > 0;
    json_t *phases = json_object(), *out = summary(&s->total);

    json_object_set_new(phases, "pending", summary(&s->pending));
    json_object_set_new(phases, "image", summary(&s->image));
    json_object_set_new(phases, "ready", summary(&s->ready));
    json_object_set_new(out, "phases", phases);
    if (any)
        return out;
    json_decref(out);
    return NULL;
}

json_t *inspect_startup(const json_t *const *pods, size_t n)
{
    struct pod_samples s = {0};

    for (size_t i = 0; i < n; i++)
        add_pod_start(&s, pods[i]);
    return pod_summary(&s);
}

json_t *inspect_workload_startup(const struct inspect_input *in, const char *ns,
                                 const char *workload)
{
    struct pod_samples s = {0};
    size_t i;
    json_t *pod;

    json_array_foreach ((json_t *)in->pods, i, pod) {
        GS_AUTO_FREE char *owner = kube_workload(pod);
        if (gs_streq(kube_namespace(pod), ns) && gs_streq(owner, workload))
            add_pod_start(&s, pod);
    }
    return pod_summary(&s);
}

static void add_summary(const json_t *startup, const char *const *phases, size_t n_phases,
                        const char *what, struct gs_buf *out)
{
    char buf[GS_RFC3339_SIZE];
    int64_t samples = codec_json_int(startup, 0, "samples", NULL);
    const char *separator = "";

    gs_buf_addf(out, "p90 %s (",
                inspect_duration(codec_json_int(startup, 0, "p90Seconds", NULL) * 1000, buf));
    for (size_t i = 0; i < n_phases; i++) {
        int64_t s = codec_json_int(startup, -1, "phases", phases[i], "p90Seconds", NULL);
        if (s < 0)
            continue;
        gs_buf_addf(out, "%s%s %s", separator, phases[i], inspect_duration(s * 1000, buf));
        separator = ", ";
    }
    gs_buf_addf(out, "), from %lld %s%s", (long long)samples, what, samples == 1 ? "" : "s");
}

void inspect_startup_text(const json_t *startup, struct gs_buf *out)
{
    static const char *const phases[] = {"pending", "image", "ready"};
    add_summary(startup, phases, GS_ARRAY_LEN(phases), "pod", out);
}

void inspect_pool_startup_text(const json_t *startup, struct gs_buf *out)
{
    static const char *const phases[] = {"provision", "ready"};
    add_summary(startup, phases, GS_ARRAY_LEN(phases), "node", out);
}
