// SPDX-License-Identifier: Apache-2.0
// The times of up to TSDB_TIMES_MAX passes in a row, shared by the blocks of all series that were
// appended in them. Private to the room.
//
// A column that one series alone uses is packed once it is full: the change of the time step as a
// varint, a byte a sample for steady scrapes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define TSDB_TIMES_MAX 120

struct tsdb_times {
    uint32_t refs;
    uint16_t n, cap;
    uint16_t packed; // bytes; 0: `at` holds the times
    int64_t first_ms, last_ms;
    int64_t at[];
};

struct tsdb_times *tsdb_times_new(size_t cap); // one reference, for the caller
struct tsdb_times *tsdb_times_ref(struct tsdb_times *t);
// Returns the bytes that are free now: 0 while others hold it.
size_t tsdb_times_unref(struct tsdb_times *t);
// t_ms is newer than last_ms, n is below TSDB_TIMES_MAX. A column at its cap grows: it must not be
// shared then.
struct tsdb_times *tsdb_times_push(struct tsdb_times *t, int64_t t_ms);
struct tsdb_times *tsdb_times_pack(struct tsdb_times *t); // not of a shared one
size_t tsdb_times_bytes(const struct tsdb_times *t);
// All of them; scratch is used when they are packed.
const int64_t *tsdb_times_read(const struct tsdb_times *t, int64_t scratch[TSDB_TIMES_MAX]);
