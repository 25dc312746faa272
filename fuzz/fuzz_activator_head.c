// SPDX-License-Identifier: Apache-2.0
// The first bytes of a connection to the activator. A head that is complete stays what it is when
// more bytes follow.
#include "activator/gate_private.h"
#include "base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_slice bytes = gs_slice_make(data, size);
    enum activator_protocol whole = activator_head_protocol(bytes);
    for (size_t n = 0; n < size && n < ACTIVATOR_MAX_HEAD; n++) {
        enum activator_protocol part = activator_head_protocol(gs_slice_make(data, n));
        gs_assert(part == ACTIVATOR_PART || part == whole);
    }
    char path[] = "/health", agent[] = "Uptime/";
    char *paths[] = {path, NULL}, *agents[] = {agent, NULL};
    const struct activator_rules rules = {.probe_paths = paths, .probe_agents = agents};
    if (whole == ACTIVATOR_HTTP) {
        bool known = activator_head_is_probe(bytes, NULL);
        gs_assert(!known || activator_head_is_probe(bytes, &rules)); // rules only add
        (void)activator_head_is_1_1(bytes);
        (void)activator_stream_wanted(bytes);
    }
    return 0;
}
