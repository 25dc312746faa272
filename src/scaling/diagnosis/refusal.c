// SPDX-License-Identifier: Apache-2.0
// What to do about pods that the API refused: they do not exist, so the cause is only in the
// messages of their controllers' events and conditions.
#include "base/mem.h"
#include "diagnosis/diagnosis_private.h"

// The first row whose part is in the message counts.
static const struct {
    const char *part, *remedy; // %s: the namespace
} refusals[] = {
    {"exceeded quota",
     "kubectl -n %s describe resourcequota: raise requests.nvidia.com/gpu or what it names, "
     "or lower replicas or maxReplicas"},
    {"failed quota",
     "give the containers the requests and limits that it names: a ResourceQuota of "
     "namespace %s requires them"},
    {"error looking up service account",
     "create the ServiceAccount in namespace %s, or correct serviceAccountName"},
    {"no PriorityClass with name", "create the PriorityClass, or correct priorityClassName"},
    {"RuntimeClass", "create the RuntimeClass (the GPU Operator creates nvidia), or remove "
                     "runtimeClassName"},
    {"Limit must be set for non overcommitable resources",
     "set resources.limits: an extended resource such as nvidia.com/gpu needs a limit, and its "
     "request "
     "equals it"},
    {"must be equal to", "give the extended resource the same request as limit, or only a limit"},
    {"must be an integer",
     "request whole GPUs; fractions need time slices, MIG or MPS of the device plugin"},
    {"violates PodSecurity",
     "correct securityContext, or relax the label pod-security.kubernetes.io/enforce of "
     "namespace %s"},
    {"LimitRanger", "kubectl -n %s describe limitrange"},
    {"maximum cpu usage per", "kubectl -n %s describe limitrange"},
    {"maximum memory usage per", "kubectl -n %s describe limitrange"},
    {"minimum cpu usage per", "kubectl -n %s describe limitrange"},
    {"minimum memory usage per", "kubectl -n %s describe limitrange"},
    {"failed calling webhook",
     "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations: "
     "the service of this one does not answer"},
    {"admission webhook", "follow the message of the webhook, or change its configuration"},
    {"is being terminated", "create the namespace %s again when it has gone"},
};

char *diagnosis_of_refusal(const char *message, const char *ns, const char *owner)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(refusals); i++) {
        const char *remedy = refusals[i].remedy, *at = strstr(remedy, "%s");
        if (!strstr(diagnosis_str(message), refusals[i].part))
            continue;
        return at ? gs_format("%.*s%s%s", (int)(at - remedy), remedy, diagnosis_str(ns), at + 2)
                  : gs_strdup(remedy);
    }
    return gs_format("kubectl describe %s", owner);
}
