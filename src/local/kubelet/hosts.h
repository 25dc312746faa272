// SPDX-License-Identifier: Apache-2.0
// The names of Services in containers. Only the thread of the loop may call these functions.
#pragma once

#include "base/error.h"

struct kubelet;
struct kubelet_hosts;

// Of the first kubelet of this program, which serves the containers of all.
struct kubelet_hosts *kubelet_hosts_new(struct kubelet *k);
void kubelet_hosts_free(struct kubelet_hosts *h); // accepts NULL
// The file for /etc/hosts of containers in a namespace. It exists, and follows the Services until
// the namespace is deleted. Caller frees.
struct gs_error *kubelet_hosts_file(struct kubelet_hosts *h, const char *ns, char **ret);
