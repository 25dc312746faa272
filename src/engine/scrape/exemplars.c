// SPDX-License-Identifier: Apache-2.0
// Exemplars of a scrape are collected while samples are read, and stored after them: an exemplar
// of a sample that was rejected is not stored.
#include "engine/scrape/scrape_private.h"

#include "base/mem.h"
#include "tsdb/exemplars.h"

#define PAUSE_EXEMPLARS 256 // between two calls of go_on

void scrape_exemplars_finish(struct scrape_exemplars *x)
{
    free(x->items);
    *x = (struct scrape_exemplars){0};
}

void scrape_exemplars_add(struct scrape_exemplars *x, const struct scrape_exemplar *e)
{
    gs_grow(&x->items, &x->cap, x->n, sizeof(*x->items));
    x->items[x->n++] = *e;
}

void scrape_exemplars_append(const struct scrape_exemplars *x,
                             const struct scrape_timestamped_scrape *timed,
                             struct metrics_reader *r, struct tsdb *db,
                             struct scrape_ingest_counts *counts, bool (*go_on)(void *arg),
                             void *arg)
{
    for (size_t i = 0; i < x->n; i++) {
        if (i % PAUSE_EXEMPLARS == PAUSE_EXEMPLARS - 1 && go_on && !go_on(arg))
            return;
        const struct scrape_exemplar *e = &x->items[i];
        struct metrics_exemplar parsed;
        if (e->timed && timed->samples[e->timed - 1].rejected)
            continue;
        struct gs_error *err = metrics_reader_exemplar(r, e->text, &parsed);
        if (err) { // the scrape has checked it
            gs_error_free(err);
            continue;
        }
        const struct tsdb_exemplar added = {
            .labels = parsed.labels,
            .n_labels = parsed.n_labels,
            .value = parsed.value,
            .t_ms = parsed.has_timestamp ? parsed.timestamp_ms : e->t_ms,
            .has_t = parsed.has_timestamp,
        };
        counts->exemplars_out_of_order +=
            tsdb_exemplars_add(db, e->ref, &added) == TSDB_EXEMPLAR_OUT_OF_ORDER;
    }
}
