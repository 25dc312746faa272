// SPDX-License-Identifier: Apache-2.0
// Compiler attributes and scope-bound cleanup, spelled once.
#pragma once

#include <stddef.h>

#define GS_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define GS_MUST_USE          __attribute__((warn_unused_result))
#define GS_NORETURN          __attribute__((noreturn))
#define GS_UNUSED            __attribute__((unused))
#define GS_CLEANUP(fn)       __attribute__((cleanup(fn)))

#define GS_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

// Defines `static inline void FREEFNp(TYPE *p)` for use with GS_CLEANUP. TYPE is a pointer type.
#define GS_DEFINE_CLEANUP(TYPE, FREEFN)                                                            \
    static inline void FREEFN##p(TYPE *p)                                                          \
    {                                                                                              \
        if (*p)                                                                                    \
            FREEFN(*p);                                                                            \
    }

// The enclosing struct of MEMBER.
#define GS_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
