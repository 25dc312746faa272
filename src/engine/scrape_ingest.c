// SPDX-License-Identifier: Apache-2.0
#include "engine/scrape_ingest.h"

#include "base/arena.h"
#include "base/hmap.h"
#include "base/mem.h"

#define MAX_LABELS  ((size_t)64)
#define MAX_SAMPLES ((size_t)1000000) // of one scrape

// A series of the last scrapes; gone when a scrape of a later generation did not have it.
struct known {
    struct metrics_labels *labels;
    uint64_t generation;
};

struct ingest {
    struct ring *db;
    struct metrics_labels *target;
    bool honor_labels;
    struct gs_hmap *series; // the 8 bytes of the label hash -> struct known
    uint64_t generation;
    int64_t last_ms; // of the newest scrape
};

static void known_free(void *p)
{
    struct known *k = p;
    metrics_labels_unref(k->labels);
    free(k);
}

struct ingest *ingest_new(struct ring *db, const struct metrics_label *target_labels, size_t n,
                          bool honor_labels)
{
    struct ingest *in = gs_alloc(sizeof(*in));
    in->db = db;
    in->target = metrics_labels_new(target_labels, n);
    in->honor_labels = honor_labels;
    in->series = gs_hmap_new(known_free);
    return in;
}

void ingest_free(struct ingest *in)
{
    if (!in)
        return;
    gs_hmap_free(in->series);
    metrics_labels_unref(in->target);
    free(in);
}

struct pass {
    struct ingest *in;
    struct gs_arena arena; // renamed labels of one sample
    int64_t t_ms;
    size_t n_samples;
    struct gs_error *err;
};

static bool scraped_has(const struct metrics_sample *s, struct gs_slice name)
{
    for (size_t i = 0; i < s->n_labels; i++)
        if (gs_slice_eq(s->labels[i].name, name) && s->labels[i].value.len)
            return true;
    return false;
}

// "exported_" in front until nothing else has the name.
static struct gs_slice exported_name(struct pass *p, const struct metrics_sample *s,
                                     struct gs_slice name)
{
    struct gs_slice out = name;
    do {
        GS_AUTO_FREE char *longer = gs_format("exported_" GS_SLICE_FMT, GS_SLICE_ARG(out));
        char *kept = gs_arena_strndup(&p->arena, longer, strlen(longer));
        out = gs_slice_of(kept);
    } while (scraped_has(s, out));
    return out;
}

// The label set of a sample in the store. out has room for all of them.
static size_t merge_labels(struct pass *p, const struct metrics_sample *s,
                           struct metrics_label *out)
{
    const struct metrics_labels *target = p->in->target;
    size_t n = 0;
    out[n++] = (struct metrics_label){GS_SLICE("__name__"), s->name};
    for (size_t i = 0; i < metrics_labels_len(target); i++) {
        const struct metrics_label *t = metrics_labels_at(target, i);
        if (!(p->in->honor_labels && scraped_has(s, t->name)))
            out[n++] = *t;
    }
    for (size_t i = 0; i < s->n_labels; i++) {
        GS_AUTO_FREE char *name = gs_slice_dup(s->labels[i].name);
        bool conflict = !p->in->honor_labels && metrics_labels_get(target, name).len;
        out[n].name = conflict ? exported_name(p, s, s->labels[i].name) : s->labels[i].name;
        out[n++].value = s->labels[i].value;
    }
    return n;
}

static void remember(struct ingest *in, struct metrics_labels *set)
{
    uint64_t hash = metrics_labels_hash(set);
    struct gs_slice key = gs_slice_make(&hash, sizeof(hash));
    struct known *k = gs_hmap_get(in->series, key);
    if (!k) {
        k = gs_alloc(sizeof(*k));
        k->labels = metrics_labels_ref(set);
        gs_hmap_put(in->series, key, k);
    }
    k->generation = in->generation;
}

static bool on_sample(void *arg, const struct metrics_sample *s)
{
    struct pass *p = arg;
    struct metrics_label labels[MAX_LABELS * 2 + 1];
    gs_arena_clear(&p->arena);
    struct metrics_labels *set = metrics_labels_new(labels, merge_labels(p, s, labels));
    int64_t t = s->has_timestamp ? s->timestamp_ms : p->t_ms;
    struct gs_error *err = ring_append_set(p->in->db, set, t, s->value);
    // A repeated timestamp (a target that exports its own) is no failure of the scrape.
    bool refused = err && gs_error_code(err) != GS_ECONFLICT;
    if (!refused && !s->has_timestamp)
        remember(p->in, set);
    metrics_labels_unref(set);
    if (refused) {
        p->err = err;
        return false;
    }
    gs_error_free(err);
    p->n_samples++;
    return true;
}

static bool count_only(void *arg, const struct metrics_sample *s)
{
    (void)arg, (void)s;
    return true;
}

static void end_series(struct ingest *in, const struct known *k, int64_t t_ms)
{
    gs_error_free(ring_append_set(in->db, k->labels, t_ms, ring_stale_marker()));
}

// Ends what the current generation did not renew. Collects first: the map must not change
// meanwhile.
static void end_gone(struct ingest *in, int64_t t_ms)
{
    size_t pos = 0, n_gone = 0;
    struct gs_slice key;
    void *value;
    GS_AUTO_FREE uint64_t *gone = gs_alloc_array(gs_hmap_len(in->series), sizeof(*gone));
    while (gs_hmap_next(in->series, &pos, &key, &value)) {
        const struct known *k = value;
        if (k->generation == in->generation)
            continue;
        end_series(in, k, t_ms);
        memcpy(&gone[n_gone++], key.data, sizeof(*gone));
    }
    for (size_t i = 0; i < n_gone; i++)
        known_free(gs_hmap_remove(in->series, gs_slice_make(&gone[i], sizeof(gone[i]))));
}

struct gs_error *ingest_text(struct ingest *in, struct gs_slice text, int64_t t_ms,
                             size_t *ret_samples)
{
    static const struct metrics_limits limits = {.max_labels = MAX_LABELS,
                                                 .max_samples = MAX_SAMPLES};
    struct gs_error *err = metrics_parse_text(text, &limits, count_only, NULL);
    if (err) {
        ingest_end_all(in, t_ms);
        return err;
    }
    struct pass p = {.in = in, .t_ms = t_ms};
    in->last_ms = t_ms;
    in->generation++;
    err = metrics_parse_text(text, &limits, on_sample, &p);
    gs_arena_finish(&p.arena);
    end_gone(in, t_ms);
    if (!err)
        err = p.err;
    if (err)
        return err;
    *ret_samples = p.n_samples;
    return NULL;
}

void ingest_end_all(struct ingest *in, int64_t t_ms)
{
    in->generation++;
    // Within the same millisecond as a scrape the marker would not be newer than its samples.
    end_gone(in, t_ms > in->last_ms ? t_ms : in->last_ms + 1);
}

void ingest_own(struct ingest *in, const char *name, int64_t t_ms, double value)
{
    size_t n = metrics_labels_len(in->target);
    GS_AUTO_FREE struct metrics_label *labels = gs_alloc_array(n + 1, sizeof(*labels));
    labels[0] = (struct metrics_label){GS_SLICE("__name__"), gs_slice_of(name)};
    for (size_t i = 0; i < n; i++)
        labels[i + 1] = *metrics_labels_at(in->target, i);
    gs_error_free(ring_append(in->db, labels, n + 1, t_ms, value));
}
