// SPDX-License-Identifier: Apache-2.0
// The reviews of authentication.k8s.io and authorization.k8s.io. Roles are not evaluated:
// administrators and service accounts may do everything.
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/api_private.h"

struct review {
    const char *group, *plural, *kind;
    bool namespaced;
    void (*answer)(struct local_api *api, struct http_exchange *x, json_t *review);
};

// True for the user "system:admin", the group system:masters and service accounts.
static bool has_access(const char *user, const json_t *groups)
{
    return gs_streq(user, "system:admin") || (user && gs_starts(user, "system:serviceaccount:")) ||
           codec_json_has_string(groups, "system:masters");
}

static json_t *caller_groups(const struct http_identity *who)
{
    json_t *groups = json_array();

    for (size_t i = 0; i < who->n_groups; i++)
        json_array_append_new(groups, json_string(who->groups[i]));
    json_array_append_new(groups, json_string("system:authenticated"));
    return groups;
}

static void answer_self(struct local_api *api, struct http_exchange *x, json_t *review)
{
    const struct http_identity *who = http_identity(x);

    codec_json_set(review, json_string(who->user), "status", "userInfo", "username", NULL);
    codec_json_set(review, caller_groups(who), "status", "userInfo", "groups", NULL);
}

static void answer_self_access(struct local_api *api, struct http_exchange *x, json_t *review)
{
    codec_json_set(review, json_true(), "status", "allowed", NULL);
    codec_json_set(review,
                   json_string("roles are not evaluated: authenticated clients may do everything"),
                   "status", "reason", NULL);
}

static void answer_access(struct local_api *api, struct http_exchange *x, json_t *review)
{
    bool allowed = has_access(codec_json_str(review, "spec", "user", NULL),
                              codec_json_get(review, "spec", "groups", NULL));

    codec_json_set(review, json_boolean(allowed), "status", "allowed", NULL);
    codec_json_set(review,
                   json_string(allowed ? "roles are not evaluated: administrators and service "
                                         "accounts may do everything"
                                       : "only administrators and service accounts have access to "
                                         "this cluster"),
                   "status", "reason", NULL);
}

static json_t *star(void)
{
    json_t *list = json_array();

    json_array_append_new(list, json_string("*"));
    return list;
}

static void answer_rules(struct local_api *api, struct http_exchange *x, json_t *review)
{
    json_t *resources = json_object(), *urls = json_object();
    json_t *resource_rules = json_array(), *url_rules = json_array();

    json_object_set_new(resources, "verbs", star());
    json_object_set_new(resources, "apiGroups", star());
    json_object_set_new(resources, "resources", star());
    json_object_set_new(urls, "verbs", star());
    json_object_set_new(urls, "nonResourceURLs", star());
    json_array_append_new(resource_rules, resources);
    json_array_append_new(url_rules, urls);
    codec_json_set(review, resource_rules, "status", "resourceRules", NULL);
    codec_json_set(review, url_rules, "status", "nonResourceRules", NULL);
    codec_json_set(review, json_false(), "status", "incomplete", NULL);
}

// The audiences of the token that the review names; the API's without any.
static json_t *shared_audiences(const json_t *wanted, const json_t *of_token)
{
    json_t *shared = json_array(), *a, *b;
    size_t i, k;

    json_array_foreach ((json_t *)of_token, i, a) {
        bool found =
            json_array_size(wanted) == 0 && gs_streq(json_string_value(a), LOCAL_API_ISSUER);
        json_array_foreach ((json_t *)wanted, k, b)
            found |= json_equal(a, b);
        if (found)
            json_array_append(shared, a);
    }
    return shared;
}

static void answer_token(struct local_api *api, struct http_exchange *x, json_t *review)
{
    const json_t *audiences = codec_json_get(review, "spec", "audiences", NULL);
    const char *token = codec_json_str(review, "spec", "token", NULL);
    CODEC_AUTO_JSON json_t *claims = NULL;

    GS_AUTO_ERROR struct gs_error *err = local_api_token_verify(
        api, gs_slice_of(token), json_array_size(audiences) ? audiences : NULL, &claims);
    if (err) {
        GS_AUTO_FREE char *text = gs_format("[invalid bearer token, %s]", gs_error_message(err));
        codec_json_set(review, json_object(), "status", "user", NULL);
        codec_json_set(review, json_string(text), "status", "error", NULL);
        return;
    }
    codec_json_set(review, json_true(), "status", "authenticated", NULL);
    codec_json_set(review, local_api_token_user(claims), "status", "user", NULL);
    codec_json_set(review, shared_audiences(audiences, json_object_get(claims, "aud")), "status",
                   "audiences", NULL);
}

#define AUTHN "authentication.k8s.io"
#define AUTHZ "authorization.k8s.io"
static const struct review reviews[] = {
    {AUTHN, "selfsubjectreviews", "SelfSubjectReview", false, answer_self},
    {AUTHN, "tokenreviews", "TokenReview", false, answer_token},
    {AUTHZ, "localsubjectaccessreviews", "LocalSubjectAccessReview", true, answer_access},
    {AUTHZ, "selfsubjectaccessreviews", "SelfSubjectAccessReview", false, answer_self_access},
    {AUTHZ, "selfsubjectrulesreviews", "SelfSubjectRulesReview", false, answer_rules},
    {AUTHZ, "subjectaccessreviews", "SubjectAccessReview", false, answer_access},
};

static const struct review *find_review(const char *group, const char *plural)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(reviews); i++)
        if (strcmp(reviews[i].group, group) == 0 && strcmp(reviews[i].plural, plural) == 0)
            return &reviews[i];
    return NULL;
}

const char *local_api_review_kind(const char *group, const char *plural)
{
    const struct review *r = find_review(group, plural);
    return r ? r->kind : NULL;
}

json_t *local_api_review(struct local_api *api, struct http_exchange *x, const char *group,
                         const char *plural)
{
    const struct review *kind = find_review(group, plural);
    struct local_api_request r = {.x = x, .version = "v1"};
    CODEC_AUTO_JSON json_t *review = NULL;

    json_t *status = local_api_read_body(&r, &review);
    if (!status)
        status = local_api_check_kind(review, kind->kind);
    if (status)
        return status;
    codec_json_set_str(review, "kind", kind->kind);
    codec_json_set(review, codec_json_strf("%s/v1", group), "apiVersion", NULL);
    json_object_del(review, "status");
    if (!json_is_object(json_object_get(review, "metadata")))
        json_object_set_new(review, "metadata", json_object());
    kind->answer(api, x, review);
    kube_reply_json(x, 201, review);
    return NULL;
}

void local_api_review_resources(const char *group, json_t *resources)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(reviews); i++) {
        if (strcmp(reviews[i].group, group) != 0)
            continue;
        json_t *entry = json_object();
        json_t *verbs = json_array();
        codec_json_set_str(entry, "name", reviews[i].plural);
        GS_AUTO_FREE char *singular = gs_strndup(reviews[i].plural, strlen(reviews[i].plural) - 1);
        codec_json_set_str(entry, "singularName", singular);
        codec_json_set_bool(entry, "namespaced", reviews[i].namespaced);
        codec_json_set_str(entry, "kind", reviews[i].kind);
        json_array_append_new(verbs, json_string("create"));
        json_object_set_new(entry, "verbs", verbs);
        json_array_append_new(resources, entry);
    }
}
