// SPDX-License-Identifier: Apache-2.0
// Compares a decision with what a decision table expects. Private to the module.
#pragma once

#include "hpa/hpa.h"
#include "replay/decisions.h"

// Differences are added to the failures of the result, each beginning with `where` ("at 30 s").
void replay_expect_check(const json_t *want, const struct hpa_spec *spec,
                         const struct hpa_decision *d, const char *where,
                         struct codec_test_case *result);
