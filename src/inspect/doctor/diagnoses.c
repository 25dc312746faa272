// SPDX-License-Identifier: Apache-2.0
// The diagnoses of pods that do not run (diagnosis/diagnosis.h), once for an examination. Pods of
// one owner with the same problem have one diagnosis.
#include "base/mem.h"
#include "diagnosis/diagnosis.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"

#define WAIT_MS 120000 // a node, a start and a probe may take so long

// "NAMESPACE/NAME" of a pod -> its events, in their order; new reference.
static json_t *events_by_pod(const struct doctor_examination *e)
{
    json_t *out = json_object();
    size_t i;
    json_t *event;

    json_array_foreach ((json_t *)doctor_items(e, "events"), i, event) {
        const json_t *about = json_object_get(event, "involvedObject");
        if (!gs_streq(codec_json_str(about, "kind", NULL), "Pod"))
            continue;
        GS_AUTO_FREE char *key =
            gs_format("%s/%s", doctor_text(codec_json_str(about, "namespace", NULL)),
                      doctor_text(codec_json_str(about, "name", NULL)));
        json_t *list = json_object_get(out, key);
        if (!list)
            json_object_set_new(out, key, list = json_array());
        json_array_append(list, event);
    }
    return out;
}

// A diagnosis_last_line: from the logs that were read. The line is kept with the diagnoses.
static const char *last_line(void *arg, const json_t *pod, const json_t *container_status)
{
    struct doctor_examination *e = arg;
    const char *name = codec_json_str(container_status, "name", NULL);
    GS_AUTO_FREE char *key =
        gs_format("%s/%s/%s", kube_namespace(pod), kube_name(pod), doctor_text(name));
    const char *log = codec_json_str(e->facts, "logs", key, NULL);

    free(e->line);
    e->line = diagnosis_last_log_line(gs_slice_of(doctor_text(log)));
    return e->line;
}

// How long the pod has had the state in which it is.
static int64_t waited_ms(const struct doctor_examination *e, const json_t *pod)
{
    const json_t *c = kube_condition(pod, "Ready");
    c = c ? c : kube_condition(pod, "PodScheduled");
    int64_t age = doctor_age_ms(e, codec_json_str(c, "lastTransitionTime", NULL));
    return age >= 0 ? age : doctor_age_ms(e, kube_created(pod));
}

static bool matters(const struct doctor_examination *e, const json_t *pod,
                    const struct diagnosis *d)
{
    if (d->cause == DIAGNOSIS_FAILED || d->cause == DIAGNOSIS_COMING)
        return false;
    return diagnosis_lasts(d->cause) || waited_ms(e, pod) >= WAIT_MS;
}

// The owner, or the pod itself.
static const char *owner_uid(const json_t *pod)
{
    const char *uid = codec_json_str(kube_controller_ref(pod), "uid", NULL);
    return uid ? uid : kube_name(pod);
}

static struct doctor_diagnosis *same(const struct doctor_examination *e, const json_t *pod,
                                     const struct diagnosis *d)
{
    for (size_t i = 0; i < e->n_diagnoses; i++) {
        struct doctor_diagnosis *other = &e->diagnoses[i];
        if (other->is.cause == d->cause && gs_streq(other->is.identity, d->identity) &&
            gs_streq(owner_uid(other->pod), owner_uid(pod)) &&
            gs_streq(kube_namespace(other->pod), kube_namespace(pod)))
            return other;
    }
    return NULL;
}

static void add(struct doctor_examination *e, const json_t *pod, struct diagnosis *d)
{
    struct doctor_diagnosis *other = same(e, pod, d);
    if (other || e->n_diagnoses == DOCTOR_MAX_DIAGNOSES) {
        if (other)
            other->n_pods++;
        diagnosis_finish(d);
        return;
    }
    e->diagnoses[e->n_diagnoses++] = (struct doctor_diagnosis){.pod = pod, .is = *d, .n_pods = 1};
}

void doctor_diagnose(struct doctor_examination *e)
{
    size_t i;
    const json_t *pod;

    e->diagnoses = gs_alloc_array(DOCTOR_MAX_DIAGNOSES, sizeof(*e->diagnoses));
    CODEC_AUTO_JSON json_t *events = events_by_pod(e);
    json_array_foreach (doctor_items(e, "pods"), i, pod) {
        GS_AUTO_FREE char *key =
            gs_format("%s/%s", doctor_text(kube_namespace(pod)), doctor_text(kube_name(pod)));
        const struct diagnosis_input in = {.pod = pod,
                                           .events = json_object_get(events, key),
                                           .nodes = doctor_items(e, "nodes"),
                                           .pods = doctor_items(e, "pods"),
                                           .pools = json_object_get(e->facts, "pools"),
                                           .last_line = last_line,
                                           .arg = e,
                                           .now_ms = e->now_ms};
        struct diagnosis d;
        if (!diagnosis_of(&in, &d))
            continue;
        if (matters(e, pod, &d))
            add(e, pod, &d);
        else
            diagnosis_finish(&d);
    }
}

void doctor_diagnoses_finish(struct doctor_examination *e)
{
    for (size_t i = 0; i < e->n_diagnoses; i++)
        diagnosis_finish(&e->diagnoses[i].is);
    free(e->diagnoses);
    free(e->line);
}

const struct doctor_diagnosis *doctor_diagnosis_of(const struct doctor_examination *e,
                                                   const json_t *pod)
{
    for (size_t i = 0; i < e->n_diagnoses; i++)
        if (e->diagnoses[i].pod == pod)
            return &e->diagnoses[i];
    return NULL;
}
