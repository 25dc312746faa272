// SPDX-License-Identifier: Apache-2.0
// Error texts of libcurl without the time that an attempt took. With it, one failure would have
// another text at each attempt, and what is logged, counted or written once per reason would be
// repeated.
#include "net/http/curl_private.h"

#include <ctype.h>
#include <string.h>

// Returns the end of " 12 ms" or " 12 milliseconds" after `p`, or NULL.
static char *after_duration(char *p)
{
    size_t digits = strspn(p, "0123456789");
    static const char *const units[] = {" milliseconds", " ms"};
    for (size_t i = 0; digits && i < sizeof(units) / sizeof(units[0]); i++) {
        size_t len = strlen(units[i]);
        if (!strncmp(p + digits, units[i], len) && !isalnum((unsigned char)p[digits + len]))
            return p + digits + len;
    }
    return NULL;
}

void http_curl_text_settle(char *text)
{
    static const char word[] = " after ";
    char *p = text;
    while ((p = strstr(p, word))) {
        char *number = p + sizeof(word) - 1;
        char *end = after_duration(number);
        if (!end) {
            p = number;
            continue;
        }
        size_t digits = strspn(number, "0123456789");
        if (digits > 3) { // whole seconds: those of a timeout
            p = number + digits - 3;
            memcpy(p, " s", 2);
            p += 2;
        }
        memmove(p, end, strlen(end) + 1);
    }
}
