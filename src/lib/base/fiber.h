// SPDX-License-Identifier: Apache-2.0
// A coroutine: a function with a separate stack that can pause and resume on the caller's thread.
// It lets long work alternate with an event loop, without locks.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct gs_fiber;

// Does not run a function yet. GS_EIO: no memory for the stack. Only used pages become resident.
struct gs_error *gs_fiber_new(struct gs_fiber **ret);
// Not allowed while a function is paused.
void gs_fiber_free(struct gs_fiber *f);
// Runs fn until it pauses (false) or returns (true: the fiber can start another function).
bool gs_fiber_start(struct gs_fiber *f, void (*fn)(void *arg), void *arg);
bool gs_fiber_resume(struct gs_fiber *f); // continues after gs_fiber_pause(); returns like _start
void gs_fiber_pause(struct gs_fiber *f);  // only inside fn
