// SPDX-License-Identifier: Apache-2.0
// The verbs of the program, one file each in this folder.
#pragma once

#include "base/option.h"
#include "codec/json.h"

extern const struct gs_verb verb_adapter;
extern const struct gs_verb verb_check;
extern const struct gs_verb verb_convert;
extern const struct gs_verb verb_engine;
extern const struct gs_verb verb_explain;
extern const struct gs_verb verb_exporter;
extern const struct gs_verb verb_hpa;
extern const struct gs_verb verb_query;
extern const struct gs_verb verb_replay;
extern const struct gs_verb verb_sim;
extern const struct gs_verb verb_test;
extern const struct gs_verb verb_up;
extern const struct gs_verb verb_version;

// "gpuscale 0.1.0"
void cmd_print_version(FILE *out);
// --output: `text` names the format that the caller prints itself ("table"); json and yaml are
// printed by cmd_print_json(). GS_EINVAL: another format.
struct gs_error *cmd_check_output(const char *output, const char *text);
void cmd_print_json(const char *output, const json_t *j, FILE *out);
