// SPDX-License-Identifier: Apache-2.0
// All commands, and their groups in the help. A command without a summary is internal, and one that
// is part of another one (`check test`) is found by its own name, too; the help lists neither.
#include "cmd/commands.h"

#include "base/slice.h"

const struct gs_command *const cmd_all[] = {
    &cmd_activator,   &cmd_adapter,       &cmd_check,    &cmd_compare,
    &cmd_completion,  &cmd_convert,       &cmd_doctor,   &cmd_engine,
    &cmd_expander,    &cmd_explain,       &cmd_exporter, &cmd_hpa,
    &cmd_keda_scaler, &cmd_node_provider, &cmd_nodes,    &cmd_query,
    &cmd_replay,      &cmd_report,
#if CMD_LOCAL
    &cmd_sim,
#endif
    &cmd_smi,         &cmd_test,          &cmd_top,
#if CMD_LOCAL
    &cmd_up,
#endif
    &cmd_version,     &cmd_complete,      NULL,
};

// Those of the one-machine cluster. The program for clusters has none.
static const struct gs_command *const starting[] = {
#if CMD_LOCAL
    &cmd_up,
    &cmd_sim,
#endif
    NULL,
};
static const struct gs_command *const looking[] = {
    &cmd_top, &cmd_explain, &cmd_query, &cmd_nodes, &cmd_report, &cmd_smi, NULL};
static const struct gs_command *const checking[] = {&cmd_doctor, &cmd_check, &cmd_compare,
                                                    &cmd_replay, NULL};
static const struct gs_command *const serving[] = {
    &cmd_exporter,    &cmd_engine,   &cmd_adapter,       &cmd_hpa, &cmd_activator,
    &cmd_keda_scaler, &cmd_expander, &cmd_node_provider, NULL};
static const struct gs_command *const others[] = {&cmd_completion, &cmd_version, NULL};

const struct gs_command_group cmd_groups[] = {
    {"Start on this machine", starting}, {"Look", looking}, {"Check", checking},
    {"Run in a cluster", serving},       {"Other", others}, {0}};

// Parts of other commands. Those that are older than their command are in cmd_all, too.
static const struct gs_command *const parts[] = {
    &cmd_convert,   &cmd_convert_dashboards, &cmd_convert_rules, &cmd_convert_scaledobject,
    &cmd_test,
#if CMD_LOCAL
    &cmd_inference,
#endif
    NULL,
};

const struct gs_command *cmd_find(const char *name)
{
    for (size_t i = 0; cmd_all[i]; i++)
        if (gs_streq(name, cmd_all[i]->name))
            return cmd_all[i];
    return NULL;
}

const struct gs_command *cmd_find_part(const struct gs_command *command, const char *name)
{
    for (size_t i = 0; parts[i]; i++)
        if (gs_streq(parts[i]->within, command->name) && gs_streq(parts[i]->name, name))
            return parts[i];
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
