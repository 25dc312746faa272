// SPDX-License-Identifier: Apache-2.0
// Resources that are custom resources in other clusters and built in here are listed by
// `kubectl get crd`, too. The server writes a definition for each of them. Nothing follows it, and
// the published definition replaces it as if it did not exist.
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/api_private.h"
#include "local/api/crd.h"

#define APIEXTENSIONS "apiextensions.k8s.io"
#define ANN_BUILT_IN  "gpuscale.dev/built-in"
#define ANN_APPLIED   "kubectl.kubernetes.io/last-applied-configuration"

// Groups whose resources are defined by CustomResourceDefinitions elsewhere.
static bool is_custom_elsewhere(const struct local_api_resource *r)
{
    return strcmp(r->group, "monitoring.coreos.com") == 0;
}

bool local_api_crd_is_stand_in(const struct local_api_resource *r, const json_t *obj)
{
    return strcmp(r->group, APIEXTENSIONS) == 0 && kube_annotation(obj, ANN_BUILT_IN) != NULL;
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
static void add_annotations(json_t *crd)
{
    json_t *annotations = json_pack("{s:s}", ANN_BUILT_IN, "true");
    CODEC_AUTO_JSON json_t *applied =
        json_pack("{s:s, s:s, s:{s:s, s:O}, s:O}", "apiVersion", APIEXTENSIONS "/v1", "kind",
                  "CustomResourceDefinition", "metadata", "name", kube_name(crd), "annotations",
                  annotations, "spec", json_object_get(crd, "spec"));
    GS_AUTO_FREE char *text = codec_json_text(applied);

    codec_json_set_str(annotations, ANN_APPLIED, text);
    codec_json_set(crd, annotations, "metadata", "annotations", NULL);
}

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
