// SPDX-License-Identifier: Apache-2.0
// Was a pod used within a time? A gauge of the moment does not know: a short request between two
// evaluations leaves no trace in it. Maxima and increases over the whole time do. A pod counts as
// unused only if its series reach from then to now, because missing samples are not zero.
#include "hpa_controller/zero_query.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"
#include "hpa_controller/query_text.h"

#include <math.h>

#define BUSY_PERCENT 1 // as in the ledger

// --- the query ---

enum of {
    REQUESTS,
    QUEUE,
    TOKENS,
    PROMPTS,
    PROCESS,
    GPU,
    GPU_EXPORTED,
    ENGINE_THEN,
    GPU_THEN,
    GPU_EXPORTED_THEN,
    HELD,
    OPEN,
    ARRIVALS,
    N_OF
};

enum labels { OF_POD, OF_PROCESS, OF_EXPORTED, OF_SERVICE };

static const struct {
    const char *metric, *function; // NULL: the value at the begin of the time
    enum labels labels;
} rows[N_OF] = {
    [REQUESTS] = {"gpuscale_inference_running", "max_over_time", OF_POD},
    [QUEUE] = {"gpuscale_inference_waiting", "max_over_time", OF_POD},
    [TOKENS] = {"gpuscale_inference_generation_tokens_total", "increase", OF_POD},
    [PROMPTS] = {"gpuscale_inference_prompt_tokens_total", "increase", OF_POD},
    [PROCESS] = {"DCGM_CUSTOM_PROCESS_SM_UTIL", "max_over_time", OF_PROCESS},
    [GPU] = {"DCGM_FI_DEV_GPU_UTIL", "max_over_time", OF_POD},
    [GPU_EXPORTED] = {"DCGM_FI_DEV_GPU_UTIL", "max_over_time", OF_EXPORTED},
    [ENGINE_THEN] = {"gpuscale_inference_running", NULL, OF_POD},
    [GPU_THEN] = {"DCGM_FI_DEV_GPU_UTIL", NULL, OF_POD},
    [GPU_EXPORTED_THEN] = {"DCGM_FI_DEV_GPU_UTIL", NULL, OF_EXPORTED},
    [HELD] = {"gpuscale_activator_waiting", "max_over_time", OF_SERVICE},
    [OPEN] = {"gpuscale_activator_open", "max_over_time", OF_SERVICE},
    [ARRIVALS] = {"gpuscale_activator_arrivals_total", "increase", OF_SERVICE},
};

static const struct {
    const char *ns, *name;
} label_names[] = {
    [OF_POD] = {"namespace", "pod"},
    [OF_PROCESS] = {"NamespaceName", "PodName"},
    [OF_EXPORTED] = {"exported_namespace", "exported_pod"},
    [OF_SERVICE] = {"namespace", "service"},
};

static void add_selector(const struct hpa_zero_query *q, enum of of, struct gs_buf *out)
{
    bool service = rows[of].labels == OF_SERVICE;
    gs_buf_addf(out, "%s{%s=\"%s\",%s=~\"", rows[of].metric, label_names[rows[of].labels].ns, q->ns,
                label_names[rows[of].labels].name);
    hpa_query_names(service ? q->services : q->pods, service ? q->n_services : q->n_pods, out);
    gs_buf_add_str(out, "\"}");
}

// At the begin of the time, of series that still have samples: those that have ended say nothing
// about the time since then.
static void add_then(const struct hpa_zero_query *q, enum of of, long long ms, struct gs_buf *out)
{
    gs_buf_addf(out, " offset %lldms and on (%s, %s) ", ms, label_names[rows[of].labels].ns,
                label_names[rows[of].labels].name);
    add_selector(q, of, out);
}

// One value for each pod or Service.
static void add_row(const struct hpa_zero_query *q, enum of of, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf row = {0};
    const char *name = label_names[rows[of].labels].name;
    long long ms = (long long)q->after_ms;
    gs_buf_addf(&row, "max by (%s) (", name);
    if (rows[of].function)
        gs_buf_addf(&row, "%s(", rows[of].function);
    add_selector(q, of, &row);
    if (rows[of].function)
        gs_buf_addf(&row, "[%lldms])", ms);
    else
        add_then(q, of, ms, &row);
    gs_buf_add_char(&row, ')');
    hpa_query_add_row(row.data, name, (int)of, out);
}

void hpa_zero_expression(const struct hpa_zero_query *q, struct gs_buf *out)
{
    for (int of = 0; of < N_OF; of++)
        if (rows[of].labels == OF_SERVICE ? q->n_services > 0 : q->n_pods > 0)
            add_row(q, (enum of)of, out);
}

// --- the response ---

struct used {
    double v[N_OF]; // NAN: absent
};

// The values about one pod or Service.
static struct used read_used(const json_t *response, const char *name, bool service)
{
    const json_t *result = codec_json_get(response, "data", "result", NULL), *series;
    struct used out;
    size_t i;
    for (size_t k = 0; k < N_OF; k++)
        out.v[k] = NAN;
    json_array_foreach ((json_t *)result, i, series) {
        int of = hpa_query_row_of(series, N_OF);
        if (of >= 0 && (rows[of].labels == OF_SERVICE) == service &&
            gs_streq(codec_json_str(series, "metric", "name", NULL), name))
            out.v[of] = codec_json_sample(series);
    }
    return out;
}

static bool any(const struct used *u, const enum of *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (u->v[list[i]] > 0)
            return true;
    return false;
}

static double busiest(const struct used *u)
{
    return isnan(u->v[PROCESS]) ? fmax(u->v[GPU], u->v[GPU_EXPORTED]) : u->v[PROCESS];
}

// NULL: it was not used.
static char *use_of_service(const char *name, const struct used *u, const char *after)
{
    static const enum of signs[] = {HELD, OPEN, ARRIVALS};
    return any(u, signs, GS_ARRAY_LEN(signs))
               ? gs_format("Service %s had requests within %s", name, after)
               : NULL;
}

// NULL: it was not used.
static char *use_of_pod(const char *name, const struct used *u, const char *after)
{
    static const enum of signs[] = {REQUESTS, QUEUE, TOKENS, PROMPTS};
    double percent = busiest(u);
    if (any(u, signs, GS_ARRAY_LEN(signs)))
        return gs_format("pod %s had requests within %s", name, after);
    if (percent >= BUSY_PERCENT)
        return gs_format("%s of pod %s used %.0f %% within %s",
                         isnan(u->v[PROCESS]) ? "the GPU" : "a process on the GPU", name, percent,
                         after);
    if (isnan(u->v[ENGINE_THEN]) && isnan(u->v[GPU_THEN]) && isnan(u->v[GPU_EXPORTED_THEN]))
        return gs_format("the samples of pod %s do not reach back %s", name, after);
    return NULL;
}

static const char *unused_text(bool requests, bool gpu)
{
    if (!gpu)
        return "no request";
    return requests ? "no request and no busy process on a GPU" : "no busy process on a GPU";
}

char *hpa_zero_verdict(const struct hpa_zero_query *q, const json_t *response, bool *ret_held)
{
    char after[GS_RFC3339_SIZE], *use = NULL;
    bool requests = q->n_services > 0, gpu = false;
    gs_format_units(q->after_ms * GS_NS_PER_MS, after);
    *ret_held = true;
    if (!json_is_array(codec_json_get(response, "data", "result", NULL)))
        return gs_strdup("not a response of Prometheus");
    for (size_t i = 0; !use && i < q->n_services; i++) {
        const struct used u = read_used(response, q->services[i], true);
        use = use_of_service(q->services[i], &u, after);
    }
    for (size_t i = 0; !use && i < q->n_pods; i++) {
        const struct used u = read_used(response, q->pods[i], false);
        requests = requests || !isnan(u.v[REQUESTS]);
        gpu = gpu || !isnan(busiest(&u));
        use = use_of_pod(q->pods[i], &u, after);
    }
    *ret_held = use != NULL;
    return use ? use : gs_format("%s for %s", unused_text(requests, gpu), after);
}

// --- over HTTP ---

struct hpa_zero_fetch {
    struct http_op *op;
    struct hpa_zero_query query;
    char *ns, **names; // copies: pods, then Services
    size_t n_names;
    void (*cb)(void *arg);
    void *arg;
    char *text;
    bool held, done;
};

static void read_response(struct hpa_zero_fetch *f, const struct http_response *a)
{
    CODEC_AUTO_JSON json_t *body = NULL;
    GS_AUTO_ERROR struct gs_error *err = codec_json_parse(a->body, false, &body);
    f->held = true;
    if (a->status == 200 && !err) {
        f->text = hpa_zero_verdict(&f->query, body, &f->held);
        return;
    }
    GS_AUTO_FREE char *why = hpa_query_refused(a->status, body);
    f->text = gs_format("its use is unknown: %s", why);
}

static void on_done(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct hpa_zero_fetch *f = arg;
    f->op = NULL;
    f->done = true;
    f->held = true;
    if (err)
        f->text = gs_format("its use is unknown: %s", gs_error_message(err));
    else
        read_response(f, a);
    gs_error_free(err);
    f->cb(f->arg);
}

static void copy_query(struct hpa_zero_fetch *f, const struct hpa_zero_query *q)
{
    f->query = *q;
    f->query.ns = f->ns = gs_strdup(q->ns);
    f->n_names = q->n_pods + q->n_services;
    f->names = gs_alloc_array(f->n_names + 1, sizeof(*f->names));
    for (size_t i = 0; i < f->n_names; i++)
        f->names[i] = gs_strdup(i < q->n_pods ? q->pods[i] : q->services[i - q->n_pods]);
    f->query.pods = (const char *const *)f->names;
    f->query.services = (const char *const *)(f->names + q->n_pods);
}

struct hpa_zero_fetch *hpa_zero_fetch_start(struct http_client *engine,
                                            const struct hpa_zero_query *q, void (*cb)(void *arg),
                                            void *arg)
{
    struct hpa_zero_fetch *f = gs_alloc(sizeof(*f));
    GS_AUTO_BUF struct gs_buf expression = {0};
    const struct http_callbacks callbacks = {.on_done = on_done};
    copy_query(f, q);
    f->cb = cb;
    f->arg = arg;
    hpa_zero_expression(q, &expression);
    f->op = hpa_query_send(engine, &expression, &callbacks, f);
    return f;
}

bool hpa_zero_fetch_finished(const struct hpa_zero_fetch *f)
{
    return f->done;
}

const char *hpa_zero_fetch_text(const struct hpa_zero_fetch *f, bool *ret_held)
{
    *ret_held = f->held;
    return f->text;
}

void hpa_zero_fetch_free(struct hpa_zero_fetch *f)
{
    if (!f)
        return;
    http_op_cancel(f->op);
    for (size_t i = 0; i < f->n_names; i++)
        free(f->names[i]);
    free(f->names);
    free(f->ns);
    free(f->text);
    free(f);
}
