// SPDX-License-Identifier: Apache-2.0
// What does not run, from pods and events: one entry per cause and workload. A problem is logged
// when it appears, and again only if it was away for ten minutes.
#include "up/console/console.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "diagnosis/diagnosis.h"
#include "kube/object.h"
#include "up/console/console_private.h"

#include <stdlib.h>

#define FORGET_MS    600000 // a problem that returns sooner is not logged again
#define RECENT_MS    120000 // of events about other objects than pods
#define MAX_LOGGED   1000
#define MAX_ENTRIES  200
#define MAX_REPORTED 20 // not of pods

struct entry {
    struct console_problem is;
    char *key, *pod;
    char *workload; // NULL: the pod has no owner
    enum diagnosis_cause cause;
    size_t n_pods;
    bool logged; // by the part that reported it
};

struct console_problems {
    struct console_problems_source source;
    struct console_last_lines *lines;
    int64_t start_ms;
    json_t *nodes, *pods; // during an update, for diagnoses
    struct entry *items;
    size_t len, cap;
    struct entry reported[MAX_REPORTED]; // for the next update
    size_t n_reported;
    struct gs_hmap *by_key;      // of this update
    struct gs_hmap *pods_events; // of this update: pod uid -> json_t, the array of its warnings
    struct gs_hmap *logged;      // key -> int64_t, time when the problem last existed
};

static void drop_events(void *array)
{
    json_decref(array);
}

struct console_problems *console_problems_new(const struct console_problems_source *source,
                                              int64_t now_ms)
{
    struct console_problems *p = gs_alloc(sizeof(*p));
    p->start_ms = now_ms;
    p->source = *source;
    p->lines = console_last_lines_new(source->client);
    p->by_key = gs_hmap_new(NULL);
    p->pods_events = gs_hmap_new(drop_events);
    p->logged = gs_hmap_new(free);
    return p;
}

static void entry_finish(struct entry *e)
{
    free(e->is.ns);
    free(e->is.who);
    free(e->is.reason);
    free(e->is.text);
    free(e->is.remedy);
    free(e->key);
    free(e->pod);
    free(e->workload);
}

static void clear_problems(struct console_problems *p)
{
    for (size_t i = 0; i < p->len; i++)
        entry_finish(&p->items[i]);
    p->len = 0;
    gs_hmap_clear(p->by_key);
    gs_hmap_clear(p->pods_events);
}

void console_problems_free(struct console_problems *p)
{
    if (!p)
        return;
    clear_problems(p);
    for (size_t i = 0; i < p->n_reported; i++)
        entry_finish(&p->reported[i]);
    console_last_lines_free(p->lines);
    gs_hmap_free(p->by_key);
    gs_hmap_free(p->pods_events);
    gs_hmap_free(p->logged);
    free(p->items);
    free(p);
}

// The Deployment if the ReplicaSet's name contains its name, else the owner; NULL: no owner.
static char *workload_of(const json_t *pod)
{
    const json_t *owner = kube_controller_ref(pod);
    const char *name = codec_json_str(owner, "name", NULL),
               *hash = kube_label(pod, "pod-template-hash");
    GS_AUTO_FREE char *suffix = hash ? gs_format("-%s", hash) : NULL;
    if (!name)
        return NULL;
    if (suffix && gs_ends(name, suffix))
        return gs_strndup(name, strlen(name) - strlen(suffix));
    return gs_strdup(name);
}

// also: another key of the problem; NULL: none.
static void add_problem(struct console_problems *p, struct entry e, const char *also)
{
    struct entry *same = NULL;
    void *at = gs_hmap_get_str(p->by_key, e.key);
    if (at)
        same = &p->items[(size_t)(uintptr_t)at - 1];
    if (same)
        same->n_pods++;
    if (same || p->len == MAX_ENTRIES) {
        entry_finish(&e);
        return;
    }
    gs_grow(&p->items, &p->cap, p->len, sizeof(*p->items));
    p->items[p->len++] = e;
    gs_hmap_put_str(p->by_key, e.key, (void *)(uintptr_t)p->len); // never NULL
    if (also)
        gs_hmap_put_str(p->by_key, also, (void *)(uintptr_t)p->len);
}

static bool is_scale_up(const json_t *event)
{
    const char *reason = codec_json_str(event, "reason", NULL);
    return gs_streq(reason, "TriggeredScaleUp") || gs_streq(reason, "NotTriggerScaleUp");
}

// Pods of one workload that the scheduler refuses with the same words, and without events of their
// own that say more, are diagnosed once: there may be thousands.
static char *waiting_key(const json_t *pod, const char *workload, const json_t *events)
{
    const json_t *c = kube_condition(pod, "PodScheduled");
    const char *message = codec_json_str(c, "message", NULL);
    size_t i;
    const json_t *e;
    if (!workload || !message || !gs_streq(codec_json_str(c, "status", NULL), "False"))
        return NULL;
    json_array_foreach (events, i, e)
        if (is_scale_up(e))
            return NULL;
    return gs_format("%s/%s//%s", kube_namespace(pod), workload, message);
}

static void add_pod_problems(struct console_problems *p, const json_t *pod, int64_t now_ms)
{
    const char *uid = kube_uid(pod);
    const struct diagnosis_input in = {.pod = pod,
                                       .events = gs_hmap_get_str(p->pods_events, uid ? uid : ""),
                                       .nodes = p->nodes,
                                       .pods = p->pods,
                                       .pools = p->source.pools,
                                       .last_line = console_last_lines_get,
                                       .arg = p->lines,
                                       .now_ms = now_ms,
                                       .start_ms = p->start_ms};
    GS_AUTO_FREE char *workload = workload_of(pod);
    GS_AUTO_FREE char *waiting = waiting_key(pod, workload, in.events);
    void *at = waiting ? gs_hmap_get_str(p->by_key, waiting) : NULL;
    struct diagnosis d;
    if (at) {
        p->items[(size_t)(uintptr_t)at - 1].n_pods++;
        return;
    }
    if (!diagnosis_of(&in, &d))
        return;
    struct entry e = {.cause = d.cause, .n_pods = 1, .workload = GS_TAKE(workload)};
    e.is.ns = gs_strdup(kube_namespace(pod));
    e.is.reason = gs_strdup(d.reason);
    e.is.text = GS_TAKE(d.text);
    e.is.remedy = GS_TAKE(d.remedy);
    e.pod = gs_strdup(kube_name(pod));
    e.key = gs_format("%s/%s/%s/%d/%s", e.is.ns ? e.is.ns : "", e.workload ? e.workload : e.pod,
                      d.container ? d.container : "", (int)d.cause, d.identity);
    diagnosis_finish(&d);
    add_problem(p, e, waiting);
}

static void index_event(struct console_problems *p, const json_t *event)
{
    const char *uid = codec_json_str(event, "involvedObject", "uid", NULL);
    if (!uid || !gs_streq(codec_json_str(event, "involvedObject", "kind", NULL), "Pod") ||
        (!gs_streq(codec_json_str(event, "type", NULL), "Warning") && !is_scale_up(event)))
        return;
    json_t *list = gs_hmap_get_str(p->pods_events, uid);
    if (!list) {
        list = json_array();
        gs_hmap_put_str(p->pods_events, uid, list);
    }
    json_array_append(list, (json_t *)event);
}

// Pods that cannot be created, and addresses that cannot be listened on.
static void add_event(struct console_problems *p, const json_t *event, int64_t now_ms)
{
    const char *reason = codec_json_str(event, "reason", NULL);
    const char *when = codec_json_str(event, "lastTimestamp", NULL);
    bool create = gs_streq(reason, "FailedCreate"), port = gs_streq(reason, "PortBusy");
    int64_t at = 0;
    if (!create && !port)
        return;
    gs_error_free(when ? gs_parse_rfc3339(gs_slice_of(when), &at) : NULL);
    if (now_ms - at > RECENT_MS)
        return;
    const char *kind = codec_json_str(event, "involvedObject", "kind", NULL);
    const char *name = codec_json_str(event, "involvedObject", "name", NULL);
    const char *message = codec_json_str(event, "message", NULL);
    struct entry e = {.cause = DIAGNOSIS_OTHER, .n_pods = 1};
    e.is.ns = gs_strdup(kube_namespace(event));
    e.is.reason = gs_strdup(reason);
    e.is.text = gs_strdup(message ? message : "");
    e.pod = gs_format("%s %s", kind ? kind : "", name ? name : "");
    e.is.remedy = port ? gs_strdup("end the program that has the port, or give the Service another")
                       : diagnosis_of_refusal(message, e.is.ns, e.pod);
    e.key = gs_format("%s/%s/%s", e.is.ns ? e.is.ns : "", e.pod, reason);
    add_problem(p, e, NULL);
}

static int by_cause_and_key(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->cause != y->cause ? (x->cause > y->cause) - (x->cause < y->cause)
                                : strcmp(x->key, y->key);
}

static void name_it(struct entry *e)
{
    bool known = e->is.ns && !gs_streq(e->is.ns, "default");
    GS_AUTO_FREE char *ns = known ? gs_format("%s/", e->is.ns) : gs_strdup("");
    if (e->n_pods > 1 && e->workload)
        e->is.who = gs_format("%s%s (%zu pods)", ns, e->workload, e->n_pods);
    else
        e->is.who = gs_format("%s%s", ns, e->workload ? e->workload : e->pod);
}

static void log_new(struct console_problems *p, const struct entry *e, int64_t now_ms)
{
    if (e->logged)
        return;
    int64_t *last = gs_hmap_get_str(p->logged, e->key);
    if (!last && gs_hmap_len(p->logged) >= MAX_LOGGED)
        return;
    if (!last) {
        last = gs_alloc(sizeof(*last));
        gs_hmap_put_str(p->logged, e->key, last);
        gs_warn("pods", "%s: %s: %s (what to do: %s)", e->is.who, e->is.reason, e->is.text,
                e->is.remedy);
    }
    *last = now_ms;
}

// Removes at most one entry per call, because the iteration must not see the map change.
static void forget_old(struct console_problems *p, int64_t now_ms)
{
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(p->logged, &pos, &key, &value)) {
        if (now_ms - *(int64_t *)value < FORGET_MS)
            continue;
        GS_AUTO_FREE char *name = gs_slice_dup(key);
        free(gs_hmap_remove_str(p->logged, name));
        return;
    }
}

static void drop_objects(struct console_problems *p)
{
    json_decref(p->nodes);
    json_decref(p->pods);
    p->nodes = p->pods = NULL;
}

void console_problems_update(struct console_problems *p, int64_t now_ms)
{
    size_t pos = 0, i;
    const json_t *pod;
    clear_problems(p);
    for (const json_t *e; (e = kube_cache_next(p->source.events, &pos));) {
        index_event(p, e);
        add_event(p, e, now_ms);
    }
    p->nodes = p->source.nodes ? kube_cache_objects(p->source.nodes) : NULL;
    p->pods = p->source.pods ? kube_cache_objects(p->source.pods) : NULL;
    json_array_foreach (p->pods, i, pod)
        add_pod_problems(p, pod, now_ms);
    drop_objects(p);
    for (i = 0; i < p->n_reported; i++)
        add_problem(p, p->reported[i], NULL);
    p->n_reported = 0;
    if (p->len)
        qsort(p->items, p->len, sizeof(*p->items), by_cause_and_key);
    for (i = 0; i < p->len; i++) {
        name_it(&p->items[i]);
        log_new(p, &p->items[i], now_ms);
    }
    console_last_lines_sweep(p->lines);
    forget_old(p, now_ms);
}

void console_problems_report(struct console_problems *p, const char *who, const char *reason,
                             const char *text, const char *remedy)
{
    if (p->n_reported == MAX_REPORTED)
        return;
    struct entry e = {.cause = DIAGNOSIS_OTHER, .n_pods = 1, .logged = true};
    e.is.reason = gs_strdup(reason);
    e.is.text = gs_strdup(text);
    e.is.remedy = gs_strdup(remedy);
    e.pod = gs_strdup(who);
    e.key = gs_format("%s/%s/%s", who, reason, text);
    p->reported[p->n_reported++] = e;
}

size_t console_problems_len(const struct console_problems *p)
{
    return p->len;
}

const struct console_problem *console_problems_at(const struct console_problems *p, size_t i)
{
    return &p->items[i].is;
}

json_t *console_problems_json(const struct console_problems *p)
{
    json_t *out = json_array();
    for (size_t i = 0; i < p->len; i++) {
        const struct entry *e = &p->items[i];
        json_t *o = json_object();
        codec_json_set_str(o, "namespace", e->is.ns);
        codec_json_set_str(o, "name", e->workload ? e->workload : e->pod);
        codec_json_set_int(o, "pods", (int64_t)e->n_pods);
        codec_json_set_str(o, "reason", e->is.reason);
        codec_json_set_str(o, "text", e->is.text);
        codec_json_set_str(o, "remedy", e->is.remedy);
        json_array_append_new(out, o);
    }
    return out;
}
