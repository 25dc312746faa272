// SPDX-License-Identifier: Apache-2.0
// The logs of containers: as the kubelet's API serves them, and their last lines for messages.
#pragma once

#include "net/http/http.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct kubelet;

// --- logs.c, log_tail.c: GET …/pods/NAME/log ---
// Serves the logs that the supervisors write. Parameters and errors are the kubelet's: container,
// follow, previous, timestamps, tailLines, sinceSeconds, sinceTime, limitBytes.

void kubelet_logs_handle(void *kubelet, const json_t *pod, struct http_exchange *x);
// The container of a request on a pod: the parameter `container`, else the pod's only one.
// Borrowed. GS_EINVAL: it has to be given.
struct gs_error *kubelet_choose_container(struct http_exchange *x, const json_t *pod,
                                          const char **ret);
void kubelet_logs_close_all(struct kubelet *k); // ends all open streams
// Moves the file offset to the start of the n-th line from the end, or to the beginning if there
// are fewer lines. Returns the number of lines after the offset, at most n.
int64_t kubelet_log_tail_seek(int fd, int64_t n);
// The text of the last lines, at most max_bytes of its end. NULL for an empty or unreadable log.
// Caller frees.
char *kubelet_log_tail_text(const char *path, int64_t max_lines, size_t max_bytes);
