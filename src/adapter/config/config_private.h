// SPDX-License-Identifier: Apache-2.0
// Shared by the files of src/adapter/config only.
#pragma once

#include "adapter/config/config.h"
#include "codec/yaml_reader.h"

#define ADAPTER_CONFIG_MAX_FILE ((size_t)16 * 1024 * 1024)

struct adapter_config_reader {
    struct codec_reader base;
    struct adapter_config *out;
};

struct adapter_config_reader *adapter_config_reader_of(struct codec_reader *r);
struct gs_regex *adapter_config_read_regex(struct codec_reader *r, const json_t *at,
                                           struct gs_slice pattern);
void adapter_config_read_rules(struct codec_reader *r, const json_t *list, bool external);
void adapter_config_read_resource_rules(struct codec_reader *r, const json_t *value);
void adapter_config_read_sources(struct codec_reader *r, const json_t *list);
struct gs_error *adapter_config_choose_sources(struct adapter_config *c); // after reading all rules

// Adds a text of any form to the configuration. first_line: number of lines before it in its file.
struct gs_error *adapter_config_read_form(struct gs_slice text, const char *name, int first_line,
                                          struct adapter_config *c);
