// SPDX-License-Identifier: Apache-2.0
// Bump allocation for data with one lifetime (a request, a query). gs_arena_alloc returns NULL if
// the byte limit would be exceeded. gs_arena_finish frees all memory; after gs_arena_clear it is
// reused. An arena belongs to one thread at a time.
#pragma once

#include "base/slice.h"

struct gs_arena_block;
struct gs_arena {
    struct gs_arena_block *head;
    size_t used;
    size_t limit; // bytes, 0: none
};

void *gs_arena_alloc(struct gs_arena *a, size_t size) GS_MUST_USE; // zeroed, 16-aligned
char *gs_arena_strndup(struct gs_arena *a, const char *s, size_t n) GS_MUST_USE;
char *gs_arena_strdup(struct gs_arena *a, const char *s) GS_MUST_USE; // NULL gives NULL
void gs_arena_clear(struct gs_arena *a);
// Like _clear, but keeps one block with room for all the data: for repeated work.
void gs_arena_recycle(struct gs_arena *a);
void gs_arena_finish(struct gs_arena *a);
