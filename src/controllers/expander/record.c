// SPDX-License-Identifier: Apache-2.0
// The last decisions as JSON, and metrics of all.
#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "expander/expander_private.h"
#include "metrics/write.h"

#include <math.h>

enum { MAX_GROUPS = 1000 }; // with series of their own

struct group {
    char *id;
    uint64_t offered, chosen;
    double stranded, price, wait_s; // of the last option; NaN: unknown
};

struct expander_record {
    json_t *decisions; // the newest is the last
    size_t kept;
    struct gs_hmap *groups;
    uint64_t chosen, all, refused;
    uint64_t buckets[EXPANDER_N_BUCKETS + 1];
    double seconds;
    int64_t last_ms;
};

static const double bounds[EXPANDER_N_BUCKETS] = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5};

static void free_group(void *arg)
{
    struct group *g = arg;
    free(g->id);
    free(g);
}

struct expander_record *expander_record_new(size_t kept)
{
    struct expander_record *r = gs_alloc(sizeof(*r));
    r->decisions = json_array();
    r->kept = kept;
    r->groups = gs_hmap_new(free_group);
    return r;
}

void expander_record_free(struct expander_record *r)
{
    if (!r)
        return;
    json_decref(r->decisions);
    gs_hmap_free(r->groups);
    free(r);
}

// --- adding ---

static struct group *find_group(struct expander_record *r, const char *id)
{
    struct group *g = gs_hmap_get_str(r->groups, id);
    if (g || gs_hmap_len(r->groups) >= MAX_GROUPS)
        return g;
    g = gs_alloc(sizeof(*g));
    g->id = gs_strdup(id);
    gs_hmap_put_str(r->groups, id, g);
    return g;
}

static void count_options(struct expander_record *r, const struct nodes_decision *d)
{
    for (size_t i = 0; i < d->n_options; i++) {
        const struct nodes_option *o = &d->options[i];
        struct group *g = find_group(r, o->group->name);
        if (!g)
            continue;
        g->offered++;
        g->chosen += i == d->chosen;
        g->stranded = (double)o->unused_gpus;
        g->price = o->has_price ? o->price : (double)NAN;
        g->wait_s = o->ready_ms ? (double)o->ready_ms / 1000 : (double)NAN;
    }
}

void expander_record_add(struct expander_record *r, enum expander_result result,
                         const struct nodes_decision *decision, json_t *described, int64_t took_ns)
{
    size_t i = 0;
    double s = (double)took_ns / (double)GS_NS_PER_SEC;
    while (i < EXPANDER_N_BUCKETS && s > bounds[i])
        i++;
    r->buckets[i]++;
    r->seconds += s;
    r->last_ms = gs_unix_ms();
    r->chosen += result == EXPANDER_CHOSEN;
    r->all += result == EXPANDER_ALL;
    r->refused += result == EXPANDER_REFUSED;
    if (decision)
        count_options(r, decision);
    if (!described)
        return;
    json_array_append_new(r->decisions, described);
    if (json_array_size(r->decisions) > r->kept)
        json_array_remove(r->decisions, 0);
}

json_t *expander_record_json(const struct expander_record *r, size_t limit)
{
    json_t *items = json_array();
    size_t n = json_array_size(r->decisions);
    for (size_t i = 0; i < n && i < limit; i++)
        json_array_append(items, json_array_get(r->decisions, n - 1 - i));
    return json_pack("{s:o}", "items", items);
}

// --- metrics ---

static void add_counter(struct gs_buf *out, const char *name, const char *label, const char *value,
                        double v)
{
    const struct metrics_label l = {gs_slice_of(label), gs_slice_of(value)};
    metrics_write_sample(out, name, &l, label ? 1 : 0, v);
}

static void add_results(const struct expander_record *r, struct gs_buf *out)
{
    static const char name[] = "gpuscale_expander_requests_total";
    metrics_write_family(out, name, METRICS_COUNTER,
                         "Requests of the Cluster Autoscaler. chosen: one option was chosen; all: "
                         "all options were returned because of a problem; refused: the request "
                         "could not be read.");
    add_counter(out, name, "result", "chosen", (double)r->chosen);
    add_counter(out, name, "result", "all", (double)r->all);
    add_counter(out, name, "result", "refused", (double)r->refused);
}

static void add_duration(const struct expander_record *r, struct gs_buf *out)
{
    static const char name[] = "gpuscale_expander_decision_duration_seconds";
    GS_AUTO_FREE char *bucket = gs_format("%s_bucket", name), *sum = gs_format("%s_sum", name),
                      *total = gs_format("%s_count", name);
    uint64_t n = 0;
    metrics_write_family(out, name, METRICS_HISTOGRAM,
                         "Time from the complete request to the answer.");
    for (size_t i = 0; i < EXPANDER_N_BUCKETS; i++) {
        char le[32];
        n += r->buckets[i];
        (void)snprintf(le, sizeof(le), "%g", bounds[i]);
        add_counter(out, bucket, "le", le, (double)n);
    }
    n += r->buckets[EXPANDER_N_BUCKETS];
    add_counter(out, bucket, "le", "+Inf", (double)n);
    add_counter(out, sum, NULL, NULL, r->seconds);
    add_counter(out, total, NULL, NULL, (double)n);
}

static void add_family(const struct expander_record *r, struct gs_buf *out, const char *name,
                       enum metrics_type type, const char *help,
                       double (*get)(const struct group *))
{
    size_t pos = 0;
    void *value;
    struct gs_slice key;
    metrics_write_family(out, name, type, help);
    while (gs_hmap_next(r->groups, &pos, &key, &value))
        if (!isnan(get(value)))
            add_counter(out, name, "group", ((struct group *)value)->id, get(value));
}

static double offered_of(const struct group *g)
{
    return (double)g->offered;
}
static double chosen_of(const struct group *g)
{
    return (double)g->chosen;
}
static double stranded_of(const struct group *g)
{
    return g->stranded;
}
static double price_of(const struct group *g)
{
    return g->price;
}
static double wait_of(const struct group *g)
{
    return g->wait_s;
}

void expander_record_metrics(const struct expander_record *r, struct gs_buf *out)
{
    add_results(r, out);
    add_duration(r, out);
    add_family(r, out, "gpuscale_expander_options_total", METRICS_COUNTER,
               "Options of the node group in requests.", offered_of);
    add_family(r, out, "gpuscale_expander_choices_total", METRICS_COUNTER,
               "Decisions for the node group.", chosen_of);
    add_family(r, out, "gpuscale_expander_option_stranded_gpus", METRICS_GAUGE,
               "GPUs that the last option of the node group would have left unused.", stranded_of);
    add_family(r, out, "gpuscale_expander_option_price_per_hour", METRICS_GAUGE,
               "Price of the new nodes of the last option of the node group.", price_of);
    add_family(r, out, "gpuscale_expander_option_expected_seconds", METRICS_GAUGE,
               "Expected time until the nodes of the last option can be used.", wait_of);
    if (!r->last_ms)
        return;
    metrics_write_family(out, "gpuscale_expander_last_request_timestamp_seconds", METRICS_GAUGE,
                         "Time of the last request.");
    add_counter(out, "gpuscale_expander_last_request_timestamp_seconds", NULL, NULL,
                (double)r->last_ms / 1000);
}
