// SPDX-License-Identifier: Apache-2.0
// A regular expression of Go in the first line, a replacement in the second one, and the text: each
// way to match, with small limits.
#include "base/mem.h"
#include "base/regex.h"

#include <stdlib.h>

#define MAX_OUT ((size_t)64 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void match(struct gs_slice pattern, const struct gs_regex_options *o, struct gs_slice form,
                  struct gs_slice text)
{
    struct gs_regex *r = NULL;
    struct gs_slice group = {0};
    GS_AUTO_BUF struct gs_buf expanded = {.limit = MAX_OUT}, replaced = {.limit = MAX_OUT};
    GS_AUTO_ERROR struct gs_error *err = gs_regex_new(pattern, o, &r);
    if (err)
        return;
    bool matches = gs_regex_matches(r, text);
    if (gs_regex_expand(r, text, form, &expanded) != matches)
        abort();
    if (gs_regex_group(r, text, "n", &group) &&
        (!matches ||
         (group.len && (group.data < text.data || group.data + group.len > text.data + text.len))))
        abort();
    gs_regex_replace_all(r, text, form, &replaced);
    gs_regex_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_slice rest = gs_slice_make(size ? (const char *)data : "", size);
    struct gs_slice pattern = gs_slice_cut(&rest, '\n'), form = gs_slice_cut(&rest, '\n');
    for (unsigned i = 0; i < 4; i++) {
        const struct gs_regex_options o = {.whole = i & 1,
                                           .any_bytes = true,
                                           .jit = i & 2,
                                           .max_pattern = 4096,
                                           .match_limit = 2000};
        match(pattern, &o, form, rest);
    }
    return 0;
}
