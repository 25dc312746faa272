// SPDX-License-Identifier: Apache-2.0
// Whatever parses must survive being written and parsed again with the same samples.
#include "base/mem.h"
#include "metrics/write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct pass {
    struct gs_buf out;
    size_t n;
};

static bool rewrite(void *arg, const struct metrics_sample *s)
{
    struct pass *p = arg;
    GS_AUTO_FREE char *name = gs_slice_dup(s->name);
    metrics_write_sample(&p->out, name, s->labels, s->n_labels, s->value);
    p->n++;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pass first = {0}, second = {0};
    GS_AUTO_ERROR struct gs_error *err =
        metrics_parse_text(gs_slice_make(data, size), NULL, rewrite, &first);
    // An escape can make a line longer than the limit: then the second pass may refuse it.
    GS_AUTO_ERROR struct gs_error *again =
        size < 30000 ? metrics_parse_text(gs_buf_slice(&first.out), NULL, rewrite, &second) : NULL;
    if (size < 30000 && (again || first.n != second.n))
        __builtin_trap();
    gs_buf_finish(&first.out);
    gs_buf_finish(&second.out);
    return 0;
}
