// SPDX-License-Identifier: Apache-2.0
// Each test has an API server of its own, in memory.
#pragma once

#include "api_harness.h"

static int setup(void **state)
{
    struct harness *h = gs_alloc(sizeof(*h));
    harness_open(h, NULL);
    *state = h;
    return 0;
}

static int teardown(void **state)
{
    harness_close(*state);
    free(*state);
    return 0;
}
