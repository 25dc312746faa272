// SPDX-License-Identifier: Apache-2.0
// Which finding explains which: a metric is missing because the pod that has it does not run. Such
// a finding comes after its cause, and names it.
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"

#include <string.h>

enum relation {
    OF_TARGET, // the pod of the cause belongs to the scale target of the effect
    ANYWHERE,
};

// Names that end in * stand for all checks that begin so. Causes "@link" are all checks of pods
// whose pod has this role.
static const struct {
    const char *cause, *effect;
    enum relation relation;
} rows[] = {
    {"pod-*", "metric-*", OF_TARGET},
    {"pod-*", "hpa-inactive", OF_TARGET},
    {"workload-not-running", "metric-*", OF_TARGET},
    {"workload-not-running", "hpa-inactive", OF_TARGET},
    {"pending-*", "metric-*", OF_TARGET},
    {"pending-*", "hpa-inactive", OF_TARGET},
    {"@prometheus", "prometheus-*", ANYWHERE},
    {"@prometheus", "adapter-prometheus", ANYWHERE},
    {"@prometheus", "metric-*", ANYWHERE},
    {"@prometheus", "hpa-inactive", ANYWHERE},
    {"helm-release-failed", "*-missing", ANYWHERE},
    {"exporter-missing", "metric-*", ANYWHERE},
    {"exporter-not-running", "gpu-series-missing", ANYWHERE},
    {"exporter-not-running", "attribution-missing", ANYWHERE},
    {"exporter-not-running", "metric-*", ANYWHERE},
    {"exporter-not-running", "hpa-inactive", ANYWHERE},
    {"prometheus-*", "metric-*", ANYWHERE},
    {"prometheus-*", "hpa-inactive", ANYWHERE},
    {"adapter-*", "apiservice-*", ANYWHERE},
    {"adapter-*", "metric-*", ANYWHERE},
    {"adapter-*", "hpa-inactive", ANYWHERE},
    {"apiservice-*", "metric-*", ANYWHERE},
    {"apiservice-*", "hpa-inactive", ANYWHERE},
    {"*-metrics-missing", "metric-*", ANYWHERE},
    {"*-metrics-missing", "hpa-inactive", ANYWHERE},
};

// A metric that is served and only flat, or a counter, has other causes.
static bool is_value_missing(const char *check)
{
    static const char *const others[] = {"metric-flat", "metric-counter"};
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++)
        if (gs_streq(check, others[i]))
            return false;
    return true;
}

// "Kind ns/name" of a finding as its object in the list; NULL: unknown.
static const json_t *object_of(const struct doctor_examination *e, const json_t *finding,
                               const char *kind, const char *list)
{
    const char *subject = doctor_text(codec_json_str(finding, "subject", NULL));
    const char *name = strchr(subject, '/');
    size_t n = strlen(kind);
    if (strncmp(subject, kind, n) != 0 || subject[n] != ' ' || !name)
        return NULL;
    GS_AUTO_FREE char *ns = gs_strndup(subject + n + 1, (size_t)(name - subject) - n - 1);
    return doctor_find(e, list, ns, name + 1);
}

static bool is_of_target(const struct doctor_examination *e, const json_t *cause,
                         const json_t *effect)
{
    const json_t *pod = object_of(e, cause, "Pod", "pods");
    const json_t *hpa = object_of(e, effect, "HorizontalPodAutoscaler", "hpas");
    const json_t *target = hpa ? doctor_hpa_target(e, hpa) : NULL;
    return pod && target && gs_streq(kube_namespace(pod), kube_namespace(target)) &&
           doctor_label_selects(codec_json_get(target, "spec", "selector", NULL), pod);
}

static bool matches(const char *check, const char *pattern)
{
    size_t n = strlen(pattern), len = strlen(check);
    if (pattern[n - 1] == '*')
        return strncmp(check, pattern, n - 1) == 0;
    if (pattern[0] == '*')
        return len >= n - 1 && strcmp(check + len - (n - 1), pattern + 1) == 0;
    return strcmp(check, pattern) == 0;
}

static bool is_cause(const struct doctor_examination *e, const json_t *finding, const char *pattern)
{
    const char *check = codec_json_str(finding, "check", NULL);
    if (pattern[0] != '@')
        return matches(check, pattern);
    const json_t *pod = object_of(e, finding, "Pod", "pods");
    return pod && doctor_container_of(pod, DOCTOR_PROMETHEUS_ROLE);
}

static bool explains(const struct doctor_examination *e, const json_t *cause, const json_t *effect)
{
    const char *check = codec_json_str(effect, "check", NULL);
    if (cause == effect || !is_value_missing(check) ||
        gs_streq(codec_json_str(cause, "level", NULL), "risk"))
        return false;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
        if (matches(check, rows[i].effect) && is_cause(e, cause, rows[i].cause) &&
            !matches(check, rows[i].cause) &&
            (rows[i].relation == ANYWHERE || is_of_target(e, cause, effect)))
            return true;
    return false;
}

// The first finding that explains the one at i; NULL: none.
static const json_t *cause_of(const struct doctor_examination *e, const json_t *findings, size_t i)
{
    const json_t *effect = json_array_get(findings, i), *f;
    size_t k;
    json_array_foreach (findings, k, f)
        if (explains(e, f, effect))
            return f;
    return NULL;
}

// Moves the finding before the one at `to`.
static void move(json_t *findings, const json_t *finding, size_t to)
{
    for (size_t i = to + 1; i < json_array_size(findings); i++)
        if (json_array_get(findings, i) == finding) {
            json_t *f = json_incref(json_array_get(findings, i));
            json_array_remove(findings, i);
            json_array_insert_new(findings, to, f);
            return;
        }
}

void doctor_order_causes(const struct doctor_examination *e, json_t *findings)
{
    for (size_t i = 0; i < json_array_size(findings); i++) {
        json_t *effect = json_array_get(findings, i);
        const json_t *cause = cause_of(e, findings, i);
        if (!cause || json_object_get(effect, "because"))
            continue;
        json_object_set_new(effect, "because",
                            json_pack("{s:s, s:s}", "check", codec_json_str(cause, "check", NULL),
                                      "subject", codec_json_str(cause, "subject", NULL)));
        move(findings, cause, i);
    }
}
