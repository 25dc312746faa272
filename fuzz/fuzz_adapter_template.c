// SPDX-License-Identifier: Apache-2.0
// Templates of rules: parsed and expanded with lists, maps and texts.
#include "adapter_rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct template_syntax form = {"<<", ">>", ""};
    struct template_program *t = NULL;
    struct gs_error *err =
        template_parse_with(gs_slice_make(data, size), "metrics-query", &form, &t);
    gs_error_free(err);
    if (err)
        return 0;
    GS_AUTO_BUF struct gs_buf out = {0};
    expand_rule_query(t, &out);
    expand_rule_label(t, &out);
    template_free(t);
    return 0;
}
