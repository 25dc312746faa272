// SPDX-License-Identifier: Apache-2.0
// Changes of the log level at run time.
#pragma once

#include "base/log.h"

#include <stdbool.h>

// At any time, by any thread.
void gs_log_set_level(enum gs_log_level min_level);
// "debug", "info", "warn" or "error". false: none of them; *ret is unchanged.
bool gs_log_parse_level(const char *name, enum gs_log_level *ret);
