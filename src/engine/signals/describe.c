// SPDX-License-Identifier: Apache-2.0
// What a page has, and why it lacks the other quantities, for people and for the HTTP API.
#include "engine/signals/page_private.h"

#include "base/mem.h"

#include <math.h>

static bool is_percentile(enum signals_quantity q)
{
    return q >= SIGNALS_TTFT_P90_SECONDS;
}

static char *absent_source(const struct signals_engine *e, enum signals_quantity q)
{
    const struct signals_sources *s = &e->sources[q];
    struct gs_buf out = {0};
    if (e->absent[q] && *e->absent[q])
        return gs_strdup(e->absent[q]);
    if (!s->n)
        return gs_format("the table of engines has no series of %s for it", e->name);
    gs_buf_add_str(&out, s->n > 1 ? "none of " : "no series ");
    for (size_t i = 0; i < s->n; i++) {
        const struct signals_source *x = &s->items[i];
        gs_buf_addf(&out, "%s%s", i ? ", " : "", x->name);
        if (x->match_label)
            gs_buf_addf(&out, "{%s=\"%s\"}", x->match_label, x->match_value);
    }
    gs_buf_add_str(&out, " on the page");
    return gs_buf_take(&out);
}

char *signals_page_absent(const struct signals_page *p, size_t row, enum signals_quantity q)
{
    if (p->engine == p->table->n_engines)
        return gs_strdup("the page is not that of a known inference engine");
    const struct signals_model *r = p->rows[row];
    if (p->limited)
        return gs_strdup("the page has more series than are read");
    if (!is_percentile(q))
        return absent_source(&p->table->engines[p->engine], q);
    size_t h = q - SIGNALS_TTFT_P90_SECONDS;
    enum signals_quantity from = (enum signals_quantity)(SIGNALS_TTFT_SECONDS + h);
    if (!r->view.has[from])
        return absent_source(&p->table->engines[p->engine], from);
    return gs_format("%llu of the %d samples in %d s that a percentile needs",
                     (unsigned long long)r->samples[h], SIGNALS_MIN_SAMPLES,
                     SIGNALS_WINDOW_SLOTS * SIGNALS_WINDOW_SLOT_MS / 1000);
}

static json_t *quantity_json(const struct signals_page *p, size_t row, enum signals_quantity q)
{
    const struct signals_model *r = p->rows[row];
    json_t *out = json_object();
    if (!r->view.has[q]) {
        GS_AUTO_FREE char *why = signals_page_absent(p, row, q);
        codec_json_set_str(out, "absent", why);
        return out;
    }
    enum signals_quantity from =
        is_percentile(q) ? (enum signals_quantity)(q - SIGNALS_N_HISTOGRAMS) : q;
    double value = signals_quantity_type(q) == METRICS_HISTOGRAM
                       ? r->view.histogram[q - SIGNALS_TTFT_SECONDS].count
                       : r->view.value[q];
    if (isfinite(value))
        json_object_set_new(out, "value", json_real(value));
    codec_json_set_str(out, "from", r->from[from] ? r->from[from]->name : "");
    return out;
}

static json_t *row_json(const struct signals_page *p, size_t row)
{
    const struct signals_model *r = p->rows[row];
    json_t *out = json_object(), *all = json_object();
    codec_json_set_str(out, "model", r->model);
    codec_json_set_str(out, "role", r->role);
    for (size_t q = 0; q < SIGNALS_N_QUANTITIES; q++)
        json_object_set_new(all, signals_quantity_name((enum signals_quantity)q),
                            quantity_json(p, row, (enum signals_quantity)q));
    json_object_set_new(out, "quantities", all);
    return out;
}

json_t *signals_page_json(const struct signals_page *p)
{
    if (!signals_page_engine(p))
        return NULL;
    json_t *out = json_object(), *models = json_array();
    codec_json_set_str(out, "engine", signals_page_engine(p));
    codec_json_set_str(out, "readReleases", p->table->engines[p->engine].releases);
    for (size_t i = 0; i < p->n_rows; i++)
        if (p->rows[i]->view.present)
            json_array_append_new(models, row_json(p, i));
    json_object_set_new(out, "models", models);
    return out;
}
