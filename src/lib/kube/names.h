// SPDX-License-Identifier: Apache-2.0
// Kubernetes' rules for names, label keys and label values, with its error texts. Each check
// returns true for a valid value. Otherwise it appends the problems to `why` (may be NULL), joined
// by "; ". Source: API machinery's validation package.
#pragma once

#include "base/buf.h"

bool kube_check_dns_label(struct gs_slice s, struct gs_buf *why);     // at most 63 bytes: a-z 0-9 -
bool kube_check_dns_subdomain(struct gs_slice s, struct gs_buf *why); // at most 253, dots allowed
bool kube_check_dns1035_label(struct gs_slice s,
                              struct gs_buf *why);                  // Service names: a letter first
bool kube_check_label_key(struct gs_slice s, struct gs_buf *why);   // "name" or "prefix/name"
bool kube_check_label_value(struct gs_slice s, struct gs_buf *why); // may be empty
bool kube_check_env_name(struct gs_slice s, struct gs_buf *why);

// Appends s as a Go string literal, as %q prints it.
void kube_quote(struct gs_slice s, struct gs_buf *out);
