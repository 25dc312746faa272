// SPDX-License-Identifier: Apache-2.0
// Which pods are still coming. A pod that is older than nine of ten starts, with a quarter more, is
// late: it no longer counts, so that a start that hangs does not keep its workload too small.
#include "kube/object.h"
#include "startup/startup_private.h"

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

static enum startup_state state_of(const struct startup_learner *l, const struct startup_marks *m,
                                   const struct startup_record *r, int64_t late_ms, int64_t now_ms)
{
    bool late = now_ms > late_ms;
    if (m->deleting || m->ended)
        return STARTUP_ENDED;
    if (m->ready) {
        bool waits = r && r->workload && !startup_serving(l, r) && !late;
        return waits ? STARTUP_STARTING : STARTUP_READY;
    }
    if (m->failed)
        return STARTUP_FAILED;
    if (is_stuck(m, r, now_ms))
        return STARTUP_UNSCHEDULABLE;
    return late || has_served(r) ? STARTUP_LATE : STARTUP_STARTING;
}

void startup_progress_of(const struct startup_learner *l, const json_t *pod, int64_t now_ms,
                         struct startup_progress *ret)
{
    const struct startup_record *r = startup_record_of(l, pod);
    struct startup_marks m;
    struct startup_expected e;
    startup_read_pod(pod, &m);
    startup_expected_of_pod(l, pod, &e);
    enum startup_state state = state_of(l, &m, r, m.created + startup_late_ms(&e), now_ms);
    *ret = (struct startup_progress){
        .state = state,
        .phase = phase_of(&m, r),
        .created_ms = m.created,
    };
    if (state == STARTUP_READY) {
        int64_t serving = r ? startup_serving(l, r) : 0;
        ret->ready_ms = serving ? serving : m.ready;
    } else if (state == STARTUP_STARTING || state == STARTUP_LATE) {
        ret->expected_ms = m.created + e.total.p90_ms;
    }
}

void startup_coming_add(struct startup_coming *c, const struct startup_progress *p, int64_t now_ms)
{
    switch (p->state) {
    case STARTUP_READY:
        c->ready++;
        c->settling += now_ms - p->ready_ms < STARTUP_SETTLE_MS;
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
