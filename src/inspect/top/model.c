// SPDX-License-Identifier: Apache-2.0
// The rows of `gpuscale top`: GPUs, pods and processes, from the samples of one refresh. A row
// keeps its history and its place while it exists. A GPU without samples stays with its last
// values for 15 minutes, because a scrape may fail.
#include "aliases/aliases.h"
#include "top/top_private.h"

#include "base/columns.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>

enum {
    GPU_GONE_MS = 15 * 60 * 1000, // a GPU that has disappeared is shown for this time
    STALE_MS = 35000,             // exporters may have an interval of 30 s
};

void top_model_init(struct top_model *m, int64_t interval_ms)
{
    *m = (struct top_model){
        .interval_ms = interval_ms > 0 ? interval_ms : 1,
    };
    top_model_set_refresh(m, interval_ms);
    for (int i = 0; i < TOP_PANES; i++)
        m->by_key[i] = gs_hmap_new(NULL);
}

void top_model_set_refresh(struct top_model *m, int64_t refresh_ms)
{
    m->refresh_ms = refresh_ms;
    m->stale_ms = 3 * refresh_ms > STALE_MS ? 3 * refresh_ms : STALE_MS;
}

static void free_gpu(struct top_gpu *g)
{
    free(g->key);
    free(g->node);
    free(g->index);
    free(g->slice);
    free(g->uuid);
    free(g->model);
    free(g->pods);
    free(g);
}

static void free_pod(struct top_pod *p)
{
    free(p->key);
    free(p->ns);
    free(p->name);
    free(p->node);
    free(p->phase);
    free(p);
}

static void free_process(struct top_process *p)
{
    free(p->key);
    free(p->gpu);
    free(p->node);
    free(p->pid);
    free(p->name);
    free(p->type);
    free(p->pod);
    free(p);
}

void top_model_finish(struct top_model *m)
{
    for (size_t i = 0; i < m->n_gpus; i++)
        free_gpu(m->gpus[i]);
    for (size_t i = 0; i < m->n_pods; i++)
        free_pod(m->pods[i]);
    for (size_t i = 0; i < m->n_processes; i++)
        free_process(m->processes[i]);
    free(m->gpus);
    free(m->pods);
    free(m->processes);
    free(m->note);
    metrics_gpu_targets_free(m->targets);
    for (int i = 0; i < TOP_PANES; i++)
        gs_hmap_free(m->by_key[i]);
}

bool top_model_is_stale(const struct top_model *m, int64_t at_ms, int64_t now_ms)
{
    return at_ms && now_ms - at_ms > m->stale_ms;
}

double top_gpu_total(const struct top_gpu *g)
{
    if (!isnan(g->total_mib))
        return g->total_mib;
    return g->used_mib + g->free_mib + (isnan(g->reserved_mib) ? 0 : g->reserved_mib);
}

void top_gpu_label(const struct top_gpu *g, struct gs_buf *out)
{
    gs_buf_add_str(out, *g->index ? g->index : "?");
    if (*g->slice)
        gs_buf_addf(out, "/%s", g->slice);
}

// --- labels ---

static char *clean(struct gs_slice s)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_columns_clean(&out, s);
    return gs_buf_take(&out);
}

// Sets a text that may change between refreshes.
static void set_clean(char **text, struct gs_slice s)
{
    free(*text);
    *text = clean(s);
}

static struct gs_slice series_label(const void *series, const char *name)
{
    return top_sample_label(series, name);
}

static struct metrics_gpu_series series_of(const struct top_sample *s)
{
    return (struct metrics_gpu_series){series_label, s};
}

static struct gs_slice node_of(const struct top_model *m, const struct top_sample *s)
{
    const struct metrics_gpu_series series = series_of(s);
    return metrics_gpu_node(&series, metrics_gpu_target_of(m->targets, &series));
}

static struct metrics_gpu_pod owner_of(const struct top_model *m, const struct top_sample *s)
{
    const struct metrics_gpu_series series = series_of(s);
    return metrics_gpu_owner(&series, metrics_gpu_target_of(m->targets, &series));
}

// The targets of this refresh that are pods.
static void read_targets(struct top_model *m, const struct top_samples *samples)
{
    metrics_gpu_targets_free(m->targets);
    m->targets = metrics_gpu_targets_new();
    for (size_t i = 0; i < samples->len; i++) {
        const struct metrics_gpu_series series = series_of(&samples->items[i]);
        if (gs_slice_eq_str(samples->items[i].name, "up"))
            metrics_gpu_targets_add(m->targets, &series);
        else if (gs_slice_eq_str(samples->items[i].name, "kube_pod_info"))
            metrics_gpu_targets_add_pod(m->targets, &series);
    }
}

static void gpu_key(const struct top_model *m, const struct top_sample *s, struct gs_buf *out)
{
    struct gs_slice uuid = top_sample_label(s, "UUID"), node = node_of(m, s);
    struct gs_slice index = top_sample_label(s, "gpu"), mig = top_sample_label(s, "GPU_I_ID");
    struct gs_slice compute = top_sample_label(s, "GPU_CI_ID");
    if (uuid.len)
        gs_buf_add_slice(out, uuid);
    else
        gs_buf_addf(out, GS_SLICE_FMT "\n" GS_SLICE_FMT, GS_SLICE_ARG(node), GS_SLICE_ARG(index));
    gs_buf_addf(out, "\n" GS_SLICE_FMT "\n" GS_SLICE_FMT, GS_SLICE_ARG(mig), GS_SLICE_ARG(compute));
}

// --- finding and creating rows ---

static void *find_row(const struct top_model *m, enum top_pane pane, const char *key)
{
    uintptr_t at = (uintptr_t)gs_hmap_get_str(m->by_key[pane], key);
    if (!at)
        return NULL;
    return pane == TOP_GPUS   ? (void *)m->gpus[at - 1]
           : pane == TOP_PODS ? (void *)m->pods[at - 1]
                              : (void *)m->processes[at - 1];
}

const void *top_model_find(const struct top_model *m, enum top_pane pane, const char *key)
{
    return key ? find_row(m, pane, key) : NULL;
}

static void remember(struct top_model *m, enum top_pane pane, const char *key, size_t index)
{
    gs_hmap_put_str(m->by_key[pane], key, (void *)(uintptr_t)(index + 1));
}

// The values are those of one refresh.
static void clear_gpu(struct top_gpu *g)
{
    g->absent = g->gone = g->lost = g->hung = false;
    g->util = g->used_mib = g->free_mib = g->reserved_mib = g->total_mib = NAN;
    g->temp = g->power = g->power_limit = g->sm_clock = NAN;
    g->mem_copy = g->encoder = g->decoder = NAN;
    g->at_ms = 0;
    free(g->pods);
    g->pods = gs_strdup("");
}

static struct top_gpu *gpu_of(struct top_model *m, const struct top_sample *s, bool create)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    gpu_key(m, s, &key);
    struct top_gpu *g = find_row(m, TOP_GPUS, key.data);
    if (!g && create) {
        m->over_limit |= m->n_gpus == TOP_MAX_ROWS;
        if (m->n_gpus == TOP_MAX_ROWS)
            return NULL;
        struct gs_slice model = top_sample_label(s, "modelName");
        const char vendor[] = "NVIDIA "; // prefix of all models
        if (gs_slice_starts(model, vendor))
            model = gs_slice_make(model.data + strlen(vendor), model.len - strlen(vendor));
        g = gs_alloc(sizeof(*g));
        g->key = gs_buf_take(&key);
        g->node = clean(node_of(m, s));
        g->index = clean(top_sample_label(s, "gpu"));
        g->slice = clean(top_sample_label(s, "GPU_I_ID"));
        g->uuid = clean(top_sample_label(s, "UUID"));
        g->model = clean(model.len ? model : top_sample_label(s, "model"));
        if (*g->slice) {
            free(g->model);
            g->model = clean(top_sample_label(s, "GPU_I_PROFILE"));
        }
        g->absent = true;
        gs_grow(&m->gpus, &m->cap_gpus, m->n_gpus, sizeof(*m->gpus));
        remember(m, TOP_GPUS, g->key, m->n_gpus);
        m->gpus[m->n_gpus++] = g;
    }
    if (g && create && g->absent)
        clear_gpu(g);
    return g;
}

static void clear_pod(struct top_pod *p)
{
    p->gone = p->estimated = false;
    p->requested = p->util = p->used_mib = p->created_s = NAN;
    p->waiting = p->running = p->kv_percent = NAN;
    p->n_gpus = 0;
    p->at_ms = 0;
    set_clean(&p->phase, (struct gs_slice){0});
}

static struct top_pod *pod_of(struct top_model *m, struct gs_slice ns, struct gs_slice name,
                              bool create)
{
    if (!name.len)
        return NULL;
    GS_AUTO_FREE char *key =
        gs_format(GS_SLICE_FMT "/" GS_SLICE_FMT, GS_SLICE_ARG(ns), GS_SLICE_ARG(name));
    struct top_pod *p = find_row(m, TOP_PODS, key);
    if (!p && create) {
        m->over_limit |= m->n_pods == TOP_MAX_ROWS;
        if (m->n_pods == TOP_MAX_ROWS)
            return NULL;
        p = gs_alloc(sizeof(*p));
        p->key = GS_TAKE(key);
        p->ns = clean(ns);
        p->name = clean(name);
        p->node = gs_strdup("");
        p->gone = true;
        gs_grow(&m->pods, &m->cap_pods, m->n_pods, sizeof(*m->pods));
        remember(m, TOP_PODS, p->key, m->n_pods);
        m->pods[m->n_pods++] = p;
    }
    if (p && create && p->gone)
        clear_pod(p);
    return p;
}

static struct top_process *process_of(struct top_model *m, const struct top_sample *s)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    struct gs_slice pid = top_sample_label(s, "ProcessId");
    gpu_key(m, s, &key);
    gs_buf_addf(&key, "\n" GS_SLICE_FMT, GS_SLICE_ARG(pid));
    struct top_process *p = find_row(m, TOP_PROCESSES, key.data);
    if (!p) {
        m->over_limit |= m->n_processes == TOP_MAX_ROWS;
        if (m->n_processes == TOP_MAX_ROWS)
            return NULL;
        struct gs_slice index = top_sample_label(s, "gpu"), mig = top_sample_label(s, "GPU_I_ID");
        GS_AUTO_FREE char *gpu = gs_format(GS_SLICE_FMT "%s" GS_SLICE_FMT, GS_SLICE_ARG(index),
                                           mig.len ? "/" : "", GS_SLICE_ARG(mig));
        p = gs_alloc(sizeof(*p));
        p->key = gs_buf_take(&key);
        p->gpu = clean(gs_slice_of(gpu));
        p->node = clean(node_of(m, s));
        p->pid = clean(pid);
        p->name = clean(top_sample_label(s, "ProcessName"));
        p->type = clean(top_sample_label(s, "ProcessType"));
        p->pod = gs_strdup("");
        p->gone = true;
        gs_grow(&m->processes, &m->cap_processes, m->n_processes, sizeof(*m->processes));
        remember(m, TOP_PROCESSES, p->key, m->n_processes);
        m->processes[m->n_processes++] = p;
    }
    if (p->gone) {
        p->gone = false;
        p->util = p->used_mib = NAN;
        p->at_ms = 0;
    }
    return p;
}

// --- samples of GPUs ---

static const struct {
    const char *name;
    size_t offset; // of struct top_gpu
} gpu_metrics[] = {
    {"DCGM_FI_DEV_GPU_UTIL", offsetof(struct top_gpu, util)},
    {"DCGM_FI_DEV_FB_USED", offsetof(struct top_gpu, used_mib)},
    {"DCGM_FI_DEV_FB_FREE", offsetof(struct top_gpu, free_mib)},
    {"DCGM_FI_DEV_FB_RESERVED", offsetof(struct top_gpu, reserved_mib)},
    {"DCGM_FI_DEV_FB_TOTAL", offsetof(struct top_gpu, total_mib)},
    {"DCGM_FI_DEV_GPU_TEMP", offsetof(struct top_gpu, temp)},
    {"DCGM_FI_DEV_POWER_USAGE", offsetof(struct top_gpu, power)},
    {"DCGM_FI_DEV_POWER_MGMT_LIMIT", offsetof(struct top_gpu, power_limit)},
    {"DCGM_FI_DEV_SM_CLOCK", offsetof(struct top_gpu, sm_clock)},
    {"DCGM_FI_DEV_MEM_COPY_UTIL", offsetof(struct top_gpu, mem_copy)},
    {"DCGM_FI_DEV_ENC_UTIL", offsetof(struct top_gpu, encoder)},
    {"DCGM_FI_DEV_DEC_UTIL", offsetof(struct top_gpu, decoder)},
};

#define ENGINE_ACTIVE     "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
#define ENGINE_ACTIVE_NEW "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO" // of dcgm-exporter 4.9
#define GPU_LOST          "gpuscale_exporter_gpu_lost"
#define GPU_HUNG          "gpuscale_exporter_gpu_hung"
#define ATTRIBUTION       "gpuscale_exporter_pod_attribution"
#define PROCESS_UTIL      "DCGM_CUSTOM_PROCESS_SM_UTIL"
#define PROCESS_USED      "DCGM_CUSTOM_PROCESS_MEM_USED"
// Signals of inference engines (engine/signals/signals.h).
#define ENGINE         "gpuscale_inference_"
#define ENGINE_WAITING ENGINE "waiting"
#define ENGINE_RUNNING ENGINE "running"
#define ENGINE_KV      ENGINE "kv_used_ratio"

static void add_names(const char *name, struct gs_buf *out)
{
    struct aliases_name others[ALIASES_MAX];
    size_t n = aliases_of(gs_slice_of(name), others);
    gs_buf_addf(out, "%s|", name);
    for (size_t i = 0; i < n; i++)
        gs_buf_addf(out, "%s|", others[i].name);
}

void top_model_metrics(struct gs_buf *out)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(gpu_metrics); i++)
        add_names(gpu_metrics[i].name, out);
    gs_buf_add_str(out, ENGINE_ACTIVE "|" ENGINE_ACTIVE_NEW "|" GPU_LOST "|" GPU_HUNG
                                      "|" ATTRIBUTION "|" PROCESS_UTIL "|" PROCESS_USED);
}

// Sums of a pod during a refresh.
struct pod_sum {
    double device_util, device_used, process_util, process_used;
    size_t n_util, n_used, n_process_util, n_process_used, n_process_gpus;
};

struct update {
    struct top_model *m;
    int64_t now_ms;
    struct gs_hmap *sums;    // by key of the pod
    struct gs_hmap *holders; // GPU and pod that were counted
};

static struct pod_sum *sum_of(struct update *u, const struct top_pod *p)
{
    struct pod_sum *sum = gs_hmap_get_str(u->sums, p->key);
    if (!sum) {
        sum = gs_alloc(sizeof(*sum));
        gs_hmap_put_str(u->sums, p->key, sum);
    }
    return sum;
}

// Whether this is the first such sample of the refresh.
static bool first_of(struct update *u, const char *gpu, const char *pod, const char *what)
{
    GS_AUTO_FREE char *key = gs_format("%s\n%s\n%s", gpu, pod, what);
    bool first = !gs_hmap_get_str(u->holders, key);
    if (first)
        gs_hmap_put_str(u->holders, key, u);
    return first;
}

static void newer(int64_t *at_ms, int64_t t_ms)
{
    if (t_ms > *at_ms)
        *at_ms = t_ms;
}

enum { MAX_PODS_TEXT = 4096 };

static void add_holder(struct top_gpu *g, const struct top_pod *p)
{
    GS_AUTO_FREE char *before = g->pods;
    if (strlen(before) > MAX_PODS_TEXT)
        g->pods = gs_strdup(before);
    else
        g->pods = gs_format("%s%s%s/%s", before, *before ? " " : "", p->ns, p->name);
}

static void add_device_value(struct update *u, struct top_gpu *g, const struct top_sample *s,
                             size_t metric)
{
    double *value = (double *)(void *)((char *)g + gpu_metrics[metric].offset);
    *value = s->value;
    newer(&g->at_ms, s->t_ms);
    if (gs_slice_ends(top_sample_label(s, "DCGM_FI_DRIVER_VERSION"), "-simulated") ||
        gs_slice_ends(top_sample_label(s, "DCGM_FI_SYSTEM_DRIVER_VERSION"), "-simulated"))
        g->simulated = u->m->simulated = true;
    struct metrics_gpu_pod owner = owner_of(u->m, s);
    struct top_pod *p = pod_of(u->m, owner.ns, owner.pod, true);
    if (!p)
        return;
    if (first_of(u, g->key, p->key, "holder"))
        add_holder(g, p);
    newer(&p->at_ms, s->t_ms);
    if (!*p->node)
        set_clean(&p->node, node_of(u->m, s));
    if (metric > 1 || !first_of(u, g->key, p->key, metric ? "used" : "util"))
        return;
    struct pod_sum *sum = sum_of(u, p);
    if (metric == 0)
        sum->device_util += s->value, sum->n_util++;
    else
        sum->device_used += s->value, sum->n_used++;
}

static void add_process_value(struct update *u, const struct top_sample *s, bool util)
{
    struct top_process *process = process_of(u->m, s);
    struct gs_slice ns = top_sample_label(s, "NamespaceName");
    struct top_pod *p = pod_of(u->m, ns, top_sample_label(s, "PodName"), true);
    if (process) {
        *(util ? &process->util : &process->used_mib) = s->value;
        newer(&process->at_ms, s->t_ms);
        free(process->pod);
        process->pod = p ? gs_format("%s/%s", p->ns, p->name) : gs_strdup("");
    }
    if (!p)
        return;
    GS_AUTO_BUF struct gs_buf key = {0};
    gpu_key(u->m, s, &key);
    struct pod_sum *sum = sum_of(u, p);
    struct top_gpu *g = find_row(u->m, TOP_GPUS, key.data);
    newer(&p->at_ms, s->t_ms);
    if (!*p->node)
        set_clean(&p->node, node_of(u->m, s));
    if (first_of(u, key.data, p->key, "process"))
        sum->n_process_gpus++;
    if (g && !g->absent && first_of(u, g->key, p->key, "holder"))
        add_holder(g, p);
    if (util)
        sum->process_util += s->value, sum->n_process_util++;
    else
        sum->process_used += s->value, sum->n_process_used++;
}

static void add_pod_value(struct update *u, const struct top_sample *s)
{
    const struct metrics_gpu_series series = series_of(s);
    struct metrics_gpu_pod pod = metrics_gpu_owner(&series, NULL); // the object, not the target
    bool requests = gs_slice_eq_str(s->name, "kube_pod_container_resource_requests");
    struct top_pod *p = pod_of(u->m, pod.ns, pod.pod, requests);
    if (!p || p->gone)
        return;
    if (requests) {
        p->requested = isnan(p->requested) ? s->value : p->requested + s->value;
    } else if (gs_slice_eq_str(s->name, "kube_pod_info")) {
        set_clean(&p->node, top_sample_label(s, "node"));
    } else if (gs_slice_eq_str(s->name, "kube_pod_status_phase") && s->value > 0) {
        set_clean(&p->phase, top_sample_label(s, "phase"));
    } else if (gs_slice_eq_str(s->name, "kube_pod_container_status_waiting_reason") &&
               s->value > 0) {
        set_clean(&p->phase, top_sample_label(s, "reason"));
    } else if (gs_slice_eq_str(s->name, "kube_pod_created")) {
        p->created_s = s->value;
    } else if (gs_slice_eq_str(s->name, ATTRIBUTION) &&
               gs_slice_eq_str(top_sample_label(s, "attribution"), "estimate") && s->value > 0) {
        p->estimated = true;
    }
}

static void add_whole_pod_value(struct update *u, const struct top_sample *s, bool util)
{
    struct top_pod *p =
        pod_of(u->m, top_sample_label(s, "namespace"), top_sample_label(s, "pod"), true);
    double *value = !p ? NULL : util ? &p->util : &p->used_mib;
    if (!value || !isnan(*value)) // the first metric counts
        return;
    *value = s->value;
    newer(&p->at_ms, s->t_ms);
}

// A pod can serve several models.
static void add_engine_value(struct update *u, const struct top_sample *s)
{
    struct top_pod *p =
        pod_of(u->m, top_sample_label(s, "namespace"), top_sample_label(s, "pod"), false);
    if (!p || p->gone)
        return;
    if (gs_slice_eq_str(s->name, ENGINE_WAITING))
        p->waiting = isnan(p->waiting) ? s->value : p->waiting + s->value;
    else if (gs_slice_eq_str(s->name, ENGINE_RUNNING))
        p->running = isnan(p->running) ? s->value : p->running + s->value;
    else if (gs_slice_eq_str(s->name, ENGINE_KV) && !(s->value * 100 <= p->kv_percent))
        p->kv_percent = s->value * 100;
}

static bool is_pod_metric(struct gs_slice name)
{
    return gs_slice_starts(name, "kube_pod_") || gs_slice_eq_str(name, ATTRIBUTION);
}

// The index of the metric, which may have its other name. *ret_factor: of the value then.
static size_t metric_of(struct gs_slice name, double *ret_factor)
{
    *ret_factor = 1;
    for (size_t i = 0; i < GS_ARRAY_LEN(gpu_metrics); i++)
        if (gs_slice_eq_str(name, gpu_metrics[i].name))
            return i;
    struct aliases_name others[ALIASES_MAX];
    size_t n = aliases_of(name, others);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < GS_ARRAY_LEN(gpu_metrics); i++)
            if (gs_streq(others[k].name, gpu_metrics[i].name)) {
                *ret_factor = others[k].divisor / others[k].multiplier;
                return i;
            }
    return GS_ARRAY_LEN(gpu_metrics);
}

static void add_device_sample(struct update *u, const struct top_sample *sample)
{
    struct top_gpu *g;
    struct top_sample old_unit = *sample;
    const struct top_sample *s = &old_unit;
    double factor;
    size_t metric = metric_of(sample->name, &factor);
    old_unit.value *= factor;
    if (metric < GS_ARRAY_LEN(gpu_metrics)) {
        if ((g = gpu_of(u->m, s, true)))
            add_device_value(u, g, s, metric);
        return;
    }
    // The only utilization that NVML has for MIG devices.
    if (gs_slice_eq_str(s->name, ENGINE_ACTIVE) || gs_slice_eq_str(s->name, ENGINE_ACTIVE_NEW)) {
        struct top_sample percent = *s;
        percent.value *= 100;
        if (top_sample_label(s, "GPU_I_ID").len && (g = gpu_of(u->m, s, true)))
            add_device_value(u, g, &percent, 0);
    } else if (gs_slice_eq_str(s->name, GPU_LOST) && s->value > 0) {
        if ((g = gpu_of(u->m, s, true)))
            g->lost = true;
    } else if (gs_slice_eq_str(s->name, GPU_HUNG) && s->value > 0) {
        if ((g = gpu_of(u->m, s, true)))
            g->hung = true;
    } else if (gs_slice_eq_str(s->name, TOP_TIMESTAMP)) {
        if ((g = gpu_of(u->m, s, false)) && !g->absent)
            newer(&g->at_ms, s->value > 0 && s->value < 1e12 ? (int64_t)(s->value * 1000) : 0);
    }
}

// --- the end of a refresh ---

static void finish_pods(struct update *u)
{
    struct top_model *m = u->m;
    for (size_t i = 0; i < m->n_pods; i++) {
        struct top_pod *p = m->pods[i];
        const struct pod_sum *sum = p->gone ? NULL : gs_hmap_get_str(u->sums, p->key);
        if (!sum)
            continue;
        p->n_gpus = sum->n_util > sum->n_used ? sum->n_util : sum->n_used;
        if (sum->n_process_gpus > p->n_gpus)
            p->n_gpus = sum->n_process_gpus;
        if (sum->n_util)
            p->util = sum->device_util / (double)sum->n_util;
        else if (sum->n_process_util)
            p->util = sum->process_util / (double)sum->n_process_gpus;
        if (sum->n_used)
            p->used_mib = sum->device_used;
        else if (sum->n_process_used)
            p->used_mib = sum->process_used;
    }
}

// A value of a device that several pods hold says nothing about one of them.
static void find_shared_devices(struct update *u)
{
    struct top_model *m = u->m;
    for (size_t i = 0; i < m->n_gpus; i++) {
        if (m->gpus[i]->absent || !strchr(m->gpus[i]->pods, ' '))
            continue;
        struct gs_slice rest = gs_slice_of(m->gpus[i]->pods);
        while (rest.data) {
            GS_AUTO_FREE char *key = gs_slice_dup(gs_slice_cut(&rest, ' '));
            struct top_pod *p = find_row(m, TOP_PODS, key);
            const struct pod_sum *sum = p && !p->gone ? gs_hmap_get_str(u->sums, key) : NULL;
            if (sum && sum->n_util)
                p->estimated = true;
        }
    }
}

// The pods of a GPU that is absent, but not for long.
static void keep_pods(struct top_model *m, const struct top_gpu *g)
{
    struct gs_slice rest = gs_slice_of(g->pods);
    while (rest.len) {
        GS_AUTO_FREE char *key = gs_slice_dup(gs_slice_cut(&rest, ' '));
        struct top_pod *p = find_row(m, TOP_PODS, key);
        if (p)
            p->gone = false;
    }
}

// A scrape that failed or was late ends the series of a GPU until the next one: the GPU is not gone
// yet, and its last values count with their age.
static void find_gone(struct update *u)
{
    struct top_model *m = u->m;
    for (size_t i = 0; i < m->n_gpus; i++) {
        struct top_gpu *g = m->gpus[i];
        g->gone = g->absent && u->now_ms - g->at_ms > m->stale_ms;
        if (g->absent && !g->gone)
            keep_pods(m, g);
        m->simulated |= g->simulated;
    }
}

static bool keeps_pod(const struct top_pod *p)
{
    bool ended = gs_streq(p->phase, "Succeeded") || gs_streq(p->phase, "Failed");
    return !p->gone && !(ended && !p->n_gpus);
}

static void remove_gone(struct top_model *m, int64_t now_ms)
{
    size_t n = 0;
    for (int i = 0; i < TOP_PANES; i++)
        gs_hmap_clear(m->by_key[i]);
    for (size_t i = 0; i < m->n_gpus; i++) {
        struct top_gpu *g = m->gpus[i];
        if (g->gone && now_ms - g->at_ms > GPU_GONE_MS) {
            free_gpu(g);
            continue;
        }
        remember(m, TOP_GPUS, g->key, n);
        m->gpus[n++] = g;
    }
    m->n_gpus = n;
    n = 0;
    for (size_t i = 0; i < m->n_pods; i++) {
        struct top_pod *p = m->pods[i];
        if (!keeps_pod(p)) {
            free_pod(p);
            continue;
        }
        remember(m, TOP_PODS, p->key, n);
        m->pods[n++] = p;
    }
    m->n_pods = n;
    n = 0;
    for (size_t i = 0; i < m->n_processes; i++) {
        struct top_process *p = m->processes[i];
        if (p->gone) {
            free_process(p);
            continue;
        }
        remember(m, TOP_PROCESSES, p->key, n);
        m->processes[n++] = p;
    }
    m->n_processes = n;
}

// A value stands for all intervals of one refresh.
static void add_value(const struct top_model *m, struct top_history *h, int64_t interval,
                      double value)
{
    int64_t n = m->refresh_ms / m->interval_ms;
    n = n > TOP_HISTORY ? TOP_HISTORY : n;
    for (int64_t i = interval - n + 1; h->last && i < interval; i++)
        if (i > h->last)
            top_history_add(h, i, value);
    top_history_add(h, interval, value);
}

static void add_to_histories(struct top_model *m, int64_t now_ms)
{
    int64_t interval = now_ms / m->interval_ms;
    for (size_t i = 0; i < m->n_gpus; i++) {
        struct top_gpu *g = m->gpus[i];
        if (g->absent || g->lost || g->hung || top_model_is_stale(m, g->at_ms, now_ms))
            continue;
        add_value(m, &g->utils, interval, g->util);
        add_value(m, &g->memory, interval, g->used_mib);
    }
    for (size_t i = 0; i < m->n_pods; i++)
        if (!top_model_is_stale(m, m->pods[i]->at_ms, now_ms))
            add_value(m, &m->pods[i]->utils, interval, m->pods[i]->util);
}

void top_model_update(struct top_model *m, const struct top_samples *s, int64_t now_ms)
{
    struct update u = {m, now_ms, gs_hmap_new(free), gs_hmap_new(NULL)};
    m->over_limit = m->simulated = false;
    free(m->note);
    m->note = gs_strdup(s->note);
    read_targets(m, s);
    for (size_t i = 0; i < m->n_gpus; i++)
        m->gpus[i]->absent = true;
    for (size_t i = 0; i < m->n_pods; i++)
        m->pods[i]->gone = true;
    for (size_t i = 0; i < m->n_processes; i++)
        m->processes[i]->gone = true;
    for (size_t i = 0; i < s->len; i++)
        if (!gs_slice_eq_str(s->items[i].name, TOP_TIMESTAMP))
            add_device_sample(&u, &s->items[i]);
    for (size_t i = 0; i < s->len; i++) {
        const struct top_sample *x = &s->items[i];
        if (gs_slice_eq_str(x->name, TOP_TIMESTAMP))
            add_device_sample(&u, x);
        else if (gs_slice_eq_str(x->name, PROCESS_UTIL) || gs_slice_eq_str(x->name, PROCESS_USED))
            add_process_value(&u, x, gs_slice_eq_str(x->name, PROCESS_UTIL));
        else if (gs_slice_eq_str(x->name, TOP_POD_UTIL) || gs_slice_eq_str(x->name, TOP_POD_USED))
            add_whole_pod_value(&u, x, gs_slice_eq_str(x->name, TOP_POD_UTIL));
        else if (gs_slice_eq_str(x->name, "kube_pod_container_resource_requests"))
            add_pod_value(&u, x);
    }
    for (size_t i = 0; i < s->len; i++)
        if (is_pod_metric(s->items[i].name) &&
            !gs_slice_eq_str(s->items[i].name, "kube_pod_container_resource_requests"))
            add_pod_value(&u, &s->items[i]);
        else if (gs_slice_starts(s->items[i].name, ENGINE))
            add_engine_value(&u, &s->items[i]);
    finish_pods(&u);
    find_shared_devices(&u);
    find_gone(&u);
    gs_hmap_free(u.sums);
    gs_hmap_free(u.holders);
    remove_gone(m, now_ms);
    add_to_histories(m, now_ms);
    m->complete = true;
    m->refreshed_ms = now_ms;
}

void top_model_add_past(struct top_model *m, const struct top_samples *s)
{
    for (size_t i = 0; i < s->len; i++) {
        const struct top_sample *x = &s->items[i];
        int64_t interval = x->t_ms / m->interval_ms;
        if (top_sample_label(x, "UUID").len || top_sample_label(x, "gpu").len) {
            struct top_gpu *g = gpu_of(m, x, false);
            if (g && isnan(top_history_at(&g->utils, interval)))
                top_history_add(&g->utils, interval, x->value);
            continue;
        }
        struct metrics_gpu_pod owner = owner_of(m, x);
        struct top_pod *p = pod_of(m, owner.ns, owner.pod, false);
        if (p && isnan(top_history_at(&p->utils, interval)))
            top_history_add(&p->utils, interval, x->value);
    }
}
