// SPDX-License-Identifier: Apache-2.0
// The exporter with its server, signals and cluster, until a signal ends it.
#pragma once

#include "cmd/exporter/options.h"
#include "exporter/exporter.h"

// *ret_ended false: a driver call hangs, and only _exit() ends the process.
struct gs_error *exporter_serve(const struct exporter_opts *o, const struct exporter_config *base,
                                bool *ret_ended);
