// SPDX-License-Identifier: Apache-2.0
// Errors of answers of a Kubernetes API. Private to the room.
#pragma once

#include "codec/json.h"
#include "net/http/client.h"

// status is 400 or more. The message of a Status body; of any other, what Kubernetes' client would
// say of it: "the server could not find the requested resource (get pods.metrics.k8s.io)".
struct gs_error *kube_answer_error(const char *method, const char *path,
                                   const struct http_answer *answer, const json_t *body);
