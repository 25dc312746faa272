// SPDX-License-Identifier: Apache-2.0
// The fields of Kubernetes objects. One table of types is used for unknown-field errors, type
// checks, strategic merge patches (list keys), and the OpenAPI documents that kubectl requests.
#pragma once

#include "base/buf.h"
#include "codec/json.h"

enum kube_field_kind {
    KUBE_F_STRING,
    KUBE_F_INT, // int32
    KUBE_F_INT64,
    KUBE_F_NUMBER,
    KUBE_F_BOOL,
    KUBE_F_BYTES,    // base64 text
    KUBE_F_QUANTITY, // string or number
    KUBE_F_INTORSTR,
    KUBE_F_TIME,
    KUBE_F_OBJECT, // of `type`
    KUBE_F_LIST,   // of scalar `item` kind, or of `type`
    KUBE_F_MAP,    // string keys, values of scalar `item` kind or of `type`
    KUBE_F_ANY,    // free-form, preserved
};

struct kube_type;
struct kube_field {
    const char *name;
    enum kube_field_kind kind;
    enum kube_field_kind item;    // of lists and maps of scalars
    const struct kube_type *type; // of objects, lists and maps of objects
    const char *merge_key; // strategic merge: list merged by this member; "" = set of scalars
    const char *doc;       // short text for OpenAPI / explain; may be NULL
    bool required;         // for the OpenAPI documents; not checked here
    bool retain_keys;      // patchStrategy retainKeys
};
struct kube_type {
    const char *name;                // "io.k8s.api.core.v1.PodSpec"
    const struct kube_field *fields; // ends with a NULL name
    bool custom; // kind of a custom resource: strategic merge patches do not exist for it
};

// Returns NULL if the table does not contain the kind.
const struct kube_type *kube_schema_find(const char *api_version, const char *kind);
const struct kube_field *kube_schema_field(const struct kube_type *t, const char *name);

// Returns the kinds of the table one by one, for tests of the table; NULL after the last one.
const struct kube_type *kube_schema_nth(size_t i, const char **ret_api_version,
                                        const char **ret_kind);

// Adds one text per problem to the arrays of strings: `unknown field "spec.foo"`, and for wrong
// types kube-apiserver's decode errors (`json: cannot unmarshal string into Go struct field
// DeploymentSpec.spec.replicas of type int32`), of which kube-apiserver shows the first. null is
// valid for each field. drop: removes unknown fields and nulls from obj. At most
// KUBE_SCHEMA_MAX_PROBLEMS texts each.
#define KUBE_SCHEMA_MAX_PROBLEMS 100
void kube_schema_check(const struct kube_type *t, json_t *obj, bool drop, json_t *ret_unknown,
                       json_t *ret_type_errors);

// A field that the type of its object does not have, or a value of a wrong type.
struct kube_schema_problem {
    const char *text;              // as above
    const char *path;              // "spec.endpoints[0].honor_labels"
    const struct kube_type *owner; // of an unknown field: the type that lacks it; NULL: wrong type
    const char *field;             // the name of the unknown field
    const char *wanted;            // of a wrong type: the type in Go, or NULL
    const json_t *twin;            // what the second document has at this path, or NULL
    const json_t *outer_twin;      // and at the path of the enclosing value
};
typedef void kube_schema_problem_fn(void *arg, const struct kube_schema_problem *p);
// Calls found() for each problem. twin: a document of the same form, such as the one with the
// positions of the values, or NULL.
void kube_schema_visit(const struct kube_type *t, const json_t *obj, const json_t *twin,
                       kube_schema_problem_fn *found, void *arg);

// --- OpenAPI documents ---

// The OpenAPI documents that kubectl reads, generated from the table of types. Version 3 has one
// document per group-version (kubectl from 1.24: server-side validation, apply, explain). Version 2
// is one document (older versions: client-side validation, apply, explain) in JSON and in the
// protobuf encoding that kubectl requests. Kinds without a type are described as free-form. The
// documents are large: generate them once and keep the bytes.

// The Accept header of kubectl, and the Content-Type of the reply. The former is not a valid media
// type.
#define KUBE_OPENAPI_V2_ACCEPT "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
#define KUBE_OPENAPI_V2_TYPE   "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

// A resource that the API serves in one version; subresources need no entry.
struct kube_openapi_resource {
    const char *group; // "" for core
    const char *version, *plural, *kind;
    bool namespaced;
    const json_t *schema; // of a custom resource: its OpenAPI v3 schema; NULL: the table of types
};

// {"paths": {"apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1?hash=…"}}} of all
// group-versions among the resources. The hash changes with the document.
json_t *kube_openapi_v3_index(const struct kube_openapi_resource *r, size_t n);
// Returns the document of one group-version. Resources of other group-versions are skipped.
json_t *kube_openapi_v3(const char *group, const char *version,
                        const struct kube_openapi_resource *r, size_t n);

json_t *kube_openapi_v2(const struct kube_openapi_resource *r, size_t n);
// Converts a document of kube_openapi_v2() to gnostic's openapi.v2.Document.
void kube_openapi_v2_encode(const json_t *document, struct gs_buf *out);
