// SPDX-License-Identifier: Apache-2.0
// Private to net/: what stands behind struct http_client.
#pragma once

#include "net/http/client.h"

#include <limits.h>

struct http_client_ops {
    struct http_op *(*send)(struct http_client *c, const struct http_call *call,
                            const struct http_callbacks *cb, void *arg);
    void (*cancel)(struct http_op *op);
    void (*free)(struct http_client *c);
};

struct http_client {
    const struct http_client_ops *ops;
};

struct http_op {
    struct http_client *client;
};

#define HTTP_DEFAULT_TIMEOUT_MS 30000u
#define HTTP_DEFAULT_MAX_REPLY  ((size_t)64 * 1024 * 1024)
