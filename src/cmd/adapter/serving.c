// SPDX-License-Identifier: Apache-2.0
#include "cmd/adapter/serving.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/tls.h"

#include <sys/stat.h>

enum { MAX_PEM = 1024 * 1024, DAYS = 365, RENEW_DAYS = 30 };

struct serving {
    char *cert_path, *key_path;
    bool made_here;
    char *cert, *key;
    struct timespec cert_time, key_time;
};

static struct timespec time_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_mtim : (struct timespec){0};
}

static struct gs_error *read_file(const char *path, char **ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_PEM, &text);
    if (!err)
        *ret = gs_buf_take(&text);
    return err;
}

static struct gs_error *load(struct serving *s)
{
    char *cert = NULL, *key = NULL;
    s->cert_time = time_of(s->cert_path);
    s->key_time = time_of(s->key_path);
    struct gs_error *err = read_file(s->cert_path, &cert);
    if (!err)
        err = read_file(s->key_path, &key);
    if (err) {
        free(cert);
        return err;
    }
    free(s->cert);
    free(s->key);
    s->cert = cert;
    s->key = key;
    return NULL;
}

static struct gs_error *make(struct serving *s)
{
    static const char *const names[] = {"localhost"}, *const addresses[] = {"127.0.0.1"};
    GS_AUTO_FREE char *cn = gs_format("localhost@%lld", (long long)(gs_unix_ms() / 1000));
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
    GS_AUTO_FREE char *dir = gs_strdup(s->cert_path);
    char *slash = strrchr(dir, '/');
    if (slash)
        *slash = '\0';
    if (!err && slash && *dir)
        err = gs_mkdir_p(dir, 0755);
    GS_AUTO_FREE char *chain = err ? NULL : gs_format("%s%s", leaf.cert_pem, ca.cert_pem);
    if (!err)
        err = gs_file_write_atomic(s->key_path, 0600, gs_slice_of(leaf.key_pem));
    if (!err)
        err = gs_file_write_atomic(s->cert_path, 0644, gs_slice_of(chain));
    if (!err)
        gs_info("adapter", "made a self-signed serving certificate: %s", s->cert_path);
    return err;
}

struct gs_error *serving_new(const struct serving_options *o, struct serving **ret)
{
    bool cert = o->cert_file && *o->cert_file, key = o->key_file && *o->key_file;
    if (cert != key)
        return gs_error_new(GS_EINVAL,
                            "--tls-cert-file and --tls-private-key-file belong together");
    struct serving *s = gs_alloc(sizeof(*s));
    s->cert_path = cert ? gs_strdup(o->cert_file) : gs_format("%s/apiserver.crt", o->cert_dir);
    s->key_path = key ? gs_strdup(o->key_file) : gs_format("%s/apiserver.key", o->cert_dir);
    struct gs_error *err = NULL;
    if (!cert && (access(s->cert_path, R_OK) != 0 || access(s->key_path, R_OK) != 0)) {
        s->made_here = true;
        err = make(s);
    }
    if (!err)
        err = load(s);
    if (err) {
        serving_free(s);
        return gs_error_wrap(err, "the serving certificate");
    }
    *ret = s;
    return NULL;
}

void serving_free(struct serving *s)
{
    if (!s)
        return;
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

static bool differs(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec || a.tv_nsec != b.tv_nsec;
}

void serving_poll(struct serving *s, struct http_server *server)
{
    long left = 0;
    bool changed =
        differs(time_of(s->cert_path), s->cert_time) || differs(time_of(s->key_path), s->key_time);
    if (changed) // what somebody else has put there is theirs to renew
        s->made_here = false;
    struct gs_error *err = s->made_here ? tls_cert_seconds_left(s->cert, &left) : NULL;
    bool old = !err && s->made_here && left < (long)RENEW_DAYS * 86400;
    if (old)
        err = make(s);
    if (!err && !changed && !old)
        return;
    if (!err)
        err = load(s);
    if (!err)
        err = http_server_set_certificate(server, s->cert, s->key);
    if (err)
        gs_warn("adapter", "the old serving certificate stays: %s", gs_error_message(err));
    else
        gs_info("adapter", "new serving certificate: %s", s->cert_path);
    gs_error_free(err);
}
