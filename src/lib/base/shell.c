// SPDX-License-Identifier: Apache-2.0
// Quotes texts for commands that people copy into a shell, and for scripts.
#include "base/shell.h"

#include "base/buf.h"
#include "base/mem.h"

#include <string.h>

#define PLAIN                                                                                      \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"                                         \
    "0123456789/._-+,@%:"

char *gs_shell_word(const char *text)
{
    struct gs_buf out = {0};
    if (*text && text[strspn(text, PLAIN)] == '\0')
        return gs_strdup(text);
    gs_buf_add_char(&out, '\'');
    for (const char *c = text; *c; c++)
        if (*c == '\'')
            gs_buf_add_str(&out, "'\\''");
        else
            gs_buf_add_char(&out, *c);
    gs_buf_add_char(&out, '\'');
    return gs_buf_take(&out);
}
