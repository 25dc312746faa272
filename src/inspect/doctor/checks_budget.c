// SPDX-License-Identifier: Apache-2.0
// GPU budgets that are wrong, and what they leave behind if gpuscale hpa ends without giving it
// back.
#include "doctor/doctor_private.h"

#include "base/mem.h"
#include "base/slice.h"
#include "budget/budget.h"
#include "kube/object.h"

#include <string.h>

static bool runs_hpa(const json_t *pod)
{
    size_t i;
    const json_t *c;
    json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), i, c) {
        const char *image = codec_json_str(c, "image", NULL);
        const char *first = json_string_value(json_array_get(json_object_get(c, "args"), 0));
        if (image && strstr(image, "gpuscale") && gs_streq(first, "hpa"))
            return true;
    }
    return false;
}

static bool has_controller(struct doctor_examination *e)
{
    size_t i;
    const json_t *pod;
    json_array_foreach (doctor_items(e, "pods"), i, pod)
        if (!kube_pod_has_ended(pod) && runs_hpa(pod))
            return true;
    return false;
}

static void check_record(struct doctor_examination *e, const json_t *hpa)
{
    struct budget_record r;
    if (!budget_record_of(hpa, &r))
        return;
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_format("A GPU budget has lowered maxReplicas from %d to %d, and no pod of gpuscale hpa "
                  "runs.",
                  r.had, r.set),
        gs_format("annotation " BUDGET_RECORD_ANNOTATION ": %s",
                  kube_annotation(hpa, BUDGET_RECORD_ANNOTATION)),
        gs_format(
            "Start gpuscale hpa, or give it back:\nkubectl -n %s patch hpa %s --type=merge -p "
            "'{\"spec\":{\"maxReplicas\":%d},\"metadata\":{\"annotations\":{"
            "\"" BUDGET_RECORD_ANNOTATION "\":null}}}'",
            kube_namespace(hpa), kube_name(hpa), r.had));
}

void doctor_check_budget_left_over(struct doctor_examination *e)
{
    if (!has_controller(e))
        doctor_each_hpa(e, check_record);
}

void doctor_check_budgets_wrong(struct doctor_examination *e)
{
    size_t i;
    const json_t *map;
    json_array_foreach (doctor_items(e, "budgets"), i, map) {
        struct budget_policy policy;
        GS_AUTO_ERROR struct gs_error *err = budget_policy_of(map, &policy);
        if (!err)
            budget_policy_finish(&policy);
        else
            doctor_report(
                e, "ConfigMap", map, gs_strdup("The GPU budgets are not used."),
                gs_strdup(gs_error_message(err)),
                gs_strdup("Correct the ConfigMap; gpuscale check budgets FILE checks it"));
    }
}
