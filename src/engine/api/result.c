// SPDX-License-Identifier: Apache-2.0
// A query's result as JSON. What replies with thousands of series cost: names are escaped once a
// result, values are copied straight into the buffer.
#include "engine/api/api_private.h"

// Label names that came lately, as `"name":` ready to copy.
enum { NAME_SLOTS = 64 };
struct writer {
    const struct promql_result *res;
    struct gs_buf *out;
    struct {
        uint32_t symbol;
        uint32_t len; // 0: empty slot
        char text[60];
    } names[NAME_SLOTS];
};

static void add_name(struct writer *w, uint32_t symbol)
{
    size_t i = symbol % NAME_SLOTS;
    if (w->names[i].len && w->names[i].symbol == symbol) {
        gs_buf_add(w->out, w->names[i].text, w->names[i].len);
        return;
    }
    size_t start = w->out->len;
    json_add_string(w->out, promql_text(w->res, symbol));
    gs_buf_add_char(w->out, ':');
    size_t len = w->out->len - start;
    if (len > sizeof(w->names[i].text))
        return;
    w->names[i].symbol = symbol;
    w->names[i].len = (uint32_t)len;
    memcpy(w->names[i].text, w->out->data + start, len);
}

static void add_metric(struct writer *w, struct tsdb_labels l, bool drop_name)
{
    gs_buf_add_str(w->out, "{\"metric\":{");
    bool first = true;
    for (size_t i = 0; i < l.n; i++) {
        if (drop_name && l.pairs[i].name == TSDB_SYMBOL_NAME)
            continue;
        if (!first)
            gs_buf_add_char(w->out, ',');
        first = false;
        add_name(w, l.pairs[i].name);
        json_add_string(w->out, promql_text(w->res, l.pairs[i].value));
    }
    gs_buf_add_char(w->out, '}');
}

static void add_vector(struct writer *w, size_t limit, bool *ret_truncated)
{
    const struct promql_matrix *m = &w->res->matrix;
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) {
        const struct promql_series *s = &m->series[i];
        if (m->n_steps == 0 || promql_absent(s->v[0]))
            continue;
        if (limit && n == limit) {
            *ret_truncated = true;
            break;
        }
        if (n++)
            gs_buf_add_char(w->out, ',');
        add_metric(w, s->labels, s->drop_name);
        gs_buf_add_str(w->out, ",\"value\":");
        json_add_point(w->out, w->res->start_ms, s->v[0]);
        gs_buf_add_char(w->out, '}');
    }
}

static void add_columns(struct writer *w, const struct promql_series *s)
{
    const struct promql_result *res = w->res;
    bool first = true;
    for (size_t k = 0; k < res->matrix.n_steps; k++) {
        if (promql_absent(s->v[k]))
            continue;
        if (!first)
            gs_buf_add_char(w->out, ',');
        first = false;
        json_add_point(w->out, res->start_ms + (int64_t)k * res->step_ms, s->v[k]);
    }
}

static void add_matrix(struct writer *w, size_t limit, bool *ret_truncated)
{
    const struct promql_matrix *m = &w->res->matrix;
    size_t n = limit && m->n > limit ? limit : m->n;
    *ret_truncated = n < m->n;
    for (size_t i = 0; i < n; i++) {
        if (i)
            gs_buf_add_char(w->out, ',');
        add_metric(w, m->series[i].labels, m->series[i].drop_name);
        gs_buf_add_str(w->out, ",\"values\":[");
        add_columns(w, &m->series[i]);
        gs_buf_add_str(w->out, "]}");
    }
}

static void add_raw(struct writer *w, size_t limit, bool *ret_truncated)
{
    const struct promql_result *res = w->res;
    size_t n = limit && res->n_raw > limit ? limit : res->n_raw;
    *ret_truncated = n < res->n_raw;
    for (size_t i = 0; i < n; i++) {
        const struct promql_raw *s = &res->raw[i];
        if (i)
            gs_buf_add_char(w->out, ',');
        add_metric(w, s->labels, false);
        gs_buf_add_str(w->out, ",\"values\":[");
        for (size_t k = 0; k < s->n; k++) {
            if (k)
                gs_buf_add_char(w->out, ',');
            json_add_point(w->out, s->t[k], s->v[k]);
        }
        gs_buf_add_str(w->out, "]}");
    }
}

static void add_single(struct writer *w)
{
    const struct promql_result *res = w->res;
    if (res->type == PROMQL_RESULT_SCALAR) {
        json_add_point(w->out, res->start_ms, res->matrix.series[0].v[0]);
        return;
    }
    gs_buf_add_char(w->out, '[');
    json_add_time(w->out, res->start_ms);
    gs_buf_add_char(w->out, ',');
    json_add_string(w->out, res->string);
    gs_buf_add_char(w->out, ']');
}

void api_write_result(struct gs_buf *out, const struct promql_result *res, size_t limit,
                      bool *ret_truncated)
{
    static const char *const types[] = {[PROMQL_RESULT_SCALAR] = "scalar",
                                        [PROMQL_RESULT_VECTOR] = "vector",
                                        [PROMQL_RESULT_MATRIX] = "matrix",
                                        [PROMQL_RESULT_STRING] = "string"};
    struct writer w = {.res = res, .out = out};
    gs_buf_addf(out, "\"resultType\":\"%s\",\"result\":", types[res->type]);
    if (res->type == PROMQL_RESULT_SCALAR || res->type == PROMQL_RESULT_STRING) {
        add_single(&w);
        return;
    }
    gs_buf_add_char(out, '[');
    if (res->is_raw)
        add_raw(&w, limit, ret_truncated);
    else if (res->type == PROMQL_RESULT_VECTOR)
        add_vector(&w, limit, ret_truncated);
    else
        add_matrix(&w, limit, ret_truncated);
    gs_buf_add_char(out, ']');
}
