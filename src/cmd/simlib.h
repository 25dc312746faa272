// SPDX-License-Identifier: Apache-2.0
// Where the simulated libnvidia-ml is, relative to this program.
#pragma once

#include "base/error.h"

// $GPUSCALE_NVMLSIM_LIBRARY, beside the program, in ../nvmlsim (build folder), or in gpuscale/ of
// the library folder that belongs to an installed bin/. Caller frees.
struct gs_error *cmd_find_simulated_library(char **ret);
