// SPDX-License-Identifier: Apache-2.0
// Scrapes of large pages run in turns with the event loop, each on a stack of its own.
#pragma once

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

struct scrape_turns;
struct gs_fiber;

// One piece of work; the owner's memory, zero before the first use.
struct scrape_turn {
    void (*run)(void *arg);
    void (*done)(void *arg); // run has returned; not called by scrape_turn_cancel()
    void *arg;

    // private
    struct scrape_turns *turns;
    struct gs_fiber *fiber; // NULL: nothing is under way
    int64_t begun_ns;       // of this turn
    bool canceled;
    TAILQ_ENTRY(scrape_turn) link;
};

struct scrape_turns *scrape_turns_new(uv_loop_t *loop);
void scrape_turns_free(struct scrape_turns *s); // when nothing is under way
// Runs it up to its first pause, or to its end. Without memory for a stack: to its end.
void scrape_turns_start(struct scrape_turns *s, struct scrape_turn *t);
// From run alone, now and then: after some milliseconds it lets the loop go on. False: end.
bool scrape_turn_go_on(struct scrape_turn *t);
// Lets run come to its end at once. Nothing happens when nothing is under way.
void scrape_turn_cancel(struct scrape_turn *t);
