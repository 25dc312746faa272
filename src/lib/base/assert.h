// SPDX-License-Identifier: Apache-2.0
// Assertions of invariants: conditions that only a bug in gpuscale can break. Input from outside
// (files, peers, the driver) is never asserted; it is checked and returned as a gs_error.
//
// A failed assertion prints the source line, the function and the condition, and aborts. The core
// dump and the message show the first broken invariant instead of its consequences.
#pragma once

#include "base/attr.h"

#include <pthread.h>
#include <stdbool.h>

_Noreturn void gs_assert_fail(const char *file, int line, const char *function,
                              const char *condition);

// In every build. The condition must be cheap and have no side effect.
#define gs_assert(condition)                                                                       \
    ((condition) ? (void)0 : gs_assert_fail(__FILE__, __LINE__, __func__, #condition))

// In debug and sanitizer builds (GS_DEBUG), for conditions that cost more: walks of lists, sums.
// Other builds compile the condition, so that it stays correct, but do not evaluate it.
#ifdef GS_DEBUG
#define gs_assert_debug(condition) gs_assert(condition)
#else
#define gs_assert_debug(condition) ((void)(true || (condition)))
#endif

// The thread that may use an object. Zero-initialized: not bound, and every thread may use it.
struct gs_thread_owner {
    pthread_t thread;
    bool bound;
};

// The calling thread becomes the owner. Fibers belong to the thread that runs them. An object that
// is handed to another thread is bound again there.
void gs_thread_owner_bind(struct gs_thread_owner *o);
// Whether the calling thread may use the object.
bool gs_thread_owner_is_current(const struct gs_thread_owner *o);
#define gs_thread_owner_assert(o) gs_assert(gs_thread_owner_is_current(o))
