// SPDX-License-Identifier: Apache-2.0
// The body of a response while it is written: in turns with other work, and with a limit of its
// bytes, of one body and of all that are being written.
#include "engine/api/api_private.h"

#include "base/clock.h"

enum {
    KEEP_BUFFER = 32 * 1024 * 1024, // bytes; a larger buffer is not used again
    ALL_BODIES = 2,                 // times the limit of one body
    SORTED_AT_ONCE = 1024,          // comparisons
};

struct gs_buf *engine_api_buffer(struct engine_api_request *r)
{
    struct engine_api *a = r->api;
    engine_api_drop_body(r);
    r->body = a->spare ? a->spare : http_bytes_new(&(struct gs_buf){0});
    a->spare = NULL;
    struct gs_buf *out = http_bytes_edit(&r->body, 0);
    out->limit = a->cfg.max_reply;
    r->turn_ns = gs_mono_ns();
    return out;
}

static void count_bytes(struct engine_api_request *r, size_t n)
{
    r->api->n_body_bytes += n - r->n_body_bytes;
    r->n_body_bytes = n;
}

void engine_api_drop_body(struct engine_api_request *r)
{
    count_bytes(r, 0);
    http_bytes_unref(r->body);
    r->body = NULL;
}

static bool too_many_bytes(const struct engine_api *a)
{
    return a->n_body_bytes / ALL_BODIES > a->cfg.max_reply;
}

bool engine_api_go_on(void *request)
{
    struct engine_api_request *r = request;
    struct engine_api_slice slice = {r->api->queue, r->turn_ns ? r->turn_ns : gs_mono_ns()};
    if (r->body) {
        const struct gs_buf *out = http_bytes_edit(&r->body, SIZE_MAX);
        count_bytes(r, out->len);
        if (out->overflow || too_many_bytes(r->api))
            return false;
    }
    bool connected = engine_api_slice_go_on(&slice);
    r->turn_ns = slice.begun_ns;
    return connected && r->x;
}

struct http_bytes *engine_api_take_body(struct engine_api_request *r)
{
    struct engine_api *a = r->api;
    struct gs_buf *out = http_bytes_edit(&r->body, SIZE_MAX);
    count_bytes(r, out->len);
    bool large = out->overflow, full = too_many_bytes(a);
    if (!r->x || large || full) {
        engine_api_drop_body(r);
        if (r->x && large)
            engine_api_fail(r, ENGINE_API_EXECUTION,
                            "the reply is larger than %zu bytes, the limit of "
                            "--query.max-reply-size; select fewer series or a larger step",
                            a->cfg.max_reply);
        else if (r->x)
            engine_api_fail(r, ENGINE_API_BUSY,
                            "the replies to this and other requests are together larger than %zu "
                            "bytes, %d times the limit of --query.max-reply-size; try again later",
                            ALL_BODIES * a->cfg.max_reply, ALL_BODIES);
        return NULL;
    }
    struct http_bytes *body = r->body;
    out->limit = 0;
    count_bytes(r, 0);
    r->body = NULL;
    if (out->cap <= KEEP_BUFFER) {
        http_bytes_unref(a->spare);
        a->spare = http_bytes_ref(body);
    }
    return body;
}

// --- sorting ---

struct sorting {
    int (*compare)(const void *a, const void *b, void *arg);
    void *arg;
    bool (*go_on)(void *arg);
    void *go_on_arg;
    size_t n_compared;
};

static int compare_slowly(const void *a, const void *b, void *arg)
{
    struct sorting *s = arg;
    // The result cannot stop qsort_r(). The caller of the sort checks this again afterwards.
    if (++s->n_compared % SORTED_AT_ONCE == 0)
        (void)s->go_on(s->go_on_arg);
    return s->compare(a, b, s->arg);
}

void engine_api_sort(void *items, size_t n, size_t size,
                     int (*compare)(const void *a, const void *b, void *arg), void *arg,
                     bool (*go_on)(void *arg), void *go_on_arg)
{
    struct sorting s = {compare, arg, go_on, go_on_arg, 0};
    if (n > 1)
        qsort_r(items, n, size, go_on ? compare_slowly : compare, go_on ? &s : arg);
}
