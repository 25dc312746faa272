// SPDX-License-Identifier: Apache-2.0
// Memory that is freed as a whole. Blocks double in size, alignment is 16 bytes, and all memory is
// zeroed, after gs_arena_clear() too. An arena with a limit returns NULL beyond it; one without a
// limit ends the program if memory runs out.
#include "base/arena.h"

#include "base/mem.h"

#include <stdint.h>

// There are thousands of small arenas (one of each target), so blocks begin small and double.
#define FIRST_BLOCK ((size_t)512)
#define LAST_BLOCK  ((size_t)64 * 1024)
#define ALIGN       ((size_t)16)

struct gs_arena_block {
    struct gs_arena_block *next;
    size_t size, used;
    _Alignas(16) char data[];
};

static size_t next_size(const struct gs_arena *a, size_t wanted)
{
    size_t size = a->head ? a->head->size * 2 : FIRST_BLOCK;
    if (size > LAST_BLOCK)
        size = LAST_BLOCK;
    return wanted > size ? wanted : size;
}

void *gs_arena_alloc(struct gs_arena *a, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + ALIGN - 1) & ~(ALIGN - 1);
    if (a->limit && (size > a->limit || a->used > a->limit - size))
        return NULL;
    struct gs_arena_block *b = a->head;
    if (!b || b->size - b->used < size) {
        size_t block = next_size(a, size);
        b = gs_try_alloc(sizeof(*b) + block);
        if (!b)
            return NULL;
        b->size = block;
        // A block for one large allocation has no space left. The newest block still has, and would
        // be lost: large and small allocations in turn would take much more than the limit.
        struct gs_arena_block **at = a->head && block == size ? &a->head->next : &a->head;
        b->next = *at;
        *at = b;
    }
    void *p = b->data + b->used;
    b->used += size;
    a->used += size;
    return p;
}

char *gs_arena_strndup(struct gs_arena *a, const char *s, size_t n)
{
    char *copy = n < SIZE_MAX ? gs_arena_alloc(a, n + 1) : NULL;
    if (copy && n)
        memcpy(copy, s, n);
    return copy;
}

char *gs_arena_strdup(struct gs_arena *a, const char *s)
{
    return s ? gs_arena_strndup(a, s, strlen(s)) : NULL;
}

void gs_arena_clear(struct gs_arena *a)
{
    while (a->head && a->head->next) { // the newest is the largest of those for many allocations
        struct gs_arena_block *b = a->head->next;
        a->head->next = b->next;
        free(b);
    }
    if (a->head) {
        memset(a->head->data, 0, a->head->used);
        a->head->used = 0;
    }
    a->used = 0;
}

void gs_arena_recycle(struct gs_arena *a)
{
    size_t used = a->used;
    bool one_block = a->head && !a->head->next;
    if (!one_block) {
        gs_arena_finish(a);
        void *p = gs_arena_alloc(a, used + used / 4);
        (void)p; // without it, the next use allocates
    }
    gs_arena_clear(a);
}

void gs_arena_finish(struct gs_arena *a)
{
    struct gs_arena_block *b;
    while ((b = a->head)) {
        a->head = b->next;
        free(b);
    }
    a->used = 0;
}
