// SPDX-License-Identifier: Apache-2.0
// Reads the pages of exporters, without Prometheus in between.
#include "base/mem.h"
#include "base/num.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"
#include "kube/session.h"
#include "metrics/reader.h"

#define MAX_EXPORTERS 5

struct counts {
    int64_t series, attributed;
    bool has_dcgm, dcgm_up; // gpuscale's exporter reads DCGM, or tries to
    int64_t dcgm_code;      // of its problem; 0: none
};

// What gpuscale's exporter says about DCGM.
static void take_dcgm(struct counts *c, const struct metrics_sample *s)
{
    const struct gs_slice label = s->n_labels ? s->labels[0].value : (struct gs_slice){0};

    if (gs_slice_eq_str(s->name, "gpuscale_exporter_source_up") && gs_slice_eq_str(label, "dcgm")) {
        c->has_dcgm = true;
        c->dcgm_up = s->value == 1;
    }
    if (gs_slice_eq_str(s->name, "gpuscale_exporter_dcgm_problem")) {
        double code = 0;
        GS_AUTO_ERROR struct gs_error *err = gs_parse_double(label, &code);
        c->dcgm_code = !err && code > -1000 && code < 0 ? (int64_t)code : 0;
    }
}

static bool count_sample(void *arg, const struct metrics_sample *s)
{
    struct counts *c = arg;
    bool pod = false;

    take_dcgm(c, s);
    if (!gs_slice_starts(s->name, "DCGM_FI_") && !gs_slice_starts(s->name, "dcgm_"))
        return true;
    for (size_t i = 0; i < s->n_labels; i++)
        pod = pod || ((gs_slice_eq_str(s->labels[i].name, "pod") ||
                       gs_slice_eq_str(s->labels[i].name, "pod_name") ||
                       gs_slice_eq_str(s->labels[i].name, "PodName")) &&
                      s->labels[i].value.len);
    c->series++;
    c->attributed += pod;
    return true;
}

json_t *doctor_page_facts(int status, struct gs_slice body)
{
    json_t *o = json_object();
    struct counts c = {0};
    GS_AUTO_ERROR struct gs_error *bad =
        status == 200 ? metrics_parse_text(body, NULL, count_sample, &c) : NULL;

    codec_json_set_int(o, "status", status);
    if (bad)
        codec_json_set_str(o, "error", gs_error_message(bad));
    codec_json_set_int(o, "series", c.series);
    codec_json_set_int(o, "attributed", c.attributed);
    if (c.has_dcgm)
        json_object_set_new(
            o, "dcgm", json_pack("{s:b,s:I}", "up", c.dcgm_up, "code", (json_int_t)c.dcgm_code));
    return o;
}

static int64_t port_of(const json_t *container)
{
    const json_t *port = json_array_get(json_object_get(container, "ports"), 0);
    return codec_json_int(port, 9400, "containerPort", NULL);
}

void doctor_gather_exporters(struct kube_session *s, json_t *facts)
{
    struct doctor_examination e = doctor_examination_of(facts);
    json_t *out = json_array();
    size_t i;
    const json_t *pod;

    json_array_foreach (doctor_items(&e, "pods"), i, pod) {
        const json_t *container = doctor_container_of(pod, DOCTOR_EXPORTER_ROLE);
        if (!container || !kube_condition_true(pod, "Ready") ||
            json_array_size(out) >= MAX_EXPORTERS)
            continue;
        GS_AUTO_BUF struct gs_buf body = {0};
        GS_AUTO_FREE char *path =
            gs_format("/api/v1/namespaces/%s/pods/%s:%lld/proxy/metrics", kube_namespace(pod),
                      kube_name(pod), (long long)port_of(container));
        int status = doctor_get(s, path, &body);
        json_t *o = doctor_page_facts(status, gs_buf_slice(&body));
        codec_json_set_str(o, "namespace", kube_namespace(pod));
        codec_json_set_str(o, "pod", kube_name(pod));
        json_array_append_new(out, o);
    }
    json_object_set_new(facts, "exporters", out);
}
