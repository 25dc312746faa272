// SPDX-License-Identifier: Apache-2.0
// One question to one name server, over UDP or TCP. Private to the room.
#pragma once

#include "net/dns/message.h"

#include <uv.h>

// The bytes of a message that answers the question. err is owned by the callee.
typedef void (*dns_exchange_fn)(void *arg, struct gs_slice message, struct gs_error *err);

struct dns_exchange;
// query is copied. fn is called once, from the loop, unless it was cancelled. GS_EINVAL: no
// address.
struct gs_error *dns_exchange_start(uv_loop_t *loop, const char *server, uint16_t port, bool tcp,
                                    struct gs_slice query, unsigned timeout_ms, dns_exchange_fn fn,
                                    void *arg, struct dns_exchange **ret);
void dns_exchange_cancel(struct dns_exchange *x); // NULL is fine; not from fn
