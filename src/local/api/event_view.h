// SPDX-License-Identifier: Apache-2.0
// One Event, two API groups: core/v1 is stored, events.k8s.io/v1 names its fields differently.
#pragma once

#include "codec/json.h"

struct gs_error *local_api_event_to_core(const json_t *event, json_t **ret);
// version: of events.k8s.io.
struct gs_error *local_api_event_from_core(const json_t *core, const char *version, json_t **ret);
