// SPDX-License-Identifier: Apache-2.0
// Samples with timestamps of their own. They are stored after the scrape, and get no staleness
// marker unless track_timestamps_staleness is set: then the series of the previous scrape are kept
// to find those that are missing.
#include "engine/scrape/scrape_private.h"

#include "base/mem.h"

void scrape_timestamped_set_finish(struct scrape_timestamped_set *s)
{
    free(s->items);
    *s = (struct scrape_timestamped_set){0};
}

void scrape_timestamped_scrape_finish(struct scrape_timestamped_scrape *p)
{
    free(p->samples);
    scrape_timestamped_set_finish(&p->seen);
}

// 0: the series was dropped.
static uint64_t series_id(const struct tsdb *db, tsdb_ref ref)
{
    struct tsdb_labels l = tsdb_series_labels(db, ref);
    return tsdb_labels_len(l) ? tsdb_labels_hash(l) | 1 : 0;
}

void scrape_timestamped_add(struct scrape_timestamped_scrape *p,
                            const struct scrape_timestamped_sample *s)
{
    gs_grow(&p->samples, &p->cap, p->n, sizeof(*p->samples));
    p->samples[p->n++] = *s;
}

void scrape_timestamped_mark_seen(struct scrape_timestamped_scrape *p, const struct tsdb *db,
                                  tsdb_ref ref)
{
    gs_grow(&p->seen.items, &p->seen.cap, p->seen.n, sizeof(*p->seen.items));
    p->seen.items[p->seen.n++] = (struct scrape_timestamped_series){ref, series_id(db, ref)};
}

void scrape_timestamped_append(struct scrape_timestamped_scrape *p, struct tsdb *db, bool track,
                               struct scrape_ingest_counts *counts)
{
    for (size_t i = 0; i < p->n; i++) {
        struct scrape_timestamped_sample *s = &p->samples[i];
        struct gs_error *err = tsdb_append_ref(db, s->ref, s->t_ms, s->value);
        s->rejected = err != NULL;
        if (err && gs_error_code(err) == GS_EEXIST)
            counts->duplicates++;
        else if (err)
            counts->out_of_order++;
        // As in Prometheus, a rejected sample is treated as absent.
        if (track && (!err || s->is_new))
            scrape_timestamped_mark_seen(p, db, s->ref);
        gs_error_free(err);
    }
}

static int compare_series(const void *a, const void *b)
{
    const struct scrape_timestamped_series *x = a, *y = b;
    return (x->ref > y->ref) - (x->ref < y->ref);
}

static void sort_series(struct scrape_timestamped_set *s)
{
    size_t n = 0;
    if (s->n)
        qsort(s->items, s->n, sizeof(*s->items), compare_series);
    for (size_t i = 0; i < s->n; i++)
        if (!n || s->items[n - 1].ref != s->items[i].ref)
            s->items[n++] = s->items[i];
    s->n = n;
}

void scrape_timestamped_end_missing(struct scrape_timestamped_set *before,
                                    struct scrape_timestamped_scrape *p, struct tsdb *db,
                                    int64_t t_ms)
{
    struct scrape_timestamped_set seen = {0};
    size_t k = 0;
    if (p) {
        seen = p->seen;
        p->seen = (struct scrape_timestamped_set){0};
        sort_series(&seen);
    }
    for (size_t i = 0; i < before->n; i++) {
        const struct scrape_timestamped_series *s = &before->items[i];
        while (k < seen.n && seen.items[k].ref < s->ref)
            k++;
        bool continues = k < seen.n && seen.items[k].ref == s->ref;
        // A series with a newer sample is not ended. This is not an error.
        if (!continues && series_id(db, s->ref) == s->id)
            gs_error_free(tsdb_append_ref(db, s->ref, t_ms, tsdb_stale_marker()));
    }
    scrape_timestamped_set_finish(before);
    *before = seen;
}
