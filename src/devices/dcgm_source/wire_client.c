// SPDX-License-Identifier: Apache-2.0
// The client of a host engine: lists what the engine has, watches the fields of the plan, and reads
// them at each interval. It runs on the thread of the source until the connection fails or the plan
// changes; libdcgm is not involved.
#include "dcgm_source/wire_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "dcgm/code.h"

#include <stdio.h>

#define RELIST_NS      (30 * GS_NS_PER_SEC)
#define WATCH_AGAIN_NS (60 * GS_NS_PER_SEC)
#define READ_DELAY_NS  (100 * GS_NS_PER_MS)

struct session {
    struct dcgm_source *source;
    const struct dcgm_source_plan *plan;
    struct dcgm_source_wire wire;
    struct dcgm_source_wire_table table;
    struct dcgm_source_wire_units units;
    struct dcgm_source_report report;
    int64_t relist_ns, watch_again_ns;
    unsigned renewals;
    bool changed; // the entities differ: everything is to be made again
};

// "version:4.5.3;arch:x86_64;…" as in the answer of an engine.
static void take_version(const char *raw, struct session *s)
{
    const char *at = strstr(raw, "version:");
    size_t n = at ? strcspn(at + 8, ";") : 0;
    snprintf(s->report.version, sizeof(s->report.version), "%.*s", (int)n, at ? at + 8 : "");
    s->report.simulated = strstr(raw, "simulated") != NULL;
    s->wire.major = (int)strtol(s->report.version, NULL, 10);
}

static struct gs_error *query_version(struct session *s)
{
    int code = DCGM_OK;
    dcgm_source_wire_message(&s->wire)->version.info.version = DCGM_VERSION_INFO;
    struct gs_error *err = dcgm_source_wire_exchange(&s->wire, DCGM_WIRE_VERSION, &code, NULL);
    if (!err && !code)
        take_version(s->wire.message->version.info.raw, s);
    return err;
}

// The plan is about the GPUs of this machine: an engine elsewhere has none of them.
static struct gs_error *check_machine(const struct session *s)
{
    const char *other = NULL;
    for (size_t i = 0; i < s->table.len; i++) {
        const struct dcgm_entity *e = &s->table.items[i];
        if (e->group != DCGM_ENTITY_GPU || !e->uuid[0])
            continue;
        other = e->uuid;
        for (uint32_t k = 0; k < s->plan->n_prof_gpus; k++)
            if (!strcmp(s->plan->prof_gpus[k], e->uuid))
                return NULL;
    }
    if (!other || !s->plan->n_prof_gpus)
        return NULL;
    return gs_error_new(GS_EUNAVAIL,
                        "the DCGM host engine is that of another machine: it has %s, this machine "
                        "has %s",
                        other, s->plan->prof_gpus[0]);
}

static struct gs_error *start(struct session *s, const struct dcgm_source_target *t, int *ret_code)
{
    struct gs_error *err = dcgm_source_wire_open(s->source, t, &s->wire, ret_code);
    err = err ? err : query_version(s);
    err = err ? err : dcgm_source_wire_list(&s->wire, s->plan, &s->table);
    err = err ? err : check_machine(s);
    err = err ? err : dcgm_source_wire_watch(&s->wire, s->plan, &s->table, &s->units);
    dcgm_source_wire_trim(&s->wire);
    s->renewals = dcgm_source_renewals(s->source);
    s->relist_ns = gs_mono_ns() + RELIST_NS;
    s->watch_again_ns = gs_mono_ns() + WATCH_AGAIN_NS;
    return err;
}

static void finish(struct session *s)
{
    dcgm_source_wire_units_finish(&s->units);
    dcgm_source_wire_table_finish(&s->table);
    dcgm_source_wire_close(&s->wire);
}

static void report(struct session *s)
{
    s->report.state = DCGM_SOURCE_UP;
    s->report.prof_code = s->units.prof_code;
    s->report.prof_problem[0] = 0;
    if (s->units.prof_code)
        snprintf(s->report.prof_problem, sizeof(s->report.prof_problem), "%s",
                 dcgm_code_text(s->units.prof_code));
    dcgm_source_set_report(s->source, &s->report);
}

// Whether MIG devices, links or GPUs differ from those that are watched.
static struct gs_error *list_again(struct session *s)
{
    struct dcgm_source_wire_table now = {0};
    struct gs_error *err = dcgm_source_wire_list(&s->wire, s->plan, &now);
    bool same = now.len == s->table.len &&
                (!now.len || memcmp(now.items, s->table.items, now.len * sizeof(*now.items)) == 0);
    s->changed = !err && !same;
    dcgm_source_wire_table_finish(&now);
    s->relist_ns = gs_mono_ns() + RELIST_NS;
    dcgm_source_wire_trim(&s->wire);
    return err;
}

static bool has_prof_unit(const struct session *s)
{
    bool found = false;
    for (size_t i = 0; i < s->units.len && !found; i++)
        found = s->units.items[i].prof;
    return found;
}

// Profiling that was refused is tried again; dead counters are watched again.
static struct gs_error *keep_profiling(struct session *s)
{
    unsigned renewals = dcgm_source_renewals(s->source);
    bool renewed = renewals != s->renewals;
    bool due = s->units.prof_code && gs_mono_ns() >= s->watch_again_ns;
    if (!renewed && !due)
        return NULL;
    s->renewals = renewals;
    s->watch_again_ns = gs_mono_ns() + WATCH_AGAIN_NS;
    if (!has_prof_unit(s)) { // the engine named no profiling fields: list them again
        s->changed = due;
        return NULL;
    }
    return dcgm_source_wire_watch_prof(&s->wire, s->plan, &s->units, renewed);
}

static struct gs_error *read_once(struct session *s)
{
    struct dcgm_latest *l = NULL;
    int64_t began = gs_mono_ns();
    struct gs_error *err = dcgm_source_wire_read(&s->wire, s->plan, &s->table, &s->units, &l);
    if (err)
        return err;
    dcgm_source_publish(s->source, l, gs_mono_ns() - began);
    report(s);
    return NULL;
}

// The engine samples from the watch on, at the same interval. Reads a little later find the values
// of this interval instead of those of the one before.
static int64_t read_delay_ns(const struct session *s)
{
    int64_t delay = s->plan->interval_ns / 10;
    return delay < READ_DELAY_NS ? delay : READ_DELAY_NS;
}

// Until the connection fails, the client has to return, or the entities differ.
static struct gs_error *run(struct session *s)
{
    int64_t next = gs_mono_ns() + read_delay_ns(s);
    struct gs_error *err = NULL;
    if (!dcgm_source_sleep_until(s->source, next))
        return NULL;
    while (!err && !s->changed && !dcgm_source_must_return(s->source)) {
        err = read_once(s);
        if (!err && gs_mono_ns() >= s->relist_ns)
            err = list_again(s);
        err = err ? err : keep_profiling(s);
        next += s->plan->interval_ns;
        if (next < gs_mono_ns()) // a slow engine, or a suspended machine
            next = gs_mono_ns() + s->plan->interval_ns;
        if (!err && !s->changed && !dcgm_source_sleep_until(s->source, next))
            break;
    }
    return err;
}

struct gs_error *dcgm_source_run_wire(struct dcgm_source *source,
                                      const struct dcgm_source_target *t, int *ret_code)
{
    struct gs_error *err = NULL;
    bool again = true;
    while (again && !err) {
        struct session s = {.source = source, .plan = dcgm_source_current_plan(source)};
        err = start(&s, t, ret_code);
        err = err ? err : run(&s);
        if (err && s.wire.returning) {
            gs_error_free(err);
            err = NULL;
        }
        if (err && s.report.state == DCGM_SOURCE_UP)
            dcgm_source_count_restart(source, DCGM_SOURCE_CONNECTION);
        again = s.changed;
        finish(&s);
    }
    if (err && !*ret_code)
        *ret_code = gs_error_code(err) == GS_ETIMEOUT ? DCGM_TIMEOUT : DCGM_CONNECTION_LOST;
    return err;
}
