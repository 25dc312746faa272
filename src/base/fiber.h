// SPDX-License-Identifier: Apache-2.0
// A function on a stack of its own that pauses and goes on, all on the caller's thread: long work
// in turns with an event loop, without locks.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct gs_fiber;

// Nothing runs yet. GS_EIO: no memory for the stack, of which only what is used is taken.
struct gs_error *gs_fiber_new(struct gs_fiber **ret);
// Not while a function is paused.
void gs_fiber_free(struct gs_fiber *f);
// Runs fn until it pauses (false) or returns (true: the fiber takes another one).
bool gs_fiber_start(struct gs_fiber *f, void (*fn)(void *arg), void *arg);
bool gs_fiber_resume(struct gs_fiber *f); // goes on behind gs_fiber_pause(); as _start
void gs_fiber_pause(struct gs_fiber *f);  // from fn alone
