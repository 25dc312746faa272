// SPDX-License-Identifier: Apache-2.0
// Values from an exporter, or from the HTTP API of an engine or a Prometheus.
// https://prometheus.io/docs/prometheus/latest/querying/api/
#include "net/endpoint/read.h"
#include "top/top_private.h"

#include "base/clock.h"
#include "base/columns.h"
#include "base/mem.h"
#include "base/num.h"
#include "metrics/reader.h"

#include <math.h>

enum {
    MAX_REPLY = 128 << 20,
    MAX_SHOWN = 200, // bytes of a response that cannot be read
    N_QUERIES = 7,
    N_PAST = 2,
};

struct http_source;

struct top_fetch {
    struct http_source *source;
    struct http_op *op;
    bool past, exposition;
};

struct http_source {
    struct top_source is;
    struct http_client *client;
    struct endpoint_file *file;
    struct gs_arena mem; // headers
    int64_t timeout_ms;
    int64_t interval_ms;
    char *path; // of the exposition
    struct top_fetch fetches[N_QUERIES + N_PAST];
    size_t n_fetches;
    struct top_samples samples, past;
    bool has_past;
    size_t waiting;
    struct gs_error *err; // the first
    top_source_done done;
    void *arg;
};

// --- reading ---

struct exposition {
    struct top_samples *samples;
    struct gs_error *err;
    int64_t now_ms;
};

static bool is_wanted(struct gs_slice name)
{
    return gs_slice_starts(name, "DCGM_") || gs_slice_starts(name, "gpuscale_exporter_") ||
           gs_slice_starts(name, "gpuscale_inference_");
}

static bool on_sample(void *arg, const struct metrics_sample *s)
{
    struct exposition *x = arg;
    struct top_label labels[TOP_MAX_LABELS];
    if (!is_wanted(s->name) || s->n_labels > TOP_MAX_LABELS)
        return true;
    for (size_t i = 0; i < s->n_labels; i++)
        labels[i] = (struct top_label){s->labels[i].name, s->labels[i].value};
    struct top_sample sample = {s->name, labels, s->n_labels, s->value,
                                s->has_timestamp ? s->timestamp_ms : x->now_ms};
    x->err = top_samples_add(x->samples, &sample);
    return !x->err;
}

struct gs_error *top_source_read_exposition(struct gs_slice text, struct top_samples *ret)
{
    static const struct metrics_limits limits = {.max_labels = TOP_MAX_LABELS,
                                                 .skip_over_limits = true};
    struct exposition x = {ret, NULL, gs_unix_ms()};
    struct gs_error *err = metrics_parse(text, METRICS_TEXT, &limits, on_sample, &x);
    if (x.err) {
        gs_error_free(err);
        return x.err;
    }
    // gpuscale's exporter reports how old its values are.
    double age_s = 0;
    for (size_t i = 0; i < ret->len; i++)
        if (gs_slice_eq_str(ret->items[i].name, "gpuscale_exporter_sample_age_seconds"))
            age_s = ret->items[i].value;
    if (age_s > 0 && age_s < 1e9)
        for (size_t i = 0; i < ret->len; i++)
            if (ret->items[i].t_ms == x.now_ms)
                ret->items[i].t_ms -= (int64_t)(age_s * 1000);
    return err;
}

// [1700000000.5, "1"]
static bool read_pair(const json_t *pair, double *ret_value, int64_t *ret_ms)
{
    const json_t *t = json_array_get(pair, 0), *v = json_array_get(pair, 1);
    double seconds = json_number_value(t);
    if (!json_is_number(t) || !(fabs(seconds) < 1e12) || !json_is_string(v))
        return false;
    struct gs_error *err = gs_parse_double(gs_slice_of(json_string_value(v)), ret_value);
    gs_error_free(err);
    *ret_ms = (int64_t)(seconds * 1000);
    return !err;
}

// A series with its value or values. One with too many labels is left out.
static struct gs_error *read_series(const json_t *item, struct top_samples *ret)
{
    struct top_label labels[TOP_MAX_LABELS];
    struct top_sample s = {.labels = labels};
    const char *name;
    json_t *value;
    json_object_foreach (json_object_get(item, "metric"), name, value) {
        struct gs_slice text = gs_slice_make(json_string_value(value), json_string_length(value));
        if (!json_is_string(value))
            return gs_error_new(GS_EPROTO, "a series has labels that are no text");
        if (s.n_labels == TOP_MAX_LABELS)
            return NULL;
        if (gs_streq(name, "__name__"))
            s.name = text;
        else
            labels[s.n_labels++] = (struct top_label){gs_slice_of(name), text};
    }
    if (!s.name.len)
        s.name = GS_SLICE(TOP_TIMESTAMP); // the only query without names
    // The time of an instant query is that of the query.
    const json_t *one = json_object_get(item, "value"), *many = json_object_get(item, "values");
    if (one)
        return read_pair(one, &s.value, &s.t_ms) ? (s.t_ms = 0, top_samples_add(ret, &s)) : NULL;
    struct gs_error *err = NULL;
    for (size_t i = 0; i < json_array_size(many) && !err; i++)
        if (read_pair(json_array_get(many, i), &s.value, &s.t_ms))
            err = top_samples_add(ret, &s);
    return err;
}

static struct gs_error *not_prometheus(struct gs_slice body)
{
    GS_AUTO_BUF struct gs_buf shown = {0};
    struct gs_slice line = gs_slice_trim(body);
    line = gs_slice_cut(&line, '\n');
    line.len = line.len > MAX_SHOWN ? MAX_SHOWN : line.len;
    gs_columns_clean(&shown, line);
    return gs_error_new(GS_EPROTO, "the response is not that of a Prometheus: %s",
                        shown.len ? shown.data : "it is empty");
}

struct gs_error *top_source_read_query(struct gs_slice body, struct top_samples *ret)
{
    CODEC_AUTO_JSON json_t *all = NULL;
    GS_AUTO_ERROR struct gs_error *bad = codec_json_parse(body, false, &all);
    const char *status = bad ? NULL : codec_json_str(all, "status", NULL);
    if (!status)
        return not_prometheus(body);
    if (!gs_streq(status, "success")) {
        GS_AUTO_BUF struct gs_buf text = {0};
        gs_columns_clean(&text, gs_slice_of(codec_json_str(all, "error", NULL)));
        return gs_error_new(GS_EIO, "the server reports: %s", text.len ? text.data : "no reason");
    }
    struct gs_error *err = NULL;
    const json_t *list = codec_json_get(all, "data", "result", NULL), *item;
    size_t i;
    json_array_foreach (list, i, item) {
        err = read_series(item, ret);
        if (err)
            break;
    }
    return err;
}

// --- refreshing ---

static void finish_refresh(struct http_source *s)
{
    struct gs_error *err = GS_TAKE(s->err);
    bool past = !err && s->past.len > 0;
    s->has_past |= !err;
    s->done(s->arg, err ? NULL : &s->samples, past ? &s->past : NULL, err);
}

static struct gs_error *read_reply(struct top_fetch *f, const struct http_response *r)
{
    struct http_source *s = f->source;
    struct top_samples *to = f->past ? &s->past : &s->samples;
    if (f->exposition && r->status != 200)
        return gs_error_new(GS_EUNAVAIL, "status %d%s%s", r->status,
                            *http_reason(r->status) ? " " : "", http_reason(r->status));
    if (!f->exposition && r->status / 100 != 2 && !gs_slice_starts(gs_slice_trim(r->body), "{"))
        return gs_error_new(GS_EUNAVAIL, "status %d%s%s%s", r->status,
                            *http_reason(r->status) ? " " : "", http_reason(r->status),
                            r->status == 404 ? ": this is no engine or Prometheus; an exporter "
                                               "needs --exporter"
                                             : "");
    return f->exposition ? top_source_read_exposition(r->body, to)
                         : top_source_read_query(r->body, to);
}

static void on_reply(void *arg, const struct http_response *r, struct gs_error *err)
{
    struct top_fetch *f = arg;
    struct http_source *s = f->source;
    f->op = NULL;
    if (!err && (err = read_reply(f, r)))
        err = gs_error_wrap(err, "%s", s->is.name);
    if (f->past || s->err) // the past is not needed
        gs_error_free(err);
    else
        s->err = err;
    if (--s->waiting == 0)
        finish_refresh(s);
}

// form: parameters, which are sent by POST because some proxies limit the length of URLs. Empty: a
// GET request.
static void fetch(struct http_source *s, const char *path, struct gs_slice form, bool past)
{
    static const struct http_callbacks cb = {.on_done = on_reply};
    static const struct http_header accept[] = {{"Accept", "text/plain;version=0.0.4"}, {0}};
    struct top_fetch *f = &s->fetches[s->n_fetches++];
    struct http_request request = {.path = path,
                                   .method = form.len ? "POST" : "GET",
                                   .headers = form.len ? NULL : accept,
                                   .body = form,
                                   .content_type =
                                       form.len ? "application/x-www-form-urlencoded" : NULL,
                                   .timeout_ms = s->timeout_ms,
                                   .max_reply = MAX_REPLY};
    *f = (struct top_fetch){.source = s, .past = past, .exposition = !form.len};
    f->op = http_send(s->client, &request, &cb, f);
}

static void begin(struct http_source *s, top_source_done done, void *arg, size_t n)
{
    top_samples_finish(&s->samples);
    top_samples_finish(&s->past);
    s->done = done;
    s->arg = arg;
    s->n_fetches = 0;
    s->waiting = n;
}

static void refresh_exporter(struct top_source *source, top_source_done done, void *arg)
{
    struct http_source *s = (struct http_source *)source;
    begin(s, done, arg, 1);
    fetch(s, s->path, GS_SLICE(""), false);
}

static void query(struct http_source *s, const char *expr)
{
    GS_AUTO_BUF struct gs_buf form = {0};
    gs_buf_add_str(&form, "query=");
    http_encode(gs_slice_of(expr), &form);
    fetch(s, "/api/v1/query", gs_buf_slice(&form), false);
}

static void query_past(struct http_source *s, const char *expr)
{
    GS_AUTO_BUF struct gs_buf form = {0};
    int64_t end_ms = gs_unix_ms() / s->interval_ms * s->interval_ms;
    double step = (double)s->interval_ms / 1000;
    gs_buf_add_str(&form, "query=");
    http_encode(gs_slice_of(expr), &form);
    gs_buf_addf(&form, "&start=%.3f&end=%.3f&step=%.3f",
                (double)end_ms / 1000 - step * (TOP_HISTORY - 1), (double)end_ms / 1000, step);
    fetch(s, "/api/v1/query_range", gs_buf_slice(&form), true);
}

// Resources that count whole devices, shares of time slicing and MIG devices.
#define REQUESTS                                                                                   \
    "kube_pod_container_resource_requests{resource=~\"nvidia_com_(gpu|gpu_shared|mig_.+)\"}"

// Of dcgm-exporter up to 4.8, and from 4.9 on.
#define NAMES "DCGM_FI_DEV_FB_USED or DCGM_FI_DEV_GPU_UTIL or DCGM_FI_DEV_FB_USED_BYTES"
#define UTIL(matchers)                                                                             \
    "(DCGM_FI_DEV_GPU_UTIL" matchers " or DCGM_FI_DEV_GPU_UTIL_RATIO" matchers " * 100)"

// The label pod without exported_pod may be that of the exporter, which is also a label of up.
#define PODS_UTIL                                                                                  \
    "avg by (namespace, pod, exported_namespace, exported_pod) (" UTIL(                            \
        "{exported_pod!=\"\"}") " or " UTIL("{exported_pod=\"\"}") NOT_OF_EXPORTERS ")"
#define NOT_OF_EXPORTERS " unless on (job, instance, namespace, pod) up"

// The targets of GPU exporters that are pods, and what their pods are.
#define EXPORTERS     "(up{pod!=\"\"} and on (job, instance) (" NAMES "))"
#define EXPORTER_PODS "kube_pod_info and on (namespace, pod) " EXPORTERS

static void refresh_prometheus(struct top_source *source, top_source_done done, void *arg)
{
    struct http_source *s = (struct http_source *)source;
    GS_AUTO_BUF struct gs_buf metrics = {0};
    bool past = !s->has_past;
    begin(s, done, arg, N_QUERIES + (past ? N_PAST : 0));
    gs_buf_add_str(&metrics, "{__name__=~\"");
    top_model_metrics(&metrics);
    gs_buf_add_str(&metrics, "\"}");
    query(s, metrics.data);
    query(s, "timestamp(DCGM_FI_DEV_FB_USED) or timestamp(DCGM_FI_DEV_GPU_UTIL) or "
             "timestamp(DCGM_FI_DEV_FB_USED_BYTES)");
    query(s, REQUESTS);
    query(s, "({__name__=~\"kube_pod_info|kube_pod_created|kube_pod_status_phase|"
             "kube_pod_container_status_waiting_reason\"} > 0) and on (namespace, pod) " REQUESTS);
    query(s, EXPORTERS);
    query(s, EXPORTER_PODS);
    query(s, "{__name__=~\"gpuscale_inference_(waiting|running|kv_used_ratio)\"}");
    if (!past)
        return;
    query_past(s, UTIL("") " or DCGM_FI_PROF_GR_ENGINE_ACTIVE{GPU_I_ID!=\"\"} * 100 or "
                           "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO{GPU_I_ID!=\"\"} * 100");
    query_past(s, PODS_UTIL);
}

// --- creation ---

static void source_free(struct top_source *source)
{
    struct http_source *s = (struct http_source *)source;
    for (size_t i = 0; i < s->n_fetches; i++)
        http_op_cancel(s->fetches[i].op);
    http_client_free(s->client);
    endpoint_file_free(s->file);
    top_samples_finish(&s->samples);
    top_samples_finish(&s->past);
    gs_arena_finish(&s->mem);
    gs_error_free(s->err);
    free(s->path);
    free(s->is.name);
    free(s);
}

static struct gs_error *open_client(struct http_source *s, uv_loop_t *loop,
                                    const struct top_options *o, const char *url,
                                    const struct endpoint_settings *of_service)
{
    struct endpoint_settings settings = {.follow_redirects = true, .proxy_from_environment = true};
    static const struct endpoint_options options = {0};
    GS_AUTO_FREE char *name = NULL;
    struct gs_error *err =
        o->http_config_file ? endpoint_file_load(o->http_config_file, &s->file) : NULL;
    if (err)
        return err;
    if (s->file)
        settings = *endpoint_file_settings(s->file);
    else if (of_service)
        settings = *of_service;
    err = endpoint_add_headers(&settings, o->headers.items, o->headers.len, &s->mem);
    if (!err)
        err = endpoint_client_open(loop, url, &settings, &options, &s->client, &name);
    if (err)
        return err;
    GS_AUTO_BUF struct gs_buf clean = {0};
    gs_columns_clean(&clean, gs_slice_of(name));
    s->is.name = gs_format("%s%s", clean.data, s->path ? s->path : "");
    return NULL;
}

static struct gs_error *new_source(uv_loop_t *loop, const struct top_options *o, const char *url,
                                   const struct endpoint_settings *of_service,
                                   const struct top_source_ops *ops, char *path,
                                   int64_t interval_ms, struct top_source **ret)
{
    struct http_source *s = gs_alloc(sizeof(*s));
    s->is.ops = ops;
    s->path = path;
    s->interval_ms = interval_ms > 0 ? interval_ms : 1;
    s->timeout_ms = o->timeout_ns / GS_NS_PER_MS;
    struct gs_error *err = open_client(s, loop, o, url, of_service);
    if (err)
        source_free(&s->is);
    else
        *ret = &s->is;
    return err;
}

struct gs_error *top_source_exporter_new(uv_loop_t *loop, const struct top_options *o,
                                         const char *url, struct top_source **ret)
{
    static const struct top_source_ops ops = {refresh_exporter, source_free};
    GS_AUTO_FREE char *full = strstr(url, "://") ? gs_strdup(url) : gs_format("http://%s", url);
    char *host = strstr(full, "://") + strlen("://"), *slash = strchr(host, '/');
    char *path = gs_strdup(slash && slash[1] ? slash : "/metrics");
    if (slash)
        *slash = '\0';
    return new_source(loop, o, full, NULL, &ops, path, 0, ret);
}

struct gs_error *top_source_prometheus_new(uv_loop_t *loop, const struct top_options *o,
                                           const char *url,
                                           const struct endpoint_settings *of_service,
                                           int64_t interval_ms, struct top_source **ret)
{
    static const struct top_source_ops ops = {refresh_prometheus, source_free};
    GS_AUTO_FREE char *full = strstr(url, "://") ? gs_strdup(url) : gs_format("http://%s", url);
    size_t n = strlen(full);
    while (n && full[n - 1] == '/')
        full[--n] = '\0';
    return new_source(loop, o, full, of_service, &ops, NULL, interval_ms, ret);
}
