// SPDX-License-Identifier: Apache-2.0
// What the library of garbage_nvml.c does, by its exported variable `garbage_nvml`.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum garbage_pattern {
    GARBAGE_ONES,
    GARBAGE_MINIMUM, // 0x80000000
    GARBAGE_MAXIMUM, // 0x7fffffff
    GARBAGE_NAN,
    GARBAGE_INFINITE,
    GARBAGE_RANDOM,
    GARBAGE_CODE, // the return code
    GARBAGE_PATTERNS
};

struct garbage_nvml {
    const char *call; // whose output is spoiled; NULL: nobody's
    enum garbage_pattern pattern;
    _Atomic uint64_t seed; // several threads call
    _Atomic unsigned spoiled;
};
