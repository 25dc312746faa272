// SPDX-License-Identifier: Apache-2.0
// How long a task of an event loop goes on before others get a turn.
#pragma once

#include <stdint.h>

// The length of a turn in nanoseconds: 5 ms, or what tests set. Work that many tasks of one kind
// share in an iteration of a loop gets a multiple of it. With 0, each task pauses wherever it can,
// and each iteration does one piece of work.
int64_t gs_turn_ns(void);

// For tests, so that none depends on how much a machine does in a turn. The variable
// GPUSCALE_TEST_TURN_MS of the environment has the same effect on whole programs.
// ns: 0 up to GS_TURN_NEVER_ENDS
void gs_turn_set_ns(int64_t ns);
#define GS_TURN_NEVER_ENDS (INT64_MAX / 64) // can be multiplied, and added to a time
