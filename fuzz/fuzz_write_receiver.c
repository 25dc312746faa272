// SPDX-License-Identifier: Apache-2.0
// Received remote writes. First byte: the version. The rest is the body, and, compressed, the
// message. Blocks of Snappy are decompressed as by libsnappy.
#include "base/clock.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "engine/remote/receiver.h"
#include "engine/remote/remote_private.h"
#include "tsdb/exemplars.h"

#include <snappy-c.h>

#define MAX_BLOCK ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare_blocks(struct gs_slice body)
{
    GS_AUTO_BUF struct gs_buf ours = {0};
    size_t len = 0;
    bool sized = snappy_uncompressed_length(body.data, body.len, &len) == SNAPPY_OK;
    if (!sized || len > MAX_BLOCK)
        return;
    GS_AUTO_FREE char *theirs = gs_alloc(len + 1);
    bool ok = snappy_uncompress(body.data, body.len, theirs, &len) == SNAPPY_OK;
    GS_AUTO_ERROR struct gs_error *err = codec_unsnappy(body, MAX_BLOCK, NULL, NULL, &ours);
    if (ok == (err != NULL) ||
        (ok && !gs_slice_eq(gs_buf_slice(&ours), gs_slice_make(theirs, len))))
        __builtin_trap();
}

static void receive(struct remote_receiver *r, bool v2, struct gs_slice body)
{
    struct remote_receiver_reply reply;
    const struct remote_receiver_request q = {
        .peer = "fuzz",
        .content_type = v2 ? "application/x-protobuf;proto=io.prometheus.write.v2.Request" : NULL,
        .body = body,
    };
    remote_receiver_write(r, &q, &reply);
    if (reply.status != 204 && reply.status != 400)
        __builtin_trap();
    gs_buf_finish(&reply.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GS_AUTO_BUF struct gs_buf packed = {0};
    if (!size)
        return 0;
    struct gs_slice body = gs_slice_make(data + 1, size - 1);
    struct tsdb *db = tsdb_new(&(struct tsdb_config){.max_series = 100});
    tsdb_exemplars_set_max(db, 10);
    struct remote_receiver *r =
        remote_receiver_new(db, REMOTE_MESSAGE_V1 | REMOTE_MESSAGE_V2, 0, 0);
    compare_blocks(body);
    receive(r, data[0] & 1, body);
    remote_compress(body, &packed);
    compare_blocks(gs_buf_slice(&packed));
    receive(r, data[0] & 1, gs_buf_slice(&packed));
    remote_receiver_free(r);
    tsdb_free(db);
    return 0;
}
