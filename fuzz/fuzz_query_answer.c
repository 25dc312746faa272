// SPDX-License-Identifier: Apache-2.0
// The output of `gpuscale query` for any response of a server.
#include "base/mem.h"
#include "query/query_private.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *answer = NULL;
    struct gs_error *err =
        codec_json_parse(gs_slice_make(size ? (const char *)data : "", size), false, &answer);
    gs_error_free(err);
    if (err)
        return 0;
    for (int kind = QUERY_VALUES; kind <= QUERY_METADATA; kind++)
        for (int format = QUERY_TABLE; format <= QUERY_PROMQL; format++) {
            const struct query_print p = {(enum query_kind)kind, (enum query_format)format, true};
            GS_AUTO_FREE char *text = NULL;
            size_t n = 0;
            bool any;
            FILE *out = open_memstream(&text, &n);
            gs_error_free(query_print(&p, answer, out, &any));
            (void)fclose(out);
            // No escape sequences for the terminal except those of headings.
            for (size_t i = 0; kind != QUERY_METADATA && format == QUERY_TABLE && i < n; i++)
                if ((unsigned char)text[i] < ' ' && text[i] != '\n' &&
                    !(text[i] == '\x1b' &&
                      (gs_starts(text + i, "\x1b[1m") || gs_starts(text + i, "\x1b[0m"))))
                    abort();
        }
    json_decref(answer);
    return 0;
}
