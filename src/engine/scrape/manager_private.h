// SPDX-License-Identifier: Apache-2.0
// Between the manager and its views.
#pragma once

#include "engine/scrape/job.h"
#include "engine/scrape/manager.h"
#include "engine/scrape/turns.h"

struct scrape_set { // the configuration's jobs, or a named set beside it
    char *name;     // NULL: the configuration's
    struct scrape_job **jobs;
    size_t n;
    struct scrape_set *next;
};

struct scrape_manager {
    struct tsdb *db;
    struct discovery_context discovery;
    struct scrape_set *sets;
    struct scrape_turns *turns;
    void (*on_scrape)(void *arg);
    void *on_scrape_arg;
    uint64_t scrapes;
};
