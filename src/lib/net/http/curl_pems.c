// SPDX-License-Identifier: Apache-2.0
// Certificates and keys for libcurl without files on disk: each PEM is in a memfd, whose path in
// /proc libcurl reads. They are checked before, since libcurl reports a bad one only with a
// request.
#include "net/http/curl_private.h"

#include "base/attr.h"
#include "net/http/client.h"
#include "net/tls/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct gs_error *pem_file_open(struct http_curl_pem *f, const char *pem, const char *what)
{
    size_t len = strlen(pem);
    int fd = memfd_create(what, MFD_CLOEXEC);
    if (fd < 0)
        return gs_error_errno(errno, "keeping the %s in memory", what);
    f->fd = fd;
    snprintf(f->path, sizeof(f->path), "/proc/self/fd/%d", fd);
    if (write(fd, pem, len) != (ssize_t)len)
        return gs_error_errno(errno, "keeping the %s in memory", what);
    return NULL;
}

// libcurl reports an invalid certificate only when a request is sent, and names it by its memory
// address.
static struct gs_error *check_pems(const struct http_client_config *cfg)
{
    struct gs_error *err = cfg->ca_pem ? tls_check_certificates(cfg->ca_pem) : NULL;
    if (err)
        return gs_error_wrap(err, "the CA certificate");
    err = cfg->cert_pem ? tls_check_pair(cfg->cert_pem, cfg->key_pem) : NULL;
    return err ? gs_error_wrap(err, "the client certificate") : NULL;
}

struct gs_error *http_curl_pems_open(struct http_curl_pems *p, const struct http_client_config *cfg)
{
    struct gs_error *err = check_pems(cfg);
    if (!err && cfg->ca_pem)
        err = pem_file_open(&p->ca, cfg->ca_pem, "CA certificate");
    if (!err && cfg->cert_pem)
        err = pem_file_open(&p->cert, cfg->cert_pem, "client certificate");
    if (!err && cfg->key_pem)
        err = pem_file_open(&p->key, cfg->key_pem, "client key");
    return err;
}

void http_curl_pems_close(struct http_curl_pems *p)
{
    struct http_curl_pem *files[] = {&p->ca, &p->cert, &p->key};
    for (size_t i = 0; i < GS_ARRAY_LEN(files); i++)
        if (*files[i]->path)
            close(files[i]->fd);
    *p = (struct http_curl_pems){0};
}
