// SPDX-License-Identifier: Apache-2.0
// Client certificates against a set of CAs. The name is the common name, the groups are the
// organizations, as in Kubernetes. Sizes are limited, because the subject comes from a peer.
#include "adapter/api/api_private.h"

#include "base/mem.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdint.h>

enum { MAX_CHAIN = 16, MAX_GROUPS = 64, MAX_PART = 512 };

struct adapter_api_ca_set {
    gnutls_x509_trust_list_t list;
};

struct gs_error *adapter_api_ca_set_new(const char *pem, struct adapter_api_ca_set **ret)
{
    struct adapter_api_ca_set *s = gs_alloc(sizeof(*s));
    const gnutls_datum_t text = {(unsigned char *)(uintptr_t)pem, (unsigned)strlen(pem)};
    gnutls_x509_trust_list_init(&s->list, 0);
    int rc = gnutls_x509_trust_list_add_trust_mem(s->list, &text, NULL, GNUTLS_X509_FMT_PEM, 0, 0);
    if (rc <= 0) {
        adapter_api_ca_set_free(s);
        return gs_error_new(GS_EINVAL, "no certificate in the CA bundle (%s)",
                            rc < 0 ? gnutls_strerror(rc) : "it is empty");
    }
    *ret = s;
    return NULL;
}

void adapter_api_ca_set_free(struct adapter_api_ca_set *s)
{
    if (!s)
        return;
    gnutls_x509_trust_list_deinit(s->list, 1);
    free(s);
}

static unsigned import_chain(const struct gs_slice *chain, size_t n, gnutls_x509_crt_t *out)
{
    unsigned got = 0;
    for (size_t i = 0; i < n && i < MAX_CHAIN; i++) {
        const gnutls_datum_t der = {(unsigned char *)(uintptr_t)chain[i].data,
                                    (unsigned)chain[i].len};
        if (gnutls_x509_crt_init(&out[got]) < 0)
            break;
        if (gnutls_x509_crt_import(out[got], &der, GNUTLS_X509_FMT_DER) < 0) {
            gnutls_x509_crt_deinit(out[got]);
            break;
        }
        got++;
    }
    return got;
}

bool adapter_api_ca_set_verify(const struct adapter_api_ca_set *s, const struct gs_slice *chain,
                               size_t n)
{
    gnutls_x509_crt_t crts[MAX_CHAIN];
    unsigned got = import_chain(chain, n, crts), status = 0;
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT};
    int rc =
        got ? gnutls_x509_trust_list_verify_crt2(s->list, crts, got, &purpose, 1, 0, &status, NULL)
            : -1;
    for (unsigned i = 0; i < got; i++)
        gnutls_x509_crt_deinit(crts[i]);
    return rc >= 0 && status == 0;
}

static char *part(gnutls_x509_crt_t crt, const char *oid, unsigned i)
{
    char text[MAX_PART];
    size_t size = sizeof(text);
    if (gnutls_x509_crt_get_dn_by_oid(crt, oid, i, 0, text, &size) < 0 || memchr(text, '\0', size))
        return NULL;
    return gs_strndup(text, size);
}

bool adapter_api_ca_read_subject(struct gs_slice der, char **ret_name, char ***ret_groups)
{
    gnutls_x509_crt_t crt;
    if (import_chain(&der, 1, &crt) != 1)
        return false;
    char *name = part(crt, GNUTLS_OID_X520_COMMON_NAME, 0);
    char **groups = gs_alloc_array(MAX_GROUPS + 1, sizeof(char *));
    size_t n = 0;
    for (unsigned i = 0; name && n < MAX_GROUPS; i++) {
        groups[n] = part(crt, GNUTLS_OID_X520_ORGANIZATION_NAME, i);
        if (!groups[n])
            break;
        n++;
    }
    gnutls_x509_crt_deinit(crt);
    if (!name || !*name) {
        free(name);
        adapter_api_ca_groups_free(groups);
        return false;
    }
    *ret_name = name;
    *ret_groups = groups;
    return true;
}

void adapter_api_ca_groups_free(char **groups)
{
    for (size_t i = 0; groups && groups[i]; i++)
        free(groups[i]);
    free(groups);
}
