// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the module: what a member holds, and the moves that still bind.
#pragma once

#include "budget/budget.h"

// GPUs that a member has or will take: those of its pods, or of its set replicas if these are more.
int64_t budget_committed(const struct budget_member *m);

// A replica that was taken from a member, or that it got of those that were taken.
struct budget_move {
    char *key;   // of the member
    char *other; // the members on the other side, "a, b"; may be ""
    bool gained; // else taken
    int32_t replicas;
    int64_t at_ms, until_ms;
};

// GPUs that were taken and that nobody got yet.
struct budget_spare {
    char *key; // from whom
    int64_t gpus, until_ms;
};

#define BUDGET_MAX_MOVES 1024 // of a group; the oldest are forgotten

struct budget_memory {
    struct budget_move *moves; // in the order of their times
    size_t n_moves, moves_cap;
    struct budget_spare *spares;
    size_t n_spares, spares_cap;
};
