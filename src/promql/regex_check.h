// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.h"
#include "base/slice.h"

// NULL, or what Go's regexp/syntax says about the expression; also about what PCRE2 has and Go has
// not.
struct gs_error *promql_regex_check(struct gs_slice pattern);
