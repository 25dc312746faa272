// SPDX-License-Identifier: Apache-2.0
// A limit from outside of the object, such as a GPU budget, on a decision that was made without it.
#include "hpa/hpa_private.h"

void hpa_decision_cap(struct hpa_decision *d, int32_t replicas, const char *text)
{
    bool decided = d->outcome != HPA_OUTCOME_NO_SCALE && d->outcome != HPA_OUTCOME_DISABLED;
    if (!decided || replicas >= d->desired)
        return;
    char *joined = d->explanation && *d->explanation ? gs_format("%s; %s", d->explanation, text)
                                                     : gs_strdup(text);
    free(d->explanation);
    d->explanation = joined;
    d->desired = replicas;
    d->rescale = d->desired != d->current;
    if (d->desired < d->current || !d->rescale) {
        free(d->own_reason);
        d->own_reason = d->rescale ? gs_strdup(text) : NULL;
        d->reason = d->rescale ? d->own_reason : "";
    }
    hpa_set_decision_condition(d, HPA_SCALING_LIMITED, "True", "GPUBudget", "%s", text);
}
