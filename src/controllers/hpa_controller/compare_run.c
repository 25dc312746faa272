// SPDX-License-Identifier: Apache-2.0
// `gpuscale compare`: rounds of a comparison until its time is over or a signal arrives, and the
// result as a table or as JSON.
#include "hpa_controller/compare.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/table.h"
#include "base/timer.h"
#include "kube/session.h"
#include "net/endpoint/read.h"

#include <signal.h>
#include <stdio.h>

#define AGAIN_MS     1500
#define ROUND_MAX_MS 3600000
#define MAX_REQUESTS 16
#define MAX_WAIT_MS  86400000
#define MAX_REPORTED 10 // metrics

struct compare_run {
    struct kube_session session;
    struct endpoint_file *http;
    struct http_client *adapters[2];
    struct kube_client *clients[2];
    uv_signal_t signals[2];
    bool has_signals, stopped, woken;
    struct gs_timer *pause;
    struct hpa_compare *compare;
    struct gs_error *err;
    uint64_t rounds, failed;
};

// --- connections ---

static struct gs_error *connect_adapter(struct compare_run *r, size_t i, const char *url)
{
    static const struct endpoint_settings none = {0};
    const struct endpoint_options options = {.user_agent = "gpuscale-compare/" GPUSCALE_VERSION,
                                             .max_requests = MAX_REQUESTS};
    GS_AUTO_FREE char *name = NULL;
    struct gs_error *err = endpoint_client_open(&r->session.loop, url,
                                                r->http ? endpoint_file_settings(r->http) : &none,
                                                &options, &r->adapters[i], &name);
    if (!err)
        r->clients[i] = kube_client_new(r->adapters[i]);
    return err ? gs_error_wrap(err, "%s", url) : NULL;
}

static struct gs_error *connect_all(struct compare_run *r, const struct hpa_compare_options *o)
{
    struct gs_error *err = kube_session_open(&r->session, o->kubeconfig, o->context, "compare");
    if (!err && o->http_config_file)
        err = endpoint_file_load(o->http_config_file, &r->http);
    if (!err)
        err = connect_adapter(r, 0, o->before);
    return err ? err : connect_adapter(r, 1, o->after);
}

// --- waiting ---

static void on_signal(uv_signal_t *s, int number)
{
    struct compare_run *r = s->data;
    (void)number;
    r->stopped = r->woken = true;
}

static void catch_signals(struct compare_run *r)
{
    static const int numbers[2] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        uv_signal_init(&r->session.loop, &r->signals[i]);
        r->signals[i].data = r;
        uv_signal_start(&r->signals[i], on_signal, numbers[i]);
        uv_unref((uv_handle_t *)&r->signals[i]);
    }
    r->has_signals = true;
}

static void on_pause(void *arg)
{
    ((struct compare_run *)arg)->woken = true;
}

static void on_round(void *arg, struct gs_error *err)
{
    struct compare_run *r = arg;
    r->rounds++;
    r->failed += err != NULL;
    gs_error_free(r->err);
    r->err = err;
    r->woken = true;
}

static struct gs_error *wait_for(struct compare_run *r, unsigned most_ms)
{
    return kube_session_wait(&r->session, &r->woken, most_ms);
}

// A wrong address, token or certificate must not be found out after a day.
static void report_first_round(const struct compare_run *r)
{
    CODEC_AUTO_JSON json_t *rows = hpa_compare_json(r->compare);
    size_t i, n = 0;
    const json_t *row;
    json_array_foreach (rows, i, row) {
        bool compared = codec_json_int(row, 0, "equal", NULL) > 0 ||
                        codec_json_int(row, 0, "different", NULL) > 0;
        if (!compared && ++n <= MAX_REPORTED)
            gs_warn("compare", "%s/%s: %s: %s", codec_json_str(row, "namespace", NULL),
                    codec_json_str(row, "name", NULL), codec_json_str(row, "metric", NULL),
                    codec_json_str(row, "difference", NULL));
    }
    if (!json_array_size(rows))
        gs_warn("compare",
                "nothing to compare: no autoscaler has a target that exists and a metric of "
                "the type Pods, Object or External");
    else if (n)
        gs_warn("compare", "the first round compared %zu of %zu metrics", json_array_size(rows) - n,
                json_array_size(rows));
}

static struct gs_error *run_rounds(struct compare_run *r, const struct hpa_compare_options *o)
{
    int64_t end_ns = gs_mono_ns() + o->duration_ns;
    struct gs_error *err = NULL;
    while (!err && !r->stopped) {
        r->woken = false;
        hpa_compare_round(r->compare, on_round, r);
        err = wait_for(r, ROUND_MAX_MS);
        // An API server that is away is no reason to end a comparison of a day.
        if (!err && r->err && r->rounds == r->failed)
            err = GS_TAKE(r->err);
        if (!err && !r->stopped && r->rounds - r->failed == 1)
            report_first_round(r);
        if (err || r->stopped || gs_mono_ns() + o->interval_ns > end_ns)
            break;
        r->woken = false;
        gs_timer_start(r->pause, on_pause, (uint64_t)(o->interval_ns / GS_NS_PER_MS));
        err = wait_for(r, MAX_WAIT_MS);
    }
    return err;
}

// --- output ---

static void print_table(const struct compare_run *r, const json_t *rows)
{
    static const char *const titles[] = {"AUTOSCALER", "METRIC",   "EQUAL",   "DIFFERENT",
                                         "ONLY OLD",   "ONLY NEW", "NEITHER", "LAST DIFFERENCE"};
    static const char *const counts[] = {"equal", "different", "onlyBefore", "onlyAfter",
                                         "neither"};
    static const struct gs_table_style style = {.gap = 2, .left = SIZE_MAX};
    size_t i, n = json_array_size(rows);
    const json_t *row;
    GS_AUTO_BUF struct gs_buf out = {0};
    GS_CLEANUP(gs_table_freep) struct gs_table *t = gs_table_new(n + 1, GS_ARRAY_LEN(titles));
    for (i = 0; t && i < GS_ARRAY_LEN(titles); i++)
        gs_table_add(t, titles[i]);
    json_array_foreach (rows, i, row) {
        if (!t)
            break;
        gs_table_addf(t, "%s/%s", codec_json_str(row, "namespace", NULL),
                      codec_json_str(row, "name", NULL));
        gs_table_add(t, codec_json_str(row, "metric", NULL));
        for (size_t k = 0; k < GS_ARRAY_LEN(counts); k++)
            gs_table_addf(t, "%lld", (long long)codec_json_int(row, 0, counts[k], NULL));
        gs_table_add(t, codec_json_str(row, "difference", NULL));
    }
    if (t)
        gs_table_print(t, &style, &out);
    gs_buf_addf(&out, "%llu round%s, %llu without the autoscalers of the cluster\n",
                (unsigned long long)r->rounds, r->rounds == 1 ? "" : "s",
                (unsigned long long)r->failed);
    (void)fwrite(out.data, 1, out.len, stdout);
}

static void print_result(const struct compare_run *r, const char *output)
{
    CODEC_AUTO_JSON json_t *rows = hpa_compare_json(r->compare);
    GS_AUTO_BUF struct gs_buf out = {0};
    if (!gs_streq(output, "json")) {
        print_table(r, rows);
        return;
    }
    CODEC_AUTO_JSON json_t *all = json_pack("{s:I, s:I, s:O}", "rounds", (json_int_t)r->rounds,
                                            "failedRounds", (json_int_t)r->failed, "metrics", rows);
    codec_json_dump_pretty(all, &out);
    printf("%.*s\n", (int)out.len, out.data);
}

static void close_all(struct compare_run *r)
{
    hpa_compare_free(r->compare);
    gs_timer_free(r->pause);
    for (size_t i = 0; i < 2; i++) {
        kube_client_free(r->clients[i]);
        http_client_free(r->adapters[i]);
        if (r->has_signals)
            uv_close((uv_handle_t *)&r->signals[i], NULL);
    }
    kube_session_close(&r->session);
    endpoint_file_free(r->http);
    gs_error_free(r->err);
}

struct gs_error *hpa_compare_run(const struct hpa_compare_options *o, int *ret_exit)
{
    struct compare_run r = {0};
    struct gs_error *err = connect_all(&r, o);
    if (!err) {
        const struct hpa_compare_config cfg = {.cluster = r.session.client,
                                               .before = r.clients[0],
                                               .after = r.clients[1],
                                               .ns = o->ns,
                                               .again_ms = AGAIN_MS};
        catch_signals(&r);
        r.pause = gs_timer_new(&r.session.loop, &r);
        r.compare = hpa_compare_new(&r.session.loop, &cfg);
        err = run_rounds(&r, o);
    }
    if (!err) {
        print_result(&r, o->output);
        *ret_exit = hpa_compare_agrees(r.compare) ? 0 : 1;
    }
    close_all(&r);
    return err;
}
