// SPDX-License-Identifier: Apache-2.0
// The certificate of a gRPC server from files that may be rotated. A bad pair of files is logged,
// and the previous certificate stays in use.
#include "net/grpc/tls_files.h"

#include "base/file_watch.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/tls/tls.h"

struct grpc_tls_files {
    struct grpc_server *server;
    char *cert_file, *key_file, *client_ca_file;
    char *served; // the certificate in use
    struct gs_file_watch *watch;
};

static struct gs_error *load(struct grpc_tls_files *f)
{
    GS_AUTO_FREE char *cert = NULL, *key = NULL, *ca = NULL;
    struct gs_error *err = tls_read_pem(f->cert_file, &cert);
    if (!err)
        err = tls_read_pem(f->key_file, &key);
    if (!err && f->client_ca_file)
        err = tls_read_pem(f->client_ca_file, &ca);
    if (!err) {
        err = tls_check_replacement(f->served, cert, key);
        err = err ? gs_error_wrap(err, "%s", f->cert_file) : NULL;
    }
    if (!err && ca) {
        err = tls_check_certificates(ca);
        err = err ? gs_error_wrap(err, "%s", f->client_ca_file) : NULL;
    }
    const struct grpc_tls tls = {.cert_pem = cert, .key_pem = key, .ca_pem = ca};
    if (!err)
        err = grpc_server_set_tls(f->server, &tls);
    if (key)
        explicit_bzero(key, strlen(key));
    if (err)
        return err;
    free(f->served);
    f->served = GS_TAKE(cert);
    return NULL;
}

static void on_change(void *arg)
{
    struct grpc_tls_files *f = arg;
    GS_AUTO_ERROR struct gs_error *err = load(f);
    if (err)
        gs_warn("grpc", "the previous certificate stays in use: %s", gs_error_message(err));
    else
        gs_info("grpc", "new serving certificate: %s", f->cert_file);
}

struct gs_error *grpc_tls_files_new(uv_loop_t *loop, struct grpc_server *server,
                                    const struct grpc_tls_paths *paths, struct grpc_tls_files **ret)
{
    struct grpc_tls_files *f = gs_alloc(sizeof(*f));
    const char *const files[] = {paths->cert_file, paths->key_file, paths->client_ca_file};
    const struct gs_file_watch_options o = {.loop = loop, .on_change = on_change, .arg = f};
    f->server = server;
    f->cert_file = gs_strdup(paths->cert_file);
    f->key_file = gs_strdup(paths->key_file);
    f->client_ca_file = gs_strdup(paths->client_ca_file);
    // Before the files are read, so that a change meanwhile is noticed.
    f->watch = gs_file_watch_new(&o);
    gs_file_watch_set(f->watch, files, GS_ARRAY_LEN(files));
    struct gs_error *err = load(f);
    if (err) {
        grpc_tls_files_free(f);
        return err;
    }
    *ret = f;
    return NULL;
}

void grpc_tls_files_free(struct grpc_tls_files *f)
{
    if (!f)
        return;
    gs_file_watch_free(f->watch);
    free(f->cert_file);
    free(f->key_file);
    free(f->client_ca_file);
    free(f->served);
    free(f);
}
