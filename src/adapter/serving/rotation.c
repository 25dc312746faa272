// SPDX-License-Identifier: Apache-2.0
// A check is a chain of steps: read the Secret, write a new certificate to it if needed, update the
// APIServices one by one, serve the certificate. If several replicas renew at the same time, the
// second write is a conflict and its replica uses the certificate of the first. A certificate is
// served only after all APIServices trust its CA. The previous CA stays in their bundles for
// replicas that still serve its certificate.
#include "adapter/serving/serving.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "codec/encoding.h"
#include "kube/secret.h"
#include "net/tls/tls.h"

enum { PERIOD_MS = 60000, RETRY_MS = 5000, DAYS = 365 };

#define APISERVICES ((struct kube_gvr){"apiregistration.k8s.io", "v1", "apiservices"})

static const char *const apiservices[] = {
    "v1beta1.custom.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io",
    "v1beta1.external.metrics.k8s.io", "v1beta1.metrics.k8s.io"};

struct serving_rotation {
    struct serving_rotation_options o;
    char *ns, *service, *secret;
    struct gs_timer *timer;
    struct kube_request *rq;
    char *ca, *cert, *key; // from the Secret
    size_t at;             // index of the next APIService
    bool failed, served;
    char *wrong; // of the last check; NULL: it succeeded
};

static void get_secret(struct serving_rotation *r);
static void get_apiservice(struct serving_rotation *r);

// --- end of a check ---

static void on_rotation_timer(void *arg)
{
    struct serving_rotation *r = arg;
    r->failed = false;
    r->at = 0;
    get_secret(r);
}

static void again(struct serving_rotation *r, int64_t ms)
{
    gs_timer_start(r->timer, on_rotation_timer, (uint64_t)ms);
}

// Takes the error. Logs it once as long as it stays the same.
static void complain(struct serving_rotation *r, struct gs_error *err)
{
    if (!gs_streq(r->wrong, gs_error_message(err)))
        gs_warn("adapter", "serving certificate: %s", gs_error_message(err));
    free(r->wrong);
    r->wrong = gs_strdup(gs_error_message(err));
    gs_error_free(err);
    r->failed = true;
}

static void fail_rotation(struct serving_rotation *r, struct gs_error *err)
{
    complain(r, err);
    again(r, RETRY_MS);
}

static void finish_rotation_check(struct serving_rotation *r)
{
    struct gs_error *err =
        r->failed ? NULL : serving_take(r->o.serving, r->cert, r->key, r->secret);
    if (err)
        complain(r, err);
    if (!r->failed) {
        r->served = true;
        free(GS_TAKE(r->wrong));
    }
    again(r, r->failed ? RETRY_MS : r->o.period_ms ? r->o.period_ms : PERIOD_MS);
}

// --- APIServices ---

static char *decode(const char *base64)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_error_free(base64 ? codec_base64_decode(gs_slice_of(base64), &out) : NULL);
    return gs_buf_take(&out);
}

static char *encode(const char *text)
{
    struct gs_buf out = {0};
    codec_base64_encode(gs_slice_of(text), &out);
    return gs_buf_take(&out);
}

// Returns the first certificate of a bundle, or "" if it has expired. Caller frees.
static char *kept_of(const char *bundle)
{
    static const char end[] = "-----END CERTIFICATE-----\n";
    const char *from = strstr(bundle, "-----BEGIN CERTIFICATE-----");
    const char *to = from ? strstr(from, end) : NULL;
    if (!to)
        return gs_strdup("");
    char *one = gs_strndup(from, (size_t)(to - from) + strlen(end));
    long left = 0;
    struct gs_error *err = tls_cert_seconds_left(one, &left);
    if (err || left <= 0)
        *one = '\0';
    gs_error_free(err);
    return one;
}

static void next_apiservice(struct serving_rotation *r)
{
    if (++r->at < GS_ARRAY_LEN(apiservices))
        get_apiservice(r);
    else
        finish_rotation_check(r);
}

static void on_patched(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct serving_rotation *r = arg;
    r->rq = NULL;
    (void)status;
    (void)body;
    if (err)
        complain(r, gs_error_wrap(err, "the caBundle of APIService %s cannot be written",
                                  apiservices[r->at]));
    else
        gs_info("adapter", "wrote the CA of the serving certificate to APIService %s",
                apiservices[r->at]);
    next_apiservice(r);
}

static void on_apiservice(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct serving_rotation *r = arg;
    r->rq = NULL;
    bool missing = status == 404;
    if (err && !missing)
        complain(r, gs_error_wrap(err, "APIService %s cannot be read", apiservices[r->at]));
    else
        gs_error_free(err);
    bool ours = !err &&
                gs_streq(codec_json_str(body, "spec", "service", "name", NULL), r->service) &&
                gs_streq(codec_json_str(body, "spec", "service", "namespace", NULL), r->ns) &&
                !codec_json_bool(body, false, "spec", "insecureSkipTLSVerify", NULL);
    GS_AUTO_FREE char *bundle =
        ours ? decode(codec_json_str(body, "spec", "caBundle", NULL)) : NULL;
    if (!ours || strstr(bundle, r->ca)) {
        next_apiservice(r);
        return;
    }
    GS_AUTO_FREE char *kept = kept_of(bundle);
    GS_AUTO_FREE char *text = gs_format("%s%s", r->ca, kept);
    GS_AUTO_FREE char *coded = encode(text);
    CODEC_AUTO_JSON json_t *patch = json_pack("{s:{s:s}}", "spec", "caBundle", coded);
    r->rq = kube_patch(r->o.kube, APISERVICES, NULL, apiservices[r->at], NULL, KUBE_MERGE_PATCH,
                       patch, on_patched, r);
}

static void get_apiservice(struct serving_rotation *r)
{
    r->rq = kube_get(r->o.kube, APISERVICES, NULL, apiservices[r->at], NULL, on_apiservice, r);
}

// --- the Secret ---

static char *data_of(const json_t *secret, const char *key)
{
    char *text = kube_secret_text(secret, key);
    return text ? text : gs_strdup("");
}

static void take_secret(struct serving_rotation *r, const json_t *secret)
{
    free(r->ca);
    free(r->cert);
    free(r->key);
    r->ca = data_of(secret, "ca.crt");
    r->cert = data_of(secret, "tls.crt");
    r->key = data_of(secret, "tls.key");
}

// Returns why the Secret's certificate cannot be served. Caller frees; NULL: it can.
static char *unfit(const struct serving_rotation *r)
{
    long left = 0;
    if (!*r->ca || !*r->cert || !*r->key)
        return gs_strdup("the Secret has none");
    struct gs_error *err = tls_check_certificates(r->ca);
    if (!err)
        err = tls_pair_seconds_left(r->cert, r->key, &left);
    char *text = err ? gs_strdup(gs_error_message(err))
                 : left < (long)TLS_RENEW_DAYS * TLS_DAY_S
                     ? gs_format("the one of the Secret expires in %ld days", left / TLS_DAY_S)
                     : NULL;
    gs_error_free(err);
    return text;
}

static struct gs_error *make_rotated_certificate(const struct serving_rotation *r, json_t *secret)
{
    GS_CLEANUP(tls_pair_finish) struct tls_pair ca = {0}, leaf = {0};
    GS_AUTO_FREE char *short_name = gs_format("%s.%s.svc", r->service, r->ns);
    GS_AUTO_FREE char *long_name = gs_format("%s.cluster.local", short_name);
    GS_AUTO_FREE char *ca_name = gs_format("%s-ca@%lld", r->service, (long long)gs_unix_ms());
    const char *names[] = {short_name, long_name};
    const struct tls_leaf want = {
        .common_name = short_name, .dns_names = names, .n_dns_names = 2, .server = 1, .days = DAYS};
    struct gs_error *err = tls_make_ca(ca_name, DAYS, &ca);
    if (!err)
        err = tls_make_leaf(&ca, &want, &leaf);
    if (err)
        return err;
    kube_secret_set_text(secret, "ca.crt", ca.cert_pem);
    kube_secret_set_text(secret, "tls.crt", leaf.cert_pem);
    kube_secret_set_text(secret, "tls.key", leaf.key_pem);
    return NULL;
}

static void on_written(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct serving_rotation *r = arg;
    r->rq = NULL;
    if (status == 409) { // another replica was faster: use its certificate
        gs_error_free(err);
        get_secret(r);
        return;
    }
    if (err) {
        fail_rotation(r, gs_error_wrap(err, "Secret %s/%s cannot be written", r->ns, r->secret));
        return;
    }
    gs_info("adapter", "created a serving certificate that is valid for %d days: Secret %s/%s",
            DAYS, r->ns, r->secret);
    take_secret(r, body);
    get_apiservice(r);
}

static void on_secret(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct serving_rotation *r = arg;
    r->rq = NULL;
    (void)status;
    if (err) {
        fail_rotation(r, gs_error_wrap(err, "Secret %s/%s cannot be read", r->ns, r->secret));
        return;
    }
    take_secret(r, body);
    GS_AUTO_FREE char *why = unfit(r);
    if (!why) {
        get_apiservice(r);
        return;
    }
    gs_info("adapter", "a new serving certificate is created: %s", why);
    CODEC_AUTO_JSON json_t *secret = json_deep_copy(body);
    err = make_rotated_certificate(r, secret);
    if (err)
        fail_rotation(r, err);
    else
        r->rq = kube_update(r->o.kube, KUBE_SECRETS, r->ns, r->secret, NULL, secret, on_written, r);
}

static void get_secret(struct serving_rotation *r)
{
    r->rq = kube_get(r->o.kube, KUBE_SECRETS, r->ns, r->secret, NULL, on_secret, r);
}

// --- setup ---

struct gs_error *serving_check_service(const char *service)
{
    const char *slash = strchr(service, '/');
    if (!slash || slash == service || !slash[1] || strchr(slash + 1, '/'))
        return gs_error_new(GS_EINVAL, "--tls-service \"%s\": want NAMESPACE/SERVICE", service);
    return NULL;
}

struct serving_rotation *serving_rotation_new(uv_loop_t *loop,
                                              const struct serving_rotation_options *o)
{
    struct serving_rotation *r = gs_alloc(sizeof(*r));
    size_t n = strcspn(o->service, "/");
    r->o = *o;
    r->ns = gs_strndup(o->service, n);
    r->service = gs_strdup(o->service + n + 1);
    r->secret = gs_format("%s-tls", r->service);
    r->wrong = gs_strdup("the serving certificate is not read yet");
    r->timer = gs_timer_new(loop, r);
    get_secret(r);
    return r;
}

void serving_rotation_free(struct serving_rotation *r)
{
    if (!r)
        return;
    kube_request_cancel(r->rq);
    gs_timer_free(r->timer);
    char *texts[] = {r->ns, r->service, r->secret, r->ca, r->cert, r->key, r->wrong};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++)
        free(texts[i]);
    free(r);
}

const char *serving_rotation_error(const struct serving_rotation *r)
{
    return r->served ? NULL : r->wrong;
}
