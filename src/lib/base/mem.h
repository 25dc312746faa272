// SPDX-License-Identifier: Apache-2.0
// Allocation. The plain functions end the process if memory is exhausted: use them for sizes that
// gpuscale chooses. The `try` functions return NULL: use them for sizes that a peer chooses.
#pragma once

#include "base/attr.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

void *gs_alloc(size_t size) GS_MUST_USE;                 // zeroed
void *gs_alloc_array(size_t n, size_t size) GS_MUST_USE; // zeroed, overflow-checked
void *gs_realloc_array(void *p, size_t n, size_t size) GS_MUST_USE;
void *gs_try_alloc(size_t size) GS_MUST_USE; // zeroed; NULL: out of memory
void *gs_try_realloc(void *p, size_t size) GS_MUST_USE;
// Zeroed pages, aligned to size (a power of two and a multiple of the page size). They become
// resident on use and return to the operating system when freed.
void *gs_alloc_pages(size_t size) GS_MUST_USE;
void gs_free_pages(void *p, size_t size);
char *gs_strdup(const char *s) GS_MUST_USE; // NULL gives NULL
char *gs_strndup(const char *s, size_t n) GS_MUST_USE;
// Overwrites the text before it is freed. Accepts NULL.
void gs_free_secret(char *text);
char *gs_format(const char *fmt, ...) GS_PRINTF(1, 2) GS_MUST_USE;
char *gs_vformat(const char *fmt, va_list ap) GS_PRINTF(1, 0) GS_MUST_USE;

// Grows the array *p (of n_used elements, *cap allocated) so that one more element fits.
// p is the address of a typed array pointer: gs_grow(&v->items, &v->cap, v->len, sizeof *v->items).
void gs_grow(void *p, size_t *cap, size_t n_used, size_t elem_size);

static inline void gs_freep(void *p)
{
    free(*(void **)p);
}
#define GS_AUTO_FREE GS_CLEANUP(gs_freep)

// Moves ownership: returns the pointer and sets the variable to NULL.
#define GS_TAKE(ptr)                                                                               \
    __extension__({                                                                                \
        __typeof__(ptr) *gs_take_p_ = &(ptr);                                                      \
        __typeof__(ptr) gs_take_v_ = *gs_take_p_;                                                  \
        *gs_take_p_ = NULL;                                                                        \
        gs_take_v_;                                                                                \
    })
