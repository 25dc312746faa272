// SPDX-License-Identifier: Apache-2.0
// The intents of the service, each with phrases for training.
#pragma once

#include <stddef.h>

struct intent {
    const char *name;
    const char *const *phrases; // NULL-terminated
};

extern const struct intent intents[];
extern const size_t n_intents;
