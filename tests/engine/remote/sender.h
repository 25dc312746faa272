// SPDX-License-Identifier: Apache-2.0
// The sender of remote write with a receiver, which the test controls.
#pragma once

#include "patience.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "engine/config/config.h"
#include "engine/remote/receiver.h"
#include "engine/remote/remote_write.h"
#include "net/http/server.h"
#include "tsdb/exemplars.h"
#include "write_request.h"

#include <signal.h>

struct fixture {
    uv_loop_t loop;
    uv_timer_t clock;
    struct tsdb *db, *received; // by the receiver
    struct http_server *server;
    char *url;
    int status;    // status of responses; 0: success
    int v2_status; // that of 2.0; 0: as of others. The message is not read.
    const char *retry_after;
    const char *samples_written, *exemplars_written; // headers of responses; NULL: none
    size_t requests, samples, refused;
    bool v2;               // the last request
    struct gs_buf message; // of the last request that was not refused
    int64_t last_request_ns, longest_gap_ns;
    struct remote_receiver *receiver;      // stores in received; NULL: the test reads the samples
    void (*on_request)(struct fixture *f); // NULL: nothing; before the receiver stores
    size_t exemplars_without_samples;
    struct engine_config_remote_write_config cfg;
    struct remote_write *w;
    bool times_up;
};

static inline void take(void *arg, const struct metrics_label *labels, size_t n, int64_t t,
                        double v)
{
    struct fixture *f = arg;
    f->samples++;
    for (size_t i = 1; i < n; i++)
        assert_true(memcmp(labels[i - 1].name.data, labels[i].name.data,
                           labels[i].name.len < labels[i - 1].name.len
                               ? labels[i].name.len
                               : labels[i - 1].name.len) <= 0);
    struct gs_error *err = tsdb_append(f->received, labels, n, t, v);
    f->refused += err != NULL;
    gs_error_free(err);
}

static inline void check_series(void *arg, const struct tsdb_exemplar_series *s,
                                const struct tsdb_exemplar *e, bool is_first)
{
    struct fixture *f = arg;
    struct tsdb_samples samples = {0};
    tsdb_ref ref;
    (void)e, (void)is_first;
    assert_ok(tsdb_series_get(f->received, s->labels, s->n_labels, &ref));
    tsdb_read(f->received, ref, INT64_MIN, INT64_MAX, &samples);
    f->exemplars_without_samples += !samples.n;
    tsdb_samples_finish(&samples);
}

static inline void add_written(struct http_exchange *x, const char *samples, const char *exemplars)
{
    if (samples)
        http_add_header(x, "X-Prometheus-Remote-Write-Samples-Written", samples);
    if (exemplars)
        http_add_header(x, "X-Prometheus-Remote-Write-Exemplars-Written", exemplars);
}

static inline void read_message(struct fixture *f, struct gs_slice body)
{
    gs_buf_finish(&f->message);
    assert_ok(codec_unsnappy(body, SIZE_MAX, NULL, NULL, &f->message));
}

// Stores the request in f->received, as the engine does.
static inline void receive(struct fixture *f, struct http_exchange *x)
{
    const struct tsdb_exemplar_selector all = {NULL, 0};
    struct remote_receiver_reply reply;
    char samples[24], exemplars[24];
    const struct remote_receiver_request q = {
        .peer = "test", .content_type = http_header(x, "Content-Type"), .body = http_body(x)};
    if (f->on_request)
        f->on_request(f);
    remote_receiver_write(f->receiver, &q, &reply);
    assert_int_equal(reply.status, 204);
    f->samples += reply.samples + reply.exemplars;
    tsdb_exemplars_select(f->received, &all, 1, INT64_MIN, INT64_MAX, check_series, f);
    gs_buf_finish(&reply.text);
    (void)snprintf(samples, sizeof(samples), "%zu", reply.samples);
    (void)snprintf(exemplars, sizeof(exemplars), "%zu", reply.exemplars);
    if (reply.has_counts)
        add_written(x, samples, exemplars);
    http_reply(x, 204, "text/plain", GS_SLICE(""));
}

static inline void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    int64_t now = gs_mono_ns();
    if (f->requests && now - f->last_request_ns > f->longest_gap_ns)
        f->longest_gap_ns = now - f->last_request_ns;
    f->last_request_ns = now;
    f->requests++;
    const char *type = http_header(x, "Content-Type");
    f->v2 = gs_streq(type, "application/x-protobuf;proto=io.prometheus.write.v2.Request");
    if (!f->v2)
        assert_string_equal(type, "application/x-protobuf");
    assert_string_equal(http_header(x, "X-Prometheus-Remote-Write-Version"),
                        f->v2 ? "2.0.0" : "0.1.0");
    if (f->v2 && f->v2_status) {
        http_reply(x, f->v2_status, "text/plain", GS_SLICE(""));
        return;
    }
    if (f->status) {
        if (f->retry_after)
            http_add_header(x, "Retry-After", f->retry_after);
        add_written(x, f->samples_written, f->exemplars_written);
        http_reply(x, f->status, "text/plain", f->status == 204 ? GS_SLICE("") : GS_SLICE("no"));
        return;
    }
    assert_string_equal(http_header(x, "Content-Encoding"), "snappy");
    read_message(f, http_body(x));
    if (f->receiver) {
        receive(f, x);
        return;
    }
    assert_false(f->v2);
    const struct write_request_fn fn = {take, f};
    assert_true(write_request_read(gs_buf_slice(&f->message), &fn));
    http_reply(x, 204, "text/plain", GS_SLICE(""));
}

static inline int set_up(void **state)
{
    (void)signal(SIGPIPE, SIG_IGN);
    struct fixture *f = gs_alloc(sizeof(*f));
    const struct http_server_config server = {.address = "127.0.0.1"};
    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->clock);
    f->clock.data = f;
    f->db = tsdb_new(NULL);
    f->received = tsdb_new(NULL);
    assert_ok(http_server_start(&f->loop, &server, serve, f, &f->server));
    f->url = gs_format("http://127.0.0.1:%u/api/v1/write", http_server_port(f->server));
    f->cfg = (struct engine_config_remote_write_config){.url = f->url,
                                                        .timeout_ms = WAIT_MS,
                                                        .max_samples_per_send = 37,
                                                        .batch_deadline_ms = 50,
                                                        .min_backoff_ms = 10,
                                                        .max_backoff_ms = 40,
                                                        .retry_429 = true};
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *f = *state;
    remote_write_free(f->w);
    remote_receiver_free(f->receiver);
    http_server_stop(f->server);
    uv_close((uv_handle_t *)&f->clock, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    tsdb_free(f->db);
    tsdb_free(f->received);
    gs_buf_finish(&f->message);
    free(f->url);
    free(f);
    return 0;
}

static inline void on_time(uv_timer_t *t)
{
    struct fixture *f = t->data;
    f->times_up = true;
}

static inline void run_for(struct fixture *f, unsigned ms)
{
    f->times_up = false;
    uv_timer_start(&f->clock, on_time, ms, 0);
    while (!f->times_up)
        uv_run(&f->loop, UV_RUN_ONCE);
}

static inline void run_until_is(struct fixture *f, const size_t *count, size_t n)
{
    f->times_up = false;
    uv_timer_start(&f->clock, on_time, WAIT_MS, 0);
    while (!f->times_up && *count < n)
        uv_run(&f->loop, UV_RUN_ONCE);
    uv_timer_stop(&f->clock);
    assert_int_equal(*count, n);
}

static inline void append(struct fixture *f, int series, int64_t t, double v)
{
    char id[16];
    snprintf(id, sizeof(id), "%d", series);
    const struct metrics_label labels[] = {{GS_SLICE("__name__"), GS_SLICE("m")},
                                           {GS_SLICE("id"), gs_slice_of(id)}};
    assert_ok(tsdb_append(f->db, labels, 2, t, v));
}

static const struct metrics_label external[] = {{GS_SLICE("cluster"), GS_SLICE("c")},
                                                {GS_SLICE("id"), GS_SLICE("not this")}};

static inline void start(struct fixture *f)
{
    f->w = remote_write_new(&f->loop, f->db, &f->cfg, external, GS_ARRAY_LEN(external));
}

static inline bool tells(struct fixture *f, const char *line)
{
    GS_AUTO_BUF struct gs_buf metrics = {0};
    remote_write_metrics(f->w, &metrics);
    return strstr(metrics.data, line) != NULL;
}

static inline void add_exemplar(struct fixture *f, int series, int64_t t, const char *trace)
{
    char id[16];
    snprintf(id, sizeof(id), "%d", series);
    const struct metrics_label labels[] = {{GS_SLICE("__name__"), GS_SLICE("m")},
                                           {GS_SLICE("id"), gs_slice_of(id)}};
    const struct metrics_label label = {GS_SLICE("trace_id"), gs_slice_of(trace)};
    tsdb_ref ref;
    assert_ok(tsdb_series_get(f->db, labels, 2, &ref));
    assert_int_equal(
        tsdb_exemplars_add(f->db, ref, &(struct tsdb_exemplar){&label, 1, 0.5, t, true}),
        TSDB_EXEMPLAR_ADDED);
}

static inline void print_exemplar(void *arg, const struct tsdb_exemplar_series *s,
                                  const struct tsdb_exemplar *e, bool is_first)
{
    struct gs_buf *out = arg;
    for (size_t i = 0; i < s->n_labels && is_first; i++)
        gs_buf_addf(out, GS_SLICE_FMT "=" GS_SLICE_FMT " ", GS_SLICE_ARG(s->labels[i].name),
                    GS_SLICE_ARG(s->labels[i].value));
    gs_buf_addf(out, GS_SLICE_FMT "=" GS_SLICE_FMT " %g;", GS_SLICE_ARG(e->labels[0].name),
                GS_SLICE_ARG(e->labels[0].value), e->value);
}

static inline char *received_exemplars(struct fixture *f)
{
    const struct tsdb_exemplar_selector all = {NULL, 0};
    struct gs_buf out = {0};
    tsdb_exemplars_select(f->received, &all, 1, INT64_MIN, INT64_MAX, print_exemplar, &out);
    return gs_buf_take(&out);
}
