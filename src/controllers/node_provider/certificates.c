// SPDX-License-Identifier: Apache-2.0
// Certificates for mutual TLS between the provider and the autoscaler.
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/tls/tls.h"
#include "node_provider/node_provider_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/stat.h>

#define CA_DAYS    3650
#define LEAF_DAYS  825
#define RENEW_DAYS 90

static struct gs_error *write_file(const char *dir, const char *name, mode_t mode, const char *text)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, name);
    return gs_file_write_atomic(path, mode, gs_slice_of(text));
}

static struct gs_error *read_file(const char *dir, const char *name, char **ret)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, name);
    return tls_read_pem(path, ret);
}

static bool exists(const char *dir, const char *name)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, name);
    struct stat st;
    return stat(path, &st) == 0;
}

// Clients that trust the CA of an earlier run must continue to work.
static struct gs_error *load_or_make_ca(const char *dir, struct tls_pair *ret)
{
    if (exists(dir, "ca.key")) {
        struct gs_error *err = read_file(dir, "ca.crt", &ret->cert_pem);
        if (!err)
            err = read_file(dir, "ca.key", &ret->key_pem);
        if (!err)
            err = tls_check_pair(ret->cert_pem, ret->key_pem);
        return err ? gs_error_wrap(err, "%s: the CA of an earlier run", dir) : NULL;
    }
    struct gs_error *err = tls_make_ca("gpuscale node provider", CA_DAYS, ret);
    if (!err)
        err = write_file(dir, "ca.key", 0600, ret->key_pem);
    if (!err)
        err = write_file(dir, "ca.crt", 0644, ret->cert_pem);
    return err;
}

static struct gs_error *make_leaf(const char *dir, const struct tls_pair *ca,
                                  const struct tls_leaf *leaf, const char *name)
{
    GS_CLEANUP(tls_pair_finish) struct tls_pair pair = {0};
    GS_AUTO_FREE char *cert = gs_format("%s.crt", name), *key = gs_format("%s.key", name);
    struct gs_error *err = tls_make_leaf(ca, leaf, &pair);
    if (!err)
        err = write_file(dir, key, 0600, pair.key_pem);
    if (!err)
        err = write_file(dir, cert, 0644, pair.cert_pem);
    return err;
}

static bool is_address(const char *name)
{
    unsigned char bytes[16];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

static struct gs_error *make_server(const char *dir, const struct tls_pair *ca,
                                    const struct gs_opt_list *names)
{
    static const char *const defaults[] = {"localhost", "127.0.0.1", "::1"};
    const size_t max = names->len + GS_ARRAY_LEN(defaults) + 1;
    GS_AUTO_FREE const char **dns = gs_alloc_array(max, sizeof(*dns));
    GS_AUTO_FREE const char **ips = gs_alloc_array(max, sizeof(*ips));
    struct tls_leaf leaf = {.common_name = "gpuscale-node-provider",
                            .dns_names = dns,
                            .ip_addresses = ips,
                            .server = 1,
                            .days = LEAF_DAYS};
    for (size_t i = 0; i < names->len + GS_ARRAY_LEN(defaults); i++) {
        const char *name = i < names->len ? names->items[i] : defaults[i - names->len];
        if (is_address(name))
            ips[leaf.n_ip_addresses++] = name;
        else
            dns[leaf.n_dns_names++] = name;
    }
    return make_leaf(dir, ca, &leaf, "tls");
}

// Copies of the client's files are on other machines: a valid pair is not replaced.
static bool is_fresh(const char *dir, const char *name)
{
    GS_AUTO_FREE char *cert = NULL, *key = NULL, *cert_name = gs_format("%s.crt", name);
    GS_AUTO_FREE char *key_name = gs_format("%s.key", name);
    long left = 0;
    GS_AUTO_ERROR struct gs_error *err = read_file(dir, cert_name, &cert);
    if (!err)
        err = read_file(dir, key_name, &key);
    if (!err)
        err = tls_pair_seconds_left(cert, key, &left);
    if (key)
        explicit_bzero(key, strlen(key));
    return !err && left > RENEW_DAYS * (long)TLS_DAY_S;
}

static struct gs_error *make_client(const char *dir, const struct tls_pair *ca)
{
    if (is_fresh(dir, "client"))
        return NULL;
    const struct tls_leaf leaf = {.common_name = "cluster-autoscaler", .days = LEAF_DAYS};
    return make_leaf(dir, ca, &leaf, "client");
}

// --- the autoscaler's file ---

static struct gs_error *write_cloud_config(const char *dir, const char *name, uint16_t port,
                                           struct gs_buf *out)
{
    const bool v6 = strchr(name, ':') != NULL;
    char *real = realpath(dir, NULL);
    gs_buf_addf(out,
                "address: \"%s%s%s:%u\"\n"
                "key: %s/client.key\n"
                "cert: %s/client.crt\n"
                "cacert: %s/ca.crt\n",
                v6 ? "[" : "", name, v6 ? "]" : "", port, real, real, real);
    free(real);
    return write_file(dir, "cloud-config.yaml", 0644, out->data);
}

struct gs_error *node_provider_generate(const char *dir, const struct gs_opt_list *names,
                                        uint16_t port)
{
    GS_CLEANUP(tls_pair_finish) struct tls_pair ca = {0};
    GS_AUTO_BUF struct gs_buf config = {0};
    struct gs_error *err = gs_mkdir_p(dir, 0700);
    if (!err)
        err = load_or_make_ca(dir, &ca);
    if (!err)
        err = make_server(dir, &ca, names);
    if (!err)
        err = make_client(dir, &ca);
    if (!err)
        err =
            write_cloud_config(dir, names->len > 0 ? names->items[0] : "localhost", port, &config);
    if (err)
        return gs_error_wrap(err, "--generate-certificates");
    (void)fprintf(stdout, "# %s/cloud-config.yaml, for the Cluster Autoscaler's --cloud-config\n%s",
                  dir, config.data);
    (void)fflush(stdout);
    return NULL;
}
