// SPDX-License-Identifier: Apache-2.0
// The result of one instant query as signals of pods. Ranks and models of one pod are added up; of
// its KV cache the fullest rank counts. Names, labels and values come from engines, so what does
// not fit is left out.
#include "slo/slo_private.h"

#include "base/mem.h"
#include "base/num.h"

#include <string.h>

#define MAX_VALUE 1e15 // of a sample; sums of larger ones would not be exact, or infinite

static const struct {
    const char *name;
    enum slo_signal signal;
} signals[] = {
    {"gpuscale_inference_waiting", SLO_WAITING},
    {"gpuscale_inference_running", SLO_RUNNING},
    {"gpuscale_inference_kv_used_ratio", SLO_KV_USED_RATIO},
    {"gpuscale_inference_kv_capacity_tokens", SLO_KV_CAPACITY_TOKENS},
    {"gpuscale_inference_sleeping", SLO_SLEEPING},
    {"gpuscale_inference_prompt_tokens_total", SLO_PROMPT_TOKENS},
    {"gpuscale_inference_generation_tokens_total", SLO_GENERATION_TOKENS},
    {"gpuscale_inference_preemptions_total", SLO_PREEMPTIONS},
    {"gpuscale_inference_rejections_total", SLO_REJECTIONS},
};
// Percent of one GPU. The first that a pod has counts.
static const char *const utilizations[] = {"DCGM_FI_DEV_GPU_UTIL", "DCGM_CUSTOM_PROCESS_SM_UTIL"};

struct slo_reading {
    const struct slo_policy *policy;
    struct slo_pod *pods;
    size_t n;
    struct gs_hmap *index; // of pods + position + 1
    double (*bounds)[SLO_LATENCIES][SLO_MAX_BUCKETS], (*counts)[SLO_LATENCIES][SLO_MAX_BUCKETS];
    double (*utilization)[2];
    size_t (*n_utilization)[2];
    int64_t *utilization_ms; // used if the pod has no other signals
    size_t roles[3];
};

struct slo_reading *slo_reading_new(const struct slo_policy *p, struct slo_pod *pods, size_t n)
{
    struct slo_reading *r = gs_alloc(sizeof(*r));
    r->policy = p;
    r->pods = pods;
    r->n = n < SLO_MAX_PODS ? n : SLO_MAX_PODS;
    r->index = gs_hmap_new(NULL);
    r->bounds = gs_alloc_array(r->n, sizeof(*r->bounds));
    r->counts = gs_alloc_array(r->n, sizeof(*r->counts));
    r->utilization = gs_alloc_array(r->n, sizeof(*r->utilization));
    r->n_utilization = gs_alloc_array(r->n, sizeof(*r->n_utilization));
    r->utilization_ms = gs_alloc_array(r->n, sizeof(*r->utilization_ms));
    for (size_t i = 0; i < r->n; i++)
        gs_hmap_put_str(r->index, pods[i].name, &pods[i]);
    return r;
}

void slo_reading_free(struct slo_reading *r)
{
    if (!r)
        return;
    gs_hmap_free(r->index);
    free(r->bounds);
    free(r->counts);
    free(r->utilization);
    free(r->n_utilization);
    free(r->utilization_ms);
    free(r);
}

// --- one sample ---

static void add_signal(struct slo_pod *p, enum slo_signal s, double value)
{
    if (!slo_pod_has(p, s))
        slo_pod_set(p, s, value);
    else if (s == SLO_KV_USED_RATIO || s == SLO_SLEEPING)
        p->v[s] = fmax(p->v[s], value);
    else
        p->v[s] += value;
}

static bool read_signal(struct slo_pod *p, const char *name, double value)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(signals); i++) {
        if (!gs_streq(name, signals[i].name))
            continue;
        add_signal(p, signals[i].signal, value);
        p->n_series += signals[i].signal >= SLO_PROMPT_TOKENS;
        return true;
    }
    return false;
}

static bool read_utilization(struct slo_reading *r, size_t at, const char *name, double value)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(utilizations); i++) {
        if (!gs_streq(name, utilizations[i]))
            continue;
        r->utilization[at][i] += value / 100;
        r->n_utilization[at][i]++;
        return true;
    }
    return false;
}

// Buckets are kept in order; equal bounds of ranks are added up.
static void add_bucket(struct slo_reading *r, size_t at, size_t l, double bound, double count)
{
    double *bounds = r->bounds[at][l], *counts = r->counts[at][l];
    struct slo_histogram *h = &r->pods[at].latency[l];
    size_t i = 0;
    while (i < h->n && bounds[i] < bound)
        i++;
    if (i < h->n && bounds[i] == bound) {
        counts[i] += count;
        return;
    }
    if (h->n == SLO_MAX_BUCKETS)
        return;
    memmove(bounds + i + 1, bounds + i, (h->n - i) * sizeof(*bounds));
    memmove(counts + i + 1, counts + i, (h->n - i) * sizeof(*counts));
    bounds[i] = bound;
    counts[i] = count;
    h->n++;
}

static bool read_histogram(struct slo_reading *r, size_t at, const char *name, const char *le,
                           double value)
{
    for (int l = 0; l < SLO_LATENCIES; l++) {
        const char *series = slo_policy_series(r->policy, (enum slo_latency)l);
        size_t len = strlen(series);
        double bound;
        if (!len || strncmp(name, series, len) != 0 || name[len] != '_')
            continue;
        if (gs_streq(name + len, "_sum")) {
            r->pods[at].latency[l].sum += value;
            r->pods[at].latency[l].has_sum = true;
        } else if (gs_streq(name + len, "_bucket") && le) {
            GS_AUTO_ERROR struct gs_error *err = gs_parse_double(gs_slice_of(le), &bound);
            if (!err && bound > 0)
                add_bucket(r, at, (size_t)l, bound, value);
        } else {
            continue;
        }
        r->pods[at].n_series++;
        return true;
    }
    return false;
}

void slo_reading_add(struct slo_reading *r, const char *name, const char *pod, const char *le,
                     const char *role, double value, int64_t t_ms)
{
    struct slo_pod *p = pod ? gs_hmap_get_str(r->index, pod) : NULL;
    if (!p || !name || !(value >= 0 && value <= MAX_VALUE))
        return;
    size_t at = (size_t)(p - r->pods);
    if (read_utilization(r, at, name, value)) {
        if (t_ms > r->utilization_ms[at])
            r->utilization_ms[at] = t_ms;
        return;
    }
    if (!read_signal(p, name, value) && !read_histogram(r, at, name, le, value))
        return;
    if (t_ms > p->sampled_ms)
        p->sampled_ms = t_ms;
    r->roles[gs_streq(role, "prefill")  ? SLO_PREFILL
             : gs_streq(role, "decode") ? SLO_DECODE
                                        : SLO_UNIFIED]++;
}

// --- the end ---

static void end_utilization(struct slo_reading *r, size_t at)
{
    if (!r->pods[at].sampled_ms)
        r->pods[at].sampled_ms = r->utilization_ms[at];
    for (size_t i = 0; i < GS_ARRAY_LEN(utilizations); i++) {
        if (!r->n_utilization[at][i])
            continue;
        slo_pod_set(&r->pods[at], SLO_UTILIZATION,
                    r->utilization[at][i] / (double)r->n_utilization[at][i]);
        return;
    }
}

// A histogram without +Inf is no histogram. Counts of hostile pages may fall: they are raised.
static void end_histogram(struct slo_reading *r, size_t at, size_t l)
{
    struct slo_histogram *h = &r->pods[at].latency[l];
    if (!h->n || !isinf(r->bounds[at][l][h->n - 1])) {
        *h = (struct slo_histogram){0};
        return;
    }
    for (size_t i = 1; i < h->n; i++)
        r->counts[at][l][i] = fmax(r->counts[at][l][i], r->counts[at][l][i - 1]);
    h->bounds = r->bounds[at][l];
    h->counts = r->counts[at][l];
}

enum slo_role slo_reading_end(struct slo_reading *r)
{
    for (size_t at = 0; at < r->n; at++) {
        end_utilization(r, at);
        for (size_t l = 0; l < SLO_LATENCIES; l++)
            end_histogram(r, at, l);
        const struct slo_histogram *ttft = &r->pods[at].latency[SLO_TTFT];
        if (ttft->n)
            slo_pod_set(&r->pods[at], SLO_REQUESTS, ttft->counts[ttft->n - 1]);
    }
    if (r->roles[SLO_PREFILL] > r->roles[SLO_UNIFIED])
        return SLO_PREFILL;
    return r->roles[SLO_DECODE] > r->roles[SLO_UNIFIED] ? SLO_DECODE : SLO_UNIFIED;
}

// --- the query ---

void slo_policy_query(const struct slo_policy *p, const char *matchers, struct gs_buf *out)
{
    gs_buf_add_str(out, "{__name__=~\"gpuscale_inference_(waiting|running|kv_used_ratio|"
                        "kv_capacity_tokens|sleeping|.+_tokens_total|preemptions_total|"
                        "rejections_total|.+_seconds_(bucket|sum))");
    for (size_t i = 0; i < GS_ARRAY_LEN(utilizations); i++)
        gs_buf_addf(out, "|%s", utilizations[i]);
    if (*p->other)
        gs_buf_addf(out, "|%s_(bucket|sum)", p->other);
    gs_buf_addf(out, "\"%s%s}", *matchers ? "," : "", matchers);
}
