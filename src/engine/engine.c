// SPDX-License-Identifier: Apache-2.0
// The engine as one object: store, PromQL, scrapes, rules, senders and API on one loop. A reload
// reads everything that can fail first, then changes the parts, so a wrong file changes nothing.
#include "engine/engine.h"

#include "aliases/aliases.h"
#include "base/clock.h"
#include "base/file_watch.h"
#include "base/log_level.h"
#include "base/mem.h"
#include "base/timer.h"
#include "base/trim.h"
#include "engine/api/api.h"
#include "engine/discovery/discovery.h"
#include "engine/engine_private.h"
#include "engine/inference_targets/inference_targets.h"
#include "engine/monitors/monitors.h"
#include "engine/remote/remote_write.h"
#include "engine/rules/rules.h"
#include "engine/state_metrics/state_metrics.h"
#include "tsdb/exemplars.h"

enum {
    GC_EVERY_MS = 2000,
    SYNC_EVERY_MS = 1000,
    EMPTY_FILE_MS = 3000, // a file that is empty for longer is treated as empty
    DEFAULT_RETENTION_MS = 2 * 3600 * 1000,
    DEFAULT_LOOKBACK_MS = 5 * 60 * 1000,
    DEFAULT_TIMEOUT_MS = 2 * 60 * 1000,
    MOST_AHEAD_MS = 60 * 1000,
    AHEAD_MS = 1000, // samples with a time further in the future are errors of the clock
};

struct engine {
    uv_loop_t *loop;
    struct engine_options o;
    enum gs_log_level log_level; // at the start
    struct tsdb *db;
    struct promql_engine *promql;
    struct scrape_manager *scrapes;
    struct rules_manager *rules;
    struct remote_write **remotes;
    size_t n_remotes;
    struct discovery_stats sd_stats;
    struct state_metrics_feed *state;    // NULL: disabled
    struct rules_objects *rule_objects;  // NULL: disabled
    struct monitors *monitors;           // NULL: disabled
    struct signals_table *signals;       // names of inference engines
    struct inference_targets *inference; // NULL: disabled
    struct engine_api *api;
    struct engine_ledger *ledger; // NULL: disabled
    struct gs_file_watch *watch;  // NULL: files are not watched
    struct engine_config *config;
    struct engine_config *annotated; // of the job of annotated pods; NULL: none
    struct engine_clock_steps clock;
    int disk_error; // last logged errno
    int64_t disk_failing_ns;
    struct gs_timer *gc, *sync;
    struct gs_timer *drain; // the shutdown waits for receivers until then; NULL: it does not wait
    size_t n_flushing;
    void (*drained)(void *arg);
    void *drained_arg;
};

// --- timers ---

static void on_gc(void *arg)
{
    struct engine *e = arg;
    tsdb_gc(e->db, gs_unix_ms());
}

// Drops samples with a time in the future. They would remain the newest, so that nothing could be
// appended until that time.
static uint64_t drop_ahead(struct engine *e, int64_t now_ms)
{
    uint64_t n = tsdb_newest_ms(e->db) > now_ms + AHEAD_MS ? tsdb_delete_after(e->db, now_ms) : 0;
    for (size_t i = 0; n && i < e->n_remotes; i++)
        remote_write_cut(e->remotes[i], now_ms);
    return n;
}

// At the start: drops samples in the future. If all samples are in the future, the clock is more
// likely to be wrong (for example after a battery failure), and they are kept.
static void check_recovered(struct engine *e)
{
    struct tsdb_stats s;
    int64_t now = gs_unix_ms();
    if (tsdb_newest_ms(e->db) <= now + MOST_AHEAD_MS)
        return;
    tsdb_stats(e->db, &s);
    char at[GS_RFC3339_SIZE];
    gs_format_rfc3339(now, at);
    if (s.min_t_ms > now)
        gs_warn("engine",
                "%s: all samples are newer than the system clock, %s. New samples are hidden "
                "until the clock has passed them; check the clock",
                e->o.store.storage_path, at);
    else
        gs_warn("engine", "%s: %llu samples are newer than the system clock, %s, and are dropped",
                e->o.store.storage_path, (unsigned long long)tsdb_delete_after(e->db, now), at);
}

// Otherwise, queries would find the last samples of an earlier process for five minutes.
static void end_recovered(struct engine *e)
{
    struct tsdb_refs all = {0};
    int64_t newest = tsdb_newest_ms(e->db);
    struct gs_error *err = tsdb_find(e->db, NULL, 0, INT64_MIN, newest, 0, &all);
    for (size_t i = 0; !err && i < all.len; i++)
        err = tsdb_append_ref(e->db, all.items[i], newest + 1, tsdb_stale_marker());
    if (err)
        gs_warn("engine", "%s: series of an earlier process did not end: %s",
                e->o.store.storage_path, gs_error_message(err));
    gs_error_free(err);
    tsdb_refs_finish(&all);
}

static void watch_clock(struct engine *e)
{
    int64_t now = gs_unix_ms(), boot = gs_boot_ns() / GS_NS_PER_MS;
    int64_t step = engine_clock_steps_check(&e->clock, now, boot);
    char by[GS_RFC3339_SIZE], to[GS_RFC3339_SIZE];
    tsdb_set_grace(e->db, e->clock.grace_ms);
    uint64_t dropped = engine_clock_steps_is_back(&e->clock, boot) ? drop_ahead(e, now) : 0;
    if (!step)
        return;
    gs_format_units((llabs(step) + 500) / 1000 * GS_NS_PER_SEC, by);
    gs_format_rfc3339(now, to);
    if (step > 0)
        gs_warn("engine",
                "the system clock was set forward by %s, to %s: no sample expires in the next "
                "10 minutes",
                by, to);
    else
        gs_warn("engine",
                "the system clock was set back by %s, to %s: %llu newer samples are dropped", by,
                to, (unsigned long long)dropped);
}

// Logs one line when the disk fails and one when it works again.
static void watch_disk(struct engine *e)
{
    int error = tsdb_disk_error(e->db);
    int64_t now_ns = gs_mono_ns();
    if (error && !e->disk_error) {
        e->disk_failing_ns = now_ns;
        gs_err("engine",
               "%s: the write-ahead log cannot be written: %s. New samples are in memory only and "
               "are lost if the engine stops before the disk works again",
               e->o.store.storage_path, strerror(error));
    } else if (!error && e->disk_error) {
        char after[GS_RFC3339_SIZE];
        gs_format_units((now_ns - e->disk_failing_ns) / GS_NS_PER_SEC * GS_NS_PER_SEC, after);
        gs_warn("engine",
                "%s: the write-ahead log is written again after %s; samples of that time are in "
                "memory only until the next snapshot",
                e->o.store.storage_path, after);
    }
    e->disk_error = error;
}

static void on_sync(void *arg)
{
    struct engine *e = arg;
    watch_clock(e);
    tsdb_sync(e->db);
    watch_disk(e);
}

static struct gs_timer *start_timer(struct engine *e, gs_timer_fn fn, uint64_t every_ms)
{
    struct gs_timer *t = gs_timer_new(e->loop, e);
    gs_timer_repeat(t, fn, every_ms, every_ms);
    return t;
}

// --- configuration ---

static void log_problems(const struct rules_problems *p)
{
    for (size_t i = 0; i < p->len; i++)
        gs_warn("engine", "%s", p->items[i].text);
}

static struct gs_error *parse_config(const struct engine *e, struct engine_config **ret)
{
    if (e->o.config_path)
        return engine_config_load(e->o.config_path, ret);
    return engine_config_parse(gs_slice_of(e->o.config_text ? e->o.config_text : ""),
                               "configuration", ".", ret);
}

static void stop_remotes(struct engine *e)
{
    for (size_t i = 0; i < e->n_remotes; i++)
        remote_write_free(e->remotes[i]);
    free(e->remotes);
    e->remotes = NULL;
    e->n_remotes = 0;
}

// Removes the sender for this receiver from the list and returns it, or NULL.
static struct remote_write *take_remote(struct engine *e,
                                        const struct engine_config_remote_write_config *cfg)
{
    for (size_t i = 0; i < e->n_remotes; i++) {
        struct remote_write *w = e->remotes[i];
        if (!remote_write_is(w, cfg))
            continue;
        e->remotes[i] = e->remotes[--e->n_remotes];
        return w;
    }
    return NULL;
}

static bool find_metadata(void *arg, struct gs_slice metric, struct metrics_metadata *ret)
{
    const struct engine *e = arg;
    return scrape_manager_find_metadata(e->scrapes, metric, ret);
}

// Receivers in both configurations keep their sender, so no samples are lost.
static void start_remotes(struct engine *e, const struct engine_config *cfg)
{
    struct remote_write **remotes =
        gs_alloc_array(cfg->n_remote_writes + 1, sizeof(struct remote_write *));
    for (size_t i = 0; i < cfg->n_remote_writes; i++) {
        const struct engine_config_remote_write_config *c = &cfg->remote_writes[i];
        remotes[i] = take_remote(e, c);
        if (remotes[i])
            remote_write_reconfigure(remotes[i], c, cfg->external_labels, cfg->n_external_labels);
        else
            remotes[i] =
                remote_write_new(e->loop, e->db, c, cfg->external_labels, cfg->n_external_labels);
        remote_write_set_metadata(remotes[i], find_metadata, e);
    }
    stop_remotes(e);
    e->remotes = remotes;
    e->n_remotes = cfg->n_remote_writes;
}

static void apply_log_level(const struct engine *e, const struct engine_config *cfg)
{
    enum gs_log_level level = e->log_level;
    if (!e->o.sets_log_level)
        return;
    if (cfg->log_level)
        (void)gs_log_parse_level(cfg->log_level, &level);
    gs_log_set_level(level);
}

// All steps that can fail precede all changes.
static struct gs_error *load_config(struct engine *e)
{
    GS_CLEANUP(engine_config_freep) struct engine_config *cfg = NULL;
    GS_CLEANUP(rules_problems_finish) struct rules_problems problems = {0};
    struct gs_error *err = parse_config(e, &cfg);
    if (!err)
        err = rules_manager_apply(e->rules, cfg, &problems);
    log_problems(&problems);
    if (err)
        return err;
    for (size_t i = 0; i < cfg->n_ignored; i++)
        gs_warn("engine", "%s", cfg->ignored[i]);
    apply_log_level(e, cfg);
    promql_engine_set_default_step(e->promql, cfg->evaluation_interval_ms);
    tsdb_exemplars_set_max(e->db, e->o.exemplars ? cfg->max_exemplars : 0);
    scrape_manager_apply(e->scrapes, cfg);
    if (e->monitors)
        monitors_set_defaults(e->monitors, cfg);
    if (e->o.kube && e->o.kube_annotations)
        engine_scrape_annotated_pods(e->scrapes, cfg, &e->annotated);
    start_remotes(e, cfg);
    engine_api_set_config(e->api, cfg);
    engine_config_free(e->config);
    e->config = GS_TAKE(cfg);
    return NULL;
}

static void watch_files(struct engine *e)
{
    const struct engine_config *c = e->config;
    if (!e->watch || !e->o.config_path)
        return;
    size_t n_rules = c ? c->n_rule_files : 0, n_scrapes = c ? c->n_scrape_config_files : 0;
    GS_AUTO_FREE const char **patterns = gs_alloc_array(1 + n_rules + n_scrapes, sizeof(*patterns));
    size_t n = 0;
    patterns[n++] = e->o.config_path;
    for (size_t i = 0; i < n_rules; i++)
        patterns[n++] = c->rule_files[i];
    for (size_t i = 0; i < n_scrapes; i++)
        patterns[n++] = c->scrape_config_files[i];
    gs_file_watch_set(e->watch, patterns, n);
}

// Calls load() and logs success. The caller logs the error.
static struct gs_error *load_and_log(struct engine *e)
{
    int64_t begun = gs_mono_ns();
    struct gs_error *err = load_config(e);
    engine_api_set_reload(e->api, !err, gs_unix_ms());
    watch_files(e); // also after an error, because the next change may fix it
    if (err)
        return err;
    gs_info("engine",
            "%s loaded in %d ms: %zu scrape configs, %zu rule file patterns, %zu Alertmanager "
            "configs, %zu remote writes",
            e->o.config_path ? e->o.config_path : "configuration",
            (int)((gs_mono_ns() - begun) / GS_NS_PER_MS), e->config->n_scrapes,
            e->config->n_rule_files, e->config->n_alertmanagers, e->config->n_remote_writes);
    return NULL;
}

struct gs_error *engine_reload(struct engine *e)
{
    struct gs_error *err =
        e->drain ? gs_error_new(GS_EUNAVAIL, "the engine is stopping") : load_and_log(e);
    if (err)
        gs_err("engine", "reload failed, the previous configuration stays active: %s",
               gs_error_message(err));
    return err;
}

static void on_files_changed(void *arg)
{
    gs_info("engine", "configuration or rule files changed");
    gs_error_free(engine_reload(arg)); // engine_reload() has logged it
}

void engine_select_again(struct engine *e)
{
    if (e->monitors)
        monitors_select_again(e->monitors);
    if (e->rule_objects)
        rules_objects_select_again(e->rule_objects);
}

void engine_hide_kube_state(struct engine *e, bool hidden)
{
    if (e->state)
        state_metrics_feed_hide(e->state, hidden);
}

// --- what the API asks for ---

static struct gs_error *api_reload(void *arg)
{
    return engine_reload(arg);
}

static void api_quit(void *arg)
{
    struct engine *e = arg;
    if (e->o.on_quit)
        e->o.on_quit(e->o.arg);
}

static void api_write_metrics(void *arg, struct gs_buf *out)
{
    const struct engine *e = arg;
    for (size_t i = 0; i < e->n_remotes; i++)
        remote_write_metrics(e->remotes[i], out);
    discovery_stats_write(&e->sd_stats, out);
    if (!e->o.ledger.store_series)
        engine_ledger_write_metrics(e->ledger, out);
    if (e->rule_objects)
        rules_objects_write_metrics(e->rule_objects, out);
    if (e->state)
        state_metrics_feed_write_metrics(e->state, out);
    metrics_write_family(out, "gpuscale_clock_steps_total", METRICS_COUNTER,
                         "How often the wall clock was set, by two seconds or more.");
    metrics_write_sample(out, "gpuscale_clock_steps_total", NULL, 0, (double)e->clock.n);
}

static struct gs_error *api_report(void *arg, const struct ledger_report_options *o,
                                   bool (*pause)(void *arg), void *pause_arg, json_t **ret)
{
    const struct engine *e = arg;
    return engine_ledger_report(e->ledger, o, pause, pause_arg, ret);
}

static json_t *api_inference(void *arg)
{
    const struct engine *e = arg;
    return json_pack("{s:o, s:o}", "engines", scrape_signals_json(e->scrapes), "pods",
                     e->inference ? inference_targets_json(e->inference) : json_array());
}

static struct gs_error *make_api(struct engine *e)
{
    const struct engine_options *o = &e->o;
    struct engine_api_config cfg = {
        .loop = e->loop,
        .db = e->db,
        .promql = e->promql,
        .scrapes = e->scrapes,
        .rules = e->rules,
        .storage_path = o->store.storage_path,
        .retention_ms = o->store.retention_ms ? o->store.retention_ms : DEFAULT_RETENTION_MS,
        .lookback_ms = o->query.lookback_ms ? o->query.lookback_ms : DEFAULT_LOOKBACK_MS,
        .timeout_ms = o->query.timeout_ms ? o->query.timeout_ms : DEFAULT_TIMEOUT_MS,
        .max_queries = o->max_queries,
        .max_reply = o->max_reply,
        .external_url = o->external_url,
        .route_prefix = o->route_prefix,
        .cors_origin = o->cors_origin,
        .lifecycle = o->enable_lifecycle,
        .write_messages = o->write_messages,
        .dcgm_aliases = o->dcgm_aliases,
        .flags = o->flags,
        .reload = api_reload,
        .quit = api_quit,
        .write_metrics = api_write_metrics,
        .report = e->ledger ? api_report : NULL,
        .inference = api_inference,
        .arg = e,
        .extension = o->extension,
    };
    return engine_api_new(&cfg, &e->api);
}

// --- life ---

static struct gs_error *compose(struct engine *e)
{
    struct gs_error *err = tsdb_open(&e->o.store, &e->db);
    if (err)
        return err;
    gs_trim_heap(); // free the memory that only the recovery used
    check_recovered(e);
    if (e->o.ends_with_process)
        end_recovered(e);
    e->promql = promql_engine_new(e->db, &e->o.query);
    if (e->o.dcgm_aliases)
        promql_engine_set_substitute(e->promql, aliases_substitute, e->db);
    err = signals_table_load(e->o.inference_table, &e->signals);
    if (err)
        return gs_error_wrap(err, "--inference-table");
    struct scrape_manager_config scraping = {
        .kube = e->o.kube, .sd_stats = &e->sd_stats, .signals = e->signals};
    e->scrapes = scrape_manager_new(e->loop, e->db, &scraping);
    e->rules = rules_manager_new(e->loop, e->db, e->promql, e->o.external_url);
    rules_manager_set_discovery(e->rules, e->o.kube, &e->sd_stats);
    if (e->o.alert_times)
        rules_manager_set_timing(e->rules, GS_TAKE(e->o.alert_times));
    if (e->o.kube && e->o.kube_state)
        err = state_metrics_feed_new(
            e->loop, e->db, e->o.kube,
            &(struct state_metrics_feed_config){.state.labels_allowlist = e->o.kube_state_labels},
            &e->state);
    if (e->o.kube && e->o.kube_rules)
        e->rule_objects = rules_objects_new(e->loop, e->o.kube, NULL, e->o.rule_selector,
                                            e->o.selection, e->rules);
    const struct monitors_selectors selected = {
        e->o.service_monitor_selector, e->o.pod_monitor_selector, e->o.selection, e->o.account_dir};
    if (e->o.kube && e->o.kube_monitors)
        e->monitors = monitors_new(e->loop, e->o.kube, e->scrapes, &selected);
    if (e->o.kube && e->o.kube_inference_ms)
        e->inference = inference_targets_new(e->loop, e->o.kube, e->scrapes, e->signals,
                                             e->o.kube_inference_ms);
    if (!err && e->o.ledger.enabled)
        err = engine_ledger_new(e->loop, e->db, &e->o.ledger, &e->ledger);
    if (!err)
        err = make_api(e);
    if (err)
        return err;
    if (e->ledger)
        engine_ledger_start(e->ledger, e->api, e->promql);
    const struct gs_file_watch_options watch = {.loop = e->loop,
                                                .poll_ms = e->o.poll_ms,
                                                .empty_after_ms = EMPTY_FILE_MS,
                                                .missing_is_change = true,
                                                .on_change = on_files_changed,
                                                .arg = e};
    if (e->o.watch_files && e->o.config_path)
        e->watch = gs_file_watch_new(&watch);
    e->gc = start_timer(e, on_gc, GC_EVERY_MS);
    e->sync = start_timer(e, on_sync, SYNC_EVERY_MS);
    return NULL;
}

struct gs_error *engine_new(uv_loop_t *loop, const struct engine_options *o, struct engine **ret)
{
    struct engine *e = gs_alloc(sizeof(*e));
    e->loop = loop;
    e->o = *o;
    e->log_level = gs_log_level();
    struct gs_error *err = compose(e);
    if (!err)
        err = load_and_log(e);
    if (err) {
        engine_free(e);
        return err;
    }
    *ret = e;
    return NULL;
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    gs_file_watch_free(e->watch);
    gs_timer_free(e->gc);
    gs_timer_free(e->sync);
    gs_timer_free(e->drain);
    stop_remotes(e);
    // Free users of data before the data.
    engine_ledger_stop(e->ledger);
    engine_api_free(e->api);
    engine_ledger_free(e->ledger);
    state_metrics_feed_free(e->state);
    rules_objects_free(e->rule_objects);
    if (e->rules)
        rules_manager_free(e->rules);
    if (e->scrapes)
        scrape_manager_free(e->scrapes);
    monitors_free(e->monitors);
    inference_targets_free(e->inference);
    signals_table_free(e->signals);
    if (e->promql)
        promql_engine_free(e->promql);
    if (e->db)
        tsdb_free(e->db);
    engine_config_free(e->config);
    engine_config_free(e->annotated);
    free(e);
}

void engine_stopping(struct engine *e)
{
    engine_api_set_stopping(e->api);
}

// --- the end ---

static void drained(struct engine *e)
{
    gs_timer_free(GS_TAKE(e->drain));
    e->drained(e->drained_arg);
}

static void on_flushed(void *arg)
{
    struct engine *e = arg;
    if (--e->n_flushing == 0 && e->drain)
        drained(e);
}

static void on_drain_deadline(void *arg)
{
    struct engine *e = arg;
    gs_warn("engine", "the flush deadline has passed: %zu remote write receivers lack samples",
            e->n_flushing);
    drained(e);
}

void engine_drain(struct engine *e, int64_t limit_ms, void (*done)(void *arg), void *arg)
{
    if (!e->n_remotes || limit_ms <= 0) {
        done(arg);
        return;
    }
    e->drained = done;
    e->drained_arg = arg;
    e->drain = start_timer(e, on_drain_deadline, (uint64_t)limit_ms);
    e->n_flushing = e->n_remotes;
    for (size_t i = 0; i < e->n_remotes; i++)
        remote_write_flush(e->remotes[i], on_flushed, e);
}

void engine_handle(void *arg, struct http_exchange *x)
{
    struct engine *e = arg;
    engine_api_handle(e->api, x);
}

struct engine_api *engine_http_api(struct engine *e)
{
    return e->api;
}

struct tsdb *engine_tsdb(struct engine *e)
{
    return e->db;
}

struct scrape_manager *engine_scrapes(struct engine *e)
{
    return e->scrapes;
}

struct rules_manager *engine_rules(struct engine *e)
{
    return e->rules;
}

void engine_write_kube_state(struct engine *e, struct gs_buf *out)
{
    if (e->state)
        gs_buf_add_slice(out, state_metrics_feed_text(e->state));
}

struct monitors *engine_monitors(struct engine *e)
{
    return e->monitors;
}
