// SPDX-License-Identifier: Apache-2.0
// Allocation that never fails: if memory runs out the program ends, since no caller could do
// better. gs_try_alloc() and gs_try_realloc() are the exceptions, for sizes that a peer
// determines. New memory is zeroed.
#include "base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static GS_NORETURN void out_of_memory(void)
{
    static const char text[] = "gpuscale: out of memory\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)ignored;
    abort();
}

void *gs_try_alloc(size_t size)
{
    return calloc(1, size ? size : 1);
}

void *gs_alloc(size_t size)
{
    void *p = gs_try_alloc(size);
    if (!p)
        out_of_memory();
    return p;
}

void *gs_alloc_array(size_t n, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(n, size, &total))
        out_of_memory();
    return gs_alloc(total);
}

void *gs_alloc_pages(size_t size)
{
    char *p = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        out_of_memory();
    size_t before = -(uintptr_t)p & (size - 1);
    if (before)
        munmap(p, before);
    if (before < size)
        munmap(p + before + size, size - before);
    return p + before;
}

void gs_free_pages(void *p, size_t size)
{
    if (p)
        munmap(p, size);
}

void *gs_try_realloc(void *p, size_t size)
{
    return realloc(p, size ? size : 1);
}

void *gs_realloc_array(void *p, size_t n, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(n, size, &total))
        out_of_memory();
    p = gs_try_realloc(p, total);
    if (!p)
        out_of_memory();
    return p;
}

char *gs_strndup(const char *s, size_t n)
{
    char *copy = gs_alloc(n + 1);
    if (n)
        memcpy(copy, s, n);
    return copy;
}

char *gs_strdup(const char *s)
{
    return s ? gs_strndup(s, strlen(s)) : NULL;
}

void gs_free_secret(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

char *gs_vformat(const char *fmt, va_list ap)
{
    char *text;
    if (vasprintf(&text, fmt, ap) < 0)
        out_of_memory();
    return text;
}

char *gs_format(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = gs_vformat(fmt, ap);
    va_end(ap);
    return text;
}

void gs_grow(void *p, size_t *cap, size_t n_used, size_t elem_size)
{
    if (n_used < *cap)
        return;
    size_t new_cap = *cap ? *cap * 2 : 8;
    void **array = p;
    *array = gs_realloc_array(*array, new_cap, elem_size);
    memset((char *)*array + *cap * elem_size, 0, (new_cap - *cap) * elem_size);
    *cap = new_cap;
}
