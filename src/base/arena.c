// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include "base/mem.h"

#include <stdint.h>

#define BLOCK_SIZE ((size_t)16 * 1024)
#define ALIGN      ((size_t)16)

struct gs_arena_block {
    struct gs_arena_block *next;
    size_t size, used;
    _Alignas(16) char data[];
};

void *gs_arena_alloc(struct gs_arena *a, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + ALIGN - 1) & ~(ALIGN - 1);
    if (a->limit && (size > a->limit || a->used > a->limit - size))
        return NULL;
    struct gs_arena_block *b = a->head;
    if (!b || b->size - b->used < size) {
        size_t block = size > BLOCK_SIZE ? size : BLOCK_SIZE;
        b = gs_try_alloc(sizeof(*b) + block);
        if (!b)
            return NULL;
        b->size = block;
        b->next = a->head;
        a->head = b;
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

void gs_arena_clear(struct gs_arena *a)
{
    while (a->head && a->head->next) {
        struct gs_arena_block *b = a->head;
        a->head = b->next;
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
    gs_arena_clear(a);
    free(a->head);
    a->head = NULL;
}
