// SPDX-License-Identifier: Apache-2.0
#include "template/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gs_error *query(void *arg, struct gs_slice expr, struct gs_arena *arena,
                              struct template_sample **ret, size_t *ret_n)
{
    struct template_sample *items = gs_arena_alloc(arena, 3 * sizeof(*items));
    if (!items)
        return gs_error_new(GS_ELIMIT, "memory");
    *ret = items;
    *ret_n = expr.len % 4;
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct metrics_label labels[] = {{GS_SLICE("gpu"), GS_SLICE("0")},
                                                  {GS_SLICE("pod"), GS_SLICE("web-1:80")}};
    const struct template_data d = {.labels = labels,
                                    .n_labels = 2,
                                    .external_labels = labels,
                                    .n_external_labels = 1,
                                    .external_url = "http://a/b",
                                    .value = 1.5,
                                    .query = query};
    struct template_program *t = NULL;
    GS_AUTO_BUF struct gs_buf out = {0};
    struct gs_error *err = template_parse(gs_slice_make(data, size), "t", &t);
    if (!err)
        err = template_expand(t, &d, &out);
    gs_error_free(err);
    template_free(t);
    return 0;
}
