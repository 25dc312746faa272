// SPDX-License-Identifier: Apache-2.0
// The objects that hold the place of replicas which may be needed: pods that request what a replica
// requests, and do nothing. Pure functions of the autoscaler and of the object that it scales.
#pragma once

#include "base/error.h"
#include "kube/client.h"
#include "slo/capacity.h"

// Label of the objects and of their pods: the name of the autoscaler.
#define HPA_CAPACITY_LABEL "gpuscale.dev/capacity-of"
// The PriorityClass of the pods: lower than that of other pods, so that a replica takes their
// place, and as high as the Cluster Autoscaler needs to add nodes.
#define HPA_CAPACITY_CLASS "gpuscale-placeholder"

#define HPA_CAPACITY_BUFFERS                                                                       \
    ((struct kube_gvr){"autoscaling.x-k8s.io", "v1beta1", "capacitybuffers"})
#define HPA_CAPACITY_TEMPLATES ((struct kube_gvr){"", "v1", "podtemplates"})

struct hpa_placeholder {
    struct kube_gvr resource;
    json_t *object; // NULL: only the resource is known
};
enum { HPA_PLACEHOLDER_OBJECTS = 2 };
struct hpa_placeholders {
    struct hpa_placeholder items[HPA_PLACEHOLDER_OBJECTS]; // in the order in which they are created
    size_t n;
};
void hpa_placeholders_finish(struct hpa_placeholders *p);

// The resources of a kind, without objects.
struct hpa_placeholders hpa_placeholders_of_kind(enum slo_capacity_kind kind);
// The name of all objects of an autoscaler; the caller frees it.
char *hpa_placeholder_name(const char *hpa);
// kind: not SLO_CAPACITY_NONE. target: the scaled object, with its pod template. GS_EINVAL: the
// template cannot be followed, and why.
struct gs_error *hpa_placeholders_make(enum slo_capacity_kind kind, const json_t *hpa,
                                       const json_t *target, int32_t replicas,
                                       struct hpa_placeholders *ret);
// Whether the autoscaler owns an object of the API, and whether that is as it was made.
bool hpa_placeholder_is_of(const json_t *object, const char *hpa_uid);
bool hpa_placeholder_is_same(const json_t *object, const json_t *made);
// Whether a pod gives its GPUs to the replicas that need them. The label alone does not make it a
// placeholder: anyone can set it.
bool hpa_is_placeholder_pod(const json_t *pod);
