// SPDX-License-Identifier: Apache-2.0
// The configuration for people to see: as YAML in block style, secrets covered. Made from what was
// read rather than from the text, so that no way of writing YAML lets a secret through. Private.
#pragma once

#include "base/buf.h"
#include "codec/json.h"

void engine_config_print_redacted(const json_t *document, struct gs_buf *out);
