// SPDX-License-Identifier: Apache-2.0
// UTF-8 of RFC 3629: no overlong forms, no surrogates, at most U+10FFFF.
#include "codec/encoding.h"

// Length of the sequence that starts here, 0 when it is not valid.
static size_t sequence(const unsigned char *p, size_t left)
{
    if (p[0] < 0x80)
        return 1;
    size_t n = p[0] >= 0xc2 && p[0] <= 0xdf   ? 2
               : p[0] >= 0xe0 && p[0] <= 0xef ? 3
               : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                              : 0;
    if (!n || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool surrogate = p[0] == 0xed && p[1] > 0x9f;
    bool too_large = p[0] == 0xf4 && p[1] > 0x8f;
    return overlong || surrogate || too_large ? 0 : n;
}

size_t codec_utf8_valid_prefix(struct gs_slice s)
{
    size_t i = 0;
    while (i < s.len) {
        size_t n = sequence((const unsigned char *)s.data + i, s.len - i);
        if (!n)
            return i;
        i += n;
    }
    return i;
}
