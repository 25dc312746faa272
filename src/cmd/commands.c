// SPDX-License-Identifier: Apache-2.0
// All commands, in the order of the help. A command without a summary is internal and not listed.
#include "cmd/commands.h"

#include "base/slice.h"

const struct gs_command *const cmd_all[] = {
    &cmd_adapter,  &cmd_check,         &cmd_completion,
    &cmd_convert,  &cmd_doctor,        &cmd_engine,
    &cmd_expander, &cmd_explain,       &cmd_exporter,
    &cmd_hpa,      &cmd_node_provider, &cmd_nodes,
    &cmd_query,    &cmd_replay,        &cmd_report,
#if CMD_LOCAL
    &cmd_sim,
#endif
    &cmd_smi,      &cmd_test,          &cmd_top,
#if CMD_LOCAL
    &cmd_up,
#endif
    &cmd_version,  &cmd_complete,      NULL,
};

const struct gs_command *cmd_find(const char *name)
{
    for (size_t i = 0; cmd_all[i]; i++)
        if (gs_streq(name, cmd_all[i]->name))
            return cmd_all[i];
    return NULL;
}

const struct gs_command *cmd_find_pair(const char *first, const char *second)
{
#if CMD_LOCAL
    if (gs_streq(first, "sim") && gs_streq(second, "inference"))
        return &cmd_inference;
#endif
    return NULL;
}

struct gs_error *cmd_not_in_this_program(const char *what)
{
    return gs_error_new(GS_EINVAL,
                        "%s: this program is the one for clusters, without the one-machine cluster "
                        "and simulated GPUs. The complete program has them: the Debian package "
                        "gpuscale, and the image tag that ends in -full",
                        what);
}
