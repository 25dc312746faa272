// SPDX-License-Identifier: Apache-2.0
// Schemas of messages that are only sent, never stored, such as DeleteOptions and reviews: just
// their fields that count here.
#include "local/api/proto.h"

#define META "io.k8s.apimachinery.pkg.apis.meta.v1."
#define TYPE(var, full_name, ...)                                                                  \
    static const struct kube_field var##_fields[] = {__VA_ARGS__, {0}};                            \
    static const struct kube_type var = {full_name, var##_fields}

#define STR(n)                                                                                     \
    {                                                                                              \
        .name = n, .kind = KUBE_F_STRING                                                           \
    }
#define INT(n)                                                                                     \
    {                                                                                              \
        .name = n, .kind = KUBE_F_INT                                                              \
    }
#define BOOL(n)                                                                                    \
    {                                                                                              \
        .name = n, .kind = KUBE_F_BOOL                                                             \
    }
#define STRINGS(n)                                                                                 \
    {                                                                                              \
        .name = n, .kind = KUBE_F_LIST, .item = KUBE_F_STRING                                      \
    }
#define OBJ(n, t)                                                                                  \
    {                                                                                              \
        .name = n, .kind = KUBE_F_OBJECT, .type = t                                                \
    }

// What of metadata these carry.
TYPE(meta, META "ObjectMeta", STR("name"), STR("generateName"), STR("namespace"), STR("uid"),
     STR("resourceVersion"), {.name = "creationTimestamp", .kind = KUBE_F_TIME},
     {.name = "annotations", .kind = KUBE_F_MAP, .item = KUBE_F_STRING},
     {.name = "labels", .kind = KUBE_F_MAP, .item = KUBE_F_STRING}, STR("selfLink"),
     INT("generation"));

TYPE(preconditions, META "Preconditions", STR("uid"), STR("resourceVersion"));
TYPE(delete_options, META "DeleteOptions", INT("gracePeriodSeconds"),
     OBJ("preconditions", &preconditions), BOOL("orphanDependents"), STR("propagationPolicy"),
     STRINGS("dryRun"));
TYPE(eviction, "io.k8s.api.policy.v1.Eviction", OBJ("metadata", &meta),
     OBJ("deleteOptions", &delete_options));

TYPE(reference, "io.k8s.api.core.v1.ObjectReference", STR("kind"), STR("namespace"), STR("name"),
     STR("uid"), STR("apiVersion"), STR("resourceVersion"), STR("fieldPath"));
TYPE(binding, "io.k8s.api.core.v1.Binding", OBJ("metadata", &meta), OBJ("target", &reference));

#define AUTHZ "io.k8s.api.authorization.v1."
TYPE(resource_attributes, AUTHZ "ResourceAttributes", STR("namespace"), STR("verb"), STR("group"),
     STR("version"), STR("resource"), STR("subresource"), STR("name"));
TYPE(url_attributes, AUTHZ "NonResourceAttributes", STR("path"), STR("verb"));
TYPE(access_spec, AUTHZ "SelfSubjectAccessReviewSpec",
     OBJ("resourceAttributes", &resource_attributes),
     OBJ("nonResourceAttributes", &url_attributes));
TYPE(access_status, AUTHZ "SubjectAccessReviewStatus", BOOL("allowed"), BOOL("denied"),
     STR("reason"), STR("evaluationError"));
TYPE(access_review, AUTHZ "SelfSubjectAccessReview", OBJ("metadata", &meta),
     OBJ("spec", &access_spec), OBJ("status", &access_status));
TYPE(rules_spec, AUTHZ "SelfSubjectRulesReviewSpec", STR("namespace"));
TYPE(rules_status, AUTHZ "SubjectRulesReviewStatus", BOOL("incomplete"), STR("evaluationError"));
TYPE(rules_review, AUTHZ "SelfSubjectRulesReview", OBJ("metadata", &meta), OBJ("spec", &rules_spec),
     OBJ("status", &rules_status));

#define AUTHN "io.k8s.api.authentication.v1."
TYPE(user_info, AUTHN "UserInfo", STR("username"), STR("uid"), STRINGS("groups"));
TYPE(self_status, AUTHN "SelfSubjectReviewStatus", OBJ("userInfo", &user_info));
TYPE(self_review, AUTHN "SelfSubjectReview", OBJ("metadata", &meta), OBJ("status", &self_status));
TYPE(bound_reference, AUTHN "BoundObjectReference", STR("kind"), STR("apiVersion"), STR("name"),
     STR("uid"));
TYPE(token_request_spec, AUTHN "TokenRequestSpec", STRINGS("audiences"),
     OBJ("boundObjectRef", &bound_reference), INT("expirationSeconds"));
TYPE(token_request_status, AUTHN "TokenRequestStatus", STR("token"),
     {.name = "expirationTimestamp", .kind = KUBE_F_TIME});
TYPE(token_request, AUTHN "TokenRequest", OBJ("metadata", &meta), OBJ("spec", &token_request_spec),
     OBJ("status", &token_request_status));
TYPE(token_review_spec, AUTHN "TokenReviewSpec", STR("token"), STRINGS("audiences"));
TYPE(token_review_status, AUTHN "TokenReviewStatus", BOOL("authenticated"), OBJ("user", &user_info),
     STR("error"), STRINGS("audiences"));
TYPE(token_review, AUTHN "TokenReview", OBJ("metadata", &meta), OBJ("spec", &token_review_spec),
     OBJ("status", &token_review_status));

static const struct {
    const char *api_version, *kind;
    const struct kube_type *type;
} kinds[] = {
    {"v1", "DeleteOptions", &delete_options},
    {"meta.k8s.io/v1", "DeleteOptions", &delete_options},
    {"policy/v1", "Eviction", &eviction},
    {"policy/v1beta1", "Eviction", &eviction},
    {"v1", "Binding", &binding},
    {"authorization.k8s.io/v1", "SelfSubjectAccessReview", &access_review},
    {"authorization.k8s.io/v1", "SelfSubjectRulesReview", &rules_review},
    {"authentication.k8s.io/v1", "SelfSubjectReview", &self_review},
    {"authentication.k8s.io/v1", "TokenRequest", &token_request},
    {"authentication.k8s.io/v1", "TokenReview", &token_review},
};

const struct kube_type *local_api_proto_request_type(const char *api_version, const char *kind)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].kind, kind) == 0 &&
            (strcmp(kinds[i].api_version, api_version) == 0 ||
             strcmp(kind, "DeleteOptions") == 0)) // client-go sends it in the object's own group
            return kinds[i].type;
    return NULL;
}
