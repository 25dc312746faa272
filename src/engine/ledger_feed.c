// SPDX-License-Identifier: Apache-2.0
// Writes the ledger: queries the engine's own store in regular intervals.
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/timer.h"
#include "base/trim.h"
#include "engine/api/api.h"
#include "engine/engine_private.h"
#include "metrics/write.h"
#include "nodes/prices.h"
#include "promql/promql.h"

#include <math.h>

enum {
    DEFAULT_INTERVAL_MS = 60 * 1000,
    QUERY_TIMEOUT_MS = 10 * 1000,
    MAX_ROWS_OF_HOUR = 10000,
    MAX_COUNTERS = 5000,
    METRICS_IDLE_MS = 5 * 60 * 1000, // shorter idle times are not exposed
};
#define DAY_MS (24 * LEDGER_HOUR_MS)

struct engine_ledger {
    uv_loop_t *loop;
    struct tsdb *db;
    struct engine_api *api;
    struct promql_engine *promql;
    struct engine_ledger_options o;
    struct ledger_store *store;
    struct ledger_meter *meter;
    struct ledger_table *table;
    struct gs_hmap *totals;       // state and texts -> struct total
    json_t *prices;               // NULL: none
    struct scrape_ingest *ingest; // NULL: the series are only in /metrics
    struct engine_config_scrape_config ingest_config;
    struct gs_timer *timer, *next;
    // The round in progress.
    struct ledger_observation *observation;
    enum ledger_series series;
    struct engine_api_local_query *query;
    int64_t t_ms;
    struct gs_error *err;
    // The end of the time that is accounted for.
    int64_t until_ms, until_boot_ms; // boot 0: it was written by a previous process
    int64_t pruned_ms;
    bool failing; // the last round failed
};

struct total {
    char *text[5]; // namespace, workload, owner, pool, model
    double hours[LEDGER_N_STATES];
};

static void free_total(void *arg)
{
    struct total *c = arg;
    for (size_t i = 0; i < GS_ARRAY_LEN(c->text); i++)
        free(c->text[i]);
    free(c);
}

static int64_t interval_ms(const struct engine_ledger *l)
{
    return l->o.interval_ms ? l->o.interval_ms : DEFAULT_INTERVAL_MS;
}

// --- metrics ---

static bool count_row(void *arg, int64_t hour_ms, const struct ledger_key *key,
                      const struct ledger_amount *a)
{
    static const enum ledger_dimension dimensions[] = {LEDGER_NAMESPACE, LEDGER_WORKLOAD,
                                                       LEDGER_OWNER, LEDGER_POOL, LEDGER_MODEL};
    struct engine_ledger *l = arg;
    (void)hour_ms;
    GS_AUTO_BUF struct gs_buf id = {0};
    for (size_t i = 0; i < GS_ARRAY_LEN(dimensions); i++)
        gs_buf_addf(&id, "%s\x1f", key->text[dimensions[i]]);
    struct total *c = gs_hmap_get(l->totals, gs_buf_slice(&id));
    bool full = !c && gs_hmap_len(l->totals) >= MAX_COUNTERS;
    if (full)
        c = gs_hmap_get_str(l->totals, LEDGER_OTHER);
    if (!c) {
        c = gs_alloc(sizeof(*c));
        for (size_t i = 0; i < GS_ARRAY_LEN(dimensions); i++)
            c->text[i] = gs_strdup(full ? LEDGER_OTHER : key->text[dimensions[i]]);
        gs_hmap_put(l->totals, full ? GS_SLICE(LEDGER_OTHER) : gs_buf_slice(&id), c);
    }
    for (size_t i = 0; i < LEDGER_N_STATES; i++)
        c->hours[i] += a->ms[i] / (double)LEDGER_HOUR_MS;
    return true;
}

static struct metrics_label label(const char *name, const char *value)
{
    return (struct metrics_label){gs_slice_of(name), gs_slice_of(value)};
}

static void write_totals(const struct engine_ledger *l, struct gs_buf *out)
{
    static const char name[] = "gpuscale_gpu_seconds_total";
    void *value;
    metrics_write_family(out, name, METRICS_COUNTER,
                         "Time of GPUs since the start of the process, by state.");
    for (size_t pos = 0; gs_hmap_next(l->totals, &pos, NULL, &value);) {
        const struct total *c = value;
        struct metrics_label labels[] = {
            label("namespace", c->text[0]), label("workload", c->text[1]),
            label("owner", c->text[2]),     label("pool", c->text[3]),
            label("model", c->text[4]),     label("state", "")};
        const size_t n = GS_ARRAY_LEN(labels);
        for (enum ledger_state s = 0; s < LEDGER_N_STATES; s++) {
            labels[n - 1] = label("state", ledger_state_name(s));
            if (c->hours[s] > 0)
                metrics_write_sample(out, name, labels, n, c->hours[s] * 3600);
        }
    }
}

static void write_idle(const struct engine_ledger *l, bool cost, struct gs_buf *out)
{
    const char *name = cost ? "gpuscale_gpu_idle_cost" : "gpuscale_gpu_idle_seconds";
    const char *currency = codec_json_str(l->prices, "currency", NULL);
    const struct ledger_gpu *g;
    double v;
    metrics_write_family(out, name, METRICS_GAUGE,
                         cost ? "Price of the time that an allocated GPU has been idle so far."
                              : "How long an allocated GPU has been idle, from 5 minutes on.");
    for (size_t pos = 0; (g = ledger_meter_next(l->meter, &pos));) {
        if (!g->idle_since_ms || g->idle_ms < METRICS_IDLE_MS)
            continue;
        const struct metrics_label labels[] = {label("namespace", g->ns),
                                               label("pod", g->pod),
                                               label("workload", g->workload),
                                               label("owner", g->owner),
                                               label("node", g->node),
                                               label("gpu", g->gpu),
                                               label("UUID", g->uuid),
                                               label("model", g->model),
                                               label("currency", currency ? currency : "")};
        if (!cost)
            metrics_write_sample(out, name, labels, GS_ARRAY_LEN(labels) - 1,
                                 (double)g->idle_ms / 1000);
        else if (ledger_idle_cost(l->prices, g, &v))
            metrics_write_sample(out, name, labels, GS_ARRAY_LEN(labels), v);
    }
}

void engine_ledger_write_metrics(const struct engine_ledger *l, struct gs_buf *out)
{
    if (!l)
        return;
    write_totals(l, out);
    write_idle(l, false, out);
    write_idle(l, true, out);
    metrics_write_family(out, "gpuscale_ledger_last_write_timestamp_seconds", METRICS_GAUGE,
                         "Until when the ledger is complete.");
    metrics_write_sample(out, "gpuscale_ledger_last_write_timestamp_seconds", NULL, 0,
                         (double)l->until_ms / 1000);
}

static void ingest_metrics(struct engine_ledger *l)
{
    if (!l->ingest)
        return;
    GS_AUTO_BUF struct gs_buf text = {0};
    engine_ledger_write_metrics(l, &text);
    struct gs_error *err = scrape_ingest_text(l->ingest, gs_buf_slice(&text), NULL,
                                              scrape_ingest_time(l->ingest, gs_unix_ms()), 0);
    if (err)
        gs_warn("ledger", "%s", gs_error_message(err));
    gs_error_free(err);
}

// --- a round ---

static void begin_round(void *arg);
static void query_next(void *arg);

// Rounds are at full intervals of the clock, so that full hours are not divided.
static uint64_t until_next_round(const struct engine_ledger *l)
{
    return (uint64_t)(interval_ms(l) - gs_unix_ms() % interval_ms(l));
}

// The clock of the machine can be set. How long the interval was is therefore measured with the
// time since boot, and only its end is read from the clock.
static void account_round(struct engine_ledger *l)
{
    int64_t boot_ms = gs_boot_ns() / GS_NS_PER_MS, tick = interval_ms(l), now = l->t_ms;
    int64_t elapsed = l->until_boot_ms ? boot_ms - l->until_boot_ms : now - l->until_ms;
    if (elapsed < 0) // the clock was set back while no engine ran
        elapsed = 0;
    if (elapsed > 2 * tick) { // no samples were read meanwhile
        ledger_meter_gap(l->meter, now - elapsed, now - tick);
        elapsed = tick;
    }
    ledger_meter_observe(l->meter, l->observation, now - elapsed, now, l->table);
    l->until_ms = now;
    l->until_boot_ms = boot_ms;
}

static struct gs_error *write_ledger(struct engine_ledger *l)
{
    struct gs_error *err = ledger_store_write(l->store, l->table, l->meter, l->until_ms);
    if (err)
        return err;
    ledger_table_each(l->table, count_row, l);
    ledger_table_written(l->table, l->until_ms);
    if (llabs(l->until_ms - l->pruned_ms) < LEDGER_HOUR_MS)
        return NULL;
    l->pruned_ms = l->until_ms;
    return ledger_store_prune(l->store, l->until_ms, 0);
}

static void end_round(struct engine_ledger *l)
{
    struct gs_error *err = GS_TAKE(l->err);
    if (!err) {
        account_round(l);
        err = write_ledger(l);
    }
    if (err && !l->failing)
        gs_err("ledger", "%s", gs_error_message(err));
    else if (!err && l->failing)
        gs_info("ledger", "the ledger is written again");
    l->failing = err != NULL;
    gs_error_free(err);
    ledger_observation_free(l->observation);
    l->observation = NULL;
    ingest_metrics(l);
    // The samples of thousands of GPUs would stay resident until the next round.
    promql_engine_trim(l->promql);
    gs_trim_heap();
    gs_timer_start(l->timer, begin_round, until_next_round(l));
}

static void copy_samples(struct engine_ledger *l, const struct promql_result *r)
{
    struct metrics_label labels[TSDB_MAX_LABELS];
    for (size_t i = 0; r->type == PROMQL_RESULT_VECTOR && i < r->matrix.n; i++) {
        const struct promql_series *s = &r->matrix.series[i];
        size_t all = tsdb_labels_len(s->labels), n = all < TSDB_MAX_LABELS ? all : TSDB_MAX_LABELS;
        if (promql_absent(s->v[0]))
            continue;
        for (size_t k = 0; k < n; k++)
            labels[k] = promql_label_at(r, s->labels, k);
        ledger_observation_add(l->observation, l->series, labels, n, s->v[0]);
    }
}

static void on_samples(void *arg, const struct engine_api_local_result *t, struct gs_error *err)
{
    struct engine_ledger *l = arg;
    l->query = NULL;
    if (err)
        l->err = gs_error_wrap(err, "reading the engine's series");
    else
        copy_samples(l, t->result);
    l->series++;
    gs_timer_start(l->next, query_next, 0); // not on the stack of the query
}

static void query_next(void *arg)
{
    struct engine_ledger *l = arg;
    if (l->err || l->series == LEDGER_N_SERIES) {
        end_round(l);
        return;
    }
    GS_AUTO_FREE char *text = ledger_query(l->series, l->o.owner_label, interval_ms(l) / 1000);
    struct engine_api_local_query *query =
        engine_api_local_instant(l->api, text, l->t_ms, QUERY_TIMEOUT_MS, on_samples, l);
    if (query)
        l->query = query;
}

static void begin_round(void *arg)
{
    struct engine_ledger *l = arg;
    l->t_ms = gs_unix_ms();
    l->series = 0;
    l->observation = ledger_observation_new(l->o.owner_label);
    query_next(l);
}

// --- reports ---

struct gs_error *engine_ledger_report(void *arg, const struct ledger_report_options *options,
                                      bool (*pause)(void *arg), void *pause_arg, json_t **ret)
{
    struct engine_ledger *l = arg;
    struct ledger_report_options o = *options;
    CODEC_AUTO_JSON json_t *prices = json_incref(l->prices);
    o.prices = prices;
    GS_CLEANUP(ledger_report_freep) struct ledger_report *r = ledger_report_new(&o);
    const struct ledger_gpu *g;
    int64_t until = o.until_ms < l->until_ms ? o.until_ms : l->until_ms;
    int64_t oldest = gs_unix_ms() - (LEDGER_DAYS + 2) * DAY_MS;
    int64_t at = o.since_ms > oldest ? o.since_ms : oldest;
    for (at -= at % LEDGER_HOUR_MS; at < until; at += DAY_MS) {
        int64_t end = at + DAY_MS < until ? at + DAY_MS : until;
        struct gs_error *err = ledger_store_read(l->store, at, end, ledger_report_add, r);
        if (err)
            return err;
        if (!pause(pause_arg))
            return gs_error_new(GS_EUNAVAIL, "the client has disconnected");
    }
    for (size_t pos = 0; (g = ledger_meter_next(l->meter, &pos));)
        ledger_report_add_idle(r, g);
    *ret = ledger_report_json(r);
    return NULL;
}

// --- life ---

static struct gs_error *open_store(struct engine_ledger *l, const char *path)
{
    struct gs_error *err = ledger_store_open(path, &l->store);
    if (!err)
        err = ledger_store_until(l->store, &l->until_ms);
    if (!err)
        err = ledger_store_restore(l->store, l->meter);
    if (err) {
        ledger_store_close(l->store);
        l->store = NULL;
    }
    return err;
}

// A damaged file or a full disk does not stop the engine.
static struct gs_error *open_ledger(struct engine_ledger *l)
{
    struct gs_error *err = open_store(l, l->o.path);
    if (err && l->o.path) {
        gs_err("ledger",
               "%s: GPU hours are kept in memory and end with this process; fix or "
               "move the file and restart",
               gs_error_message(err));
        gs_error_free(err);
        l->until_ms = 0;
        err = open_store(l, NULL);
    }
    if (!err && l->o.prices)
        err = nodes_prices_load(l->o.prices, &l->prices);
    return err;
}

struct gs_error *engine_ledger_new(uv_loop_t *loop, struct tsdb *db,
                                   const struct engine_ledger_options *o,
                                   struct engine_ledger **ret)
{
    static const struct metrics_label target[] = {{GS_SLICE("instance"), GS_SLICE("gpuscale")},
                                                  {GS_SLICE("job"), GS_SLICE("gpuscale-engine")}};
    struct engine_ledger *l = gs_alloc(sizeof(*l));
    l->loop = loop;
    l->db = db;
    l->o = *o;
    if (!l->o.owner_label)
        l->o.owner_label = LEDGER_DEFAULT_OWNER;
    l->meter = ledger_meter_new();
    l->table = ledger_table_new(MAX_ROWS_OF_HOUR);
    l->totals = gs_hmap_new(free_total);
    l->timer = gs_timer_new(loop, l);
    l->next = gs_timer_new(loop, l);
    struct gs_error *err = ledger_check_owner(l->o.owner_label);
    if (!err)
        err = open_ledger(l);
    if (err) {
        engine_ledger_free(l);
        return gs_error_wrap(err, "ledger");
    }
    if (o->store_series) {
        l->ingest_config = (struct engine_config_scrape_config){.job_name = "gpuscale-engine",
                                                                .honor_labels = true};
        l->ingest = scrape_ingest_new(db, &l->ingest_config, target, GS_ARRAY_LEN(target));
    }
    *ret = l;
    return NULL;
}

void engine_ledger_start(struct engine_ledger *l, struct engine_api *api,
                         struct promql_engine *promql)
{
    l->promql = promql;
    l->api = api;
    if (l->o.ends_with_process)
        ledger_meter_end_with_process(l->meter);
    if (!l->until_ms || l->o.ends_with_process) // it begins now
        l->until_boot_ms = gs_boot_ns() / GS_NS_PER_MS;
    gs_timer_start(l->timer, begin_round, until_next_round(l));
}

void engine_ledger_stop(struct engine_ledger *l)
{
    if (!l)
        return;
    engine_api_local_query_cancel(GS_TAKE(l->query));
    gs_timer_stop(l->timer);
    gs_timer_stop(l->next);
}

void engine_ledger_free(struct engine_ledger *l)
{
    if (!l)
        return;
    gs_timer_free(l->timer);
    gs_timer_free(l->next);
    ledger_observation_free(l->observation);
    gs_error_free(l->err);
    if (l->ingest)
        scrape_ingest_free(l->ingest);
    ledger_store_close(l->store);
    ledger_meter_free(l->meter);
    ledger_table_free(l->table);
    gs_hmap_free(l->totals);
    json_decref(l->prices);
    free(l);
}
