// SPDX-License-Identifier: Apache-2.0
// Who sent a request, in the order of apiserver's delegated authentication: in-process caller,
// front proxy (with a certificate of its CA, and headers), client certificate, TokenReview,
// anonymous. The headers of identity count only with the certificate of the front proxy.
#include "adapter/api/api_private.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <ctype.h>
#include <strings.h>

enum { MAX_GROUPS = 1000, MAX_VERDICTS = 1024 };
#define VERDICT_NS (60 * GS_NS_PER_SEC)
#define UID_HEADER "X-Remote-Uid"

static void add_group(struct adapter_api_auth_user *u, const char *group)
{
    if (json_array_size(u->groups) < MAX_GROUPS && !codec_json_has_string(u->groups, group))
        json_array_append_new(u->groups, json_string(group));
}

static const char *first_header(const struct http_exchange *x,
                                const struct adapter_api_auth_names *names)
{
    for (size_t i = 0; i < names->n; i++) {
        const char *v = http_header(x, names->items[i]);
        if (v && *v)
            return v;
    }
    return NULL;
}

static bool is_one_of(const struct adapter_api_auth_names *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcasecmp(names->items[i], name) == 0)
            return true;
    return false;
}

static void add_extra(struct adapter_api_auth_user *u, const char *raw_key, const char *value)
{
    char *key = NULL;
    GS_AUTO_FREE char *lower = gs_strdup(raw_key);
    for (char *p = lower; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    gs_error_free(http_decode_segment(gs_slice_of(lower), &key));
    if (!key)
        return;
    json_t *list = json_object_get(u->extra, key);
    if (!list) {
        list = json_array();
        json_object_set_new(u->extra, key, list);
    }
    json_array_append_new(list, json_string(value));
    free(key);
}

void adapter_api_auth_verdict_free(void *value)
{
    struct adapter_api_auth_verdict *v = value;
    free(v->name);
    adapter_api_ca_groups_free(v->groups);
    free(v);
}

static struct adapter_api_auth_verdict *judge(struct adapter_api_auth *a,
                                              const struct gs_slice *chain, size_t n)
{
    struct adapter_api_auth_verdict *v = gs_alloc(sizeof(*v));
    v->number = ++a->n_verdicts;
    v->until_ns = gs_mono_ns() + VERDICT_NS;
    if (!adapter_api_ca_read_subject(chain[0], &v->name, &v->groups))
        return v;
    v->by_proxy_ca = a->proxy.ca && adapter_api_ca_set_verify(a->proxy.ca, chain, n);
    v->by_client_ca = a->client_ca && adapter_api_ca_set_verify(a->client_ca, chain, n);
    return v;
}

// Verifies the certificates of a connection. Results are cached by the bytes of the certificates,
// because verification is the slowest step and all requests of a connection repeat it. NULL: the
// client sent no certificate.
const struct adapter_api_auth_verdict *adapter_api_auth_verdict_of(struct adapter_api_auth *a,
                                                                   const struct http_exchange *x)
{
    size_t n = 0;
    const struct gs_slice *chain = http_peer_chain(x, &n);
    if (!n)
        return NULL;
    struct gs_buf *key = &a->key;
    gs_buf_clear(key);
    for (size_t i = 0; i < n; i++) {
        gs_buf_add_u64(key, chain[i].len);
        gs_buf_add_char(key, ':');
        gs_buf_add_slice(key, chain[i]);
    }
    struct adapter_api_auth_verdict *v = gs_hmap_get(a->verdicts, gs_buf_slice(key));
    if (v && v->until_ns > gs_mono_ns())
        return v;
    if (gs_hmap_len(a->verdicts) >= MAX_VERDICTS)
        gs_hmap_clear(a->verdicts);
    v = judge(a, chain, n);
    gs_hmap_put(a->verdicts, gs_buf_slice(key), v);
    return v;
}

bool adapter_api_auth_is_identity_header(const struct adapter_api_auth *a, const char *name)
{
    const struct adapter_api_front_proxy *p = &a->proxy;
    if (is_one_of(&p->user_headers, name) || is_one_of(&p->group_headers, name) ||
        strcasecmp(name, UID_HEADER) == 0)
        return true;
    for (size_t k = 0; k < p->extra_prefixes.n; k++)
        if (strncasecmp(name, p->extra_prefixes.items[k], strlen(p->extra_prefixes.items[k])) == 0)
            return true;
    return false;
}

// Reads the user from the headers of the front proxy.
static bool by_front_proxy(struct adapter_api_auth_op *op, const struct adapter_api_auth_verdict *v)
{
    const struct adapter_api_front_proxy *p = &op->a->proxy;
    if (!v->by_proxy_ca)
        return false;
    bool allowed = p->allowed.n == 0;
    for (size_t i = 0; i < p->allowed.n; i++)
        allowed = allowed || strcmp(p->allowed.items[i], v->name) == 0;
    const char *user = first_header(op->x, &p->user_headers);
    if (!allowed || !user)
        return false;
    op->user.name = gs_strdup(user);
    const char *name, *value;
    for (size_t i = 0; (value = http_header_nth(op->x, i, &name)); i++) {
        if (is_one_of(&p->group_headers, name))
            add_group(&op->user, value);
        if (strcasecmp(name, UID_HEADER) == 0 && !op->user.uid)
            op->user.uid = gs_strdup(value);
        for (size_t k = 0; k < p->extra_prefixes.n; k++) {
            size_t len = strlen(p->extra_prefixes.items[k]);
            if (strncasecmp(name, p->extra_prefixes.items[k], len) == 0)
                add_extra(&op->user, name + len, value);
        }
    }
    return true;
}

static bool by_certificate(struct adapter_api_auth_op *op, const struct adapter_api_auth_verdict *v)
{
    if (!v->by_client_ca)
        return false;
    op->user.name = gs_strdup(v->name);
    for (size_t i = 0; v->groups[i]; i++)
        add_group(&op->user, v->groups[i]);
    return true;
}

static void authenticated(struct adapter_api_auth_op *op)
{
    add_group(&op->user, "system:authenticated");
    adapter_api_auth_authorize(op);
}

static void on_token(void *arg, const json_t *status, int64_t until_ns, struct gs_error *err)
{
    struct adapter_api_auth_op *op = arg;
    if (until_ns < op->until_ns)
        op->until_ns = until_ns;
    size_t i;
    json_t *g;
    op->review = NULL;
    const char *user = codec_json_str(status, "user", "username", NULL);
    if (err) {
        gs_warn("adapter", "TokenReview: %s", gs_error_message(err));
        gs_error_free(err);
        op->a->stats.token_review_failures++;
        adapter_api_auth_refuse_401(op);
        return;
    }
    if (!codec_json_bool(status, false, "authenticated", NULL) || !user) {
        adapter_api_auth_refuse_401(op);
        return;
    }
    op->user.name = gs_strdup(user);
    op->user.uid = gs_strdup(codec_json_str(status, "user", "uid", NULL));
    json_array_foreach (codec_json_get(status, "user", "groups", NULL), i, g)
        if (json_is_string(g))
            add_group(&op->user, json_string_value(g));
    const json_t *extra = codec_json_get(status, "user", "extra", NULL);
    if (json_is_object(extra))
        json_object_update(op->user.extra, (json_t *)(uintptr_t)extra);
    authenticated(op);
}

static void anonymous(struct adapter_api_auth_op *op)
{
    op->user.name = gs_strdup("system:anonymous");
    add_group(&op->user, "system:unauthenticated");
    adapter_api_auth_authorize(op);
}

void adapter_api_auth_authenticate(struct adapter_api_auth_op *op)
{
    const struct http_identity *carrier = http_identity(op->x);
    if (carrier->user) { // in-process loopback: the caller is authenticated already
        op->user.name = gs_strdup(carrier->user);
        for (size_t i = 0; i < carrier->n_groups; i++)
            add_group(&op->user, carrier->groups[i]);
        authenticated(op);
        return;
    }
    const struct adapter_api_auth_verdict *v = adapter_api_auth_verdict_of(op->a, op->x);
    if (v && v->until_ns < op->until_ns)
        op->until_ns = v->until_ns;
    if (v && (by_front_proxy(op, v) || by_certificate(op, v))) {
        authenticated(op);
        return;
    }
    const char *header = http_header(op->x, "Authorization");
    if (header && strncasecmp(header, "Bearer ", 7) == 0 && header[7]) {
        if (!op->a->tokens) {
            adapter_api_auth_refuse_401(op);
            return;
        }
        op->review = adapter_api_reviews_send(
            op->a->tokens, json_pack("{s:s}", "token", header + 7), on_token, op);
        return;
    }
    // As in Kubernetes, a certificate of an unknown CA is an error and not anonymous.
    if (v && (op->a->proxy.ca || op->a->client_ca))
        adapter_api_auth_refuse_401(op);
    else
        anonymous(op);
}
