// SPDX-License-Identifier: Apache-2.0
// /metrics: the names of Prometheus for metrics with the same meaning, gpuscale_… for others.
#include "engine/api/api_private.h"

#include "metrics/process.h"
#include "metrics/write.h"
#include "tsdb/exemplars.h"

#include <stdio.h>

static void gauge(struct gs_buf *out, const char *name, const char *help, double value)
{
    metrics_write_single(out, name, METRICS_GAUGE, help, value);
}

static void counter(struct gs_buf *out, const char *name, const char *help, double value)
{
    metrics_write_single(out, name, METRICS_COUNTER, help, value);
}

static struct metrics_label write_label(const char *name, const char *value)
{
    return (struct metrics_label){gs_slice_of(name), gs_slice_of(value)};
}

static void write_labelled(struct gs_buf *out, const char *name, const char *key, const char *value,
                           double v)
{
    struct metrics_label l = write_label(key, value);
    metrics_write_sample(out, name, &l, 1, v);
}

// --- store ---

static void write_head(const struct tsdb_stats *s, struct gs_buf *out)
{
    gauge(out, "prometheus_tsdb_head_series", "Total number of series in the head block.",
          (double)s->series);
    gauge(out, "prometheus_tsdb_head_chunks", "Total number of chunks in the head block.",
          (double)s->chunks);
    static const char appended[] = "prometheus_tsdb_head_samples_appended_total";
    metrics_write_family(out, appended, METRICS_COUNTER, "Total number of appended samples.");
    write_labelled(out, appended, "type", "float", (double)s->samples_appended);
    static const char late[] = "prometheus_tsdb_out_of_order_samples_total";
    metrics_write_family(out, late, METRICS_COUNTER,
                         "Samples rejected because they are older than the newest sample.");
    write_labelled(out, late, "type", "float", (double)s->out_of_order);
    if (s->min_t_ms <= s->max_t_ms) {
        gauge(out, "prometheus_tsdb_head_min_time", "Oldest sample held, in milliseconds.",
              (double)s->min_t_ms);
        gauge(out, "prometheus_tsdb_head_max_time", "Newest sample held, in milliseconds.",
              (double)s->max_t_ms);
        gauge(out, "prometheus_tsdb_lowest_timestamp_seconds", "Oldest sample held, in seconds.",
              (double)s->min_t_ms / 1000);
    }
    gauge(out, "prometheus_tsdb_symbol_table_size_bytes", "Bytes of label names and values.",
          (double)s->bytes_symbols);
}

static void write_store(const struct tsdb_stats *s, struct gs_buf *out)
{
    static const char bytes[] = "gpuscale_tsdb_bytes";
    metrics_write_family(out, bytes, METRICS_GAUGE, "Memory of the store by content.");
    write_labelled(out, bytes, "part", "samples", (double)s->bytes_samples);
    write_labelled(out, bytes, "part", "index", (double)s->bytes_index);
    write_labelled(out, bytes, "part", "symbols", (double)s->bytes_symbols);
    counter(out, "gpuscale_tsdb_duplicate_samples_total",
            "Samples rejected because of another value for the same time.", (double)s->duplicates);
    counter(out, "gpuscale_tsdb_series_refused_total", "Series rejected at a limit of the store.",
            (double)s->series_refused);
    counter(out, "gpuscale_tsdb_evicted_samples_total", "Samples dropped at the memory limit.",
            (double)s->evicted_samples);
    counter(out, "gpuscale_tsdb_ahead_samples_dropped_total",
            "Samples dropped because the clock was set back to an earlier time.",
            (double)s->cut_samples);
    gauge(out, "gpuscale_tsdb_wal_on", "1 when samples are also written to disk.", s->wal_on);
    if (!s->wal_on)
        return;
    gauge(out, "gpuscale_tsdb_wal_failing", "1 while writes to the disk fail.", s->wal_failing);
    gauge(out, "gpuscale_tsdb_wal_bytes", "Size of the log on disk.", (double)s->wal_bytes);
    gauge(out, "gpuscale_tsdb_blocks_bytes",
          "Size of the files that older samples are read from, also in gpuscale_tsdb_wal_bytes.",
          (double)s->blocks_bytes);
    counter(out, "gpuscale_tsdb_wal_errors_total", "Writes to the log that failed.",
            (double)s->wal_errors);
    counter(out, "prometheus_tsdb_wal_corruptions_total", "Damaged log records that were skipped.",
            (double)s->wal_corrupt_records);
}

static void write_exemplars(const struct tsdb *db, struct gs_buf *out)
{
    struct tsdb_exemplar_stats s;
    tsdb_exemplars_stats(db, &s);
    counter(out, "prometheus_tsdb_exemplar_exemplars_appended_total",
            "Total number of appended exemplars.", (double)s.appended);
    gauge(out, "prometheus_tsdb_exemplar_exemplars_in_storage",
          "Number of exemplars currently in circular storage.", (double)s.n);
    gauge(out, "prometheus_tsdb_exemplar_last_exemplars_timestamp_seconds",
          "The timestamp of the oldest exemplar stored in circular storage.",
          (double)s.oldest_ms / 1000);
    gauge(out, "prometheus_tsdb_exemplar_max_exemplars",
          "Total number of exemplars the exemplar storage can store, resizeable.", (double)s.max);
    counter(out, "prometheus_tsdb_exemplar_out_of_order_exemplars_total",
            "Total number of out of order exemplar ingestion failed attempts.",
            (double)s.out_of_order);
    gauge(out, "prometheus_tsdb_exemplar_series_with_exemplars_in_storage",
          "Number of series with exemplars currently in circular storage.", (double)s.series);
}

// --- queries and HTTP ---

static void write_build(const struct engine_api *a, struct gs_buf *out)
{
    static const char prometheus[] = "prometheus_build_info", own[] = "gpuscale_build_info";
    struct metrics_label labels[] = {
        write_label("branch", ""),
        write_label("goversion", ""),
        write_label("revision", "gpuscale-" GPUSCALE_VERSION),
        write_label("version", ENGINE_API_PROMETHEUS_VERSION),
    };
    metrics_write_family(
        out, prometheus, METRICS_GAUGE,
        "The version of the Prometheus API that is served. The revision is the version "
        "of gpuscale.");
    metrics_write_sample(out, prometheus, labels, GS_ARRAY_LEN(labels), 1);
    metrics_write_family(out, own, METRICS_GAUGE, "Version of gpuscale.");
    write_labelled(out, own, "version", GPUSCALE_VERSION, 1);
    gauge(out, "prometheus_ready", "1 when the engine is ready to serve requests.", !a->stopping);
    gauge(out, "prometheus_config_last_reload_successful",
          "Whether the last configuration reload attempt was successful.", a->reload_ok);
    gauge(out, "prometheus_config_last_reload_success_timestamp_seconds",
          "Timestamp of the last successful configuration reload.", (double)a->reload_ms / 1000);
}

static void write_queries(const struct engine_api *a, struct gs_buf *out)
{
    static const char duration[] = "prometheus_engine_query_duration_seconds";
    struct metrics_label slice = write_label("slice", "inner_eval");
    metrics_write_family(out, duration, METRICS_SUMMARY, "Query timings");
    metrics_write_sample(out, "prometheus_engine_query_duration_seconds_sum", &slice, 1,
                         a->query_seconds);
    metrics_write_sample(out, "prometheus_engine_query_duration_seconds_count", &slice, 1,
                         (double)a->n_queries);
    gauge(out, "prometheus_engine_queries",
          "The current number of queries being executed or waiting.",
          (double)engine_api_queue_len(a->queue));
    gauge(out, "prometheus_engine_queries_concurrent_max", "The max number of concurrent queries.",
          1);
}

static void write_requests(const struct engine_api *a, struct gs_buf *out)
{
    static const char name[] = "prometheus_http_requests_total";
    metrics_write_family(out, name, METRICS_COUNTER, "Counter of HTTP requests.");
    for (size_t i = 0; engine_api_route_path(i); i++)
        for (size_t c = 0; c < ENGINE_API_N_CODES; c++) {
            struct metrics_label l[] = {write_label("code", engine_api_code_text(c)),
                                        write_label("handler", engine_api_route_path(i))};
            if (a->counts[i].codes[c])
                metrics_write_sample(out, name, l, 2, (double)a->counts[i].codes[c]);
        }
    static const char seconds[] = "gpuscale_http_request_seconds_total";
    metrics_write_family(out, seconds, METRICS_COUNTER, "Time spent on requests.");
    for (size_t i = 0; engine_api_route_path(i); i++)
        if (a->counts[i].seconds > 0)
            write_labelled(out, seconds, "handler", engine_api_route_path(i), a->counts[i].seconds);
    static const char bytes[] = "gpuscale_http_response_bytes_total";
    metrics_write_family(out, bytes, METRICS_COUNTER, "Bytes of replies.");
    for (size_t i = 0; engine_api_route_path(i); i++)
        if (a->counts[i].bytes)
            write_labelled(out, bytes, "handler", engine_api_route_path(i),
                           (double)a->counts[i].bytes);
}

void engine_api_write_own_metrics(const struct engine_api *a, struct gs_buf *out)
{
    struct tsdb_stats s;
    tsdb_stats(a->cfg.db, &s);
    write_build(a, out);
    metrics_write_process(out, a->started_ms);
    write_head(&s, out);
    write_store(&s, out);
    write_exemplars(a->cfg.db, out);
    write_queries(a, out);
    write_requests(a, out);
    if (a->cfg.scrapes)
        scrape_manager_write_metrics(a->cfg.scrapes, out);
    if (a->receiver)
        remote_receiver_write_metrics(a->receiver, out);
    if (a->cfg.rules)
        rules_manager_write_metrics(a->cfg.rules, out);
    if (a->cfg.write_metrics)
        a->cfg.write_metrics(a->cfg.arg, out);
}

void engine_api_own_metrics(struct engine_api_request *r)
{
    engine_api_write_own_metrics(r->api, engine_api_buffer(r));
    engine_api_reply_buffer(r, HTTP_TYPE_METRICS);
}
