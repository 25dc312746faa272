// SPDX-License-Identifier: Apache-2.0
// Templates of rules: parsed and expanded with lists, maps and texts.
#include "adapter/config/config.h"

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
    const struct metrics_label values[] = {{GS_SLICE("namespace"), GS_SLICE("ml")},
                                           {GS_SLICE("pod"), GS_SLICE("a|b")}};
    const struct gs_slice by[] = {GS_SLICE("pod"), GS_SLICE("container")};
    const struct adapter_config_query_data d = {.series = GS_SLICE("m"),
                                                .matchers = GS_SLICE("pod=~\"a|b\""),
                                                .group_by = GS_SLICE("pod"),
                                                .values = values,
                                                .n_values = 2,
                                                .group_by_list = by,
                                                .n_group_by = 2};
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_error_free(adapter_config_query_expand(t, &d, &out));
    gs_error_free(adapter_config_label_expand(t, GS_SLICE("apps"), GS_SLICE("deployment"), &out));
    template_free(t);
    return 0;
}
