// SPDX-License-Identifier: Apache-2.0
// The line for each new decision, and the metrics of all. In shadow mode, it compares with the
// decision of the cluster's own controller, which the object's status has. A line that is the same
// as the last one of its object is not printed again.
#include "hpa_controller/controller_private.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "kube/object.h"

#include <stdio.h>

struct logged_object {
    char *ns, *name, *line;
    int32_t desired, cluster; // cluster -1: its status is empty
    uint64_t passes, differing, rescales;
};

struct hpa_decision_log {
    struct gs_hmap *objects; // "ns/name" -> struct logged_object
    bool json, shadow;
};

static void logged_object_free(void *p)
{
    struct logged_object *s = p;
    free(s->ns);
    free(s->name);
    free(s->line);
    free(s);
}

struct hpa_decision_log *hpa_decision_log_new(bool json, bool shadow)
{
    struct hpa_decision_log *w = gs_alloc(sizeof(*w));
    w->objects = gs_hmap_new(logged_object_free);
    w->json = json;
    w->shadow = shadow;
    return w;
}

void hpa_decision_log_free(struct hpa_decision_log *w)
{
    if (!w)
        return;
    gs_hmap_free(w->objects);
    free(w);
}

static struct logged_object *find_or_add_object(struct hpa_decision_log *w,
                                                const struct hpa_spec *spec)
{
    GS_AUTO_FREE char *key = gs_format("%s/%s", spec->ns, spec->name);
    struct logged_object *s = gs_hmap_get_str(w->objects, key);
    if (!s) {
        s = gs_alloc(sizeof(*s));
        s->ns = gs_strdup(spec->ns);
        s->name = gs_strdup(spec->name);
        gs_hmap_put_str(w->objects, key, s);
    }
    return s;
}

// The value of the metric that decided, and what limited the result.
static char *decision_reason(const struct hpa_decision *d)
{
    const char *metric = d->extra ? d->extra : "";
    for (size_t i = 0; i < d->n_metrics; i++)
        if (!d->extra && d->metrics[i].explanation &&
            (!*metric || d->metrics[i].proposal == d->proposal))
            metric = d->metrics[i].explanation;
    if (!*metric)
        metric = d->n_conditions ? d->conditions[d->n_conditions - 1].message : d->reason;
    bool held = d->explanation && *d->explanation;
    return gs_format("%s%s%s", metric, held ? "; " : "", held ? d->explanation : "");
}

static char *text_line(const struct logged_object *s, const struct hpa_decision *d, const char *why,
                       bool shadow)
{
    if (!shadow)
        return gs_format("%s/%s: %d -> %d: %s", s->ns, s->name, d->current, d->desired, why);
    if (s->cluster < 0)
        return gs_format("%s/%s: at %d, ours %d, the cluster's unknown: %s", s->ns, s->name,
                         d->current, d->desired, why);
    return gs_format("%s/%s: at %d, ours %d, the cluster's %d%s: %s", s->ns, s->name, d->current,
                     d->desired, s->cluster, s->cluster == d->desired ? "" : " (differs)", why);
}

static char *json_line(const struct logged_object *s, const struct hpa_decision *d, const char *why)
{
    CODEC_AUTO_JSON json_t *j =
        json_pack("{s:s, s:s, s:i, s:i, s:s}", "namespace", s->ns, "name", s->name, "current",
                  (int)d->current, "desired", (int)d->desired, "why", why);
    if (s->cluster >= 0)
        codec_json_set_int(j, "cluster", s->cluster);
    json_t *conditions = json_array();
    for (size_t i = 0; i < d->n_conditions; i++)
        json_array_append_new(
            conditions, json_pack("{s:s, s:s, s:s, s:s}", "type", d->conditions[i].type, "status",
                                  d->conditions[i].status, "reason", d->conditions[i].reason,
                                  "message", d->conditions[i].message));
    json_object_set_new(j, "conditions", conditions);
    struct gs_buf out = {0};
    codec_json_dump(j, &out);
    return gs_buf_take(&out);
}

void hpa_decision_log_add(struct hpa_decision_log *w, const struct hpa_spec *spec,
                          const struct hpa_decision *d)
{
    struct logged_object *s = find_or_add_object(w, spec);
    s->desired = d->desired;
    s->cluster = (int32_t)codec_json_int(spec->object, -1, "status", "desiredReplicas", NULL);
    s->passes++;
    s->rescales += d->rescale;
    s->differing += w->shadow && s->cluster >= 0 && s->cluster != d->desired;
    GS_AUTO_FREE char *why = decision_reason(d);
    char *line = w->json ? json_line(s, d, why) : text_line(s, d, why, w->shadow);
    if (!gs_streq(line, s->line)) {
        char now[GS_RFC3339_SIZE];
        gs_format_rfc3339(d->decided_ms, now);
        printf(w->json ? "{\"time\":\"%s\",%s\n" : "%s %s\n", now, w->json ? line + 1 : line);
        (void)fflush(stdout);
    }
    free(s->line);
    s->line = line;
}

void hpa_decision_log_remove(struct hpa_decision_log *w, const char *ns, const char *name)
{
    GS_AUTO_FREE char *key = gs_format("%s/%s", ns, name);
    struct logged_object *s = gs_hmap_remove_str(w->objects, key);
    if (s)
        logged_object_free(s);
}

// --- metrics ---

enum { DESIRED, CLUSTER, PASSES, DIFFERING, RESCALES };

static const struct {
    const char *name, *type, *help;
} families[] = {
    [DESIRED] = {"gpuscale_hpa_desired_replicas", "gauge", "Replicas of the last decision."},
    [CLUSTER] = {"gpuscale_hpa_cluster_desired_replicas", "gauge",
                 "desiredReplicas of the object's status."},
    [PASSES] = {"gpuscale_hpa_decisions_total", "counter", "Decisions."},
    [DIFFERING] = {"gpuscale_hpa_differing_decisions_total", "counter",
                   "Decisions in shadow mode that differ from the object's status."},
    [RESCALES] = {"gpuscale_hpa_rescales_total", "counter",
                  "Decisions that change the replicas (in shadow mode: would change them)."},
};

static double log_value_of(const struct logged_object *s, size_t family)
{
    switch (family) {
    case DESIRED:
        return s->desired;
    case CLUSTER:
        return s->cluster;
    case PASSES:
        return (double)s->passes;
    case DIFFERING:
        return (double)s->differing;
    default:
        return (double)s->rescales;
    }
}

void hpa_decision_log_metrics(const struct hpa_decision_log *w, struct gs_buf *out)
{
    for (size_t f = 0; f < GS_ARRAY_LEN(families); f++) {
        gs_buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", families[f].name, families[f].help,
                    families[f].name, families[f].type);
        size_t pos = 0;
        void *item;
        while (gs_hmap_next(w->objects, &pos, NULL, &item)) {
            const struct logged_object *s = item;
            if (f != CLUSTER || s->cluster >= 0)
                gs_buf_addf(out, "%s{namespace=\"%s\",horizontalpodautoscaler=\"%s\"} %.0f\n",
                            families[f].name, s->ns, s->name, log_value_of(s, f));
        }
    }
}
