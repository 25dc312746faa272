// SPDX-License-Identifier: Apache-2.0
// The intents that the service knows, each with phrases to learn from.
#pragma once

#include <stddef.h>

struct intent {
    const char *name;
    const char *const *phrases; // NULL-terminated
};

extern const struct intent intents[];
extern const size_t n_intents;
