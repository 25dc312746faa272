// SPDX-License-Identifier: Apache-2.0
// Escapes text for HTML as Go's html/template does, NUL as U+FFFD, too.
#include "codec/encoding.h"

void codec_html_escape(struct gs_slice s, struct gs_buf *out)
{
    for (size_t i = 0; i < s.len; i++)
        switch (s.data[i]) {
        case '\0':
            gs_buf_add_str(out, "\xef\xbf\xbd");
            break;
        case '"':
            gs_buf_add_str(out, "&#34;");
            break;
        case '\'':
            gs_buf_add_str(out, "&#39;");
            break;
        case '&':
            gs_buf_add_str(out, "&amp;");
            break;
        case '<':
            gs_buf_add_str(out, "&lt;");
            break;
        case '>':
            gs_buf_add_str(out, "&gt;");
            break;
        default:
            gs_buf_add_char(out, s.data[i]);
        }
}
