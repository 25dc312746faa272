// SPDX-License-Identifier: Apache-2.0
// The commands of the program. Each is in a file of this folder with its name.
#pragma once

#include "base/option.h"
#include "codec/json.h"

extern const struct gs_command cmd_adapter;
extern const struct gs_command cmd_check;
extern const struct gs_command cmd_complete; // internal: has no summary
extern const struct gs_command cmd_completion;
extern const struct gs_command cmd_convert;
extern const struct gs_command cmd_engine;
extern const struct gs_command cmd_expander;
extern const struct gs_command cmd_explain;
extern const struct gs_command cmd_exporter;
extern const struct gs_command cmd_hpa;
extern const struct gs_command cmd_nodes;
extern const struct gs_command cmd_node_provider;
extern const struct gs_command cmd_query;
extern const struct gs_command cmd_replay;
extern const struct gs_command cmd_sim;
extern const struct gs_command cmd_smi;
extern const struct gs_command cmd_test;
extern const struct gs_command cmd_up;
extern const struct gs_command cmd_version;

#define CMD_MAX 64
extern const struct gs_command *const cmd_all[]; // by name; ends with NULL
const struct gs_command *cmd_find(const char *name);

// --- candidates of the completion ---

enum cmd_names {
    CMD_NAMES_METRICS,
    CMD_NAMES_HPAS,
    CMD_NAMES_PODS,
    CMD_NAMES_NAMESPACES,
    CMD_NAMES_MODELS
};
// Where names are looked up, as the flags of the command line say; NULL: not given.
struct cmd_names_from {
    const char *url, *kubeconfig, *context, *ns;
};
// Calls fn for each name. Waits at most about a second; a server that does not answer has no names.
void cmd_each_name(enum cmd_names kind, const struct cmd_names_from *from,
                   void (*fn)(void *arg, const char *name), void *arg);

// Prints "gpuscale 0.1.0".
void cmd_print_version(FILE *out);
// --output: `text` names the format that the caller prints itself ("table"); json and yaml are
// printed by cmd_print_json(). GS_EINVAL: another format.
struct gs_error *cmd_check_output(const char *output, const char *text);
void cmd_print_json(const char *output, const json_t *j, FILE *out);
