// SPDX-License-Identifier: Apache-2.0
// Selectors of devices, as in dcgm-exporter: "f", or g and i, each with or without a list, such as
// "g:0,2-4+i". g are GPUs, switches or CPUs, i what is in them: MIG devices, links or cores.
#include "exporter/exporter_private.h"

#include "base/slice.h"

#include <stdlib.h>
#include <string.h>

// The part of the selector for a letter. NULL: none.
static const char *part_of(const char *selector, char letter)
{
    const char *p = selector;
    while (p && p[0] != letter) {
        p = strchr(p, '+');
        p += p != NULL;
    }
    return p;
}

bool exporter_selection_next(const char *part, const char **at, unsigned *ret_first,
                             unsigned *ret_last)
{
    const char *p = *at ? *at : part + 1;
    if (*p != ':' && *p != ',')
        return false;
    char *end;
    *ret_first = *ret_last = (unsigned)strtoul(p + 1, &end, 10);
    if (end == p + 1)
        return false;
    if (*end == '-')
        *ret_last = (unsigned)strtoul(end + 1, &end, 10);
    *at = end;
    return true;
}

bool exporter_selection_has(const char *selector, char letter, unsigned n)
{
    const char *part = part_of(selector, letter), *at = NULL;
    unsigned first = 0, last = 0;
    bool found = selector[0] == 'f' || (part && part[1] != ':');
    while (part && !found && exporter_selection_next(part, &at, &first, &last))
        found = n >= first && n <= last;
    return found;
}

// Numbers of at most four digits, and ranges of them. Moves *p after them.
static bool skip_list(const char **p)
{
    for (;;) {
        for (int i = 0; i < 2; i++) {
            size_t n = strspn(*p, "0123456789");
            if (n == 0 || n > 4)
                return false;
            *p += n;
            if (**p != '-' || i == 1)
                break;
            (*p)++;
        }
        if (**p != ',')
            return true;
        (*p)++;
    }
}

bool exporter_selection_valid(const char *selector)
{
    bool used[2] = {false, false};
    const char *p = selector;
    if (gs_streq(selector, "f"))
        return true;
    while (p && (*p == 'g' || *p == 'i') && !used[*p == 'i']) {
        used[*p++ == 'i'] = true;
        if (*p == ':') {
            p++;
            if (!skip_list(&p))
                return false;
        }
        if (!*p)
            return true;
        p = *p == '+' ? p + 1 : NULL;
    }
    return false;
}
