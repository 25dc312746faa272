// SPDX-License-Identifier: Apache-2.0
// Applies the checks to facts, and orders what they find.
#include "base/clock.h"
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"

#include <stdlib.h>

#define MAX_PER_CHECK 10

static const char *const link_names[DOCTOR_LINKS] = {
    [DOCTOR_DRIVER] = "driver",     [DOCTOR_NODE] = "node",
    [DOCTOR_EXPORTER] = "exporter", [DOCTOR_ATTRIBUTION] = "attribution",
    [DOCTOR_SCRAPE] = "scrape",     [DOCTOR_SERIES] = "series",
    [DOCTOR_ADAPTER] = "adapter",   [DOCTOR_HPA] = "autoscaler",
    [DOCTOR_PODS] = "pods",         [DOCTOR_NODE_GROUPS] = "node groups",
};

struct doctor_examination doctor_examination_of(const json_t *facts)
{
    struct doctor_examination e = {
        .facts = facts,
        .kube = codec_json_get(facts, "kubernetes", NULL),
        .prometheus = codec_json_get(facts, "prometheus", NULL),
        .node = codec_json_get(facts, "node", NULL),
        .now_ms = gs_unix_ms(),
    };
    const char *now = codec_json_str(facts, "now", NULL);
    GS_AUTO_ERROR struct gs_error *err = now ? gs_parse_rfc3339(gs_slice_of(now), &e.now_ms) : NULL;
    (void)err;
    return e;
}

// Messages of Kubernetes may end in a full stop, and the sentence that contains one does, too.
static void end_once(char *sentence)
{
    size_t len = sentence ? strlen(sentence) : 0;
    if (len > 2 && gs_streq(&sentence[len - 2], "..") && sentence[len - 3] != '.')
        sentence[len - 1] = '\0';
}

void doctor_add(struct doctor_examination *e, struct doctor_finding f)
{
    end_once(f.what);
    const struct doctor_check *c = e->check;

    if (e->n_of_check++ < MAX_PER_CHECK) {
        json_t *o = json_object();
        codec_json_set_str(o, "check", c->id);
        codec_json_set_str(o, "link", link_names[c->link]);
        codec_json_set_str(o, "level", c->level == DOCTOR_BROKEN ? "broken" : "risk");
        codec_json_set_str(o, "subject", f.subject);
        codec_json_set_str(o, "what", f.what);
        codec_json_set_str(o, "evidence", f.evidence);
        codec_json_set_str(o, "why", c->why);
        codec_json_set_str(o, "fix", f.fix);
        codec_json_set_int(
            o, "order",
            (int64_t)(c->level * 1000000 + c->link * 10000 + e->check_index * 100 + e->n_of_check));
        json_array_append_new(e->findings, o);
    }
    free(f.what);
    free(f.evidence);
    free(f.fix);
}

void doctor_report(struct doctor_examination *e, const char *kind, const json_t *obj, char *what,
                   char *evidence, char *fix)
{
    GS_AUTO_FREE char *subject = doctor_subject(kind, obj);
    doctor_add(e, (struct doctor_finding){subject, what, evidence, fix});
}

static int compare_findings(const void *a, const void *b)
{
    int64_t x = codec_json_int(*(json_t *const *)a, 0, "order", NULL);
    int64_t y = codec_json_int(*(json_t *const *)b, 0, "order", NULL);
    return (x > y) - (x < y);
}

// Takes the array. Returns one in the order of the report.
static json_t *ordered(json_t *findings)
{
    size_t n = json_array_size(findings);
    GS_AUTO_FREE json_t **all = gs_alloc_array(n + 1, sizeof *all);
    json_t *out = json_array();

    for (size_t i = 0; i < n; i++)
        all[i] = json_incref(json_array_get(findings, i));
    qsort(all, n, sizeof *all, compare_findings);
    for (size_t i = 0; i < n; i++) {
        json_object_del(all[i], "order");
        json_array_append_new(out, all[i]);
    }
    json_decref(findings);
    return out;
}

static void note(json_t *out, const char *what, const char *why)
{
    json_t *o = json_object();
    codec_json_set_str(o, "what", what);
    codec_json_set_str(o, "why", why);
    json_array_append_new(out, o);
}

static json_t *not_examined(const struct doctor_examination *e)
{
    json_t *out = json_array();
    const char *name;
    json_t *list;

    json_object_foreach ((json_t *)e->kube, name, list) {
        const char *why = codec_json_str(list, "unknown", NULL);
        if (why)
            note(out, name, why);
    }
    const char *why = codec_json_str(e->kube, "unknown", NULL);
    if (why)
        note(out, "the cluster", why);
    why = codec_json_str(e->prometheus, "unknown", NULL);
    if (why)
        note(out, "Prometheus", why);
    why = codec_json_str(e->prometheus, "targets", "unknown", NULL);
    if (why)
        note(out, "targets of Prometheus", why);
    why = codec_json_str(e->node, "unknown", NULL);
    if (why)
        note(out, "this node", why);
    return out;
}

static json_t *examined(const struct doctor_examination *e)
{
    json_t *out = json_array();
    const char *server = codec_json_str(e->kube, "server", NULL);
    const char *address = codec_json_str(e->prometheus, "address", NULL);

    if (doctor_items(e, "nodes") || doctor_items(e, "pods"))
        json_array_append_new(out, codec_json_strf("cluster %s", server ? server : ""));
    if (e->prometheus && !codec_json_str(e->prometheus, "unknown", NULL))
        json_array_append_new(out, codec_json_strf("Prometheus %s", address ? address : ""));
    if (e->node && !codec_json_str(e->node, "unknown", NULL))
        json_array_append_new(out, json_string("this node"));
    return out;
}

json_t *doctor_examine(const json_t *facts)
{
    struct doctor_examination e = doctor_examination_of(facts);
    char now[GS_RFC3339_SIZE];

    e.findings = json_array();
    e.index = doctor_index_new();
    doctor_diagnose(&e);
    for (e.check_index = 0; doctor_checks[e.check_index].id; e.check_index++) {
        e.check = &doctor_checks[e.check_index];
        e.n_of_check = 0;
        e.check->run(&e);
    }
    e.findings = ordered(e.findings);
    doctor_order_causes(&e, e.findings);
    doctor_diagnoses_finish(&e);
    doctor_index_free(e.index);
    json_t *report = json_object(), *seen = examined(&e);
    const char *result = json_array_size(e.findings) ? "findings"
                         : json_array_size(seen)     ? "healthy"
                                                     : "unknown";
    codec_json_set_str(report, "time", gs_format_rfc3339(e.now_ms, now));
    codec_json_set_str(report, "result", result);
    json_object_set_new(report, "findings", e.findings);
    json_object_set_new(report, "examined", seen);
    json_object_set_new(report, "notExamined", not_examined(&e));
    return report;
}

enum doctor_result doctor_result_of(const json_t *report)
{
    const char *result = codec_json_str(report, "result", NULL);
    return gs_streq(result, "healthy")    ? DOCTOR_HEALTHY
           : gs_streq(result, "findings") ? DOCTOR_FINDINGS
                                          : DOCTOR_UNKNOWN;
}

// --- the reference ---

const char *doctor_check_id(size_t i)
{
    return doctor_checks[i].id;
}

void doctor_reference(struct gs_buf *out)
{
    for (int link = 0; link < DOCTOR_LINKS; link++) {
        bool first = true;
        for (const struct doctor_check *c = doctor_checks; c->id; c++) {
            if (c->link != (enum doctor_link)link)
                continue;
            if (first)
                gs_buf_addf(
                    out,
                    "### %s\n\n| check | finding | level | why it matters |\n|---|---|---|---|\n",
                    link_names[link]);
            first = false;
            gs_buf_addf(out, "| `%s` | %s | %s | %s |\n", c->id, c->title,
                        c->level == DOCTOR_BROKEN ? "broken" : "risk", c->why);
        }
        if (!first)
            gs_buf_add_str(out, "\n");
    }
}
