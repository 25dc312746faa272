// SPDX-License-Identifier: Apache-2.0
// Finds targets that report the same GPUs as the built-in exporter, such as a dcgm-exporter that a
// guide installs: otherwise sums would count a GPU twice. Metrics that both have are then not
// stored from the built-in one.
#include "up/up_private.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "engine/state_metrics/state_metrics.h"
#include "kube/object.h"
#include "tsdb/tsdb.h"

#include <stdlib.h>

// Longer than the scrape intervals of guides. The series of a target that goes away end at once.
#define LOOKBACK_MS 120000
#define MAX_NAMES   1000 // of metrics, and of GPUs

struct up_duplicates {
    const struct tsdb *db;
    struct gs_hmap *own; // UUIDs of the GPUs that the built-in exporter has reported
    // Names are kept until no other target reports a GPU: metrics of processes come and go.
    struct gs_hmap *names, *uuids;
    char *pattern, *who;
};

struct up_duplicates *up_duplicates_new(const struct tsdb *db)
{
    struct up_duplicates *d = gs_alloc(sizeof(*d));
    d->db = db;
    d->own = gs_hmap_new(NULL);
    d->names = gs_hmap_new(NULL);
    d->uuids = gs_hmap_new(NULL);
    return d;
}

void up_duplicates_free(struct up_duplicates *d)
{
    if (!d)
        return;
    gs_hmap_free(d->own);
    gs_hmap_free(d->names);
    gs_hmap_free(d->uuids);
    free(d->pattern);
    free(d->who);
    free(d);
}

static void add_to(struct gs_hmap *set, struct gs_slice key)
{
    if (gs_hmap_len(set) < MAX_NAMES)
        gs_hmap_put(set, key, set);
}

static bool on_own(void *arg, tsdb_ref ref, struct tsdb_point p)
{
    struct up_duplicates *d = arg;
    (void)p;
    add_to(d->own, tsdb_series_label(d->db, ref, "UUID"));
    return true;
}

static char *name_target(const struct tsdb *db, tsdb_ref ref)
{
    struct gs_slice job = tsdb_series_label(db, ref, "job"),
                    ns = tsdb_series_label(db, ref, "namespace"),
                    pod = tsdb_series_label(db, ref, "pod"),
                    instance = tsdb_series_label(db, ref, "instance");
    if (pod.len && tsdb_series_label(db, ref, "exported_pod").len)
        return gs_format("pod " GS_SLICE_FMT "/" GS_SLICE_FMT " (job " GS_SLICE_FMT ")",
                         GS_SLICE_ARG(ns), GS_SLICE_ARG(pod), GS_SLICE_ARG(job));
    return gs_format(GS_SLICE_FMT " (job " GS_SLICE_FMT ")", GS_SLICE_ARG(instance),
                     GS_SLICE_ARG(job));
}

static bool on_other(void *arg, tsdb_ref ref, struct tsdb_point p)
{
    struct up_duplicates *d = arg;
    struct gs_slice uuid = tsdb_series_label(d->db, ref, "UUID");
    struct gs_slice name = tsdb_series_label(d->db, ref, "__name__");
    (void)p;
    // Rules keep the labels of their series and have no instance. An engine's ledger names GPUs,
    // too.
    if (!gs_hmap_get(d->own, uuid) || gs_slice_starts(name, "gpuscale_gpu_") ||
        !tsdb_series_label(d->db, ref, "instance").len)
        return true;
    if (!d->who)
        d->who = name_target(d->db, ref);
    add_to(d->names, name);
    add_to(d->uuids, uuid);
    return true;
}

static void search(struct up_duplicates *d, bool own, int64_t now_ms)
{
    const struct tsdb_matcher matchers[] = {
        {GS_SLICE("job"), GS_SLICE(UP_EXPORTER_JOB), own ? TSDB_EQ : TSDB_NEQ, NULL},
        {GS_SLICE("UUID"), GS_SLICE(""), TSDB_NEQ, NULL},
    };
    tsdb_each_latest(d->db, matchers, GS_ARRAY_LEN(matchers), now_ms, now_ms - LOOKBACK_MS,
                     own ? on_own : on_other, d);
}

// "a|b", sorted. The keys are names of metrics and UUIDs: other characters than theirs are escaped.
static void add_alternatives(const struct gs_hmap *set, struct gs_buf *out)
{
    size_t pos = 0, n = 0, len = gs_hmap_len(set);
    GS_AUTO_FREE char **all = gs_alloc_array(len, sizeof(*all));
    struct gs_slice key;
    void *value;
    while (n < len && gs_hmap_next(set, &pos, &key, &value))
        all[n++] = gs_slice_dup(key);
    if (n)
        qsort(all, n, sizeof(*all), gs_compare_texts);
    for (size_t i = 0; i < n; i++) {
        if (i)
            gs_buf_add_char(out, '|');
        for (const char *c = all[i]; *c; c++) {
            if (strchr("\\^$.|?*+()[]{}", *c))
                gs_buf_add_char(out, '\\');
            gs_buf_add_char(out, *c);
        }
        free(all[i]);
    }
}

// --- kube-state-metrics ---

struct kube_state_search {
    const struct tsdb *db;
    const struct kube_cache *pods;
    char *who;
};

// Without honor_labels, the labels of the object have this prefix.
static struct gs_slice label_of_object(const struct tsdb *db, tsdb_ref ref, const char *label)
{
    GS_AUTO_FREE char *exported = gs_format("exported_%s", label);
    struct gs_slice value = tsdb_series_label(db, ref, exported);
    return value.len ? value : tsdb_series_label(db, ref, label);
}

static bool on_pod_info(void *arg, tsdb_ref ref, struct tsdb_point p)
{
    struct kube_state_search *s = arg;
    GS_AUTO_FREE char *ns = gs_slice_dup(label_of_object(s->db, ref, "namespace"));
    GS_AUTO_FREE char *name = gs_slice_dup(label_of_object(s->db, ref, "pod"));
    const char *uid = kube_uid(kube_cache_get(s->pods, ns, name));
    (void)p;
    if (!uid || !gs_slice_eq_str(tsdb_series_label(s->db, ref, "uid"), uid))
        return true;
    s->who = gs_format(GS_SLICE_FMT " (job " GS_SLICE_FMT ")",
                       GS_SLICE_ARG(tsdb_series_label(s->db, ref, "instance")),
                       GS_SLICE_ARG(tsdb_series_label(s->db, ref, "job")));
    return false;
}

char *up_duplicates_kube_state(const struct tsdb *db, const struct kube_cache *pods, int64_t now_ms)
{
    const struct tsdb_matcher matchers[] = {
        {GS_SLICE("__name__"), GS_SLICE("kube_pod_info"), TSDB_EQ, NULL},
        {GS_SLICE("instance"), GS_SLICE(STATE_METRICS_INSTANCE), TSDB_NEQ, NULL},
        {GS_SLICE("instance"), GS_SLICE(""), TSDB_NEQ, NULL},
    };
    struct kube_state_search s = {.db = db, .pods = pods};
    tsdb_each_latest(db, matchers, GS_ARRAY_LEN(matchers), now_ms, now_ms - LOOKBACK_MS,
                     on_pod_info, &s);
    return s.who;
}

bool up_duplicates_update(struct up_duplicates *d, int64_t now_ms)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_hmap_clear(d->uuids);
    free(GS_TAKE(d->who));
    search(d, true, now_ms);
    search(d, false, now_ms);
    if (!gs_hmap_len(d->uuids))
        gs_hmap_clear(d->names);
    if (gs_hmap_len(d->names)) {
        gs_buf_add_char(&text, '(');
        add_alternatives(d->names, &text);
        gs_buf_add_str(&text, ");(");
        add_alternatives(d->uuids, &text);
        gs_buf_add_char(&text, ')');
    }
    if (gs_streq(text.data, d->pattern))
        return false;
    free(d->pattern);
    d->pattern = text.len ? gs_buf_take(&text) : NULL;
    return true;
}

const char *up_duplicates_pattern(const struct up_duplicates *d)
{
    return d->pattern;
}

char *up_duplicates_text(const struct up_duplicates *d)
{
    if (!d->pattern)
        return gs_strdup("no other exporter reports the GPUs of this machine: all metrics of "
                         "gpuscale's exporter are stored again");
    size_t gpus = gs_hmap_len(d->uuids);
    return gs_format("%s reports %zu GPU%s of this machine: of gpuscale's own exporter, the same "
                     "metrics are not stored, so that no GPU counts twice",
                     d->who, gpus, gpus == 1 ? "" : "s");
}
