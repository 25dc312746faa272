// SPDX-License-Identifier: Apache-2.0
// The last line of a container's log for a diagnosis, made safe for a terminal.
#include "base/mem.h"
#include "codec/encoding.h"
#include "diagnosis/diagnosis_private.h"

#define MAX_LINE 200 // bytes

// Removes control characters, which a terminal would execute.
static char *visible(struct gs_slice line)
{
    struct gs_buf out = {0};
    size_t n = line.len > MAX_LINE ? MAX_LINE : line.len;
    while (n && n < line.len && ((unsigned char)line.data[n] & 0xc0) == 0x80)
        n--;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)line.data[i];
        gs_buf_add_char(&out, (char)(c < 0x20 || c == 0x7f ? ' ' : c));
    }
    if (codec_utf8_valid_prefix(gs_buf_slice(&out)) != out.len)
        for (size_t i = 0; i < out.len; i++)
            if ((unsigned char)out.data[i] >= 0x80)
                out.data[i] = '?';
    if (n < line.len)
        gs_buf_add_str(&out, "…");
    return gs_buf_take(&out);
}

char *diagnosis_last_log_line(struct gs_slice log)
{
    struct gs_slice last = {NULL, 0};
    while (log.data) {
        struct gs_slice line = gs_slice_trim(gs_slice_cut(&log, '\n'));
        if (line.len)
            last = line;
    }
    return visible(last);
}
