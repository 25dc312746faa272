// SPDX-License-Identifier: Apache-2.0
// Prometheus beside the store: it is sent the same history by remote write.
#pragma once

#include "history.h"

#include <stdint.h>
#include <sys/types.h>

// A process of its own that works in steps: it ends each with side_done and waits to be told to go
// on.
struct side {
    pid_t pid;
    int in, out;
};
// The child's function does not return.
struct side side_start(void (*fn)(void *arg, const struct side *self), void *arg);
void side_done(const struct side *self); // in the child
void side_wait(const struct side *s);    // until it has said that it is done
void side_go(const struct side *s);

struct peer {
    const char *program; // a Prometheus
    uint16_t port;
    pid_t pid;
    unsigned starts;
    double start_s, start_cpu_s; // from its start to its being ready
};
void peer_start(struct peer *p);
void peer_kill(struct peer *p);

// What a feeding process does: rounds first to end, then so many seconds more at their own pace.
struct peer_feed {
    uint16_t port;
    struct history *history;
    size_t first, end, tail;
};
void peer_feed(void *feed, const struct side *self);
uint64_t peer_feed_samples(const struct peer_feed *f);
// Fails the program when it does not hold exactly so many.
void peer_check(const struct peer *p, uint64_t samples, uint64_t series);

// A number out of an answer to an instant query; fails the program.
double peer_ask(uint16_t port, const char *query, double at_s);
