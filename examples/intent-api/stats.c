// SPDX-License-Identifier: Apache-2.0
#include "stats.h"

#include "base/mem.h"
#include "base/num.h"

#include <pthread.h>

// Upper bounds of the latency buckets, seconds.
static const double bounds[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5};
enum { N_BOUNDS = GS_ARRAY_LEN(bounds) };

static const char *const paths[] = {"/predict", "/ping", "/gputest", "other"};
static const int codes[] = {200, 400, 404, 500};

struct stats {
    pthread_mutex_t lock;
    uint64_t requests[GS_ARRAY_LEN(paths)][GS_ARRAY_LEN(codes)];
    uint64_t buckets[N_BOUNDS + 1]; // of /predict; the last is +Inf
    double seconds;
    uint64_t count;
    int64_t in_flight;
};

struct stats *stats_new(void)
{
    struct stats *s = gs_alloc(sizeof(*s));
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

void stats_free(struct stats *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void stats_begin(struct stats *s)
{
    pthread_mutex_lock(&s->lock);
    s->in_flight++;
    pthread_mutex_unlock(&s->lock);
}

void stats_end(struct stats *s, const char *path, int code, int64_t duration_ns)
{
    size_t p = 0, c = 0, b = 0;
    while (p + 1 < GS_ARRAY_LEN(paths) && !gs_streq(path, paths[p]))
        p++;
    while (c + 1 < GS_ARRAY_LEN(codes) && code != codes[c])
        c++;
    double seconds = (double)duration_ns / 1e9;
    while (b < N_BOUNDS && seconds > bounds[b])
        b++;
    pthread_mutex_lock(&s->lock);
    s->in_flight--;
    s->requests[p][c]++;
    if (p == 0 && code == 200) {
        s->buckets[b]++;
        s->seconds += seconds;
        s->count++;
    }
    pthread_mutex_unlock(&s->lock);
}

void stats_write(struct stats *s, struct gs_buf *out)
{
    char number[GS_DOUBLE_SIZE];
    pthread_mutex_lock(&s->lock);
    gs_buf_add_str(out, "# HELP intent_requests_total Requests answered.\n"
                        "# TYPE intent_requests_total counter\n");
    for (size_t p = 0; p < GS_ARRAY_LEN(paths); p++)
        for (size_t c = 0; c < GS_ARRAY_LEN(codes); c++)
            if (s->requests[p][c])
                gs_buf_addf(out, "intent_requests_total{path=\"%s\",code=\"%d\"} %llu\n", paths[p],
                            codes[c], (unsigned long long)s->requests[p][c]);
    gs_buf_add_str(out, "# HELP intent_predict_duration_seconds Time to answer /predict.\n"
                        "# TYPE intent_predict_duration_seconds histogram\n");
    uint64_t below = 0;
    for (size_t b = 0; b <= N_BOUNDS; b++) {
        below += s->buckets[b];
        gs_buf_addf(out, "intent_predict_duration_seconds_bucket{le=\"%s\"} %llu\n",
                    b < N_BOUNDS ? gs_format_double(bounds[b], number) : "+Inf",
                    (unsigned long long)below);
    }
    gs_buf_addf(out, "intent_predict_duration_seconds_sum %s\n",
                gs_format_double(s->seconds, number));
    gs_buf_addf(out, "intent_predict_duration_seconds_count %llu\n", (unsigned long long)s->count);
    gs_buf_addf(out,
                "# HELP intent_requests_in_flight Requests being answered.\n"
                "# TYPE intent_requests_in_flight gauge\nintent_requests_in_flight %lld\n",
                (long long)s->in_flight);
    pthread_mutex_unlock(&s->lock);
}
