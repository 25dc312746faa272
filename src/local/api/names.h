// SPDX-License-Identifier: Apache-2.0
// What names, labels and ports may look like: the checks of kube/names.h applied to fields, and the
// few that only the API server needs, with Kubernetes' words for what is wrong.
#pragma once

#include "local/api/registry.h"

// As kube_check_…: appends what is wrong to `why`.
bool local_api_check_name(enum local_api_name_rule rule, const char *name, struct gs_buf *why);
// NULL: fine. Else what is wrong. Static texts.
const char *local_api_port_name_problem(const char *name); // IANA service name
const char *local_api_config_key_problem(const char *key); // of ConfigMaps and Secrets
// Adds errors for a map of labels.
void local_api_validate_labels(const json_t *labels, const char *field,
                               struct kube_field_errors *errors);
// kube_field_error with a string value, shown quoted.
void local_api_invalid(struct kube_field_errors *errors, const char *field, const char *value,
                       const char *fmt, ...) GS_PRINTF(4, 5);
void local_api_duplicate(struct kube_field_errors *errors, const char *field, const char *value);
void local_api_required(struct kube_field_errors *errors, const char *field, const char *detail);
// choices: as in `supported values: "A", "B"`.
void local_api_unsupported(struct kube_field_errors *errors, const char *field, const char *value,
                           const char *choices);
