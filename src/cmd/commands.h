// SPDX-License-Identifier: Apache-2.0
// The commands of the program. Each is in a file of this folder with its name.
#pragma once

#include "base/option.h"
#include "codec/json.h"

// Whether the program has the one-machine cluster and simulated GPUs. The program for clusters has
// neither (docs/packages.md). The build sets it.
#ifndef CMD_LOCAL
#define CMD_LOCAL 1
#endif
// What the program for clusters answers to a part of the complete one. GS_EINVAL.
struct gs_error *cmd_not_in_this_program(const char *what);

extern const struct gs_command cmd_activator;
extern const struct gs_command cmd_adapter;
extern const struct gs_command cmd_check;
extern const struct gs_command cmd_compare;
extern const struct gs_command cmd_complete; // internal: has no summary
extern const struct gs_command cmd_completion;
extern const struct gs_command cmd_convert;
extern const struct gs_command cmd_convert_dashboards, cmd_convert_rules, cmd_convert_scaledobject;
extern const struct gs_command cmd_doctor;
extern const struct gs_command cmd_engine;
extern const struct gs_command cmd_expander;
extern const struct gs_command cmd_explain;
extern const struct gs_command cmd_exporter;
extern const struct gs_command cmd_hpa;
extern const struct gs_command cmd_inference; // `sim inference`
extern const struct gs_command cmd_keda_scaler;
extern const struct gs_command cmd_nodes;
extern const struct gs_command cmd_node_provider;
extern const struct gs_command cmd_promtool; // only by the name promtool
extern const struct gs_command cmd_query;
extern const struct gs_command cmd_replay;
extern const struct gs_command cmd_report;
extern const struct gs_command cmd_sim;
extern const struct gs_command cmd_sleep; // only by the name sleep
extern const struct gs_command cmd_smi;
extern const struct gs_command cmd_test;
extern const struct gs_command cmd_top;
extern const struct gs_command cmd_up;
extern const struct gs_command cmd_version;

#define CMD_MAX 64
extern const struct gs_command *const cmd_all[]; // by name; ends with NULL
extern const struct gs_command_group cmd_groups[];
const struct gs_command *cmd_find(const char *name);
// The part of a command: `test` of `check`. NULL: it has no such part.
const struct gs_command *cmd_find_part(const struct gs_command *command, const char *name);

// --- programs that gpuscale replaces ---

// A program whose name and arguments gpuscale accepts, so that its image can replace that of the
// program.
struct cmd_peer {
    const char *name;
    const struct gs_command *command;
    const char *const *defaults; // flags before those of the command line; ends with NULL
};
// The peer of this name or path. NULL: none.
const struct cmd_peer *cmd_find_peer(const char *path);
// The peer among dcgm-exporter, the adapter and Prometheus that has the most of these flags: their
// manifests set `args` and rely on the entry point of their image. NULL: none, or several.
const struct cmd_peer *cmd_peer_of_flags(int argc, char **argv);

// --- candidates of the completion ---

enum cmd_names {
    CMD_NAMES_METRICS,
    CMD_NAMES_HPAS,
    CMD_NAMES_PODS,
    CMD_NAMES_NAMESPACES,
    CMD_NAMES_MODELS,
    CMD_NAMES_CONTEXTS // of the kubeconfig
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
// Names the running `gpuscale up` on stderr if it is the cluster without a setting that names it.
void cmd_print_cluster(const char *kubeconfig, const char *context);
