// SPDX-License-Identifier: Apache-2.0
// The times of up to TIMES_MAX passes in a row, shared by the blocks of all series that were
// appended in them. Private to the room.
//
// A column that one series alone uses is packed once it is full: the change of the time step as a
// varint, a byte a sample for steady scrapes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define TIMES_MAX 120

struct times {
    uint32_t refs;
    uint16_t n, cap;
    uint16_t packed; // bytes; 0: `at` holds the times
    int64_t first_ms, last_ms;
    int64_t at[];
};

struct times *times_new(size_t cap); // one reference, for the caller
struct times *times_ref(struct times *t);
// Returns the bytes that are free now: 0 while others hold it.
size_t times_unref(struct times *t);
// t_ms is newer than last_ms, n is below TIMES_MAX. A column at its cap grows: it must not be
// shared then.
struct times *times_push(struct times *t, int64_t t_ms);
struct times *times_pack(struct times *t); // not of a shared one
size_t times_bytes(const struct times *t);
// All of them; scratch is used when they are packed.
const int64_t *times_read(const struct times *t, int64_t scratch[TIMES_MAX]);
