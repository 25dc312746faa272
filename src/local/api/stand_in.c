// SPDX-License-Identifier: Apache-2.0
// Objects that describe what is built in here and that clients create in other clusters: the
// CustomResourceDefinitions of built-in resources, and the APIServices of mounted groups. The
// server writes them so that clients find them. Nothing follows them, and the object of a client
// replaces one as if it did not exist.
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/admission.h"
#include "local/api/aggregate.h"
#include "local/api/api_private.h"
#include "local/api/crd.h"

#define APIEXTENSIONS "apiextensions.k8s.io"
#define REGISTRATION  "apiregistration.k8s.io"
#define PRIORITY      100 // of the APIServices in the charts of metrics-server and prometheus-adapter
#define ANN_BUILT_IN  "gpuscale.dev/built-in"
#define ANN_APPLIED   "kubectl.kubernetes.io/last-applied-configuration"

// Groups whose resources are defined by CustomResourceDefinitions elsewhere.
static bool is_custom_elsewhere(const struct local_api_resource *r)
{
    return strcmp(r->group, "monitoring.coreos.com") == 0;
}

bool local_api_is_stand_in(const struct local_api_resource *r, const json_t *obj)
{
    return (strcmp(r->group, APIEXTENSIONS) == 0 || strcmp(r->group, REGISTRATION) == 0) &&
           kube_annotation(obj, ANN_BUILT_IN) != NULL;
}

bool local_api_is_hidden(const struct local_api_request *r, const json_t *obj)
{
    return local_api_is_from_helm(r) && local_api_is_stand_in(r->res, obj);
}

static json_t *names_of(const struct local_api_resource *r)
{
    json_t *names =
        json_pack("{s:s, s:s, s:s}", "kind", r->kind, "plural", r->plural, "singular", r->singular);
    json_t *short_names = json_array();

    for (size_t i = 0; r->short_names && r->short_names[i]; i++)
        json_array_append_new(short_names, json_string(r->short_names[i]));
    json_object_set_new(names, "shortNames", short_names);
    return names;
}

// Objects of these resources are checked by the schema of the built-in kind.
static json_t *spec_of(const struct local_api_resource *r)
{
    return json_pack("{s:s, s:o, s:s, s:[{s:s, s:b, s:b, s:{s:{s:s, s:b}}}]}", "group", r->group,
                     "names", names_of(r), "scope", r->namespaced ? "Namespaced" : "Cluster",
                     "versions", "name", r->versions[0], "served", 1, "storage", 1, "schema",
                     "openAPIV3Schema", "type", "object", "x-kubernetes-preserve-unknown-fields",
                     1);
}

// As if it had been applied, so that `kubectl apply` removes what the published one lacks.
static void add_annotations(json_t *obj)
{
    json_t *annotations = json_pack("{s:s}", ANN_BUILT_IN, "true");
    CODEC_AUTO_JSON json_t *applied =
        json_pack("{s:s, s:s, s:{s:s, s:O}, s:O}", "apiVersion", kube_api_version(obj), "kind",
                  kube_kind(obj), "metadata", "name", kube_name(obj), "annotations", annotations,
                  "spec", json_object_get(obj, "spec"));
    GS_AUTO_FREE char *text = codec_json_text(applied);

    codec_json_set_str(annotations, ANN_APPLIED, text);
    codec_json_set(obj, annotations, "metadata", "annotations", NULL);
}

// --- definitions ---

void local_api_make_stand_ins(struct local_api *api)
{
    const struct local_api_resource *crds =
        local_api_resource_find(APIEXTENSIONS, "v1", "customresourcedefinitions");

    for (size_t i = 0; i < local_api_n_resources; i++) {
        const struct local_api_resource *r = &local_api_resources[i];
        if (!is_custom_elsewhere(r))
            continue;
        GS_AUTO_FREE char *name = gs_format("%s.%s", r->plural, r->group);
        if (local_api_store_get(api->store, local_api_resource_bucket(crds), "", name))
            continue;
        json_t *crd =
            local_api_base_object("CustomResourceDefinition", APIEXTENSIONS "/v1", NULL, name);
        codec_json_set(crd, json_integer(1), "metadata", "generation", NULL);
        json_object_set_new(crd, "spec", spec_of(r));
        add_annotations(crd);
        crds->set_defaults(crd, NULL);
        local_api_crd_set_status(api, crd);
        local_api_put_base_object(api, APIEXTENSIONS, crds->plural, crd);
    }
}

// --- APIServices ---

// The groups and versions that are mounted: {"v1beta1.metrics.k8s.io": true}. New reference.
static json_t *mounted_versions(const struct local_api *api)
{
    json_t *found = json_object();
    size_t k;
    json_t *version;

    for (size_t i = 0; i < api->n_mounts; i++) {
        const struct local_api_mount *m = &api->mounts[i];
        CODEC_AUTO_JSON json_t *group = m->describe(m->ctx, m->group);
        json_array_foreach (json_object_get(group, "versions"), k, version) {
            GS_AUTO_FREE char *name =
                gs_format("%s.%s", codec_json_str(version, "version", NULL), m->group);
            json_object_set_new(found, name, json_true());
        }
    }
    return found;
}

static void make_apiservice(struct local_api *api, const char *name)
{
    const char *group = strchr(name, '.') + 1;

    if (local_api_stored(api, REGISTRATION, "apiservices", "", name))
        return;
    json_t *obj = local_api_base_object("APIService", REGISTRATION "/v1", NULL, name);
    json_object_set_new(obj, "spec",
                        json_pack("{s:s, s:s%, s:i, s:i}", "group", group, "version", name,
                                  (size_t)(group - name - 1), "groupPriorityMinimum", PRIORITY,
                                  "versionPriority", PRIORITY));
    add_annotations(obj);
    local_api_complete_apiservice(NULL, obj, NULL);
    local_api_put_base_object(api, REGISTRATION, "apiservices", obj);
}

static void remove_unmounted(struct local_api *api, const json_t *mounted)
{
    const struct local_api_resource *res =
        local_api_resource_find(REGISTRATION, "v1", "apiservices");
    size_t bucket = local_api_resource_bucket(res);
    const struct local_api_store_version *v;
    const char *name;

    for (size_t i = local_api_store_len(api->store, bucket); i > 0; i--) {
        v = local_api_store_at(api->store, bucket, i - 1, NULL, &name);
        if (!local_api_is_stand_in(res, v->tree) || json_object_get(mounted, name))
            continue;
        GS_AUTO_ERROR struct gs_error *err = local_api_store_delete(api->store, bucket, "", name);
        if (err)
            gs_warn("api", "APIService: %s", gs_error_message(err));
    }
}

void local_api_sync_apiservices(struct local_api *api)
{
    CODEC_AUTO_JSON json_t *mounted = mounted_versions(api);
    const char *name;
    json_t *value;

    remove_unmounted(api, mounted);
    json_object_foreach (mounted, name, value)
        make_apiservice(api, name);
}
