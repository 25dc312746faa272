// SPDX-License-Identifier: Apache-2.0
// Restores the times of alerts from ALERTS_FOR_STATE after a restart.
#include "engine/rules/rules_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

void rules_runner_await_restore(struct rules_runner *r)
{
    for (size_t i = 0; i < r->group->n_rules; i++)
        r->rules[i].restored = r->rules[i].rule->kind != RULES_ALERT;
}

static void key_of_series(const struct tsdb *db, tsdb_ref ref, struct gs_buf *key)
{
    struct tsdb_labels l = tsdb_series_labels(db, ref);
    const struct tsdb_symbols *symbols = tsdb_symbols(db);
    for (size_t i = 0; i < l.n; i++) { // without the metric name
        struct metrics_label label = {tsdb_symbol_text(symbols, l.pairs[i].name),
                                      tsdb_symbol_text(symbols, l.pairs[i].value)};
        rules_labels_key(&label, 1, key);
    }
}

static struct gs_error *find_stored(const struct rules_runner *r, const struct rules_rule *rule,
                                    int64_t now_ms, struct gs_hmap *ret)
{
    GS_AUTO_FREE struct tsdb_matcher *m = gs_alloc_array(rule->n_labels + 2, sizeof(*m));
    size_t n = 0;
    m[n++] =
        (struct tsdb_matcher){GS_SLICE("__name__"), GS_SLICE("ALERTS_FOR_STATE"), TSDB_EQ, NULL};
    m[n++] = (struct tsdb_matcher){GS_SLICE("alertname"), gs_slice_of(rule->name), TSDB_EQ, NULL};
    for (size_t i = 0; i < rule->n_labels; i++)
        // The stored value of a template is its result, which differs between alerts.
        if (!memmem(rule->labels[i].value.data, rule->labels[i].value.len, "{{", 2))
            m[n++] =
                (struct tsdb_matcher){rule->labels[i].name, rule->labels[i].value, TSDB_EQ, NULL};
    GS_CLEANUP(tsdb_refs_finish) struct tsdb_refs refs = {0};
    GS_CLEANUP(tsdb_samples_finish) struct tsdb_samples samples = {0};
    GS_AUTO_BUF struct gs_buf key = {0};
    int64_t from = now_ms - r->cfg.timing.outage_tolerance_ms;
    struct gs_error *err = tsdb_find(r->cfg.db, m, n, from, now_ms, 0, &refs);
    for (size_t i = 0; !err && i < refs.len; i++) {
        tsdb_read(r->cfg.db, refs.items[i], from, now_ms, &samples);
        if (!samples.n || tsdb_is_stale(samples.v[samples.n - 1]))
            continue;
        struct tsdb_point *last = gs_alloc(sizeof(*last));
        *last = (struct tsdb_point){samples.t[samples.n - 1], samples.v[samples.n - 1]};
        gs_buf_clear(&key);
        key_of_series(r->cfg.db, refs.items[i], &key);
        gs_hmap_put(ret, gs_buf_slice(&key), last);
    }
    return err;
}

// Sets since when the alert is active, by the last sample of ALERTS_FOR_STATE before the outage.
static void restore_alert(struct rules_alert *a, const struct tsdb_point *last, int64_t for_ms,
                          int64_t grace_ms, int64_t now_ms)
{
    int64_t outage_start_ms = last->t_ms / 1000 * 1000;
    if (!(last->value > -1e12 && last->value < 1e12)) // not a valid time
        return;
    int64_t active_at = (int64_t)last->value * 1000;
    int64_t remaining = for_ms - (outage_start_ms - active_at);
    if (remaining > 0) {
        // A short `for` starts again: the grace period would extend it.
        if (for_ms < grace_ms)
            return;
        if (remaining < grace_ms)
            active_at = now_ms + grace_ms - for_ms; // fires after the grace period
        else
            active_at += now_ms - outage_start_ms; // the outage does not count as pending
    }
    a->active_at_ms = active_at; // not remaining: it was firing, and fires at the next evaluation
}

void rules_runner_restore(struct rules_runner *r, int64_t now_ms)
{
    int64_t begun = gs_mono_ns();
    for (size_t i = 0; i < r->group->n_rules; i++) {
        struct rules_state *s = &r->rules[i];
        if (s->restored)
            continue;
        s->restored = true;
        GS_CLEANUP(gs_hmap_freep) struct gs_hmap *stored = gs_hmap_new(free);
        GS_AUTO_ERROR struct gs_error *err = find_stored(r, s->rule, now_ms, stored);
        if (err)
            gs_warn("rules", "alert %s: the for duration is not restored: %s", s->rule->name,
                    gs_error_message(err));
        size_t pos = 0;
        struct gs_slice key;
        void *value;
        while (gs_hmap_next(s->active, &pos, &key, &value)) {
            const struct tsdb_point *last = gs_hmap_get(stored, key);
            if (last)
                restore_alert(&((struct rules_active_alert *)value)->a, last, s->rule->for_ms,
                              r->cfg.timing.for_grace_ms, now_ms);
        }
    }
    r->restore_seconds = (double)(gs_mono_ns() - begun) / 1e9;
}
