// SPDX-License-Identifier: Apache-2.0
// Between the files that read the configuration.
#pragma once

#include "adapter/config/config.h"
#include "engine/config/reader.h"

#define ADAPTER_MAX_FILE ((size_t)16 * 1024 * 1024)

struct adapter_reader {
    struct config_reader base;
    struct adapter_config *out;
};

struct adapter_reader *adapter_reader_of(struct config_reader *r);
const char *adapter_place(struct config_reader *r, const json_t *value); // file:line
struct adapter_regex *adapter_read_regex(struct config_reader *r, const json_t *at,
                                         struct gs_slice pattern);
void adapter_read_rules(struct config_reader *r, const json_t *list, bool external);
void adapter_read_resource_rules(struct config_reader *r, const json_t *value);
void adapter_read_sources(struct config_reader *r, const json_t *list);
struct gs_error *adapter_choose_sources(struct adapter_config *c); // when all was read

// Adds what the text says, in whatever form. first_line: lines in front of it in its file.
struct gs_error *adapter_read_form(struct gs_slice text, const char *name, int first_line,
                                   struct adapter_config *c);
