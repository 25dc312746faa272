// SPDX-License-Identifier: Apache-2.0
// /api/v1/read: samples for a Prometheus or Thanos that reads from this store.
#include "engine/api/api_private.h"

#include "base/arena.h"
#include "engine/remote/remote_read.h"

static struct gs_slice copy_text(struct gs_arena *a, struct gs_slice s)
{
    char *copy = gs_arena_alloc(a, s.len + 1);
    memcpy(copy, s.data, s.len);
    return gs_slice_make(copy, s.len);
}

// A request can outlast a configuration.
static struct metrics_label *copy_labels(struct gs_arena *a, const struct engine_config *c)
{
    size_t n = c ? c->n_external_labels : 0;
    struct metrics_label *labels = gs_arena_alloc(a, (n + 1) * sizeof(*labels));
    for (size_t i = 0; i < n; i++)
        labels[i] = (struct metrics_label){copy_text(a, c->external_labels[i].name),
                                           copy_text(a, c->external_labels[i].value)};
    return labels;
}

void engine_api_remote_read(struct engine_api_request *r)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    struct gs_arena arena = {0};
    const struct engine_config *c = r->api->config;
    const struct remote_read_options o = {.db = r->api->cfg.db,
                                          .external_labels = copy_labels(&arena, c),
                                          .n_external_labels = c ? c->n_external_labels : 0,
                                          .go_on = engine_api_queue_pause,
                                          .arg = r->api->queue};
    struct gs_error *err = remote_read(&o, http_body(r->x), &out);
    if (err) {
        engine_api_reply_text(r, 400, "%s\n", gs_error_message(err));
        gs_error_free(err);
    } else if (r->x) {
        r->encoded = true;
        http_add_header(r->x, "Content-Encoding", "snappy");
        engine_api_reply_body(r, 200, "application/x-protobuf", gs_buf_slice(&out));
    }
    gs_arena_finish(&arena);
}
