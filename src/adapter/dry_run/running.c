// SPDX-License-Identifier: Apache-2.0
// `gpuscale explain metric PATH` without a configuration: requests the explanation from the adapter
// of the cluster, which uses its own rules, sources and cluster.
#include "adapter/dry_run/dry_run_private.h"

#include "adapter/api/api.h"
#include "adapter/api/path.h"
#include "base/mem.h"
#include "kube/session.h"

#include <math.h>
#include <stdio.h>

enum { TIMEOUT_MS = 15000 };
#define MAX_BODY ((size_t)8 * 1024 * 1024)

struct fetch {
    bool done;
    int status;
    struct gs_error *err;
    struct gs_buf body;
};

static void on_fetched(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct fetch *f = arg;
    f->done = true;
    f->err = err;
    if (err)
        return;
    f->status = a->status;
    gs_buf_add_slice(&f->body, a->body);
}

// METRIC is that of all pods; RESOURCE/METRIC and RESOURCE/NAME/METRIC are in the namespace, too.
static char *full_path(const char *arg, const char *ns)
{
    if (*arg == '/')
        return gs_strdup(arg);
    const char *slash = strchr(arg, '/');
    const char *prefix = "/apis/" ADAPTER_API_CUSTOM "/v1beta1/namespaces";
    if (!slash)
        return gs_format("%s/%s/pods/*/%s", prefix, ns, arg);
    if (strchr(slash + 1, '/'))
        return gs_format("%s/%s/%s", prefix, ns, arg);
    return gs_format("%s/%s/%.*s/*%s", prefix, ns, (int)(slash - arg), arg, slash);
}

static struct gs_error *fetch(struct kube_session *s, const char *path, struct fetch *ret)
{
    GS_AUTO_FREE char *full = gs_format("%s%cexplain=true", path, strchr(path, '?') ? '&' : '?');
    const struct http_request request = {
        .path = full, .timeout_ms = TIMEOUT_MS, .max_reply = MAX_BODY};
    const struct http_callbacks cb = {.on_done = on_fetched};
    struct http_op *op = http_send(kube_client_http(s->client), &request, &cb, ret);
    struct gs_error *err = kube_session_wait(s, &ret->done, TIMEOUT_MS + 1000);
    if (err)
        http_op_cancel(op);
    return err ? err : GS_TAKE(ret->err);
}

// --- output ---

static void print_steps(const json_t *answer)
{
    size_t i;
    const json_t *item;
    json_array_foreach (json_object_get(answer, "steps"), i, item)
        printf("%s\n", json_string_value(item));
    json_array_foreach (json_object_get(answer, "values"), i, item) {
        const json_t *value = json_object_get(item, "value");
        dry_run_print_value(value ? json_number_value(value) : NAN,
                            codec_json_str(item, "object", NULL));
    }
    const char *cause = codec_json_str(answer, "cause", NULL);
    const char *other = codec_json_str(answer, "passedOnTo", NULL);
    printf("answer  %s%s%s\n", codec_json_str(answer, "outcome", NULL), cause ? ": " : "",
           cause ? cause : "");
    if (other)
        printf("        the request is passed on to %s\n", other);
}

// The response of another adapter, or of the API server.
static void print_foreign(int status, const json_t *answer)
{
    const char *message = codec_json_str(answer, "message", NULL);
    printf("answer  %d%s%s\n", status, message ? ": " : "", message ? message : "");
    if (status == 200)
        printf("        %zu items\n", json_array_size(json_object_get(answer, "items")));
    printf("note    gpuscale's adapter did not answer, so the rule and the query are not known: "
           "--config=FILE --source=URL evaluates a configuration\n");
}

struct gs_error *dry_run_explain_running(const struct dry_run_explain_options *o, const char *arg,
                                         int *ret_exit)
{
    struct kube_session s;
    struct fetch f = {0};
    CODEC_AUTO_JSON json_t *answer = NULL;
    GS_AUTO_FREE char *path = NULL;
    struct gs_error *err = kube_session_open(&s, o->kubeconfig, o->context, "explain");
    if (!err) {
        path = full_path(arg, o->ns ? o->ns : s.ns);
        err = fetch(&s, path, &f);
    }
    if (!err)
        gs_error_free(codec_json_parse(gs_buf_slice(&f.body), false, &answer)); // a text page
    if (!err) {
        printf("request %s\nsource  the adapter of %s\n", path, s.connection.server);
        bool ours = gs_streq(codec_json_str(answer, "kind", NULL), ADAPTER_API_EXPLANATION);
        if (ours)
            print_steps(answer);
        else
            print_foreign(f.status, answer);
        const char *outcome = ours ? codec_json_str(answer, "outcome", NULL) : NULL;
        *ret_exit = (ours ? gs_streq(outcome, "200") : f.status == 200) ? 0 : 1;
    }
    gs_buf_finish(&f.body);
    kube_session_close(&s);
    return err;
}
