// SPDX-License-Identifier: Apache-2.0
// A hash of the whole object in an annotation shows later whether it is still as it was made: the
// API server adds defaults, so that objects cannot be compared.
#include "hpa_controller/placeholder.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "base/slice.h"
#include "kube/object.h"

#define HASH_ANNOTATION "gpuscale.dev/capacity-hash"
#define IMAGE           "registry.k8s.io/pause:3.10"
#define NOBODY          65535 // user and group of the image

enum { MAX_LABEL = 63, MAX_CONTAINERS = 64 };

void hpa_placeholders_finish(struct hpa_placeholders *p)
{
    for (size_t i = 0; i < p->n; i++)
        json_decref(p->items[i].object);
    p->n = 0;
}

struct hpa_placeholders hpa_placeholders_of_kind(enum slo_capacity_kind kind)
{
    if (kind == SLO_CAPACITY_BUFFER)
        return (struct hpa_placeholders){
            .items = {{.resource = HPA_CAPACITY_TEMPLATES}, {.resource = HPA_CAPACITY_BUFFERS}},
            .n = 2};
    return (struct hpa_placeholders){.items = {{.resource = KUBE_DEPLOYMENTS}}, .n = 1};
}

char *hpa_placeholder_name(const char *hpa)
{
    return gs_format("%s-capacity", hpa);
}

// --- the pod template ---

static void copy(json_t *to, const json_t *from, const char *name)
{
    json_t *value = json_object_get(from, name);
    if (value)
        json_object_set(to, name, value);
}

// Kubernetes copies limits to requests only when it creates a pod, and node autoscalers read the
// template.
static json_t *resources_of(const json_t *container)
{
    const json_t *resources = json_object_get(container, "resources");
    json_t *limits = json_object_get(resources, "limits"), *requests = json_object(), *out;
    if (json_is_object(limits))
        json_object_update(requests, limits);
    if (json_is_object(json_object_get(resources, "requests")))
        json_object_update(requests, json_object_get(resources, "requests"));
    out = json_pack("{s:o}", "requests", requests);
    if (json_is_object(limits))
        json_object_set(out, "limits", limits);
    return out;
}

// One for each of the replica, so that the scheduler adds up the same.
static void add_containers(json_t *out, const json_t *list, bool sidecars)
{
    const json_t *container;
    size_t i;
    json_array_foreach (list, i, container) {
        if ((sidecars && !gs_streq(codec_json_str(container, "restartPolicy", NULL), "Always")) ||
            json_array_size(out) >= MAX_CONTAINERS)
            continue;
        json_array_append_new(
            out, json_pack("{s:o, s:s, s:o, s:{s:b, s:{s:[s]}}}", "name",
                           codec_json_strf("placeholder-%zu", json_array_size(out)), "image", IMAGE,
                           "resources", resources_of(container), "securityContext",
                           "allowPrivilegeEscalation", 0, "capabilities", "drop", "ALL"));
    }
}

static bool has_claims(const json_t *list)
{
    const json_t *container;
    size_t i;
    json_array_foreach (list, i, container)
        if (json_array_size(codec_json_get(container, "resources", "claims", NULL)))
            return true;
    return false;
}

static json_t *pod_spec_of(const json_t *replica, bool scheduled)
{
    static const char *const kept[] = {"nodeSelector",     "tolerations", "schedulerName",
                                       "runtimeClassName", "overhead",    "resources"};
    json_t *containers = json_array(), *out;
    json_t *node_affinity = codec_json_get(replica, "affinity", "nodeAffinity", NULL);
    add_containers(containers, json_object_get(replica, "initContainers"), true);
    add_containers(containers, json_object_get(replica, "containers"), false);
    out = json_pack("{s:o, s:i, s:b, s:b, s:{s:b, s:i, s:i, s:{s:s}}}", "containers", containers,
                    "terminationGracePeriodSeconds", 0, "automountServiceAccountToken", 0,
                    "enableServiceLinks", 0, "securityContext", "runAsNonRoot", 1, "runAsUser",
                    NOBODY, "runAsGroup", NOBODY, "seccompProfile", "type", "RuntimeDefault");
    for (size_t i = 0; i < GS_ARRAY_LEN(kept); i++)
        copy(out, replica, kept[i]);
    if (node_affinity)
        codec_json_set(out, json_incref(node_affinity), "affinity", "nodeAffinity", NULL);
    if (scheduled)
        codec_json_set_str(out, "priorityClassName", HPA_CAPACITY_CLASS);
    return out;
}

static struct gs_error *check(const json_t *hpa, const json_t *replica)
{
    if (strlen(kube_name(hpa)) > MAX_LABEL)
        return gs_error_new(
            GS_EINVAL, "the name of the autoscaler is longer than a label, %d bytes", MAX_LABEL);
    if (!json_array_size(json_object_get(replica, "containers")))
        return gs_error_new(GS_EINVAL, "the scaled object has no pod template (spec.template)");
    if (json_array_size(json_object_get(replica, "resourceClaims")) ||
        has_claims(json_object_get(replica, "containers")))
        return gs_error_new(GS_EINVAL, "its pods have resource claims, and placeholders cannot "
                                       "hold devices of claims");
    return NULL;
}

// --- the objects ---

static json_t *labels_of(const json_t *hpa)
{
    return json_pack("{s:s, s:s}", HPA_CAPACITY_LABEL, kube_name(hpa),
                     "app.kubernetes.io/managed-by", "gpuscale-hpa");
}

// Without blockOwnerDeletion, which needs a permission for the autoscaler's finalizers.
static json_t *owner_of(const json_t *hpa)
{
    json_t *out = kube_make_controller_ref(hpa);
    json_object_del(out, "blockOwnerDeletion");
    return out;
}

static json_t *new_object(const char *api_version, const char *kind, const json_t *hpa)
{
    GS_AUTO_FREE char *name = hpa_placeholder_name(kube_name(hpa));
    return json_pack("{s:s, s:s, s:{s:s, s:s, s:o, s:[o]}}", "apiVersion", api_version, "kind",
                     kind, "metadata", "name", name, "namespace", kube_namespace(hpa), "labels",
                     labels_of(hpa), "ownerReferences", owner_of(hpa));
}

static void add_hash(json_t *object)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    codec_json_dump(object, &text);
    codec_json_set(object,
                   codec_json_strf("%016llx", (unsigned long long)gs_hash(text.data, text.len)),
                   "metadata", "annotations", HASH_ANNOTATION, NULL);
}

static json_t *template_of(const json_t *hpa, const json_t *replica, bool scheduled)
{
    return json_pack("{s:{s:o}, s:o}", "metadata", "labels", labels_of(hpa), "spec",
                     pod_spec_of(replica, scheduled));
}

static json_t *make_template(const json_t *hpa, const json_t *replica)
{
    json_t *out = new_object("v1", "PodTemplate", hpa);
    json_object_set_new(out, "template", template_of(hpa, replica, false));
    return out;
}

static json_t *make_buffer(const json_t *hpa, int32_t replicas)
{
    GS_AUTO_FREE char *name = hpa_placeholder_name(kube_name(hpa));
    json_t *out = new_object("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", hpa);
    json_object_set_new(out, "spec",
                        json_pack("{s:s, s:{s:s}, s:i}", "provisioningStrategy",
                                  "buffer.x-k8s.io/active-capacity", "podTemplateRef", "name", name,
                                  "replicas", replicas));
    return out;
}

// Recreate: a new template needs no more GPUs than the old one.
static json_t *make_deployment(const json_t *hpa, const json_t *replica, int32_t replicas)
{
    json_t *out = new_object("apps/v1", "Deployment", hpa);
    json_object_set_new(out, "spec",
                        json_pack("{s:i, s:i, s:{s:s}, s:{s:{s:s}}, s:o}", "replicas", replicas,
                                  "revisionHistoryLimit", 0, "strategy", "type", "Recreate",
                                  "selector", "matchLabels", HPA_CAPACITY_LABEL, kube_name(hpa),
                                  "template", template_of(hpa, replica, true)));
    return out;
}

struct gs_error *hpa_placeholders_make(enum slo_capacity_kind kind, const json_t *hpa,
                                       const json_t *target, int32_t replicas,
                                       struct hpa_placeholders *ret)
{
    const json_t *replica = codec_json_get(target, "spec", "template", "spec", NULL);
    struct gs_error *err = check(hpa, replica);
    if (err)
        return err;
    *ret = hpa_placeholders_of_kind(kind);
    if (kind == SLO_CAPACITY_BUFFER) {
        ret->items[0].object = make_template(hpa, replica);
        ret->items[1].object = make_buffer(hpa, replicas);
    } else {
        ret->items[0].object = make_deployment(hpa, replica, replicas);
    }
    for (size_t i = 0; i < ret->n; i++)
        add_hash(ret->items[i].object);
    return NULL;
}

bool hpa_placeholder_is_of(const json_t *object, const char *hpa_uid)
{
    return hpa_uid && gs_streq(codec_json_str(kube_controller_ref(object), "uid", NULL), hpa_uid);
}

bool hpa_placeholder_is_same(const json_t *object, const json_t *made)
{
    return gs_streq(kube_annotation(object, HASH_ANNOTATION),
                    kube_annotation(made, HASH_ANNOTATION)) &&
           codec_json_int(object, -1, "spec", "replicas", NULL) ==
               codec_json_int(made, -1, "spec", "replicas", NULL);
}

bool hpa_is_placeholder_pod(const json_t *pod)
{
    return kube_label(pod, HPA_CAPACITY_LABEL) &&
           gs_streq(codec_json_str(pod, "spec", "priorityClassName", NULL), HPA_CAPACITY_CLASS);
}
