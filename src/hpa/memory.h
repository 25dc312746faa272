// SPDX-License-Identifier: Apache-2.0
// The memory of a controller over HTTP, for who explains a decision:
//   GET /apis/hpa.gpuscale.io/v1/namespaces/NS/memories/NAME
#pragma once

#include "hpa/controller.h"
#include "net/http/server.h"

#define HPA_MEMORY_GROUP "hpa.gpuscale.io"

char *hpa_memory_path(const char *ns, const char *name); // caller frees
json_t *hpa_memory_group(void);                          // APIGroup; new reference
void hpa_memory_handle(void *controller, struct http_exchange *x);
