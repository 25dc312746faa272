// SPDX-License-Identifier: Apache-2.0
// The table of all built-in resources: names, versions, and functions for defaults, validation,
// conversion and printing. Generic code finds everything here; INERT resources are stored but have
// no effect.
#include "local/api/registry.h"

#include "hpa/convert.h"
#include "kube/object.h"
#include "kube/resource.h"
#include "local/api.h"
#include "local/api/aggregate.h"
#include "local/api/crd.h"
#include "local/api/table.h"

#define NAMES(...)  ((const char *const[]){__VA_ARGS__, NULL})
#define FIELDS(...) ((const struct local_api_field[]){__VA_ARGS__, {0}})

// What kube/resource.h says about a resource, with one version or with those that are served.
#define ROW(g, v, plural_, singular_, kind_, namespaced_, short_)                                  \
    .group = g, .plural = plural_, .singular = singular_, .kind = kind_,                           \
    .namespaced = namespaced_, .short_names = short_
#define ROW_OF(...)               ROW(__VA_ARGS__)
#define KNOWN(name)               ROW_OF(KUBE_RESOURCE_##name), .versions = NAMES("v1")
#define KNOWN_VERSIONS(name, ...) ROW_OF(KUBE_RESOURCE_##name), .versions = NAMES(__VA_ARGS__)

#define EVENTS_CORE_ROW 0

enum {
    STATUS = LOCAL_API_R_STATUS,
    SCALE = LOCAL_API_R_SCALE,
    GEN = LOCAL_API_R_GENERATION,
    INERT = LOCAL_API_R_INERT,
};

// Order within a group is the order of discovery.
const struct local_api_resource local_api_resources[] = {
    [EVENTS_CORE_ROW] = {KNOWN(EVENTS),
                         .fields = FIELDS(
                             {"involvedObject.kind"}, {"involvedObject.namespace"},
                             {"involvedObject.name"}, {"involvedObject.uid"},
                             {"involvedObject.apiVersion"}, {"involvedObject.resourceVersion"},
                             {"involvedObject.fieldPath"}, {"reason"}, {"reportingComponent"},
                             {"source", .path = "source.component"}, {"type"}),
                         .validate = local_api_validate_event, .table = &local_api_table_events},
    {KNOWN(CONFIGMAPS), .validate = local_api_validate_configmap,
     .table = &local_api_table_configmaps},
    {KNOWN(ENDPOINTS), .set_defaults = local_api_default_endpoints,
     .table = &local_api_table_endpoints},
    {KNOWN(LIMITRANGES), .set_defaults = local_api_default_limit_range},
    {KNOWN(NAMESPACES), .flags = STATUS, .name_rule = LOCAL_API_NAME_LABEL,
     .fields = FIELDS({"status.phase"}), .set_defaults = local_api_default_namespace,
     .table = &local_api_table_namespaces},
    {KNOWN(NODES), .flags = STATUS | LOCAL_API_R_AGENT,
     .fields = FIELDS({"spec.unschedulable", .absent = "false"}),
     .set_defaults = local_api_default_node, .table = &local_api_table_nodes},
    {KNOWN(PERSISTENTVOLUMECLAIMS), .flags = STATUS, .set_defaults = local_api_default_pvc,
     .table = &local_api_table_claims},
    {KNOWN(PERSISTENTVOLUMES), .flags = STATUS, .table = &local_api_table_volumes},
    {KNOWN(PODS), .category = "all", .flags = STATUS,
     .fields = FIELDS({"spec.nodeName"}, {"spec.restartPolicy"}, {"spec.schedulerName"},
                      {"spec.serviceAccountName"}, {"spec.hostNetwork", .absent = "false"},
                      {"status.phase"}, {"status.podIP"}, {"status.nominatedNodeName"}),
     .set_defaults = local_api_default_pod, .validate = local_api_validate_pod,
     .table = &local_api_table_pods},
    {KNOWN(REPLICATIONCONTROLLERS), .category = "all", .flags = STATUS | SCALE | GEN,
     .fields = FIELDS({"status.replicas", .absent = "0"}),
     .set_defaults = local_api_default_replication_controller,
     .validate = local_api_validate_workload, .table = &local_api_table_replicasets},
    {KNOWN(RESOURCEQUOTAS), .flags = STATUS, .table = &local_api_table_quotas},
    {KNOWN(SECRETS), .fields = FIELDS({"type"}), .set_defaults = local_api_default_secret,
     .validate = local_api_validate_secret, .table = &local_api_table_secrets},
    {KNOWN(SERVICEACCOUNTS), .table = &local_api_table_serviceaccounts},
    {KNOWN(SERVICES), .category = "all", .flags = STATUS, .name_rule = LOCAL_API_NAME_LABEL_1035,
     .fields = FIELDS({"spec.clusterIP"}, {"spec.type"}), .set_defaults = local_api_default_service,
     .validate = local_api_validate_service, .table = &local_api_table_services},
    {KNOWN(MUTATINGWEBHOOKCONFIGURATIONS), .flags = GEN | INERT},
    {KNOWN(VALIDATINGWEBHOOKCONFIGURATIONS), .flags = GEN | INERT},
    {KNOWN(VALIDATINGADMISSIONPOLICIES), .flags = GEN | STATUS | INERT},
    {KNOWN(VALIDATINGADMISSIONPOLICYBINDINGS), .flags = GEN | INERT},
    {KNOWN(CUSTOMRESOURCEDEFINITIONS), .category = "api-extensions", .flags = STATUS | GEN,
     .max_objects = 500, // each is searched for in discovery
     .set_defaults = local_api_default_crd, .validate = local_api_validate_crd,
     .complete = local_api_complete_crd, .table = &local_api_table_crds},
    {KNOWN_VERSIONS(APISERVICES, "v1", "v1beta1"), .category = "api-extensions", .flags = STATUS,
     .from_stored = local_api_change_version,
     .max_objects = 100, // each has a client
     .set_defaults = local_api_default_apiservice, .validate = local_api_validate_apiservice,
     .complete = local_api_complete_apiservice, .table = &local_api_table_apiservices},
    {KNOWN(CONTROLLERREVISIONS), .table = &local_api_table_revisions},
    {KNOWN(DAEMONSETS), .category = "all", .flags = STATUS | GEN,
     .set_defaults = local_api_default_daemonset, .validate = local_api_validate_workload,
     .table = &local_api_table_daemonsets},
    {KNOWN(DEPLOYMENTS), .category = "all", .flags = STATUS | SCALE | GEN,
     .set_defaults = local_api_default_deployment, .validate = local_api_validate_workload,
     .table = &local_api_table_deployments},
    {KNOWN(REPLICASETS), .category = "all", .flags = STATUS | SCALE | GEN,
     .fields = FIELDS({"status.replicas", .absent = "0"}),
     .set_defaults = local_api_default_replicaset, .validate = local_api_validate_workload,
     .table = &local_api_table_replicasets},
    {KNOWN(STATEFULSETS), .category = "all", .flags = STATUS | SCALE | GEN,
     .set_defaults = local_api_default_statefulset, .validate = local_api_validate_workload,
     .table = &local_api_table_statefulsets},
    {KNOWN_VERSIONS(HORIZONTALPODAUTOSCALERS, "v2", "v1", "v2beta2", "v2beta1"), .category = "all",
     .flags = STATUS, .to_stored = hpa_to_v2, .from_stored = hpa_from_v2,
     .set_defaults = local_api_default_hpa, .validate = local_api_validate_hpa,
     .table = &local_api_table_hpas},
    {KNOWN(CRONJOBS), .category = "all", .flags = STATUS | GEN,
     .set_defaults = local_api_default_cronjob, .validate = local_api_validate_cronjob,
     .table = &local_api_table_cronjobs},
    {KNOWN(JOBS), .category = "all", .flags = STATUS | GEN,
     .fields = FIELDS({"status.successful", .path = "status.succeeded", .absent = "0"}),
     .set_defaults = local_api_default_job, .validate = local_api_validate_job,
     .table = &local_api_table_jobs},
    {KNOWN(LEASES), .table = &local_api_table_leases},
    {KNOWN(ENDPOINTSLICES), .flags = GEN, .table = &local_api_table_endpointslices},
    {KNOWN(NEW_EVENTS),
     .fields = FIELDS({"regarding.kind"}, {"regarding.namespace"}, {"regarding.name"},
                      {"regarding.uid"}, {"reason"}, {"reportingController"}, {"type"}),
     .view_of = EVENTS_CORE_ROW + 1, .to_stored = local_api_event_to_core,
     .from_stored = local_api_event_from_core, .validate = local_api_validate_event,
     .table = &local_api_table_events},
    {KNOWN(PODMONITORS), .flags = GEN, .validate = local_api_validate_monitor},
    {KNOWN(PROMETHEUSRULES), .flags = GEN},
    {KNOWN(SERVICEMONITORS), .flags = GEN, .validate = local_api_validate_monitor},
    {KNOWN(INGRESSCLASSES), .flags = GEN, .table = &local_api_table_ingress_classes},
    {KNOWN(INGRESSES), .flags = STATUS | GEN, .validate = local_api_validate_ingress,
     .table = &local_api_table_ingresses},
    {KNOWN(NETWORKPOLICIES), .flags = GEN | INERT},
    {KNOWN(PODDISRUPTIONBUDGETS), .flags = STATUS | GEN, .set_defaults = local_api_default_budget,
     .validate = local_api_validate_budget, .table = &local_api_table_budgets},
    {KNOWN(CLUSTERROLEBINDINGS), .flags = INERT, .name_rule = LOCAL_API_NAME_PATH},
    {KNOWN(CLUSTERROLES), .flags = INERT, .name_rule = LOCAL_API_NAME_PATH},
    {KNOWN(ROLEBINDINGS), .flags = INERT, .name_rule = LOCAL_API_NAME_PATH},
    {KNOWN(ROLES), .flags = INERT, .name_rule = LOCAL_API_NAME_PATH},
    {KNOWN(PRIORITYCLASSES), .flags = GEN, .set_defaults = local_api_default_priority_class,
     .validate = local_api_validate_priority_class, .table = &local_api_table_priority_classes},
    {KNOWN(DEVICECLASSES), .flags = GEN | INERT},
    {KNOWN(RESOURCECLAIMS), .flags = STATUS | INERT},
    {KNOWN(RESOURCECLAIMTEMPLATES), .flags = INERT},
    {KNOWN(RESOURCESLICES), .flags = GEN | INERT},
    {KNOWN(CSIDRIVERS), .flags = INERT},
    {KNOWN(CSINODES), .flags = INERT},
    {KNOWN(CSISTORAGECAPACITIES), .flags = INERT},
    {KNOWN(STORAGECLASSES), .flags = INERT},
    {KNOWN(VOLUMEATTACHMENTS), .flags = STATUS | INERT},
};
const size_t local_api_n_resources = GS_ARRAY_LEN(local_api_resources);

const char *local_api_resource_version(const struct local_api_resource *r, const char *version)
{
    for (size_t i = 0; r->versions[i]; i++)
        if (strcmp(r->versions[i], version) == 0)
            return r->versions[i];
    return NULL;
}

const struct local_api_resource *local_api_resource_find(const char *group, const char *version,
                                                         const char *plural)
{
    for (size_t i = 0; i < local_api_n_resources; i++) {
        const struct local_api_resource *r = &local_api_resources[i];
        if (strcmp(r->group, group) == 0 && strcmp(r->plural, plural) == 0)
            return local_api_resource_version(r, version) ? r : NULL;
    }
    return NULL;
}

bool local_api_resource_is_built_in(const char *group, const char *plural, const char *kind)
{
    for (size_t i = 0; i < local_api_n_resources; i++)
        if (strcmp(local_api_resources[i].group, group) == 0 &&
            (strcmp(local_api_resources[i].plural, plural) == 0 ||
             strcmp(local_api_resources[i].kind, kind) == 0))
            return true;
    return false;
}

size_t local_api_resource_bucket(const struct local_api_resource *r)
{
    if (r->custom)
        return local_api_custom_bucket(r->custom);
    return r->view_of ? r->view_of - 1 : (size_t)(r - local_api_resources);
}

void local_api_resource_stored_as(const struct local_api_resource *r, struct gs_buf *version,
                                  const char **ret_kind)
{
    const struct local_api_resource *stored =
        r->custom ? r : &local_api_resources[local_api_resource_bucket(r)];

    local_api_version(stored->group,
                      r->custom ? local_api_custom_stored_version(r->custom) : stored->versions[0],
                      version);
    *ret_kind = stored->kind;
}

bool local_api_resource_has(const struct local_api_resource *r, unsigned flag)
{
    return (r->flags & flag) != 0;
}

bool local_api_resource_is_collected(const struct local_api_resource *r)
{
    return r->custom || strcmp(r->plural, "events") != 0;
}

bool local_api_collected(size_t i, struct local_api_collected *ret)
{
    const struct local_api_resource *r = NULL;

    for (size_t row = 0; row < local_api_n_resources; row++) {
        r = &local_api_resources[row];
        if (local_api_resource_is_collected(r) && i-- == 0)
            break;
        r = NULL;
    }
    if (!r)
        return false;
    *ret = (struct local_api_collected){
        .kind = r->kind,
        .gvr = {r->group, r->versions[0], r->plural},
        .namespaced = r->namespaced,
    };
    return true;
}

static void dotted(const char *head, const char *group, struct gs_buf *out)
{
    gs_buf_add_str(out, head);
    if (*group)
        gs_buf_addf(out, ".%s", group);
}

void local_api_resource_name(const struct local_api_resource *r, struct gs_buf *out)
{
    dotted(r->plural, r->group, out);
}

void local_api_resource_kind_name(const struct local_api_resource *r, struct gs_buf *out)
{
    dotted(r->kind, r->group, out);
}

void local_api_version(const char *group, const char *version, struct gs_buf *out)
{
    if (*group)
        gs_buf_addf(out, "%s/", group);
    gs_buf_add_str(out, version);
}

struct gs_error *local_api_change_version(const json_t *stored, const char *version, json_t **ret)
{
    const char *current = kube_api_version(stored);
    const char *slash = current ? strchr(current, '/') : NULL;

    if (!slash)
        return gs_error_new(GS_EINTERNAL, "the stored object has no version");
    json_t *copy = json_copy((json_t *)stored);
    json_object_set_new(copy, "apiVersion",
                        codec_json_strf("%.*s/%s", (int)(slash - current), current, version));
    *ret = copy;
    return NULL;
}
