// SPDX-License-Identifier: Apache-2.0
// Requests of remote reads, before compression.
#include "codec/encoding.h"
#include "engine/remote/remote_private.h"
#include "engine/remote/remote_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct metrics_label external[] = {{{"site", 4}, {"s", 1}}};
    const struct metrics_label labels[] = {{GS_SLICE("__name__"), GS_SLICE("m")},
                                           {GS_SLICE("pod"), GS_SLICE("a")}};
    GS_AUTO_BUF struct gs_buf packed = {0}, response = {0}, plain = {0};
    struct tsdb *db = tsdb_new(&(struct tsdb_config){.max_series = 100});
    const struct remote_read_options o = {
        .db = db, .external_labels = external, .n_external_labels = 1};
    GS_AUTO_ERROR struct gs_error *appended = tsdb_append(db, labels, 2, 1000, 1);
    remote_compress(gs_slice_make(data, size), &packed);
    GS_AUTO_ERROR struct gs_error *err = remote_read(&o, gs_buf_slice(&packed), &response);
    GS_AUTO_ERROR struct gs_error *unpacked =
        err ? NULL : codec_unsnappy(gs_buf_slice(&response), SIZE_MAX, NULL, NULL, &plain);
    if (appended || unpacked)
        __builtin_trap();
    tsdb_free(db);
    return 0;
}
