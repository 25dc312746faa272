// SPDX-License-Identifier: Apache-2.0
// Which monitors and rules of a cluster an engine uses, decided at run time by the program that
// runs the engine. Without such a decision, the label selectors of the flags apply.
#pragma once

#include "codec/json.h"

enum engine_config_kind {
    ENGINE_CONFIG_SERVICE_MONITOR,
    ENGINE_CONFIG_POD_MONITOR,
    ENGINE_CONFIG_RULE,
};
#define ENGINE_CONFIG_KINDS 3

enum engine_config_choice {
    ENGINE_CONFIG_BY_LABELS, // by the label selectors of the flags
    ENGINE_CONFIG_USED,
    ENGINE_CONFIG_UNUSED, // the decider reports the object if needed
};

// of: called on the thread of the loop for each new or changed object. *ret_global (borrowed for
// the call): members of `global` that differ for the jobs of a monitor; unchanged: none differ.
struct engine_config_selection {
    enum engine_config_choice (*of)(void *arg, enum engine_config_kind kind, const json_t *obj,
                                    const json_t **ret_global);
    void *arg;
};
