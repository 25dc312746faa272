// SPDX-License-Identifier: Apache-2.0
// One run of a handler of a probe or a lifecycle hook against a container: exec, httpGet,
// tcpSocket, grpc or sleep, with the kubelet's texts for what went wrong.
#pragma once

#include "codec/json.h"

struct kubelet_container;
struct kubelet_handler;

// done is called once, in a later loop turn; message says why it failed (output of a command, an
// HTTP code) and is "" where there is nothing to say. The handler is freed afterwards.
typedef void (*kubelet_handler_done)(void *arg, bool ok, const char *message);

struct kubelet_handler *kubelet_handler_start(struct kubelet_container *c, const json_t *spec,
                                              unsigned timeout_ms, kubelet_handler_done done,
                                              void *arg);
void kubelet_handler_cancel(
    struct kubelet_handler *h); // no callback; NULL is fine; not from `done`
