// SPDX-License-Identifier: Apache-2.0
// A Prometheus for comparison with the store. It receives the same history by remote write.
#pragma once

#include "history.h"

#include <stdint.h>
#include <sys/types.h>

// A separate process that works in steps. It ends each step with side_done() and waits until the
// parent continues it.
struct side {
    pid_t pid;
    int in, out;
};
// The child's function does not return.
struct side side_start(void (*fn)(void *arg, const struct side *self), void *arg);
void side_done(const struct side *self); // in the child
void side_wait(const struct side *s);    // until the child calls side_done()
void side_go(const struct side *s);

struct peer {
    const char *program; // a Prometheus
    uint16_t port;
    pid_t pid;
    unsigned starts;
    double start_s, start_cpu_s; // from its start until it is ready
};
void peer_start(struct peer *p);
void peer_kill(struct peer *p);

// The work of a feeding process: rounds first to end, then a number of seconds in real time.
struct peer_feed {
    uint16_t port;
    struct history *history;
    size_t first, end, tail;
};
void peer_feed(void *feed, const struct side *self);
uint64_t peer_feed_samples(const struct peer_feed *f);
// Ends the program if it does not contain exactly this number.
void peer_check(const struct peer *p, uint64_t samples, uint64_t series);

// The number in the response to an instant query. Ends the program on failure.
double peer_ask(uint16_t port, const char *query, double at_s);
