// SPDX-License-Identifier: Apache-2.0
// A printed selector must parse, and print the same again.
#include "base/mem.h"
#include "kube/selector.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GS_AUTO_FREE char *text = gs_strndup((const char *)data, size);
    CODEC_AUTO_JSON json_t *labels = json_pack("{ssssss}", "a", "b", "app", "x", "n", "7");
    struct kube_selector s;
    GS_AUTO_ERROR struct gs_error *err = kube_selector_parse(text, &s);
    if (!err) {
        GS_AUTO_BUF struct gs_buf once = {0};
        GS_AUTO_BUF struct gs_buf twice = {0};
        struct kube_selector again;
        bool match = kube_selector_matches(&s, labels);
        kube_selector_format(&s, &once);
        if (kube_selector_parse(once.data, &again))
            abort();
        kube_selector_format(&again, &twice);
        if (match != kube_selector_matches(&again, labels) ||
            !gs_slice_eq(gs_buf_slice(&once), gs_buf_slice(&twice)))
            abort();
        kube_selector_finish(&again);
        kube_selector_finish(&s);
    }
    GS_AUTO_ERROR struct gs_error *field_err = kube_field_selector_parse(text, &s);
    if (!field_err) {
        kube_field_selector_matches(&s, labels);
        kube_selector_finish(&s);
    }
    return 0;
}
