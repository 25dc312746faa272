// SPDX-License-Identifier: Apache-2.0
// GET …/pods/NAME/log: the container logs that the supervisors write. Parameters and errors as the
// kubelet's: container, follow, previous, timestamps, tailLines, sinceSeconds, sinceTime,
// limitBytes.
#pragma once

#include "local/kubelet/pod_worker.h"
#include "net/http/http.h"

void kubelet_logs_handle(void *kubelet, const json_t *pod, struct http_exchange *x);
void kubelet_logs_close_all(struct kubelet *k); // ends the streams under way
