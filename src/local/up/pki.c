// SPDX-License-Identifier: Apache-2.0
// Keys and certificates of the cluster, kept in the data directory and renewed 30 days before they
// expire. What is missing or damaged is made again; a new CA makes all certificates new. Secrets
// are wiped.
#include "up/up_private.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "net/tls/signature.h"
#include "net/tls/tls.h"

#define LEAF_DAYS 365
#define CA_DAYS   3650

static struct gs_error *read_text(const char *dir, const char *name, char **ret)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, name);
    return tls_read_pem(path, ret);
}

static struct gs_error *write_text(const char *dir, const char *name, const char *text)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, name);
    return gs_file_write_atomic(path, 0600, gs_slice_of(text));
}

// Frees the error.
static void warn_of_damage(const char *dir, const char *name, struct gs_error *err,
                           const char *consequence)
{
    gs_warn("up", "%s/%s is damaged and is created again: %s. %s", dir, name, gs_error_message(err),
            consequence);
    gs_error_free(err);
}

// Reads a pair from its two files. False: it is missing, damaged, or expires soon, and must be
// created.
static bool load_pair(const char *dir, const char *name, const char *consequence,
                      struct tls_pair *ret)
{
    GS_AUTO_FREE char *cert_name = gs_format("%s.crt", name);
    GS_AUTO_FREE char *key_name = gs_format("%s.key", name);
    struct tls_pair p = {0};
    long left = 0;
    struct gs_error *err = read_text(dir, cert_name, &p.cert_pem);
    if (err && gs_error_code(err) == GS_ENOTFOUND) { // the certificate is written after its key
        gs_error_free(err);
        return false;
    }
    if (!err)
        err = read_text(dir, key_name, &p.key_pem);
    if (!err)
        err = tls_pair_seconds_left(p.cert_pem, p.key_pem, &left);
    bool fresh = !err && left > (long)TLS_RENEW_DAYS * TLS_DAY_S;
    if (err)
        warn_of_damage(dir, cert_name, err, consequence);
    if (fresh)
        *ret = p;
    else
        tls_pair_finish(&p);
    return fresh;
}

static struct gs_error *store_pair(const char *dir, const char *name, const struct tls_pair *p)
{
    GS_AUTO_FREE char *cert_name = gs_format("%s.crt", name);
    GS_AUTO_FREE char *key_name = gs_format("%s.key", name);
    struct gs_error *err = write_text(dir, key_name, p->key_pem);
    return err ? err : write_text(dir, cert_name, p->cert_pem);
}

static struct gs_error *ensure_leaf(const char *dir, const char *name, bool ca_is_new,
                                    const struct tls_pair *ca, const struct tls_leaf *leaf,
                                    struct tls_pair *ret)
{
    if (!ca_is_new && load_pair(dir, name, "Copies of the old one stay valid", ret))
        return NULL;
    struct gs_error *err = tls_make_leaf(ca, leaf, ret);
    return err ? err : store_pair(dir, name, ret);
}

static struct gs_error *ensure_pairs(const char *dir, struct up_pki *p)
{
    static const char *const names[] = {"localhost", "kubernetes", "kubernetes.default",
                                        "kubernetes.default.svc"};
    static const char *const addresses[] = {"127.0.0.1", "127.96.0.1"};
    static const char *const admin_groups[] = {"system:masters"};
    static const struct tls_leaf server = {.common_name = "kube-apiserver",
                                           .dns_names = names,
                                           .n_dns_names = GS_ARRAY_LEN(names),
                                           .ip_addresses = addresses,
                                           .n_ip_addresses = GS_ARRAY_LEN(addresses),
                                           .server = 1,
                                           .days = LEAF_DAYS};
    static const struct tls_leaf client = {.common_name = "gpuscale-admin",
                                           .organizations = admin_groups,
                                           .n_organizations = GS_ARRAY_LEN(admin_groups),
                                           .days = LEAF_DAYS};
    struct gs_error *err = NULL;
    bool ca_is_new =
        !load_pair(dir, "ca", "Copies of the kubeconfig no longer work: use the new one", &p->ca);
    if (ca_is_new)
        err = tls_make_ca("gpuscale local CA", CA_DAYS, &p->ca);
    if (!err && ca_is_new)
        err = store_pair(dir, "ca", &p->ca);
    if (!err)
        err = ensure_leaf(dir, "apiserver", ca_is_new, &p->ca, &server, &p->server);
    if (!err)
        err = ensure_leaf(dir, "admin", ca_is_new, &p->ca, &client, &p->client);
    return err;
}

static struct gs_error *ensure_token(const char *dir, char **ret)
{
    enum { RANDOM_BYTES = 32, DIGITS = 2 * RANDOM_BYTES };
    struct gs_error *err = read_text(dir, "token", ret);
    bool missing = err && gs_error_code(err) == GS_ENOTFOUND;
    if (!err && strlen(*ret) != DIGITS)
        err = gs_error_new(GS_EINVAL, "it has %zu characters, want %d", strlen(*ret), DIGITS);
    if (!err)
        return NULL;
    if (missing)
        gs_error_free(err);
    else
        warn_of_damage(dir, "token", err, "Copies of the old one no longer work");
    gs_free_secret(GS_TAKE(*ret));
    *ret = gs_random_hex(RANDOM_BYTES);
    return write_text(dir, "token", *ret);
}

// The key that signs the tokens of service accounts.
static struct gs_error *ensure_signing_key(const char *dir, char **ret)
{
    struct tls_signing_key *key = NULL;
    struct gs_error *err = read_text(dir, "sa.key", ret);
    bool missing = err && gs_error_code(err) == GS_ENOTFOUND;
    if (!err)
        err = tls_signing_key_read(*ret, &key);
    tls_signing_key_free(key);
    if (!err)
        return NULL;
    if (missing)
        gs_error_free(err);
    else
        warn_of_damage(dir, "sa.key", err, "Tokens of service accounts no longer work");
    gs_free_secret(GS_TAKE(*ret));
    err = tls_signing_key_create(ret);
    return err ? err : write_text(dir, "sa.key", *ret);
}

struct gs_error *up_pki_load(const char *dir, struct up_pki *ret)
{
    struct up_pki p = {0};
    struct gs_error *err = gs_mkdir_p(dir, 0700);
    if (!err)
        err = ensure_pairs(dir, &p);
    if (!err)
        err = ensure_token(dir, &p.token);
    if (!err)
        err = ensure_signing_key(dir, &p.service_account_key);
    if (err) {
        up_pki_finish(&p);
        return gs_error_wrap(err, "certificates in %s", dir);
    }
    *ret = p;
    return NULL;
}

void up_pki_finish(struct up_pki *p)
{
    tls_pair_finish(&p->ca);
    tls_pair_finish(&p->server);
    tls_pair_finish(&p->client);
    gs_free_secret(p->token);
    gs_free_secret(p->service_account_key);
    *p = (struct up_pki){0};
}
