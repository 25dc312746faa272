// SPDX-License-Identifier: Apache-2.0
// Paths of requests to the router of Ingresses: what remains is absolute, has no empty, "." or ".."
// element, and is not longer.
#include "base/mem.h"
#include "base/slice.h"
#include "local/services/services_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GS_AUTO_FREE char *raw = gs_strndup((const char *)data, size);
    GS_AUTO_FREE char *path = services_ingress_path(raw);
    if (!path)
        return 0;
    if (*path != '/' || strlen(path) > strlen(raw))
        abort();
    struct gs_slice rest = gs_slice_of(path + 1);
    while (rest.data) {
        struct gs_slice element = gs_slice_cut(&rest, '/');
        bool last = !rest.data;
        if ((!element.len && !last) || gs_slice_eq_str(element, ".") ||
            gs_slice_eq_str(element, ".."))
            abort();
    }
    return 0;
}
