// SPDX-License-Identifier: Apache-2.0
// What the queries about pods have in common.
#include "hpa_controller/query_text.h"

#include "base/mem.h"

enum { MAX_SHOWN = 200 }; // of the reason

// Names of objects have no character with a meaning in a pattern but the dot.
void hpa_query_names(const char *const *names, size_t n, struct gs_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        if (i)
            gs_buf_add_char(out, '|');
        for (const char *c = names[i]; *c; c++) {
            if (*c == '.')
                gs_buf_add_str(out, "\\\\");
            gs_buf_add_char(out, *c);
        }
    }
}

char *hpa_query_refused(int status, const json_t *body)
{
    const char *text = codec_json_str(body, "error", NULL);
    return text ? gs_format("HTTP status %d: %.*s", status, MAX_SHOWN, text)
                : gs_format("HTTP status %d", status);
}
