// SPDX-License-Identifier: Apache-2.0
// Paths of the metrics APIs. Required parts of a parsed path are set.
#include "adapter/api/path.h"
#include "base/mem.h"
#include "base/slice.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GS_AUTO_FREE char *text = gs_strndup((const char *)data, size);
    struct adapter_api_path p;
    struct gs_error *err = adapter_api_path_read(text, &p);
    if (!err && p.kind == ADAPTER_API_METRIC && (!p.metric || !*p.metric))
        abort();
    if (!err && p.kind == ADAPTER_API_METRIC && gs_streq(p.group, ADAPTER_API_CUSTOM) &&
        (!p.object_resource || !p.object_name || !p.resource))
        abort();
    if (!err && p.kind == ADAPTER_API_USAGE && !p.object_resource)
        abort();
    gs_error_free(err);
    adapter_api_path_finish(&p);
    return 0;
}
