// SPDX-License-Identifier: Apache-2.0
// CustomResourceDefinitions (apiextensions.k8s.io/v1): which resources they define, their schemas,
// conversion, columns and subresources. Private to the API server.
#pragma once

#include "local/api/registry.h"
#include "local/api/store.h"

// --- crd.c: the resources that established definitions add to the built-in ones ---

struct local_api_crds;
struct local_api_custom; // one served version of a definition

struct local_api_crds *local_api_crds_new(struct local_api *api);
void local_api_crds_free(struct local_api_crds *c);
void local_api_crds_load(struct local_api_crds *c); // once, after the store was opened
// To be called after each change of the store.
void local_api_crds_changed(struct local_api_crds *c, const struct local_api_store_change *change);

size_t local_api_custom_bucket(const struct local_api_custom *c);
const char *local_api_custom_stored_version(const struct local_api_custom *c);
// The OpenAPI v3 schema; NULL: none. Borrowed.
const json_t *local_api_custom_schema(const struct local_api_custom *c);
// The scale subresource: {specReplicasPath, statusReplicasPath, labelSelectorPath}; NULL: none.
const json_t *local_api_custom_scale(const struct local_api_custom *c);
// The definition is being deleted: no new objects.
bool local_api_custom_is_terminating(const struct local_api_custom *c);
// Adds a problem to `wrong` (an array of strings) for each unknown field that pruning removed.
void local_api_custom_prune(const struct local_api_custom *c, json_t *obj, json_t *ret_unknown);
bool local_api_custom_default(const struct local_api_custom *c, json_t *obj, size_t max_bytes);
void local_api_custom_validate(const struct local_api_custom *c, const json_t *obj,
                               struct kube_field_errors *errors);

// Order of versions in discovery: v2 before v1, v1beta1, v1alpha1; other names last, by text.
int local_api_compare_versions(const char *a, const char *b);

// --- crd_definition.c: the definitions themselves ---

void local_api_default_crd(json_t *obj, const json_t *old);
void local_api_validate_crd(const json_t *obj, const json_t *old, struct kube_field_errors *errors);
// Conditions and accepted names.
void local_api_complete_crd(const struct local_api_request *r, json_t *obj, const json_t *old);
// Sets the conditions of a definition, among all others of the store. True if something changed.
bool local_api_crd_set_status(const struct local_api *api, json_t *crd);
#define LOCAL_API_CRD_FINALIZER "customresourcecleanup.apiextensions.k8s.io"
// The definition stays until its objects are deleted.
json_t *local_api_delete_crd(const struct local_api_request *r, const json_t *crd, json_t **ret_obj,
                             bool *ret_gone);

// --- crd_schema.c: structural schemas ---

char *local_api_schema_field_path(const char *path,
                                  const char *key); // "spec.replicas"; path may be ""
// Checks that a schema is structural and within limits.
void local_api_schema_check(const json_t *schema, const char *path,
                            struct kube_field_errors *errors);
// Removes the fields that the schema lacks, except metadata, apiVersion and kind of the object and
// of embedded objects. ret_unknown gets a text for each.
void local_api_schema_prune(const json_t *schema, json_t *obj, json_t *ret_unknown);
bool local_api_schema_default(const json_t *schema, json_t *obj, size_t max_bytes);

// --- crd_validate.c: values against schemas ---

struct gs_hmap;
// patterns: compiled regular expressions by text, filled as needed.
void local_api_schema_validate(const json_t *schema, const json_t *obj, struct gs_hmap *patterns,
                               struct kube_field_errors *errors);
struct gs_hmap *local_api_schema_patterns_new(void);
bool local_api_schema_has_rules(const json_t *schema); // x-kubernetes-validations

// --- crd_table.c: columns ---

struct local_api_table *local_api_custom_table_new(const json_t *columns); // may be NULL
void local_api_custom_table_free(struct local_api_table *t);
// The value at a simple JSONPath such as ".spec.replicas"; NULL if absent. Borrowed.
json_t *local_api_json_path(const json_t *obj, const char *path);
