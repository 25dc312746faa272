// SPDX-License-Identifier: Apache-2.0
// The names of all annotations of an autoscaler that this program reads or writes, and the priority
// among budgets, which counts as absent if it is wrong.
#include "hpa_controller/controller.h"

#include "base/slice.h"
#include "budget/budget.h"
#include "hpa/zero.h"
#include "kube/annotations.h"
#include "kube/object.h"

struct gs_error *hpa_check_annotations(const json_t *object)
{
    static const char *const known[] = {
        HPA_ZERO_AFTER_ANNOTATION,   HPA_CREDIT_ANNOTATION,      HPA_DOWN_CHECK_ANNOTATION,
        HPA_FALLBACK_ANNOTATION,     HPA_LATENCY_ANNOTATION,     HPA_SYNC_SECONDS_ANNOTATION,
        HPA_SYNC_PERIOD_ANNOTATION,  BUDGET_PRIORITY_ANNOTATION, BUDGET_RECORD_ANNOTATION,
        "gpuscale.dev/scaledobject", "gpuscale.dev/autoscaler",
    };
    return kube_check_annotations(object, known, GS_ARRAY_LEN(known));
}

struct gs_error *hpa_check_priority(const json_t *object)
{
    const struct budget_policy none = {0};
    double weight;
    return budget_weight(&none, kube_annotation(object, BUDGET_PRIORITY_ANNOTATION), NULL, &weight);
}
