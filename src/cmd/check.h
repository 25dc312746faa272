// SPDX-License-Identifier: Apache-2.0
// The checks of `gpuscale check`. They are listed in check.c.
#pragma once

#include "base/error.h"
#include "engine/check.h"

struct cmd_check_opts {
    struct engine_check_options engine;
    const char *source;     // of adapter: URL of a Prometheus; NULL: none is queried
    const char *sources;    // of adapter: file of more sources; NULL: none
    const char *kubeconfig; // of adapter: the cluster with the resources; NULL: Kubernetes' own
};
