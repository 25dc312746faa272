// SPDX-License-Identifier: Apache-2.0
// Independent scenarios in several threads: each thread takes the next scenario.
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
    struct sweep *sweep = arg;
    for (size_t i; (i = atomic_fetch_add(&sweep->next, 1)) < sweep->n;)
        replay_summarize(sweep->scenarios[i], &sweep->summaries[i]);
    return NULL;
}

void replay_summarize_all(const struct replay_scenario *const *s, size_t n,
                          struct replay_summary *ret)
{
    struct sweep sweep = {.scenarios = s, .summaries = ret, .n = n};
    pthread_t threads[MAX_THREADS];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = processors > 1 ? (size_t)processors : 1, started = 0;
    // The calling thread works too, so a thread that cannot be started is not an error.
    for (; started < MAX_THREADS && started + 1 < wanted && started + 1 < n; started++)
        if (pthread_create(&threads[started], NULL, summarize_scenarios, &sweep) != 0)
            break;
    summarize_scenarios(&sweep);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
