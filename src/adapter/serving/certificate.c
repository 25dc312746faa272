// SPDX-License-Identifier: Apache-2.0
// The serving certificate of the adapter: from files, which may be rotated; made here,
// self-signed, as apiserver does without a certificate; or received from the renewal of
// APIServices.
#include "adapter/serving/serving.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/file_watch.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/tls/tls.h"

enum { DAYS = 365 };

struct serving {
    char *cert_path, *key_path;
    bool made_here, handed;
    char *cert, *key;
    int64_t from, until;         // of the certificate, in seconds
    int64_t warned;              // time of the last expiry warning
    struct gs_file_watch *watch; // of both files; NULL: no files
    struct http_server *server;
};

static int64_t now_s(void)
{
    return gs_unix_ms() / 1000;
}

// Takes ownership of both texts, also on failure.
static struct gs_error *use(struct serving *s, char *cert, char *key)
{
    int64_t from = 0, until = 0;
    struct gs_error *err = tls_check_replacement(s->cert, cert, key);
    if (!err)
        err = tls_cert_validity(cert, &from, &until);
    if (!err && s->server)
        err = http_server_set_certificate(s->server, cert, key);
    char **old_cert = err ? &cert : &s->cert, **old_key = err ? &key : &s->key;
    free(*old_cert);
    free(*old_key);
    if (err)
        return err;
    s->cert = cert;
    s->key = key;
    s->from = from;
    s->until = until;
    s->warned = 0;
    return NULL;
}

// Called before the files are read, so that a change during reading is detected.
static void watch_files(struct serving *s)
{
    static const struct gs_file_watch_options o = {.missing_is_change = true};
    const char *const files[] = {s->cert_path, s->key_path};
    if (!s->watch)
        s->watch = gs_file_watch_new(&o);
    gs_file_watch_set(s->watch, files, GS_ARRAY_LEN(files));
}

static struct gs_error *load(struct serving *s)
{
    char *cert = NULL, *key = NULL;
    watch_files(s);
    struct gs_error *err = tls_read_pem(s->cert_path, &cert);
    if (!err)
        err = tls_read_pem(s->key_path, &key);
    if (!err)
        return use(s, cert, key);
    free(cert);
    return err;
}

static struct gs_error *make_pair(char **ret_cert, char **ret_key)
{
    static const char *const names[] = {"localhost"}, *const addresses[] = {"127.0.0.1"};
    GS_AUTO_FREE char *cn = gs_format("localhost@%lld", (long long)now_s());
    GS_AUTO_FREE char *ca_cn = gs_format("%s-ca", cn);
    GS_CLEANUP(tls_pair_finish) struct tls_pair ca = {0}, leaf = {0};
    struct gs_error *err = tls_make_ca(ca_cn, DAYS, &ca);
    const struct tls_leaf want = {.common_name = cn,
                                  .dns_names = names,
                                  .n_dns_names = 1,
                                  .ip_addresses = addresses,
                                  .n_ip_addresses = 1,
                                  .server = 1,
                                  .days = DAYS};
    if (!err)
        err = tls_make_leaf(&ca, &want, &leaf);
    if (err)
        return err;
    *ret_cert = gs_format("%s%s", leaf.cert_pem, ca.cert_pem);
    *ret_key = GS_TAKE(leaf.key_pem);
    return NULL;
}

static struct gs_error *make_self_signed(struct serving *s)
{
    GS_AUTO_FREE char *chain = NULL, *key = NULL;
    struct gs_error *err = make_pair(&chain, &key);
    GS_AUTO_FREE char *dir = gs_strdup(s->cert_path);
    char *slash = strrchr(dir, '/');
    if (slash)
        *slash = '\0';
    if (!err && slash && *dir)
        err = gs_mkdir_p(dir, 0755);
    if (!err)
        err = gs_file_write_atomic(s->key_path, 0600, gs_slice_of(key));
    if (!err)
        err = gs_file_write_atomic(s->cert_path, 0644, gs_slice_of(chain));
    if (!err)
        gs_info("adapter", "created a self-signed serving certificate: %s", s->cert_path);
    return err;
}

// Makes a certificate in memory and writes no file.
static struct gs_error *start_handed(struct serving *s)
{
    char *cert = NULL, *key = NULL;
    struct gs_error *err = make_pair(&cert, &key);
    return err ? err : use(s, cert, key);
}

// Warns once a day about a certificate that gpuscale does not renew.
static void warn_of_end(struct serving *s)
{
    char when[GS_RFC3339_SIZE];
    if (s->until - now_s() > (int64_t)TLS_RENEW_DAYS * TLS_DAY_S || now_s() - s->warned < TLS_DAY_S)
        return;
    s->warned = now_s();
    gs_format_rfc3339(s->until * 1000, when);
    if (now_s() >= s->until)
        gs_err(
            "adapter",
            "the serving certificate expired at %s, and the API server sends no requests: renew %s",
            when, s->cert_path);
    else
        gs_warn("adapter", "the serving certificate expires at %s: renew %s", when, s->cert_path);
}

static void choose_paths(struct serving *s, const struct serving_options *o)
{
    bool given = o->cert_file && *o->cert_file;
    s->cert_path = given ? gs_strdup(o->cert_file) : gs_format("%s/apiserver.crt", o->cert_dir);
    s->key_path = given ? gs_strdup(o->key_file) : gs_format("%s/apiserver.key", o->cert_dir);
}

// A file of an earlier run that is empty or cut: without another certificate, no metric is served.
static struct gs_error *replace_damaged(struct serving *s, struct gs_error *why)
{
    gs_warn("adapter", "%s is damaged and is created again: %s", s->cert_path,
            gs_error_message(why));
    gs_error_free(why);
    s->made_here = true;
    struct gs_error *err = make_self_signed(s);
    return err ? err : load(s);
}

struct gs_error *serving_new(const struct serving_options *o, struct serving **ret)
{
    bool cert = o->cert_file && *o->cert_file, key = o->key_file && *o->key_file;
    if (cert != key)
        return gs_error_new(GS_EINVAL,
                            "--tls-cert-file and --tls-private-key-file must be set together");
    if (cert && o->handed)
        return gs_error_new(GS_EINVAL, "--tls-service and --tls-cert-file cannot be combined");
    struct serving *s = gs_alloc(sizeof(*s));
    s->handed = o->handed;
    if (o->handed) {
        s->cert_path = gs_strdup("the Secret of --tls-service");
        s->key_path = gs_strdup("");
    } else {
        choose_paths(s, o);
    }
    struct gs_error *err = NULL;
    if (s->handed)
        err = start_handed(s);
    else if (!cert && (access(s->cert_path, R_OK) != 0 || access(s->key_path, R_OK) != 0)) {
        s->made_here = true;
        err = make_self_signed(s);
    }
    if (!err && !s->handed)
        err = load(s);
    if (err && !s->handed && !cert && !s->made_here)
        err = replace_damaged(s, err);
    if (err) {
        serving_free(s);
        return gs_error_wrap(err, "the serving certificate");
    }
    if (!s->made_here && !s->handed)
        warn_of_end(s);
    *ret = s;
    return NULL;
}

void serving_free(struct serving *s)
{
    if (!s)
        return;
    gs_file_watch_free(s->watch);
    free(s->cert_path);
    free(s->key_path);
    free(s->cert);
    free(s->key);
    free(s);
}

void serving_apply(const struct serving *s, struct http_server_config *cfg)
{
    cfg->cert_pem = s->cert;
    cfg->key_pem = s->key;
}

void serving_set_server(struct serving *s, struct http_server *server)
{
    s->server = server;
}

struct gs_error *serving_take(struct serving *s, const char *cert, const char *key,
                              const char *from)
{
    if (gs_streq(s->cert, cert) && gs_streq(s->key, key))
        return NULL;
    struct gs_error *err = use(s, gs_strdup(cert), gs_strdup(key));
    if (!err)
        gs_info("adapter", "new serving certificate: Secret %s", from);
    return err;
}

int64_t serving_expiry(const struct serving *s)
{
    return s->until;
}

void serving_poll(struct serving *s)
{
    if (s->handed) {
        if (s->until - now_s() < (int64_t)(TLS_RENEW_DAYS - 1) * TLS_DAY_S) // renewal is overdue
            warn_of_end(s);
        return;
    }
    bool changed = gs_file_watch_check(s->watch);
    if (changed) // whoever replaced the files renews them
        s->made_here = false;
    bool old = s->made_here && s->until - now_s() < (int64_t)TLS_RENEW_DAYS * TLS_DAY_S;
    struct gs_error *err = old ? make_self_signed(s) : NULL;
    if (!err && (changed || old)) {
        err = load(s);
        if (!err)
            gs_info("adapter", "new serving certificate: %s", s->cert_path);
    }
    if (err)
        gs_warn("adapter", "the previous serving certificate stays in use: %s: %s", s->cert_path,
                gs_error_message(err));
    gs_error_free(err);
    if (!s->made_here)
        warn_of_end(s);
}
