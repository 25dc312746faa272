// SPDX-License-Identifier: Apache-2.0
// Many scenarios that have nothing to do with each other: each thread takes the next one.
#include "base/mem.h"
#include "replay/replay.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define MAX_THREADS ((size_t)64)

struct sweep {
    const struct replay_scenario *const *scenarios;
    struct replay_summary *summaries;
    size_t n;
    atomic_size_t next;
};

static void *summarize_scenarios(void *arg)
{
    struct sweep *w = arg;
    for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->n;)
        replay_summarize(w->scenarios[i], &w->summaries[i]);
    return NULL;
}

void replay_summarize_all(const struct replay_scenario *const *s, size_t n,
                          struct replay_summary *ret)
{
    struct sweep w = {.scenarios = s, .summaries = ret, .n = n};
    pthread_t threads[MAX_THREADS];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = processors > 1 ? (size_t)processors : 1, started = 0;
    // This thread works too; one that cannot be started is not needed.
    for (; started < MAX_THREADS && started + 1 < wanted && started + 1 < n; started++)
        if (pthread_create(&threads[started], NULL, summarize_scenarios, &w) != 0)
            break;
    summarize_scenarios(&w);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
