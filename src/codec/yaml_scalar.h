// SPDX-License-Identifier: Apache-2.0
// The type of a plain YAML scalar, by the rules that Kubernetes' tools use (YAML 1.1 as go-yaml v2
// reads it: yes/no/on/off are booleans, 0o17 and 017 octal, dates stay strings).
#pragma once

#include "codec/json.h"

json_t *
codec_yaml_plain_scalar(struct gs_slice s); // new reference; NULL for bytes that are not UTF-8
