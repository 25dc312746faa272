// SPDX-License-Identifier: Apache-2.0
// One run of a handler of a probe or a lifecycle hook against a container: exec, httpGet,
// tcpSocket, grpc or sleep, with the kubelet's texts for what went wrong.
#pragma once

#include "codec/json.h"

struct local_container;
struct local_handler;

// done is called once, in a later loop turn; message says why it failed (output of a command, an
// HTTP code) and is "" where there is nothing to say. The handler is freed afterwards.
typedef void (*local_handler_done)(void *arg, bool ok, const char *message);

struct local_handler *local_handler_start(struct local_container *c, const json_t *spec,
                                          unsigned timeout_ms, local_handler_done done, void *arg);
void local_handler_cancel(struct local_handler *h); // no callback; NULL is fine; not from `done`
