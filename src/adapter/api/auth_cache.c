// SPDX-License-Identifier: Apache-2.0
// Caches decisions that allowed a request, because autoscalers repeat equal requests. While the
// verification of the certificate, the TokenReview and the SubjectAccessReview are all cached, the
// decision is one lookup.
#include "adapter/api/api_private.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"

#include <stdint.h>
#include <strings.h>

enum { MAX_KNOWN = 4096 };

static void add_text(struct gs_buf *key, const char *text)
{
    gs_buf_add(key, text, strlen(text) + 1);
}

// Builds the key from all inputs of the decision; empty: the decision cannot be cached. A NUL ends
// each text that the client controls; such texts contain no NUL.
static struct gs_slice make_key(struct adapter_api_auth *a, const struct http_exchange *x)
{
    const char *name, *value, *watch = http_query(x, "watch");
    struct gs_buf *key = &a->key;
    const struct adapter_api_auth_verdict *v = adapter_api_auth_verdict_of(a, x);
    gs_buf_clear(key);
    if (http_identity(x)->user)
        return gs_buf_slice(key);
    gs_buf_add_u64(key, v ? v->number : 0);
    add_text(key, " ");
    add_text(key, http_method(x));
    add_text(key, http_path(x));
    add_text(key, watch ? watch : "");
    for (size_t i = 0; (value = http_header_nth(x, i, &name)); i++)
        if (strcasecmp(name, "Authorization") == 0 ||
            adapter_api_auth_is_identity_header(a, name)) {
            add_text(key, name);
            add_text(key, value);
        }
    return gs_buf_slice(key);
}

void adapter_api_auth_cache_begin(struct adapter_api_auth_op *op)
{
    struct gs_slice key = make_key(op->a, op->x);
    op->until_ns = INT64_MAX;
    op->cache_len = key.len;
    op->cache_key = key.len ? gs_slice_dup(key) : NULL;
}

void adapter_api_auth_cache_put(struct adapter_api_auth_op *op)
{
    struct adapter_api_auth *a = op->a;
    if (!op->cache_key || op->until_ns <= gs_mono_ns())
        return;
    if (gs_hmap_len(a->cache) >= MAX_KNOWN)
        gs_hmap_clear(a->cache);
    int64_t *until_ns = gs_alloc(sizeof(*until_ns));
    *until_ns = op->until_ns;
    gs_hmap_put(a->cache, gs_slice_make(op->cache_key, op->cache_len), until_ns);
}

void adapter_api_auth_cache_clear(struct adapter_api_auth *a)
{
    gs_hmap_clear(a->cache);
}

bool adapter_api_auth_cached(struct adapter_api_auth *a, const struct http_exchange *x)
{
    struct gs_slice key = make_key(a, x);
    const int64_t *until_ns = key.len ? gs_hmap_get(a->cache, key) : NULL;
    return until_ns && *until_ns > gs_mono_ns();
}
