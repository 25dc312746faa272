// SPDX-License-Identifier: Apache-2.0
// Between the files of `gpuscale check adapter`.
#pragma once

#include "adapter/config/config.h"
#include "cmd/adapter/lab.h"
#include "cmd/check.h"

struct check {
    struct lab *lab;
    const struct adapter_config_rule *rule;
    bool broken, doubtful;
};

// Lines about a rule: what is broken, and what to change.
void check_broken(struct check *k, const char *fmt, ...) GS_PRINTF(2, 3);
void check_fix(const char *fmt, ...) GS_PRINTF(1, 2);

// --- check_text.c: without series ---

void check_text(struct check *k);
// Prints the name and the resources of the metrics that follow from the rule alone.
void check_show_own_name(struct check *k);
// Returns how many of the two resource rules are broken.
size_t check_resource_rules(struct lab *lab, const struct check_opts *o,
                            const struct adapter_config_resource_rules *r);
