// SPDX-License-Identifier: Apache-2.0
// The bytes come from libuv. A failure ends the process, because a predictable secret is worse.
// The letters of names lack vowels and the digits 0, 1 and 3, as in Kubernetes.
#include "base/random.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/num.h"

#include <string.h>
#include <uv.h>

void gs_random_bytes(void *out, size_t len)
{
    // Without a loop and a callback, the call is synchronous. It repeats interrupted reads, and
    // reads /dev/urandom where a sandbox forbids getrandom().
    int rc = uv_random(NULL, NULL, out, len, 0, NULL);
    gs_assert(rc == 0);
}

char *gs_random_hex(size_t bytes)
{
    char *text = gs_alloc(2 * bytes + 1);
    char *raw = text + bytes; // the digits of a byte are written after it was read
    gs_random_bytes(raw, bytes);
    for (size_t i = 0; i < bytes; i++) {
        char byte = raw[i];
        gs_put_hex(text + 2 * i, &byte, 1);
    }
    text[2 * bytes] = '\0';
    return text;
}

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

uint64_t gs_mix64(uint64_t x)
{
    x += GOLDEN;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t gs_seeded_next(uint64_t *state)
{
    uint64_t x = *state;
    *state += GOLDEN;
    return gs_mix64(x);
}

char gs_name_letter(unsigned number)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    return letters[number % (sizeof(letters) - 1)];
}

char *gs_random_suffix(char *out, size_t len)
{
    gs_random_bytes(out, len);
    for (size_t i = 0; i < len; i++)
        out[i] = gs_name_letter((unsigned char)out[i]);
    out[len] = '\0';
    return out;
}
