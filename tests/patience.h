// SPDX-License-Identifier: Apache-2.0
// How long tests wait for what must happen: far beyond what it takes, also with sanitizers on a
// machine that stands still for seconds. Meson gives each program more (tests/meson.build).
#pragma once

#include "base/clock.h"

#define WAIT_MS 120000
#define WAIT_NS (WAIT_MS * GS_NS_PER_MS)
