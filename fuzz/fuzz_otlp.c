// SPDX-License-Identifier: Apache-2.0
// Received OTLP metrics. First byte: bit 0: JSON, bit 1: UTF-8 names, bit 2: attributes and scopes
// become labels. The rest is the body.
#include "base/mem.h"
#include "engine/remote/receiver.h"
#include "engine/remote/remote_private.h"
#include "tsdb/exemplars.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What JSON becomes is a message that passes the check.
static void check_conversion(struct gs_slice body)
{
    GS_AUTO_BUF struct gs_buf message = {0};
    GS_AUTO_ERROR struct gs_error *err =
        remote_otlp_of_json(body, REMOTE_MAX_DECODED, NULL, NULL, &message);
    if (err)
        return;
    GS_AUTO_ERROR struct gs_error *wrong = remote_otlp_check(gs_buf_slice(&message), NULL, NULL);
    if (wrong && !strstr(gs_error_message(wrong), "nested too deeply"))
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct remote_receiver_reply reply;
    if (!size)
        return 0;
    bool plain = data[0] & 2, all = data[0] & 4;
    const struct remote_receiver_request q = {
        .peer = "fuzz",
        .content_type = data[0] & 1 ? "application/json" : "application/x-protobuf",
        .body = gs_slice_make(data + 1, size - 1),
    };
    const struct engine_config_otlp o = {.suffixes = !all,
                                         .escape = !plain,
                                         .promote_all = all,
                                         .promote_scope = all,
                                         .sanitize_underscores = plain,
                                         .preserve_underscores = !all};
    struct tsdb *db = tsdb_new(&(struct tsdb_config){.max_series = 100});
    struct remote_receiver *r = remote_receiver_new(db, REMOTE_MESSAGE_OTLP, 0, 0);
    tsdb_exemplars_set_max(db, 8);
    remote_receiver_set_otlp(r, &o);
    check_conversion(q.body);
    remote_receiver_otlp(r, &q, &reply);
    if (reply.status != 200 && reply.status != 400 && reply.status != 500)
        __builtin_trap();
    gs_buf_finish(&reply.text);
    remote_receiver_free(r);
    tsdb_free(db);
    return 0;
}
