// SPDX-License-Identifier: Apache-2.0
// The condition DisruptionAllowed of PodDisruptionBudgets, which the disruption controller and the
// eviction of the API both write.
#include "local/disruption.h"

#include "base/clock.h"
#include "kube/object.h"

void local_disruption_set_condition(json_t *status, bool allowed, const char *reason,
                                    const char *message)
{
    json_t *conditions = json_object_get(status, "conditions");

    if (!json_is_array(conditions)) {
        conditions = json_array();
        json_object_set_new(status, "conditions", conditions);
    }
    kube_set_condition(conditions, "DisruptionAllowed", allowed ? "True" : "False", reason, message,
                       gs_unix_ms());
    size_t i;
    json_t *condition;
    json_array_foreach (conditions, i, condition)
        if (gs_streq(codec_json_str(condition, "type", NULL), "DisruptionAllowed"))
            codec_json_set_int(condition, "observedGeneration",
                               codec_json_int(status, 0, "observedGeneration", NULL));
}

void local_disruption_set_allowed(json_t *status)
{
    bool allowed = codec_json_int(status, 0, "disruptionsAllowed", NULL) > 0;

    local_disruption_set_condition(status, allowed, allowed ? "SufficientPods" : "InsufficientPods",
                                   "");
}
