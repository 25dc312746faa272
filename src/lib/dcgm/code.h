// SPDX-License-Identifier: Apache-2.0
// Return codes of DCGM as text.
#pragma once

// What a code (enum dcgm_code) says about a request, for users: "another process owns the profiling
// counters (-37)". Static; any thread may call.
const char *dcgm_code_text(int code);
