// SPDX-License-Identifier: Apache-2.0
// Checks of autoscalers with a latency target, or with the metrics that apply one.
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "slo/manifest.h"
#include "slo/slo.h"

static void report_mistakes(struct doctor_examination *e, const json_t *hpa, bool errors)
{
    CODEC_AUTO_JSON json_t *mistakes = json_array();
    const char *text = codec_json_str(hpa, "metadata", "annotations", SLO_ANNOTATION, NULL);
    size_t i;
    const json_t *m;
    slo_manifest_mistakes(hpa, mistakes);
    json_array_foreach (mistakes, i, m) {
        if (codec_json_bool(m, false, "error", NULL) != errors)
            continue;
        doctor_report(e, "HorizontalPodAutoscaler", hpa,
                      gs_strdup(codec_json_str(m, "problem", NULL)),
                      text ? gs_format(SLO_ANNOTATION ": %s", text)
                           : gs_strdup("no annotation " SLO_ANNOTATION),
                      gs_strdup(codec_json_str(m, "fix", NULL)));
    }
}

static void check_errors(struct doctor_examination *e, const json_t *hpa)
{
    report_mistakes(e, hpa, true);
}

static void check_warnings(struct doctor_examination *e, const json_t *hpa)
{
    report_mistakes(e, hpa, false);
}

void doctor_check_latency_target(struct doctor_examination *e)
{
    doctor_each_hpa(e, check_errors);
}

void doctor_check_latency_inexact(struct doctor_examination *e)
{
    doctor_each_hpa(e, check_warnings);
}
