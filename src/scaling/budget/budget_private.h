// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the module: the moves that still bind.
#pragma once

#include "budget/budget.h"

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
    bool lent; // it was idle
    int64_t gpus, until_ms;
};

// Replicas that a member lost while it was idle.
struct budget_loan {
    char *key; // whose
    int32_t replicas;
    int64_t at_ms; // of the last
};
#define BUDGET_LOAN_MS (INT64_C(24) * 3600 * 1000) // after which it is forgotten

#define BUDGET_MAX_MOVES 1024 // of a group; the oldest are forgotten

struct budget_memory {
    struct budget_move *moves; // in the order of their times
    size_t n_moves, moves_cap;
    struct budget_spare *spares;
    size_t n_spares, spares_cap;
    struct budget_loan *loans; // one of a member
    size_t n_loans, loans_cap;
    struct budget_transfer *transfers;
    size_t n_transfers, transfers_cap;
};
