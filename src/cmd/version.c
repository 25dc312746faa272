// SPDX-License-Identifier: Apache-2.0
#include "cmd/verbs.h"

struct version_opts {
    bool unused;
};

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    (void)opts, (void)argc, (void)argv, (void)ret_exit;
    printf("gpuscale %s\n", GPUSCALE_VERSION);
    return NULL;
}

const struct gs_verb verb_version = {
    .name = "version",
    .summary = "Print the version.",
    .opts_size = sizeof(struct version_opts),
    .run = run,
};
