// SPDX-License-Identifier: Apache-2.0
// Bodies of responses that are still valid, by target and Accept header: several HPAs and `kubectl
// top` often request the same list. Bodies are shared with the requests that send them. They are
// the same for all users, so a caller must be authorized before one is sent.
#include "adapter/api/api_private.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"

#include <sys/queue.h>

enum { MAX_BODIES = 4096 };
#define MAX_BYTES ((size_t)32 * 1024 * 1024)

struct body {
    TAILQ_ENTRY(body) all;
    struct gs_slice key; // stored after the struct
    struct http_bytes *bytes;
    int64_t until_ns;
};
TAILQ_HEAD(bodies, body);

struct adapter_api_response_cache {
    struct gs_hmap *by_key;
    struct bodies all; // the oldest first
    size_t bytes;
    struct gs_buf key; // scratch
};

struct adapter_api_response_cache *adapter_api_response_cache_new(void)
{
    struct adapter_api_response_cache *r = gs_alloc(sizeof(*r));
    r->by_key = gs_hmap_new(NULL);
    TAILQ_INIT(&r->all);
    return r;
}

static size_t size_of(const struct body *b)
{
    return sizeof(*b) + b->key.len + http_bytes_slice(b->bytes).len;
}

static void drop(struct adapter_api_response_cache *r, struct body *b)
{
    TAILQ_REMOVE(&r->all, b, all);
    if (gs_hmap_get(r->by_key, b->key) == b)
        gs_hmap_remove(r->by_key, b->key);
    r->bytes -= size_of(b);
    http_bytes_unref(b->bytes);
    free(b);
}

void adapter_api_response_cache_clear(struct adapter_api_response_cache *r)
{
    for (struct body *b = TAILQ_FIRST(&r->all), *next; b; b = next) {
        next = TAILQ_NEXT(b, all);
        drop(r, b);
    }
}

void adapter_api_response_cache_free(struct adapter_api_response_cache *r)
{
    if (!r)
        return;
    adapter_api_response_cache_clear(r);
    gs_hmap_free(r->by_key);
    gs_buf_finish(&r->key);
    free(r);
}

// Builds the key: the target and the accepted representations.
static struct gs_slice key_of(struct adapter_api_response_cache *r, const struct http_exchange *x)
{
    const char *accept = http_header(x, "Accept");
    gs_buf_clear(&r->key);
    gs_buf_add_str(&r->key, http_target(x));
    gs_buf_add_char(&r->key, ' ');
    gs_buf_add_str(&r->key, accept ? accept : "");
    return gs_buf_slice(&r->key);
}

static void drop_old(struct adapter_api_response_cache *r)
{
    for (struct body *b = TAILQ_FIRST(&r->all), *next; b; b = next) {
        if (b->until_ns > gs_mono_ns() && gs_hmap_len(r->by_key) <= MAX_BODIES &&
            r->bytes <= MAX_BYTES)
            return;
        next = TAILQ_NEXT(b, all);
        drop(r, b);
    }
}

struct http_bytes *adapter_api_response_cache_find(struct adapter_api_response_cache *r,
                                                   const struct http_exchange *x)
{
    drop_old(r);
    struct body *b = gs_hmap_len(r->by_key) ? gs_hmap_get(r->by_key, key_of(r, x)) : NULL;
    return b && b->until_ns > gs_mono_ns() ? b->bytes : NULL;
}

void adapter_api_response_cache_put(struct adapter_api_response_cache *r,
                                    const struct http_exchange *x, struct http_bytes *body,
                                    int64_t until_ns)
{
    if (until_ns <= gs_mono_ns() || http_bytes_slice(body).len > MAX_BYTES / 4)
        return;
    struct gs_slice key = key_of(r, x);
    struct body *b = gs_hmap_get(r->by_key, key);
    if (b)
        drop(r, b);
    b = gs_alloc(sizeof(*b) + key.len);
    memcpy(b + 1, key.data, key.len);
    b->key = gs_slice_make((const char *)(b + 1), key.len);
    b->bytes = http_bytes_ref(body);
    b->until_ns = until_ns;
    gs_hmap_put(r->by_key, b->key, b);
    TAILQ_INSERT_TAIL(&r->all, b, all);
    r->bytes += size_of(b);
    drop_old(r);
}

void adapter_api_response_cache_expire(struct adapter_api_response_cache *r)
{
    drop_old(r);
}
