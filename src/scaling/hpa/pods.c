// SPDX-License-Identifier: Apache-2.0
// Groups the pods of a metric: ignored, unready, missing and ready, and the remaining samples.
#include "hpa/hpa_private.h"

#include "base/num.h"
#include "base/slice.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_WINDOW_MS 60000

// The last of several samples for one pod counts, as in a map. It sorts first.
static int by_pod(const void *a, const void *b)
{
    const struct hpa_entry *x = a, *y = b;
    int c = strcmp(x->pod, y->pod);
    return c ? c : (x->order < y->order) - (x->order > y->order);
}

// One allocation: each sample and each pod may become an entry, and each pod may be in a list.
static void make_room(size_t n_samples, size_t n_pods, struct hpa_groups *g)
{
    g->cap_entries = n_samples + n_pods + 1;
    size_t in_bytes = g->cap_entries * sizeof(*g->entries);
    g->entries = gs_realloc_array(NULL, in_bytes + 2 * n_pods * sizeof(*g->missing), 1);
    g->missing = (void *)((char *)g->entries + in_bytes);
    g->unready = g->missing + n_pods;
}

static int64_t window_of(const struct hpa_sample *s)
{
    return s->window_ms > 0 ? s->window_ms : s->window_ms < 0 ? 0 : DEFAULT_WINDOW_MS;
}

static void load_samples(const struct hpa_metric_observation *obs, struct hpa_groups *g)
{
    for (size_t i = 0; i < obs->n_samples; i++) {
        const struct hpa_sample *s = &obs->samples[i];
        if (!s->pod)
            continue;
        g->entries[g->n_entries++] = (struct hpa_entry){
            .pod = s->pod,
            .order = i,
            .value = s->value,
            .timestamp_ms = s->timestamp_ms,
            .window_ms = window_of(s),
            .request = -1,
        };
    }
}

// Whether the samples are in the order of the pods, one each. Then no search is needed.
static bool is_in_order(const struct hpa_observation *obs, const struct hpa_groups *g)
{
    size_t next = 0;
    for (size_t i = 0; i < obs->n_pods && next < g->n_entries; i++) {
        const char *pod = obs->pods[i].name, *sample = g->entries[next].pod;
        next += pod == sample || strcmp(pod, sample) == 0;
    }
    return next == g->n_entries;
}

static void sort_samples(struct hpa_groups *g)
{
    qsort(g->entries, g->n_entries, sizeof(*g->entries), by_pod);
    size_t n = 1;
    for (size_t i = 1; i < g->n_entries; i++)
        if (strcmp(g->entries[i].pod, g->entries[n - 1].pod) != 0)
            g->entries[n++] = g->entries[i];
    g->n_entries = n;
}

static struct hpa_entry *find_entry(const struct hpa_groups *g, const char *pod)
{
    struct hpa_entry key = {.pod = pod};
    size_t low = 0, high = g->n_entries;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = strcmp(key.pod, g->entries[mid].pod);
        if (c == 0)
            return &g->entries[mid];
        if (c < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

// The entry at *next if it belongs to the pod.
static struct hpa_entry *entry_at(const struct hpa_groups *g, size_t *next, const char *pod)
{
    if (*next == g->n_entries)
        return NULL;
    struct hpa_entry *e = &g->entries[*next];
    if (e->pod != pod && strcmp(e->pod, pod) != 0)
        return NULL;
    ++*next;
    return e;
}

// CPU only: the CPU usage of a pod that starts must not cause scaling.
static bool cpu_unready(const struct hpa_config *cfg, const struct hpa_pod *pod, int64_t sampled_ms,
                        int64_t window_ms, int64_t now_ms)
{
    if (pod->ready == HPA_CONDITION_ABSENT || !pod->has_start_time)
        return true;
    if (gs_add_clamped(pod->start_time_ms, cfg->cpu_init_period_ms) > now_ms)
        return pod->ready == HPA_CONDITION_FALSE ||
               sampled_ms < gs_add_clamped(pod->ready_transition_ms, window_ms);
    return pod->ready == HPA_CONDITION_FALSE &&
           gs_add_clamped(pod->start_time_ms, cfg->readiness_delay_ms) > pod->ready_transition_ms;
}

static bool is_cpu(const struct hpa_metric_spec *m)
{
    return (m->type == HPA_METRIC_RESOURCE || m->type == HPA_METRIC_CONTAINER_RESOURCE) &&
           gs_streq(m->name, "cpu");
}

bool hpa_pod_is_over(const struct hpa_config *cfg, const struct hpa_pod *pod)
{
    return pod->deleting || pod->phase == HPA_POD_FAILED ||
           (pod->phase == HPA_POD_SUCCEEDED && hpa_since(cfg->release, HPA_SINCE_SUCCEEDED));
}

bool hpa_all_pods_count(const struct hpa_evaluation *p, size_t metric, bool with_requests,
                        struct hpa_totals *ret)
{
    const struct hpa_observation *obs = p->obs;
    const struct hpa_sample *samples = obs->metrics[metric].samples;
    bool cpu = is_cpu(&p->spec->metrics[metric]);
    *ret = (struct hpa_totals){.n = obs->n_pods};
    if (obs->metrics[metric].n_samples != obs->n_pods)
        return false;
    for (size_t i = 0; i < obs->n_pods; i++) {
        const struct hpa_pod *pod = &obs->pods[i];
        const struct hpa_sample *s = &samples[i];
        if (!s->pod || (s->pod != pod->name && strcmp(s->pod, pod->name) != 0))
            return false;
        if (hpa_pod_is_over(p->cfg, pod) || pod->phase == HPA_POD_PENDING)
            return false;
        if (cpu && cpu_unready(p->cfg, pod, s->timestamp_ms, window_of(s), p->now_ms))
            return false;
        ret->usage = gs_add_clamped(ret->usage, s->value);
        if (!with_requests)
            continue;
        if (!pod->requests_milli || pod->requests_milli[metric] < 0)
            return false;
        ret->exact_usage += s->value;
        ret->requests += pod->requests_milli[metric];
    }
    return true;
}

void hpa_groups_init(const struct hpa_evaluation *p, size_t metric, struct hpa_groups *ret)
{
    const struct hpa_observation *obs = p->obs;
    bool cpu = is_cpu(&p->spec->metrics[metric]);
    memset(ret, 0, sizeof(*ret));
    make_room(obs->metrics[metric].n_samples, obs->n_pods, ret);
    load_samples(&obs->metrics[metric], ret);
    bool in_order = is_in_order(obs, ret);
    size_t next = 0;
    if (!in_order)
        sort_samples(ret);
    for (size_t i = 0; i < obs->n_pods; i++) {
        const struct hpa_pod *pod = &obs->pods[i];
        struct hpa_entry *sample =
            in_order ? entry_at(ret, &next, pod->name) : find_entry(ret, pod->name);
        if (sample && pod->requests_milli)
            sample->request = pod->requests_milli[metric];
        bool pending = pod->phase == HPA_POD_PENDING;
        if (hpa_pod_is_over(p->cfg, pod)) {
            ret->n_ignored++;
        } else if (!sample && !pending) {
            ret->missing[ret->n_missing++] = pod;
            continue;
        } else if (pending || (cpu && cpu_unready(p->cfg, pod, sample->timestamp_ms,
                                                  sample->window_ms, p->now_ms))) {
            ret->unready[ret->n_unready++] = pod;
        } else {
            ret->n_ready++;
            continue;
        }
        if (sample)
            sample->dropped = true;
    }
}

void hpa_groups_finish(struct hpa_groups *g)
{
    free(g->entries);
    memset(g, 0, sizeof(*g));
}

void hpa_groups_add(struct hpa_groups *g, const char *pod, int64_t value, int64_t request)
{
    g->entries[g->n_entries++] = (struct hpa_entry){.pod = pod, .value = value, .request = request};
}

size_t hpa_groups_live(const struct hpa_groups *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_entries; i++)
        n += !g->entries[i].dropped;
    return n;
}

struct gs_error *hpa_ready_pods(const struct hpa_observation *obs, size_t *ret)
{
    if (obs->n_pods == 0)
        return gs_error_new(GS_ENOTFOUND, "unable to calculate ready pods: no pods returned by "
                                          "selector while calculating replica count");
    size_t n = 0;
    for (size_t i = 0; i < obs->n_pods; i++)
        n += obs->pods[i].phase == HPA_POD_RUNNING && obs->pods[i].ready == HPA_CONDITION_TRUE;
    *ret = n;
    return NULL;
}
