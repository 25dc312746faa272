// SPDX-License-Identifier: Apache-2.0
// Which pods are still coming. A pod that is older than nine of ten starts, with a quarter more, is
// late: it no longer counts, so that a start that hangs does not keep its workload too small.
#include "kube/object.h"
#include "startup/startup_private.h"

#include <stdlib.h>
#include <string.h>

const char *startup_state_name(enum startup_state state)
{
    static const char *const names[] = {"ready",         "starting", "late",
                                        "unschedulable", "failed",   "ended"};
    return names[state];
}

static enum startup_phase phase_of(const struct startup_marks *m, const struct startup_record *r)
{
    if (m->started)
        return STARTUP_LOAD;
    if (!m->scheduled)
        return r && r->ordered ? STARTUP_NODE : STARTUP_PENDING;
    return r && r->pulling && !r->pull_ms ? STARTUP_PULL : STARTUP_CONTAINER;
}

// No node has room, and none is coming. A node autoscaler needs some seconds until it orders one.
static bool is_stuck(const struct startup_marks *m, const struct startup_record *r, int64_t now_ms)
{
    if (m->gated)
        return true;
    if (m->scheduled || !m->unschedulable)
        return false;
    if (r && r->refused)
        return true;
    return !(r && r->ordered) && now_ms - m->unschedulable > STARTUP_ORDER_MS;
}

static bool has_served(const struct startup_record *r)
{
    return r && (r->was_ready || (r->stored && !r->failed));
}

// Without regard to its age: such a pod is starting or late.
static bool may_start(const struct startup_learner *l, const struct startup_marks *m,
                      const struct startup_record *r, int64_t now_ms, enum startup_state *ret)
{
    *ret = STARTUP_STARTING;
    if (m->deleting || m->ended)
        *ret = STARTUP_ENDED;
    else if (m->ready && !(r && r->workload && !startup_serving(l, r)))
        *ret = STARTUP_READY;
    else if (m->failed && !m->ready)
        *ret = STARTUP_FAILED;
    else if (!m->ready && is_stuck(m, r, now_ms))
        *ret = STARTUP_UNSCHEDULABLE;
    return *ret == STARTUP_STARTING;
}

// Expectations are calculated for pods that are not ready only: most pods are.
static void read_age(const struct startup_learner *l, const json_t *pod,
                     const struct startup_marks *m, int64_t now_ms, struct startup_progress *ret)
{
    struct startup_expected e;
    startup_expected_of_pod(l, pod, &e);
    ret->expected_ms = m->created + e.total.p90_ms;
    if (now_ms > m->created + startup_late_ms(&e))
        ret->state = m->ready ? STARTUP_READY : STARTUP_LATE; // its engine publishes nothing
}

void startup_progress_of(const struct startup_learner *l, const json_t *pod, int64_t now_ms,
                         struct startup_progress *ret)
{
    const struct startup_record *r = startup_record_of(l, pod);
    struct startup_marks m;
    startup_read_pod(pod, &m);
    *ret = (struct startup_progress){.phase = phase_of(&m, r), .created_ms = m.created};
    if (may_start(l, &m, r, now_ms, &ret->state)) {
        if (!m.ready && has_served(r))
            ret->state = STARTUP_LATE;
        else
            read_age(l, pod, &m, now_ms, ret);
    }
    if (ret->state == STARTUP_READY) {
        int64_t serving = r ? startup_serving(l, r) : 0;
        ret->ready_ms = serving ? serving : m.ready;
        ret->expected_ms = 0;
    }
}

bool startup_start_of(const struct startup_learner *l, const json_t *pod, struct startup_start *ret)
{
    const struct startup_record *r = startup_record_of(l, pod);
    int64_t serving = r ? startup_serving(l, r) : 0;
    struct startup_sample s;
    if (!serving || !startup_sample_of(r, serving, &s))
        return false;
    ret->path = s.path;
    ret->total_ms = s.total_ms;
    memcpy(ret->ms, s.ms, sizeof(ret->ms));
    return true;
}

void startup_coming_add(struct startup_coming *c, const struct startup_progress *p, int64_t now_ms)
{
    switch (p->state) {
    case STARTUP_READY:
        c->ready++;
        // A time that lies far ahead is of before the clock was set back.
        c->settling += llabs(now_ms - p->ready_ms) < STARTUP_SETTLE_MS;
        break;
    case STARTUP_STARTING:
        c->starting++;
        if (!c->first_ms || p->expected_ms < c->first_ms)
            c->first_ms = p->expected_ms;
        if (p->expected_ms > c->last_ms)
            c->last_ms = p->expected_ms;
        break;
    case STARTUP_LATE:
        c->late++;
        break;
    case STARTUP_UNSCHEDULABLE:
        c->unschedulable++;
        break;
    case STARTUP_FAILED:
        c->failed++;
        break;
    case STARTUP_ENDED:
        break;
    }
}
