// SPDX-License-Identifier: Apache-2.0
#include "adapter_bed.h"

#include "base/file.h"
#include "base/mem.h"
#include "net/tls/tls.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 48 };

// Headers that kube-apiserver sends for a request of kube-controller-manager.
static const char proxy_headers[] =
    "User-Agent: kube-controller-manager/v1.30.0 (linux/amd64) kubernetes/7c48c2b/"
    "system:serviceaccount:kube-system:horizontal-pod-autoscaler\r\n"
    "Accept: application/json, */*\r\n"
    "X-Forwarded-For: 10.0.0.2\r\n"
    "X-Remote-User: system:serviceaccount:kube-system:horizontal-pod-autoscaler\r\n"
    "X-Remote-Group: system:serviceaccounts\r\n"
    "X-Remote-Group: system:serviceaccounts:kube-system\r\n"
    "X-Remote-Group: system:authenticated\r\n";

static void make_certificates(struct adapter_bed *b)
{
    GS_CLEANUP(tls_pair_finish) struct tls_pair ca = {0}, leaf = {0};
    const struct tls_leaf want = {.common_name = "front-proxy-client", .days = 2};
    bench_check(tls_make_ca("front-proxy-ca", 2, &ca));
    bench_check(tls_make_leaf(&ca, &want, &leaf));
    b->ca = gs_format("%s/ca.pem", bench_dir());
    bench_check(gs_file_write_atomic(b->ca, 0600, gs_slice_of(ca.cert_pem)));
    const gnutls_datum_t cert = {(unsigned char *)leaf.cert_pem, (unsigned)strlen(leaf.cert_pem)};
    const gnutls_datum_t key = {(unsigned char *)leaf.key_pem, (unsigned)strlen(leaf.key_pem)};
    if (gnutls_certificate_allocate_credentials(&b->credentials) < 0 ||
        gnutls_certificate_set_x509_key_mem(b->credentials, &cert, &key, GNUTLS_X509_FMT_PEM) < 0)
        bench_fail("the client certificate cannot be used");
}

void adapter_bed_start(struct adapter_bed *b, const char *self, int pods)
{
    GS_AUTO_FREE char *n = gs_format("%d", pods);
    const char *const argv[] = {self, "--serve", n, NULL};
    b->cluster = bench_start("cluster.log", argv);
    GS_AUTO_FREE char *kubernetes = bench_wait_for_text(b->cluster, "kubernetes port ");
    GS_AUTO_FREE char *source = bench_wait_for_text(b->cluster, "source port ");
    b->kubernetes_port = (uint16_t)strtoul(kubernetes, NULL, 10);
    b->source_port = (uint16_t)strtoul(source, NULL, 10);
    b->kubeconfig = gs_format("%s/kubeconfig", bench_dir());
    cluster_kubeconfig(b->kubeconfig, b->kubernetes_port);
    make_certificates(b);
}

void adapter_bed_finish(struct adapter_bed *b)
{
    gnutls_certificate_free_credentials(b->credentials);
    free(b->kubeconfig);
    free(b->ca);
}

pid_t adapter_start(const struct adapter_bed *b, const char *log, const char *const *program,
                    uint16_t port, const char *source_url, const char *rules,
                    const char *const *extra)
{
    GS_AUTO_FREE char *flags = gs_format(
        "--config=%s\n%s%s%s--secure-port=%u\n--bind-address=127.0.0.1\n"
        "--cert-dir=%s/cert-%s\n--lister-kubeconfig=%s\n--authentication-kubeconfig=%s\n"
        "--authorization-kubeconfig=%s\n--authentication-skip-lookup\n"
        "--requestheader-client-ca-file=%s\n--requestheader-username-headers=X-Remote-User\n"
        "--requestheader-group-headers=X-Remote-Group\n"
        "--requestheader-extra-headers-prefix=X-Remote-Extra-\n",
        rules, source_url ? "--prometheus-url=" : "", source_url ? source_url : "",
        source_url ? "\n" : "", port, bench_dir(), log, b->kubeconfig, b->kubeconfig, b->kubeconfig,
        b->ca);
    const char *argv[MAX_WORDS];
    size_t n = 0;
    for (size_t i = 0; program[i]; i++)
        argv[n++] = program[i];
    for (char *at = flags, *end; (end = strchr(at, '\n')); at = end + 1) {
        *end = '\0';
        argv[n++] = at;
    }
    for (size_t i = 0; extra && extra[i]; i++)
        argv[n++] = extra[i];
    argv[n] = NULL;
    return bench_start(log, argv);
}

bool adapter_try_connect(const struct adapter_bed *b, struct wire *w, uint16_t port)
{
    bool ok = wire_try_tls(w, port, b->credentials);
    w->headers = proxy_headers;
    return ok;
}

void adapter_connect(const struct adapter_bed *b, struct wire *w, uint16_t port)
{
    if (!adapter_try_connect(b, w, port))
        bench_fail("no TLS connection to the adapter on port %u", port);
}
