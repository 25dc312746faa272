// SPDX-License-Identifier: Apache-2.0
// The files of a service account for the engine, which is no pod: monitors of charts name the files
// that a pod has below /var/run/secrets. The token is requested again long before it expires.
#include "local/operator/operator_private.h"

#include "base/backoff.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

#define LIFETIME_S    86400
#define RENEW_MS      (3600 * 1000)
#define RETRY_MS      1000
#define RETRY_LAST_MS 60000

struct operator_account {
    struct local_cluster *cluster;
    const char *dir; // borrowed
    char *ns, *name;
    struct kube_request *request;
    struct gs_timer *timer;
    int64_t retry_ms; // 0: the last request succeeded
};

static void write_text(const struct operator_account *a, const char *file, const char *text)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", a->dir, file);
    GS_AUTO_ERROR struct gs_error *err = gs_file_write_atomic(path, 0600, gs_slice_of(text));
    if (err)
        gs_warn("up", "the service account of the engine: %s", gs_error_message(err));
}

static void request_token(void *arg);

static void on_token(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct operator_account *a = arg;
    const char *token = codec_json_str(body, "status", "token", NULL);
    (void)status;
    a->request = NULL;
    if (err || !token) {
        // A chart's account may be created after its Prometheus object.
        a->retry_ms = gs_backoff_next(a->retry_ms, RETRY_MS, RETRY_LAST_MS);
        gs_timer_start(a->timer, request_token, (uint64_t)a->retry_ms);
        gs_error_free(err);
        return;
    }
    write_text(a, "namespace", a->ns);
    write_text(a, "token", token);
    a->retry_ms = 0;
    gs_timer_start(a->timer, request_token, RENEW_MS);
}

static void request_token(void *arg)
{
    struct operator_account *a = arg;
    CODEC_AUTO_JSON json_t *body =
        json_pack("{s:s, s:s, s:{s:i}}", "apiVersion", "authentication.k8s.io/v1", "kind",
                  "TokenRequest", "spec", "expirationSeconds", LIFETIME_S);
    kube_request_cancel(a->request);
    a->request = kube_create_sub(a->cluster->client, KUBE_SERVICEACCOUNTS, a->ns, a->name, "token",
                                 body, on_token, a);
}

void operator_account_set(struct operator_account *a, const char *ns, const char *name)
{
    if (gs_streq(a->ns, ns) && gs_streq(a->name, name))
        return;
    char *new_ns = gs_strdup(ns), *new_name = gs_strdup(name);
    free(a->ns);
    free(a->name);
    a->ns = new_ns;
    a->name = new_name;
    a->retry_ms = 0;
    gs_timer_start(a->timer, request_token, 0);
}

struct operator_account *operator_account_new(struct local_cluster *c, const char *dir,
                                              const char *ca_pem)
{
    struct operator_account *a = gs_alloc(sizeof(*a));
    *a = (struct operator_account){.cluster = c, .dir = dir};
    a->timer = gs_timer_new(c->loop, a);
    gs_timer_unref(a->timer);
    GS_AUTO_ERROR struct gs_error *err = gs_mkdir_p(dir, 0700);
    if (err)
        gs_warn("up", "the service account of the engine: %s", gs_error_message(err));
    if (ca_pem)
        write_text(a, "ca.crt", ca_pem);
    operator_account_set(a, "default", "default");
    return a;
}

void operator_account_free(struct operator_account *a)
{
    if (!a)
        return;
    kube_request_cancel(a->request);
    gs_timer_free(a->timer);
    free(a->ns);
    free(a->name);
    free(a);
}
