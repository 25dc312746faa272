// SPDX-License-Identifier: Apache-2.0
// Reads a scenario of several workloads on pools of nodes.
#include "nodes/prices.h"
#include "replay/fleet_private.h"
#include "replay/scenario_private.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/schema.h"

#include <libgen.h>
#include <math.h>

#define MAX_FILE ((size_t)16 << 20)

struct fleet_draft {
    struct replay_fleet *f;
    const json_t *typed; // the document with types
    const json_t *workloads, *pools, *prices;
};

// --- numbers ---

static size_t read_count(struct codec_reader *r, const json_t *v, size_t min, size_t max)
{
    double n = replay_read_number(r, v);
    if (n < (double)min || n > (double)max || n != floor(n)) {
        codec_reader_fail(r, v, "want a whole number from %zu to %zu", min, max);
        return min;
    }
    return (size_t)n;
}

// 20m, or {p50: 20m, p90: 2h}
static void read_spread(struct codec_reader *r, const json_t *v, void *out)
{
#define AT_SPREAD(field) offsetof(struct replay_spread, field)
    static const struct codec_field fields[] = {
        {"p50", CODEC_FIELD_DURATION, AT_SPREAD(p50_ms), NULL},
        {"p90", CODEC_FIELD_DURATION, AT_SPREAD(p90_ms), NULL},
        {0},
    };
#undef AT_SPREAD
    struct replay_spread *d = out;
    if (json_is_object(v))
        codec_read_mapping(r, v, fields, "a distribution of times", d);
    else
        d->p50_ms = codec_read_duration(r, v);
    if (!d->p90_ms)
        d->p90_ms = d->p50_ms;
    if (!r->err && (d->p50_ms < 1000 || d->p90_ms < d->p50_ms))
        codec_reader_fail(r, v, "want a duration of at least 1s, or {p50: 20m, p90: 2h}");
}

// --- jobs ---

struct job_entry {
    int64_t at_ms;
    struct replay_spread run;
    size_t gpus, pods;
};

static void read_gpus(struct codec_reader *r, const json_t *v, void *out)
{
    ((struct job_entry *)out)->gpus = read_count(r, v, 0, REPLAY_MAX_GPUS);
}

static void read_pods(struct codec_reader *r, const json_t *v, void *out)
{
    ((struct job_entry *)out)->pods = read_count(r, v, 1, REPLAY_MAX_REPLICAS);
}

static void read_run(struct codec_reader *r, const json_t *v, void *out)
{
    read_spread(r, v, &((struct job_entry *)out)->run);
}

// - {at: 10m, run: 1h, gpus: 4, pods: 2}
static void read_job(struct codec_reader *r, const json_t *v, struct job_entry *e)
{
    static const struct codec_field fields[] = {
        {"at", CODEC_FIELD_DURATION, offsetof(struct job_entry, at_ms), NULL},
        {"run", CODEC_FIELD_CUSTOM, 0, read_run},
        {"gpus", CODEC_FIELD_CUSTOM, 0, read_gpus},
        {"pods", CODEC_FIELD_CUSTOM, 0, read_pods},
        {0},
    };
    codec_read_mapping(r, v, fields, "job", e);
    if (!e->run.p50_ms)
        codec_reader_fail(r, v, "a job needs \"run\", how long it runs");
    if (!r->err && e->run.p90_ms != e->run.p50_ms)
        codec_reader_fail(r, v, "run: a listed job has one duration, such as 20m");
}

static void read_job_list(struct codec_reader *r, const json_t *list,
                          struct replay_fleet_workload *w)
{
    size_t cap = 0;
    for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
        struct job_entry e = {.gpus = w->s->gpus_per_replica, .pods = 1};
        const json_t *v = json_array_get(list, i);
        read_job(r, v, &e);
        if (w->n_jobs && e.at_ms < w->jobs[w->n_jobs - 1].at_ms)
            codec_reader_fail(r, v, "jobs must be in the order of their times");
        if (w->n_jobs + e.pods > REPLAY_MAX_JOBS)
            codec_reader_fail(r, v, "more than %zu jobs", REPLAY_MAX_JOBS);
        for (size_t k = 0; k < e.pods && !r->err; k++) {
            gs_grow(&w->jobs, &cap, w->n_jobs, sizeof(*w->jobs));
            w->jobs[w->n_jobs++] =
                (struct replay_job){(e.at_ms + 999) / 1000 * 1000, e.run.p50_ms, e.gpus};
        }
    }
}

static void add_size(struct codec_reader *r, const json_t *at, const char *gpus, double weight,
                     struct replay_arrivals *a)
{
    int64_t n = 0;
    GS_AUTO_ERROR struct gs_error *err =
        gs_parse_i64(gs_slice_of(gpus), 0, (int64_t)REPLAY_MAX_GPUS, &n);
    if (err)
        codec_reader_fail(r, at, "gpus: \"%s\" is not a number of GPUs up to %zu", gpus,
                          REPLAY_MAX_GPUS);
    else if (a->n_sizes == REPLAY_MAX_JOB_SIZES)
        codec_reader_fail(r, at, "gpus: more than %zu sizes", REPLAY_MAX_JOB_SIZES);
    if (r->err)
        return;
    a->gpus[a->n_sizes] = (size_t)n;
    a->weights[a->n_sizes++] = weight;
}

// 2, or {1: 60, 4: 40}: sizes with their shares
static void read_sizes(struct codec_reader *r, const json_t *v, void *out)
{
    struct replay_arrivals *a = out;
    const char *key;
    json_t *share;
    double all = 0;
    if (!json_is_object(v)) {
        add_size(r, v, codec_read_text(r, v), 1, a);
        return;
    }
    json_object_foreach ((json_t *)v, key, share) {
        double weight = replay_read_number(r, share);
        all += weight;
        if (!r->err)
            add_size(r, share, key, weight, a);
    }
    if (!r->err && !(all > 0))
        codec_reader_fail(r, v, "gpus: want sizes with their shares, such as {1: 60, 4: 40}");
}

static void read_arrival_run(struct codec_reader *r, const json_t *v, void *out)
{
    read_spread(r, v, &((struct replay_arrivals *)out)->run);
}

// {every: 3m, run: {p50: 20m, p90: 2h}, gpus: {1: 60, 4: 40}}
static void read_arrivals(struct codec_reader *r, const json_t *v, struct replay_fleet_workload *w)
{
#define AT_ARRIVALS(field) offsetof(struct replay_arrivals, field)
    static const struct codec_field fields[] = {
        {"every", CODEC_FIELD_DURATION, AT_ARRIVALS(every_ms), NULL},
        {"from", CODEC_FIELD_DURATION, AT_ARRIVALS(from_ms), NULL},
        {"until", CODEC_FIELD_DURATION, AT_ARRIVALS(until_ms), NULL},
        {"run", CODEC_FIELD_CUSTOM, 0, read_arrival_run},
        {"gpus", CODEC_FIELD_CUSTOM, 0, read_sizes},
        {0},
    };
#undef AT_ARRIVALS
    struct replay_arrivals *a = &w->arrivals;
    a->until_ms = INT64_MAX;
    codec_read_mapping(r, v, fields, "jobs", a);
    if (r->err)
        return;
    if (a->every_ms < 1 || !a->run.p50_ms)
        codec_reader_fail(r, v, "jobs need \"every\", the mean time between two, and \"run\"");
    if (!a->n_sizes) {
        a->gpus[a->n_sizes] = w->s->gpus_per_replica;
        a->weights[a->n_sizes++] = 1;
    }
}

// --- workloads ---

// Checks the fields that the pods of the workload get: they are those of a PodSpec.
static void check_pod(struct codec_reader *r, const json_t *at, const json_t *pod)
{
    CODEC_AUTO_JSON json_t *object = json_pack("{s:o}", "spec", json_deep_copy(pod));
    CODEC_AUTO_JSON json_t *unknown = json_array();
    CODEC_AUTO_JSON json_t *wrong = json_array();
    kube_schema_check(kube_schema_find("v1", "Pod"), object, false, unknown, wrong);
    const json_t *problems = json_array_size(wrong) ? wrong : unknown;
    if (!json_is_object(pod))
        codec_reader_fail(r, at, "pod: want fields of a pod's spec, such as nodeSelector");
    else if (json_array_size(problems))
        codec_reader_fail(r, at, "pod: %s", json_string_value(json_array_get(problems, 0)));
}

static void check_workload(struct codec_reader *r, const json_t *v,
                           const struct replay_fleet_workload *w)
{
    bool has_jobs = w->n_jobs || w->arrivals.every_ms;
    if (!*w->s->name)
        codec_reader_fail(r, v, "a workload needs a name");
    else if (w->s->gpus_per_replica > REPLAY_MAX_GPUS)
        codec_reader_fail(r, v, "gpusPerReplica: at most %zu", REPLAY_MAX_GPUS);
    else if (has_jobs && (w->s->object || w->s->load.n))
        codec_reader_fail(r, v, "a workload has either jobs, or replicas with a load");
    else if (w->s->load.n && !w->s->object && !w->s->replicas)
        codec_reader_fail(r, v, "a load needs replicas or an hpa");
}

static void read_workload_entry(struct codec_reader *r, const json_t *v, const json_t *typed,
                                struct replay_fleet *f)
{
    struct replay_fleet_workload *w = &f->workloads[f->n_workloads++];
    const json_t *jobs = json_object_get(v, "jobs"), *pod = json_object_get(typed, "pod");
    const json_t *evict = json_object_get(typed, "safeToEvict");
    w->s = replay_scenario_read_entry(r, v, typed, f->duration_ms);
    w->s->min_nodes = w->s->max_nodes = w->s->gpus_per_node = 0;
    if (r->err)
        return;
    if (json_is_array(jobs))
        read_job_list(r, jobs, w);
    else if (json_is_object(jobs))
        read_arrivals(r, jobs, w);
    else if (json_is_string(jobs))
        r->err = replay_fleet_read_trace(codec_reader_path(r, codec_read_text(r, jobs)),
                                         w->s->gpus_per_replica, &w->jobs, &w->n_jobs);
    else if (jobs)
        codec_reader_fail(r, jobs, "jobs: want a list, a CSV file, or {every: 3m, run: 20m}");
    if (jobs && !json_object_get(v, "replicas"))
        w->s->replicas = 0;
    if (pod)
        check_pod(r, json_object_get(v, "pod"), pod);
    if (evict && !json_is_boolean(evict))
        codec_reader_fail(r, json_object_get(v, "safeToEvict"), "safeToEvict: want true or false");
    w->safe_to_evict = evict ? json_is_true(evict) : !jobs;
    w->pod = json_incref((json_t *)pod);
    if (!r->err)
        check_workload(r, v, w);
}

static void read_workloads(struct codec_reader *r, struct fleet_draft *d)
{
    const json_t *typed = json_object_get(d->typed, "workloads");
    size_t n = json_array_size(d->workloads);
    if (!n || n > REPLAY_MAX_WORKLOADS) {
        codec_reader_fail(r, d->workloads, "workloads: want a list of 1 to %zu",
                          REPLAY_MAX_WORKLOADS);
        return;
    }
    d->f->workloads = gs_alloc_array(n, sizeof(*d->f->workloads));
    for (size_t i = 0; i < n && !r->err; i++) {
        const json_t *v = json_array_get(d->workloads, i);
        read_workload_entry(r, v, json_array_get(typed, i), d->f);
        for (size_t k = 0; k < i && !r->err; k++)
            if (gs_streq(d->f->workloads[k].s->name, d->f->workloads[i].s->name))
                codec_reader_fail(r, v, "two workloads have the name \"%s\"",
                                  d->f->workloads[i].s->name);
    }
}

// --- the autoscaler of nodes ---

static void read_share(struct codec_reader *r, const json_t *v, double *ret)
{
    *ret = replay_read_number(r, v);
    if (*ret > 1)
        codec_reader_fail(r, v, "want a share from 0 to 1");
}

static void read_gpu_threshold(struct codec_reader *r, const json_t *v, void *out)
{
    read_share(r, v, &((struct replay_fleet *)out)->plan.gpu_threshold);
}

static void read_threshold(struct codec_reader *r, const json_t *v, void *out)
{
    read_share(r, v, &((struct replay_fleet *)out)->plan.threshold);
}

// The names are those of the Cluster Autoscaler's flags.
static void read_autoscaler(struct codec_reader *r, const json_t *v, void *out)
{
#define AT(field) offsetof(struct replay_fleet, field)
    static const struct codec_field fields[] = {
        {"scan-interval", CODEC_FIELD_DURATION, AT(times.scan_ms), NULL},
        {"scale-down-unneeded-time", CODEC_FIELD_DURATION, AT(plan.unneeded_ms), NULL},
        {"scale-down-delay-after-add", CODEC_FIELD_DURATION, AT(plan.delay_after_add_ms), NULL},
        {"max-node-provision-time", CODEC_FIELD_DURATION, AT(plan.max_provision_ms), NULL},
        {"early-cordon", CODEC_FIELD_BOOL, AT(plan.early_cordon), NULL},
        {"consolidation", CODEC_FIELD_BOOL, AT(plan.consolidation), NULL},
        {"initial-node-group-backoff-duration", CODEC_FIELD_DURATION, AT(times.backoff.initial_ms),
         NULL},
        {"max-node-group-backoff-duration", CODEC_FIELD_DURATION, AT(times.backoff.max_ms), NULL},
        {"node-group-backoff-reset-timeout", CODEC_FIELD_DURATION, AT(times.backoff.reset_ms),
         NULL},
        {"scale-down-gpu-utilization-threshold", CODEC_FIELD_CUSTOM, 0, read_gpu_threshold},
        {"scale-down-utilization-threshold", CODEC_FIELD_CUSTOM, 0, read_threshold},
        {0},
    };
#undef AT
    codec_read_mapping(r, v, fields, "autoscaler", out);
}

static void read_seed(struct codec_reader *r, const json_t *v, void *out)
{
    ((struct replay_fleet *)out)->seed = read_count(r, v, 0, UINT32_MAX);
}

// The rest is read when the duration is known.

static void keep_workloads(struct codec_reader *r, const json_t *v, void *out)
{
    (void)out;
    ((struct fleet_draft *)r->user)->workloads = v;
}

static void keep_pools(struct codec_reader *r, const json_t *v, void *out)
{
    (void)out;
    ((struct fleet_draft *)r->user)->pools = v;
}

static void keep_prices(struct codec_reader *r, const json_t *v, void *out)
{
    (void)out;
    ((struct fleet_draft *)r->user)->prices = v;
}

static void read_policy(struct codec_reader *r, const json_t *v, void *out)
{
    struct gs_error *err =
        nodes_policy_parse(codec_read_text(r, v), &((struct replay_fleet *)out)->plan.policy);
    if (err)
        codec_reader_fail(r, v, "%s", gs_error_message(err));
    gs_error_free(err);
}

static void read_scoring(struct codec_reader *r, const json_t *v, void *out)
{
    const char *text = codec_read_text(r, v);
    if (gs_streq(text, "LeastAllocated"))
        ((struct replay_fleet *)out)->scoring = NODES_LEAST_ALLOCATED;
    else if (gs_streq(text, "MostAllocated"))
        ((struct replay_fleet *)out)->scoring = NODES_MOST_ALLOCATED;
    else
        codec_reader_fail(r, v, "scoring: want LeastAllocated or MostAllocated");
}

#define AT(field) offsetof(struct replay_fleet, field)
static const struct codec_field top_fields[] = {
    {"name", CODEC_FIELD_TEXT, AT(name), NULL},
    {"duration", CODEC_FIELD_DURATION, AT(duration_ms), NULL},
    {"seed", CODEC_FIELD_CUSTOM, 0, read_seed},
    {"policy", CODEC_FIELD_CUSTOM, 0, read_policy},
    {"scoring", CODEC_FIELD_CUSTOM, 0, read_scoring},
    {"autoscaler", CODEC_FIELD_CUSTOM, 0, read_autoscaler},
    {"pools", CODEC_FIELD_CUSTOM, 0, keep_pools},
    {"prices", CODEC_FIELD_CUSTOM, 0, keep_prices},
    {"workloads", CODEC_FIELD_CUSTOM, 0, keep_workloads},
    {0},
};
#undef AT

struct gs_error *replay_fleet_check(const struct replay_fleet *f)
{
    const struct replay_fleet_times *t = &f->times;
    if (f->duration_ms < 1000 || f->duration_ms > REPLAY_MAX_DURATION_MS)
        return gs_error_new(GS_EINVAL, "duration: from 1s to a year");
    if (t->scan_ms < 1000 || t->scan_ms % 1000)
        return gs_error_new(GS_EINVAL, "scan-interval: whole seconds, at least 1s");
    if (f->plan.max_provision_ms < 1000)
        return gs_error_new(GS_EINVAL, "max-node-provision-time: at least 1s");
    return NULL;
}

static void read_prices(struct codec_reader *r, struct fleet_draft *d)
{
    struct gs_error *err = NULL;
    if (json_is_string(d->prices)) {
        err = nodes_prices_load(codec_reader_path(r, codec_read_text(r, d->prices)), &d->f->prices);
    } else {
        const json_t *table = json_object_get(d->typed, "prices");
        err = nodes_prices_check(table);
        if (!err)
            d->f->prices = json_incref((json_t *)table);
    }
    if (err)
        codec_reader_fail(r, d->prices, "%s", gs_error_message(err));
    gs_error_free(err);
}

static struct gs_error *in_file(struct gs_error *err, const char *path)
{
    return err ? gs_error_wrap(err, "%s", path) : NULL;
}

static struct gs_error *read_document(struct codec_reader *r, const json_t *doc,
                                      struct fleet_draft *d)
{
    r->user = d;
    codec_read_mapping(r, doc, top_fields, "a scenario with pools", d->f);
    if (!r->err)
        r->err = in_file(replay_fleet_check(d->f), r->name);
    if (!r->err)
        read_workloads(r, d);
    if (!r->err && d->prices)
        read_prices(r, d);
    if (!r->err)
        replay_fleet_read_pools(r, d->pools, d->f);
    free(r->ignored);
    return r->err;
}

static struct gs_error *read_text(const char *path, struct gs_slice text, struct replay_fleet *f)
{
    struct codec_yaml_docs docs = {0}, typed = {0};
    struct codec_yaml_marks *marks = NULL;
    struct gs_error *err = codec_yaml_parse_texts(text, path, &docs, &marks);
    if (!err)
        err = codec_yaml_parse(text, path, &typed);
    GS_AUTO_FREE char *copy = gs_strdup(path);
    struct codec_reader r = {
        .name = path, .base_dir = dirname(copy), .marks = marks, .arena = &f->arena};
    if (!err && (docs.len != 1 || typed.len != 1))
        err = gs_error_new(GS_EINVAL, "%s: a scenario is one YAML mapping", path);
    struct fleet_draft d = {.f = f, .typed = err ? NULL : typed.items[0].value};
    if (!err)
        err = read_document(&r, docs.items[0].value, &d);
    codec_yaml_docs_finish(&docs);
    codec_yaml_docs_finish(&typed);
    codec_yaml_marks_free(marks);
    return err;
}

struct gs_error *replay_fleet_load(const char *path, struct replay_fleet **ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (err)
        return err;
    struct replay_fleet *f = gs_alloc(sizeof(*f));
    *f = (struct replay_fleet){.name = "",
                               .duration_ms = 3600 * 1000,
                               .seed = 1,
                               .scoring = NODES_LEAST_ALLOCATED,
                               .times = {.scan_ms = 10000,
                                         .backoff = {NODES_BACKOFF_INITIAL_MS, NODES_BACKOFF_MAX_MS,
                                                     NODES_BACKOFF_RESET_MS}}};
    nodes_plan_settings_init(&f->plan);
    err = read_text(path, gs_buf_slice(&text), f);
    if (err) {
        replay_fleet_free(f);
        return err;
    }
    if (!*f->name)
        f->name = gs_arena_strdup(&f->arena, path);
    *ret = f;
    return NULL;
}

bool replay_is_fleet(const char *path)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct codec_yaml_docs docs = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    GS_AUTO_ERROR struct gs_error *parse_err =
        err ? NULL : codec_yaml_parse(gs_buf_slice(&text), path, &docs);
    const json_t *top = docs.len ? docs.items[0].value : NULL;
    bool found = json_object_get(top, "workloads") || json_object_get(top, "pools");
    codec_yaml_docs_finish(&docs);
    return found;
}

void replay_fleet_free(struct replay_fleet *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->n_workloads; i++) {
        free(f->workloads[i].jobs);
        json_decref(f->workloads[i].pod);
        replay_scenario_free(f->workloads[i].s);
    }
    free(f->workloads);
    json_decref(f->prices);
    nodes_pools_finish(&f->pools);
    gs_arena_finish(&f->arena);
    free(f);
}
