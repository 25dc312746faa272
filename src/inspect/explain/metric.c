// SPDX-License-Identifier: Apache-2.0
// `gpuscale explain metric`: requests the explanation of a metric from the adapter of the cluster,
// which uses its own rules, sources and cluster, and says what a metric of pods without a value
// lacks.
#include "explain/explain_private.h"

#include "adapter/api/api.h"
#include "adapter/api/path.h"
#include "base/mem.h"
#include "base/num.h"
#include "diagnosis/metric.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "net/http/http.h"

#include <math.h>

#define CUSTOM_PREFIX "/apis/" ADAPTER_API_CUSTOM "/v1beta1/namespaces"

static const struct kube_gvr PODS = {"", "v1", "pods"};

// --- requests ---

struct raw {
    bool done;
    json_t *body; // NULL: an error
    struct gs_error *err;
};

static void on_explanation(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct raw *r = arg;
    (void)status;
    r->done = true;
    r->err = err;
    r->body = err ? NULL : json_incref(body);
}

// *ret: the response, new reference; NULL: the adapter is not gpuscale's, or reports an error.
static struct gs_error *fetch_explanation(struct kube_session *s, const char *path, json_t **ret,
                                          struct gs_error **ret_answer)
{
    GS_AUTO_FREE char *full = gs_format("%s%cexplain=true", path, strchr(path, '?') ? '&' : '?');
    struct raw r = {0};
    struct kube_request *request = kube_raw_get(s->client, full, on_explanation, &r);
    struct gs_error *err = kube_session_wait(s, &r.done, EXPLAIN_TIMEOUT_MS);
    if (err) {
        kube_request_cancel(request);
        return err;
    }
    if (!r.err || gs_error_code(r.err) == GS_ENOTFOUND) {
        *ret = r.body;
        *ret_answer = r.err;
        return NULL;
    }
    return r.err;
}

static bool is_ours(const json_t *answer)
{
    return gs_streq(codec_json_str(answer, "kind", NULL), ADAPTER_API_EXPLANATION);
}

// --- the pods ---

// A pod that the selector selects; new reference. NULL: none.
static json_t *one_pod(struct kube_session *s, const char *ns, const char *selector)
{
    GS_AUTO_BUF struct gs_buf query = {0};
    CODEC_AUTO_JSON json_t *list = NULL;
    gs_buf_add_str(&query, "limit=1");
    if (selector && *selector) {
        gs_buf_add_str(&query, "&labelSelector=");
        http_encode(gs_slice_of(selector), &query);
    }
    gs_error_free(kube_session_list(s, PODS, ns, query.data, EXPLAIN_TIMEOUT_MS, &list));
    return json_incref(json_array_get(json_object_get(list, "items"), 0));
}

json_t *explain_metric_diagnosis(struct kube_session *s, const struct explain_metric_of *of)
{
    GS_AUTO_BUF struct gs_buf path = {0};
    CODEC_AUTO_JSON json_t *answer = NULL;
    GS_AUTO_ERROR struct gs_error *unanswered = NULL;
    gs_buf_addf(&path, CUSTOM_PREFIX "/%s/pods/*/", of->ns);
    http_encode(gs_slice_of(of->metric), &path);
    gs_buf_add_str(&path, "?labelSelector=");
    http_encode(gs_slice_of(of->selector ? of->selector : ""), &path);
    GS_AUTO_ERROR struct gs_error *err = fetch_explanation(s, path.data, &answer, &unanswered);
    CODEC_AUTO_JSON json_t *series =
        err ? NULL : diagnosis_metric_series(json_object_get(answer, "podSeries"));
    if (!series)
        return NULL;
    return explain_metric_diagnosis_json(of, series);
}

json_t *explain_metric_diagnosis_json(const struct explain_metric_of *of, const json_t *series)
{
    const struct diagnosis_metric_input in = {.metric = of->metric,
                                              .ns = of->ns,
                                              .kind = of->kind,
                                              .name = of->name,
                                              .pod = of->pod,
                                              .series = series};
    struct diagnosis_metric d;
    diagnosis_metric_of(&in, &d);
    json_t *out = json_object();
    codec_json_set_str(out, "state", diagnosis_metric_state_name(d.state));
    codec_json_set_str(out, "text", d.text);
    codec_json_set_str(out, "evidence", d.evidence);
    codec_json_set_str(out, "fix", d.fix);
    diagnosis_metric_finish(&d);
    return out;
}

// --- output ---

static void add_value(struct gs_buf *out, const json_t *item)
{
    char text[GS_DOUBLE_SIZE], quantity[KUBE_QUANTITY_SIZE];
    const json_t *value = json_object_get(item, "value");
    const char *object = codec_json_str(item, "object", NULL);
    double v = value ? json_number_value(value) : NAN;
    int64_t milli;
    bool ok = kube_quantity_from_double(v, &milli);
    gs_buf_addf(out, "value   %s (%s)%s%s%s\n",
                ok ? kube_quantity_format_milli(milli, quantity) : "none",
                gs_format_double(v, text), object ? " of " : "", object ? object : "",
                ok ? "" : ": not a number that is served");
}

static void add_indented(struct gs_buf *out, const char *name, const char *text)
{
    struct gs_slice rest = gs_slice_of(text);
    while (rest.data) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        gs_buf_addf(out, "%-8s" GS_SLICE_FMT "\n", name, GS_SLICE_ARG(line));
        name = "";
    }
}

void explain_metric_add_diagnosis(const json_t *d, struct gs_buf *out)
{
    static const char *const keys[][2] = {{"why", "text"}, {"because", "evidence"}, {"fix", "fix"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++) {
        const char *text = codec_json_str(d, keys[i][1], NULL);
        if (text)
            add_indented(out, keys[i][0], text);
    }
}

static void add_steps(const json_t *answer, struct gs_buf *out)
{
    size_t i;
    const json_t *item;
    json_array_foreach (json_object_get(answer, "steps"), i, item)
        gs_buf_addf(out, "%s\n", json_string_value(item));
    json_array_foreach (json_object_get(answer, "values"), i, item)
        add_value(out, item);
    const char *cause = codec_json_str(answer, "cause", NULL);
    const char *other = codec_json_str(answer, "passedOnTo", NULL);
    gs_buf_addf(out, "answer  %s%s%s\n", codec_json_str(answer, "outcome", NULL), cause ? ": " : "",
                cause ? cause : "");
    if (other)
        gs_buf_addf(out, "        the request is passed on to %s\n", other);
}

// The response of another adapter, or of the API server.
static void add_foreign(const json_t *answer, const struct gs_error *err, struct gs_buf *out)
{
    if (err)
        gs_buf_addf(out, "answer  404: %s\n", gs_error_message(err));
    else
        gs_buf_addf(out, "answer  200: %zu items\n",
                    json_array_size(json_object_get(answer, "items")));
    gs_buf_add_str(out, "note    the adapter of this cluster is not gpuscale's, so the rule and "
                        "the query are not known: --config=FILE --source=URL evaluates a "
                        "configuration\n");
}

// --- the command ---

// METRIC is that of all pods; RESOURCE/METRIC and RESOURCE/NAME/METRIC are in the namespace, too.
static char *full_path(const char *arg, const char *ns)
{
    const char *slash = strchr(arg, '/');
    if (slash == arg)
        return gs_strdup(arg);
    if (!slash)
        return gs_format(CUSTOM_PREFIX "/%s/pods/*/%s", ns, arg);
    if (strchr(slash + 1, '/'))
        return gs_format(CUSTOM_PREFIX "/%s/%s", ns, arg);
    return gs_format(CUSTOM_PREFIX "/%s/%.*s/*%s", ns, (int)(slash - arg), arg, slash);
}

static void add_diagnosis(struct kube_session *s, const char *path, const json_t *answer,
                          struct gs_buf *out)
{
    struct adapter_api_path p = {0};
    GS_AUTO_FREE char *bare = gs_strndup(path, strcspn(path, "?"));
    GS_AUTO_ERROR struct gs_error *err = adapter_api_path_read(bare, &p);
    CODEC_AUTO_JSON json_t *series = diagnosis_metric_series(json_object_get(answer, "podSeries"));
    if (!err && series) {
        CODEC_AUTO_JSON json_t *pod = one_pod(s, p.object_ns, NULL);
        const struct explain_metric_of of = {p.object_ns, "Namespace", p.object_ns,
                                             p.metric,    NULL,        pod};
        CODEC_AUTO_JSON json_t *d = explain_metric_diagnosis_json(&of, series);
        explain_metric_add_diagnosis(d, out);
    }
    adapter_api_path_finish(&p);
}

struct gs_error *explain_metric(const struct explain_cluster *o, const char *arg,
                                struct gs_buf *out, int *ret_exit)
{
    struct kube_session s;
    CODEC_AUTO_JSON json_t *answer = NULL;
    GS_AUTO_ERROR struct gs_error *unanswered = NULL;
    GS_AUTO_FREE char *path = NULL;
    struct gs_error *err = kube_session_open(&s, o->kubeconfig, o->context, "explain");
    if (!err) {
        path = full_path(arg, o->ns ? o->ns : s.ns);
        err = fetch_explanation(&s, path, &answer, &unanswered);
    }
    if (!err) {
        bool ours = is_ours(answer);
        gs_buf_addf(out, "request %s\nsource  the adapter of %s\n", path, s.connection.server);
        if (ours)
            add_steps(answer, out);
        else
            add_foreign(answer, unanswered, out);
        add_diagnosis(&s, path, answer, out);
        bool good = ours ? gs_streq(codec_json_str(answer, "outcome", NULL), "200") : !unanswered;
        *ret_exit = good ? 0 : 1;
    }
    kube_session_close(&s);
    return err;
}
