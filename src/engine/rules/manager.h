// SPDX-License-Identifier: Apache-2.0
// Private to the room: the manager and its views.
#pragma once

#include "base/fiber.h"
#include "engine/rules/notify.h"
#include "engine/rules/runner.h"

#include <sys/queue.h>

struct rules_managed_group {
    struct rules_manager *manager;
    struct rules_runner *runner;
    struct gs_timer *timer;
    uint64_t hash;
    int64_t next_ms;
    int evals_to_restore;   // 0: restored, or nothing to restore
    struct gs_fiber *fiber; // of the evaluation under way; NULL: none
    int64_t eval_ms;
    TAILQ_ENTRY(rules_managed_group) paused;
};

struct rules_file_source {
    char *name; // NULL: the configuration's files
    struct rules_set *set;
    struct rules_managed_group **groups;
    size_t n;
    bool loaded; // once
};

struct rules_manager {
    uv_loop_t *loop;
    char *external_url;
    struct rules_runner_config runner_cfg;
    int64_t interval_ms;
    struct rules_file_source files, *extras;
    size_t n_extras, cap_extras;
    struct rules_notifier *notifier;
    uint64_t evaluations; // of groups
    double seconds;
    // Evaluations that pause go on in the next turn of the loop, one step of each.
    TAILQ_HEAD(, rules_managed_group) paused;
    struct rules_managed_group *running; // whose step it is
    struct gs_fiber *spare;
    uv_idle_t *turn;
};

// All groups, sorted by file and name; the caller frees the array.
const struct rules_runner **rules_manager_groups(const struct rules_manager *m, size_t *ret_n);
