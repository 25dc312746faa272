// SPDX-License-Identifier: Apache-2.0
// Requests that wait in the queue of an inference engine until they are taken away.
#pragma once

#include <stddef.h>
#include <uv.h>

struct queue_load;

// Sends n completions at the same time to "http://HOST:PORT".
struct queue_load *queue_load_new(uv_loop_t *loop, const char *url, size_t n);
// Cancels those that are in progress: the engine aborts them. Accepts NULL.
void queue_load_free(struct queue_load *l);
