// SPDX-License-Identifier: Apache-2.0
// Backoff of a node group after a failed scale-up, with the rules of the Cluster Autoscaler's
// backoff package: it doubles up to a maximum and is forgotten after a quiet time.
#include "nodes/choice.h"

#include "base/backoff.h"

static struct nodes_backoff_limits limits_of(const struct nodes_backoff_limits *given)
{
    if (given && given->initial_ms)
        return *given;
    return (struct nodes_backoff_limits){NODES_BACKOFF_INITIAL_MS, NODES_BACKOFF_MAX_MS,
                                         NODES_BACKOFF_RESET_MS};
}

void nodes_backoff_fail(struct nodes_backoff *b, int64_t now_ms,
                        const struct nodes_backoff_limits *given)
{
    struct nodes_backoff_limits l = limits_of(given);
    nodes_backoff_expire(b, now_ms, given);
    if (!b->duration_ms)
        b->duration_ms = l.initial_ms;
    else if (b->until_ms < now_ms)
        b->duration_ms = gs_backoff_next(b->duration_ms, l.initial_ms, l.max_ms);
    b->until_ms = now_ms + b->duration_ms;
    b->last_failure_ms = now_ms;
    b->failures++;
}

void nodes_backoff_succeed(struct nodes_backoff *b)
{
    *b = (struct nodes_backoff){0};
}

void nodes_backoff_expire(struct nodes_backoff *b, int64_t now_ms,
                          const struct nodes_backoff_limits *given)
{
    if (b->failures && b->last_failure_ms + limits_of(given).reset_ms < now_ms)
        *b = (struct nodes_backoff){0};
}

bool nodes_backoff_active(const struct nodes_backoff *b, int64_t now_ms)
{
    return b->failures && b->until_ms >= now_ms;
}
