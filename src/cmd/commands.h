// SPDX-License-Identifier: Apache-2.0
// The commands of the program. Each is in a file of this folder with its name.
#pragma once

#include "base/option.h"
#include "codec/json.h"

extern const struct gs_command cmd_adapter;
extern const struct gs_command cmd_check;
extern const struct gs_command cmd_convert;
extern const struct gs_command cmd_engine;
extern const struct gs_command cmd_explain;
extern const struct gs_command cmd_exporter;
extern const struct gs_command cmd_hpa;
extern const struct gs_command cmd_query;
extern const struct gs_command cmd_replay;
extern const struct gs_command cmd_sim;
extern const struct gs_command cmd_smi;
extern const struct gs_command cmd_test;
extern const struct gs_command cmd_up;
extern const struct gs_command cmd_version;

// Prints "gpuscale 0.1.0".
void cmd_print_version(FILE *out);
// --output: `text` names the format that the caller prints itself ("table"); json and yaml are
// printed by cmd_print_json(). GS_EINVAL: another format.
struct gs_error *cmd_check_output(const char *output, const char *text);
void cmd_print_json(const char *output, const json_t *j, FILE *out);
