// SPDX-License-Identifier: Apache-2.0
// The Cluster Autoscaler reads --grpc-expander-cert once, when it starts. So a certificate that is
// made here and its CA are valid for ten years, and are replaced only shortly before the end.
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "expander/expander_private.h"
#include "kube/secret.h"
#include "kube/session.h"
#include "net/tls/tls.h"

#include <arpa/inet.h>
#include <unistd.h>

enum { DAYS = 3650, TIMEOUT_MS = 10000 };

struct pair_and_ca {
    struct tls_pair leaf;
    char *ca_pem;
};

static void finish_made(struct pair_and_ca *m)
{
    tls_pair_finish(&m->leaf);
    free(m->ca_pem);
}

void expander_certificate_finish(struct expander_certificate *c)
{
    free(c->cert_file);
    free(c->key_file);
    free(c->cert_pem);
    gs_free_secret(c->key_pem);
    *c = (struct expander_certificate){0};
}

// --- making ---

static struct gs_error *make(const struct gs_opt_list *names, struct pair_and_ca *ret)
{
    char host[256] = "";
    struct in6_addr address;
    const char **dns = gs_alloc_array(names->len + 2, sizeof(*dns));
    const char **ip = gs_alloc_array(names->len + 2, sizeof(*ip));
    struct tls_leaf leaf = {.common_name = "gpuscale expander", .server = 1, .days = DAYS};
    GS_CLEANUP(tls_pair_finish) struct tls_pair ca = {0};
    gethostname(host, sizeof(host) - 1);
    dns[leaf.n_dns_names++] = "localhost";
    if (*host)
        dns[leaf.n_dns_names++] = host;
    ip[leaf.n_ip_addresses++] = "127.0.0.1";
    for (size_t i = 0; i < names->len; i++) {
        bool is_ip = inet_pton(AF_INET, names->items[i], &address) == 1 ||
                     inet_pton(AF_INET6, names->items[i], &address) == 1;
        if (is_ip)
            ip[leaf.n_ip_addresses++] = names->items[i];
        else if (leaf.n_dns_names < names->len + 2)
            dns[leaf.n_dns_names++] = names->items[i];
    }
    leaf.dns_names = dns;
    leaf.ip_addresses = ip;
    struct gs_error *err = tls_make_ca("gpuscale expander CA", DAYS, &ca);
    if (!err)
        err = tls_make_leaf(&ca, &leaf, &ret->leaf);
    if (!err)
        ret->ca_pem = gs_strdup(ca.cert_pem);
    free(dns);
    free(ip);
    return err;
}

// Broken texts count as used up, too.
static bool is_used_up(const char *cert_pem, const char *key_pem)
{
    long left = 0;
    GS_AUTO_ERROR struct gs_error *err = tls_pair_seconds_left(cert_pem, key_pem, &left);
    return err || left < (long)TLS_RENEW_DAYS * TLS_DAY_S;
}

// --- a folder ---

static struct gs_error *check_files(const char *ca_file, const char *cert_file,
                                    const char *key_file, bool *ret_used_up)
{
    GS_AUTO_FREE char *ca = NULL, *cert = NULL, *key = NULL;
    struct gs_error *err = tls_read_pem(ca_file, &ca); // written last
    if (!err)
        err = tls_read_pem(cert_file, &cert);
    if (!err)
        err = tls_read_pem(key_file, &key);
    if (!err)
        err = tls_check_pair(cert, key);
    if (err)
        return gs_error_code(err) == GS_ENOTFOUND ? err : gs_error_wrap(err, "%s", cert_file);
    *ret_used_up = is_used_up(cert, key);
    err = tls_check_certificates(ca);
    return err ? gs_error_wrap(err, "%s", ca_file) : NULL;
}

// False: they are missing, damaged or expire soon.
static bool are_usable_files(const char *ca_file, const char *cert_file, const char *key_file)
{
    bool used_up = false;
    GS_AUTO_ERROR struct gs_error *err = check_files(ca_file, cert_file, key_file, &used_up);
    if (err && gs_error_code(err) != GS_ENOTFOUND)
        gs_warn("expander",
                "the certificate of an earlier run is damaged, and another one with another CA is "
                "created: %s",
                gs_error_message(err));
    return !err && !used_up;
}

static struct gs_error *load_folder(const struct expander_options *o,
                                    struct expander_certificate *ret)
{
    GS_AUTO_FREE char *ca_file = gs_format("%s/ca.crt", o->cert_dir);
    GS_CLEANUP(finish_made) struct pair_and_ca made = {0};
    ret->cert_file = gs_format("%s/tls.crt", o->cert_dir);
    ret->key_file = gs_format("%s/tls.key", o->cert_dir);
    if (are_usable_files(ca_file, ret->cert_file, ret->key_file)) {
        gs_info("expander", "--grpc-expander-cert of the Cluster Autoscaler: %s", ca_file);
        return NULL;
    }
    struct gs_error *err = make(&o->names, &made);
    if (!err)
        err = gs_mkdir_p(o->cert_dir, 0755);
    if (!err)
        err = gs_file_write_atomic(ret->key_file, 0600, gs_slice_of(made.leaf.key_pem));
    if (!err)
        err = gs_file_write_atomic(ret->cert_file, 0644, gs_slice_of(made.leaf.cert_pem));
    if (!err)
        err = gs_file_write_atomic(ca_file, 0644, gs_slice_of(made.ca_pem));
    if (!err)
        gs_info("expander",
                "created a certificate; --grpc-expander-cert of the Cluster Autoscaler: %s",
                ca_file);
    return err;
}

// --- a Secret ---

struct reply {
    bool done;
    int status;
    json_t *body;
    struct gs_error *err;
};

static void on_reply(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct reply *r = arg;
    r->done = true;
    r->status = status;
    r->body = json_incref(body);
    r->err = err;
}

// Waits for a reply. A 404 or 409 is a result: *ret_status.
static struct gs_error *wait_for(struct kube_session *s, struct kube_request *request,
                                 struct reply *r, json_t **ret, int *ret_status)
{
    struct gs_error *err = kube_session_wait(s, &r->done, TIMEOUT_MS);
    if (err) {
        kube_request_cancel(request);
        return err;
    }
    *ret_status = r->status;
    if (r->err && r->status != 404 && r->status != 409) {
        json_decref(r->body);
        return r->err;
    }
    gs_error_free(r->err);
    *ret = r->body;
    return NULL;
}

// True: the Secret has a certificate that can be served.
static bool take_secret(const json_t *secret, struct expander_certificate *ret)
{
    GS_AUTO_FREE char *cert = kube_secret_text(secret, "tls.crt"),
                      *key = kube_secret_text(secret, "tls.key");
    if (!cert || !key || is_used_up(cert, key))
        return false;
    ret->cert_pem = GS_TAKE(cert);
    ret->key_pem = GS_TAKE(key);
    return true;
}

static struct gs_error *get_secret(struct kube_session *s, const char *ns, const char *name,
                                   json_t **ret)
{
    struct reply r = {0};
    int status = 0;
    json_t *body = NULL;
    struct gs_error *err = wait_for(
        s, kube_get(s->client, KUBE_SECRETS, ns, name, NULL, on_reply, &r), &r, &body, &status);
    if (!err && status == 404) {
        json_decref(body);
        body = NULL;
    }
    if (!err)
        *ret = body;
    return err;
}

// *ret_conflict: another replica was faster.
static struct gs_error *put_secret(struct kube_session *s, const char *ns, json_t *secret,
                                   bool exists, bool *ret_conflict)
{
    struct reply r = {0};
    int status = 0;
    CODEC_AUTO_JSON json_t *body = NULL;
    const char *name = codec_json_str(secret, "metadata", "name", NULL);
    struct kube_request *request =
        exists ? kube_update(s->client, KUBE_SECRETS, ns, name, NULL, secret, on_reply, &r)
               : kube_create(s->client, KUBE_SECRETS, ns, secret, on_reply, &r);
    struct gs_error *err = wait_for(s, request, &r, &body, &status);
    *ret_conflict = status == 409;
    if (!err && status == 404)
        err = gs_error_new(GS_ENOTFOUND, "namespace \"%s\" not found", ns);
    return err;
}

static struct gs_error *try_secret(struct kube_session *s, const struct expander_options *o,
                                   const char *ns, const char *name, bool *ret_again,
                                   struct expander_certificate *ret)
{
    CODEC_AUTO_JSON json_t *secret = NULL;
    GS_CLEANUP(finish_made) struct pair_and_ca made = {0};
    struct gs_error *err = get_secret(s, ns, name, &secret);
    *ret_again = false;
    if (err || (secret && take_secret(secret, ret)))
        return err;
    err = make(&o->names, &made);
    if (err)
        return err;
    bool exists = secret != NULL;
    if (!exists)
        secret = json_pack("{s:s, s:s, s:{s:s}, s:s}", "apiVersion", "v1", "kind", "Secret",
                           "metadata", "name", name, "type", "kubernetes.io/tls");
    kube_secret_set_text(secret, "tls.crt", made.leaf.cert_pem);
    kube_secret_set_text(secret, "tls.key", made.leaf.key_pem);
    kube_secret_set_text(secret, "ca.crt", made.ca_pem);
    err = put_secret(s, ns, secret, exists, ret_again);
    if (!err && !*ret_again && take_secret(secret, ret))
        gs_info("expander",
                "created a certificate in the Secret %s/%s; its ca.crt is the "
                "--grpc-expander-cert of the Cluster Autoscaler",
                ns, name);
    return err;
}

static struct gs_error *load_secret(const struct expander_options *o,
                                    struct expander_certificate *ret)
{
    enum { ATTEMPTS = 3 };
    const char *slash = strchr(o->secret, '/');
    if (!slash || slash == o->secret || !slash[1] || strchr(slash + 1, '/'))
        return gs_error_new(GS_EINVAL, "--tls-secret \"%s\": want NAMESPACE/NAME", o->secret);
    GS_AUTO_FREE char *ns = gs_strndup(o->secret, (size_t)(slash - o->secret));
    struct kube_session s;
    struct gs_error *err = kube_session_open(&s, o->kubeconfig, NULL, "expander");
    bool again = !err;
    for (int i = 0; i < ATTEMPTS && again && !err; i++)
        err = try_secret(&s, o, ns, slash + 1, &again, ret);
    if (!err && again)
        err = gs_error_new(GS_ECONFLICT, "other replicas change it all the time");
    kube_session_close(&s);
    return err ? gs_error_wrap(err, "--tls-secret: Secret %s", o->secret) : NULL;
}

// --- choice of the source ---

struct gs_error *expander_certificate_load(const struct expander_options *o,
                                           struct expander_certificate *ret)
{
    bool cert = o->cert_file && *o->cert_file, key = o->key_file && *o->key_file;
    bool dir = o->cert_dir && *o->cert_dir, secret = o->secret && *o->secret;
    struct gs_error *err = NULL;
    if (cert != key)
        return gs_error_new(GS_EINVAL,
                            "--tls-cert-file and --tls-private-key-file must be set together");
    if (cert + dir + secret > 1)
        return gs_error_new(GS_EINVAL, "--tls-cert-file, --cert-dir and --tls-secret cannot be "
                                       "combined: each is a source of the certificate");
    if (cert) {
        ret->cert_file = gs_strdup(o->cert_file);
        ret->key_file = gs_strdup(o->key_file);
        return NULL;
    }
    if (!dir && !secret)
        return gs_error_new(GS_EINVAL,
                            "the Cluster Autoscaler calls its expander over TLS only: set "
                            "--tls-cert-file and --tls-private-key-file, or --cert-dir or "
                            "--tls-secret to have a certificate made");
    err = dir ? load_folder(o, ret) : load_secret(o, ret);
    if (err)
        expander_certificate_finish(ret);
    return err;
}
