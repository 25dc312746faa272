// SPDX-License-Identifier: Apache-2.0
// Groups rows and calculates costs.
#include "ledger/ledger_private.h"
#include "nodes/prices.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>

#define MAX_ROWS 10000 // of a report; the others are added up in the last one
#define HOUR     ((double)LEDGER_HOUR_MS)

struct line {
    const char *key;               // its texts, in the order of `by`
    const char *text[LEDGER_N_BY]; // the same
    struct ledger_amount amount;
    double allocated_ms, unpriced_ms;
    double cost, idle_cost, saved_cost;
    bool saved_priced;
};

struct ledger_report {
    struct ledger_report_options o;
    struct gs_arena mem;
    struct gs_hmap *lines;
    struct gs_buf key;
    struct line total;
    json_t *idle;
};

// --- grouping ---

const char *ledger_by_name(unsigned by)
{
    return by == LEDGER_BY_HOUR  ? "hour"
           : by == LEDGER_BY_DAY ? "day"
                                 : ledger_dimension_name((enum ledger_dimension)by);
}

static struct gs_error *wrong_by(struct gs_slice word)
{
    GS_AUTO_BUF struct gs_buf names = {0};
    for (unsigned i = 0; i < LEDGER_N_BY; i++)
        gs_buf_addf(&names, "%s%s", i ? ", " : "", ledger_by_name(i));
    return gs_error_new(GS_EINVAL, "cannot group by \"" GS_SLICE_FMT "\"; possible: %s; none alone",
                        GS_SLICE_ARG(word), names.data);
}

struct gs_error *ledger_parse_by(const char *text, unsigned by[LEDGER_N_BY], size_t *ret_n)
{
    size_t n = 0;
    unsigned found[LEDGER_N_BY] = {0};
    struct gs_slice rest = gs_slice_of(text);
    while (rest.data && !gs_streq(text, "none")) {
        struct gs_slice word = gs_slice_trim(gs_slice_cut(&rest, ','));
        unsigned i = 0;
        while (i < LEDGER_N_BY && !gs_slice_eq_str(word, ledger_by_name(i)))
            i++;
        if (i == LEDGER_N_BY)
            return wrong_by(word);
        bool again = false;
        for (size_t j = 0; j < n; j++)
            again = again || found[j] == i;
        if (!again)
            found[n++] = i;
    }
    memcpy(by, found, n * sizeof(*by));
    *ret_n = n;
    return NULL;
}

struct ledger_report *ledger_report_new(const struct ledger_report_options *o)
{
    struct ledger_report *r = gs_alloc(sizeof(*r));
    r->o = *o;
    r->lines = gs_hmap_new(free);
    r->idle = json_array();
    return r;
}

void ledger_report_free(struct ledger_report *r)
{
    if (!r)
        return;
    gs_hmap_free(r->lines);
    gs_arena_finish(&r->mem);
    gs_buf_finish(&r->key);
    json_decref(r->idle);
    free(r);
}

// "2026-01-02T03:00:00Z", or the day of it.
static void add_time(struct gs_buf *out, int64_t hour_ms, bool day)
{
    char text[GS_RFC3339_SIZE];
    if (hour_ms == LEDGER_OTHER_HOURS) {
        gs_buf_add_str(out, LEDGER_OTHER);
        return;
    }
    gs_format_rfc3339(hour_ms, text);
    gs_buf_add(out, text, day ? strlen("2026-01-02") : strlen(text));
}

static struct line *line_of(struct ledger_report *r, int64_t hour_ms, const struct ledger_key *key)
{
    struct gs_slice parts[LEDGER_N_BY];
    gs_buf_clear(&r->key);
    for (size_t i = 0; i < r->o.n_by; i++) {
        unsigned by = r->o.by[i];
        size_t begin = r->key.len;
        if (by >= LEDGER_N_DIMENSIONS)
            add_time(&r->key, hour_ms, by == LEDGER_BY_DAY);
        else
            gs_buf_add_str(&r->key, key->text[by]);
        parts[i] = gs_slice_make((void *)(uintptr_t)begin, r->key.len - begin);
        gs_buf_add_str(&r->key, LEDGER_SEP);
    }
    gs_buf_add(&r->key, "", 1); // the key of a single row is not empty
    struct gs_slice id = gs_buf_slice(&r->key);
    struct line *l = gs_hmap_get(r->lines, id);
    if (!l && gs_hmap_len(r->lines) >= MAX_ROWS) {
        id = GS_SLICE(LEDGER_OTHER);
        l = gs_hmap_get(r->lines, id);
    }
    if (l)
        return l;
    l = gs_alloc(sizeof(*l));
    l->key = gs_arena_strndup(&r->mem, id.data, id.len);
    for (size_t i = 0; i < r->o.n_by; i++)
        l->text[i] =
            gs_slice_eq_str(id, LEDGER_OTHER)
                ? LEDGER_OTHER
                : gs_arena_strndup(&r->mem, r->key.data + (uintptr_t)parts[i].data, parts[i].len);
    gs_hmap_put(r->lines, id, l);
    return l;
}

// A GPU costs the same whatever it does. Time without data is paid, too.
static void add_to_line(struct line *l, const struct ledger_amount *a, bool allocated, bool priced,
                        double price)
{
    double all = ledger_total_ms(a);
    ledger_amount_add(&l->amount, a);
    if (allocated) // the row of all others also contains GPUs without a pod
        l->allocated_ms += all - a->ms[LEDGER_FREE] - a->ms[LEDGER_STRANDED];
    if (priced) {
        l->cost += all / HOUR * price;
        l->idle_cost += a->ms[LEDGER_IDLE] / HOUR * price;
        l->saved_cost += a->saved_ms / HOUR * price;
        l->saved_priced = l->saved_priced || a->saved_ms > 0;
    } else {
        l->unpriced_ms += all;
    }
}

bool ledger_report_add(void *report, int64_t hour_ms, const struct ledger_key *key,
                       const struct ledger_amount *a)
{
    struct ledger_report *r = report;
    double price = 0;
    bool priced = nodes_prices_find(r->o.prices, key->text[LEDGER_MACHINE], key->text[LEDGER_POOL],
                                    key->text[LEDGER_MODEL], &price);
    bool allocated = *key->text[LEDGER_NAMESPACE] != '\0';
    add_to_line(line_of(r, hour_ms, key), a, allocated, priced, price);
    add_to_line(&r->total, a, allocated, priced, price);
    return true;
}

// --- GPUs that are idle now ---

bool ledger_idle_cost(const json_t *prices, const struct ledger_gpu *g, double *ret)
{
    double price;
    if (!nodes_prices_find(prices, g->machine, g->pool, g->model, &price))
        return false;
    *ret = (double)g->idle_ms / HOUR * g->share * price;
    return true;
}

void ledger_report_add_idle(struct ledger_report *r, const struct ledger_gpu *g)
{
    double cost;
    char since[GS_RFC3339_SIZE];
    if (!g->idle_since_ms || g->idle_ms < r->o.idle_after_ms ||
        json_array_size(r->idle) >= MAX_ROWS)
        return;
    json_t *item =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:f}", "namespace",
                  g->ns, "pod", g->pod, "workload", g->workload, "owner", g->owner, "node", g->node,
                  "pool", g->pool, "machine", g->machine, "gpu", g->gpu, "UUID", g->uuid, "model",
                  g->model, "since", gs_format_rfc3339(g->idle_since_ms, since), "seconds",
                  (double)g->idle_ms / 1000, "gpus", g->share);
    if (!item) // a text is not UTF-8
        return;
    if (ledger_idle_cost(r->o.prices, g, &cost))
        json_object_set_new(item, "cost", json_real(cost));
    json_array_append_new(r->idle, item);
}

static int compare_idle(const void *a, const void *b)
{
    json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    double d = json_number_value(json_object_get(y, "seconds")) -
               json_number_value(json_object_get(x, "seconds"));
    if (d != 0)
        return d > 0 ? 1 : -1;
    return strcmp(codec_json_str(x, "UUID", NULL), codec_json_str(y, "UUID", NULL));
}

static json_t *sorted_idle(const struct ledger_report *r)
{
    size_t n = json_array_size(r->idle);
    GS_AUTO_FREE json_t **items = gs_alloc_array(n + 1, sizeof(json_t *));
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++)
        items[i] = json_array_get(r->idle, i);
    qsort(items, n, sizeof(json_t *), compare_idle);
    for (size_t i = 0; i < n; i++)
        json_array_append(out, items[i]);
    return out;
}

// --- output ---

static int compare_lines(const void *a, const void *b)
{
    const struct line *x = *(struct line *const *)a, *y = *(struct line *const *)b;
    if (x->idle_cost != y->idle_cost)
        return x->idle_cost < y->idle_cost ? 1 : -1;
    double i = x->amount.ms[LEDGER_IDLE], j = y->amount.ms[LEDGER_IDLE];
    if (i != j)
        return i < j ? 1 : -1;
    return strcmp(x->key, y->key);
}

static int compare_times(const void *a, const void *b)
{
    const struct line *x = *(struct line *const *)a, *y = *(struct line *const *)b;
    return strcmp(x->key, y->key);
}

static json_t *json_of_line(const struct line *l)
{
    json_t *out = json_pack("{s:f, s:f}", "hours", ledger_total_ms(&l->amount) / HOUR, "allocated",
                            l->allocated_ms / HOUR);
    for (enum ledger_state s = 0; s < LEDGER_N_STATES; s++)
        json_object_set_new(out, ledger_state_name(s), json_real(l->amount.ms[s] / HOUR));
    json_object_set_new(out, "used", json_real(l->amount.used_ms / HOUR));
    if (l->unpriced_ms < ledger_total_ms(&l->amount)) {
        json_object_set_new(out, "cost", json_real(l->cost));
        json_object_set_new(out, "idleCost", json_real(l->idle_cost));
    }
    if (l->amount.saved_ms > 0)
        json_object_set_new(out, "saved", json_real(l->amount.saved_ms / HOUR));
    if (l->saved_priced)
        json_object_set_new(out, "savedCost", json_real(l->saved_cost));
    if (l->unpriced_ms > 0)
        json_object_set_new(out, "withoutPrice", json_real(l->unpriced_ms / HOUR));
    return out;
}

static json_t *rows_json(const struct ledger_report *r)
{
    size_t n = 0;
    void *value;
    bool by_time = false;
    json_t *rows = json_array();
    GS_AUTO_FREE struct line **lines =
        gs_alloc_array(gs_hmap_len(r->lines) + 1, sizeof(struct line *));
    for (size_t pos = 0; gs_hmap_next(r->lines, &pos, NULL, &value);)
        lines[n++] = value;
    for (size_t i = 0; i < r->o.n_by; i++)
        by_time = by_time || r->o.by[i] >= LEDGER_N_DIMENSIONS;
    qsort(lines, n, sizeof(*lines), by_time ? compare_times : compare_lines);
    for (size_t i = 0; i < n; i++) {
        json_t *row = json_of_line(lines[i]);
        for (size_t k = 0; k < r->o.n_by; k++) {
            json_t *text = json_string(lines[i]->text[k]);
            json_object_set_new(row, ledger_by_name(r->o.by[k]), text ? text : json_string("?"));
        }
        json_array_append_new(rows, row);
    }
    return rows;
}

json_t *ledger_report_json(struct ledger_report *r)
{
    char since[GS_RFC3339_SIZE], until[GS_RFC3339_SIZE];
    json_t *by = json_array();
    for (size_t i = 0; i < r->o.n_by; i++)
        json_array_append_new(by, json_string(ledger_by_name(r->o.by[i])));
    const char *currency =
        r->o.currency ? r->o.currency : codec_json_str(r->o.prices, "currency", NULL);
    json_t *out = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "since",
                            gs_format_rfc3339(r->o.since_ms, since), "until",
                            gs_format_rfc3339(r->o.until_ms, until), "by", by, "rows", rows_json(r),
                            "total", json_of_line(&r->total), "idle", sorted_idle(r));
    if (currency)
        codec_json_set_str(out, "currency", currency);
    return out;
}
