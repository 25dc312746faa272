// SPDX-License-Identifier: Apache-2.0
// What happens when an invariant is broken: the program prints where, and aborts. gs_thread_owner
// records the thread that owns data, so that a use by another thread is such a case.
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

// The log is not used: the program's state is not to be trusted, and the log may be the caller.
void gs_assert_fail(const char *file, int line, const char *function, const char *condition)
{
    (void)fprintf(stderr, "%s:%d: %s: assertion failed: %s\n", file, line, function, condition);
    (void)fflush(stderr);
    abort();
}

void gs_thread_owner_bind(struct gs_thread_owner *o)
{
    o->thread = pthread_self();
    o->bound = true;
}

bool gs_thread_owner_is_current(const struct gs_thread_owner *o)
{
    return !o->bound || pthread_equal(o->thread, pthread_self());
}
