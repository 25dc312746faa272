// SPDX-License-Identifier: Apache-2.0
// Service accounts: "default" of each namespace, the admission of pods, and tokens (TokenRequest).
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "kube/object.h"
#include "local/api/admission.h"
#include "local/cluster.h"

#define DEFAULT_EXPIRATION_S INT64_C(3600)
#define MIN_EXPIRATION_S     INT64_C(600)
#define MAX_EXPIRATION_S     (INT64_C(1) << 32)
// Tokens of projected volumes live for a year, as in kube-apiserver, so that clients that do not
// read the file again keep working. They report the time that was requested.
#define PROJECTED_EXPIRATION_S INT64_C(3607)
#define YEAR_S                 (INT64_C(365) * 24 * 3600)
#define ROOT_CA                "kube-root-ca.crt" // the ConfigMap

// --- the objects of each namespace ---

bool local_api_has_account_objects(const struct local_api_resource *res)
{
    return !*res->group &&
           (strcmp(res->plural, "serviceaccounts") == 0 || strcmp(res->plural, "configmaps") == 0);
}

static void make_root_ca(struct local_api *api, const char *ns)
{
    const json_t *old = local_api_stored(api, "", "configmaps", ns, ROOT_CA);

    if (!api->ca_pem || gs_streq(codec_json_str(old, "data", "ca.crt", NULL), api->ca_pem))
        return;
    json_t *obj = old ? json_deep_copy(old) : local_api_base_object("ConfigMap", "v1", ns, ROOT_CA);
    codec_json_set(obj,
                   json_string("Contains a CA bundle that can be used to verify the kube-apiserver "
                               "when using internal endpoints such as the internal service IP or "
                               "kubernetes.default.svc. No other usage is guaranteed across "
                               "distributions of Kubernetes clusters."),
                   "metadata", "annotations", "kubernetes.io/description", NULL);
    codec_json_set(obj, json_string(api->ca_pem), "data", "ca.crt", NULL);
    local_api_put_base_object(api, "", "configmaps", obj);
}

void local_api_make_account(struct local_api *api, const char *ns)
{
    const json_t *obj = local_api_stored(api, "", "namespaces", "", ns);

    if (!obj || kube_is_deleting(obj))
        return;
    GS_AUTO_FREE char *name = gs_strdup(ns); // a write may free the one of the store
    if (!local_api_stored(api, "", "serviceaccounts", name, "default"))
        local_api_put_base_object(api, "", "serviceaccounts",
                                  local_api_base_object("ServiceAccount", "v1", name, "default"));
    make_root_ca(api, name);
}

// --- admission ---

static bool wants_token(const json_t *account, const json_t *pod)
{
    bool of_account = codec_json_bool(account, true, "automountServiceAccountToken", NULL);
    return codec_json_bool(pod, of_account, "spec", "automountServiceAccountToken", NULL);
}

// The name of the pod's own volume for this purpose, or a new name. Caller frees.
static char *access_volume_name(const json_t *volumes, bool *ret_exists)
{
    size_t i;
    json_t *volume;

    json_array_foreach ((json_t *)volumes, i, volume) {
        const char *name = codec_json_str(volume, "name", NULL);
        if (name && gs_starts(name, LOCAL_ACCESS_VOLUME)) {
            *ret_exists = true;
            return gs_strdup(name);
        }
    }
    char suffix[6];
    *ret_exists = false;
    return gs_format(LOCAL_ACCESS_VOLUME "%s", gs_random_suffix(suffix, 5));
}

static bool mounts_at(const json_t *container, const char *path)
{
    size_t i;
    json_t *mount;

    json_array_foreach (json_object_get(container, "volumeMounts"), i, mount)
        if (gs_streq(codec_json_str(mount, "mountPath", NULL), path))
            return true;
    return false;
}

static json_t *list_of(json_t *obj, const char *member)
{
    json_t *list = json_object_get(obj, member);

    if (!json_is_array(list)) {
        list = json_array();
        json_object_set_new(obj, member, list);
    }
    return list;
}

// True if a container has the mount now that had none at its path.
static bool mount_in_containers(json_t *spec, const char *volume)
{
    static const char *const lists[] = {"initContainers", "containers"};
    bool mounted = false;
    size_t i;
    json_t *container;

    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
        json_array_foreach (json_object_get(spec, lists[l]), i, container) {
            if (!json_is_object(container) || mounts_at(container, LOCAL_ACCESS_PATH))
                continue;
            json_array_append_new(list_of(container, "volumeMounts"),
                                  json_pack("{s:s, s:b, s:s}", "name", volume, "readOnly", 1,
                                            "mountPath", LOCAL_ACCESS_PATH));
            mounted = true;
        }
    return mounted;
}

static json_t *access_volume(const char *name)
{
    return json_pack(
        "{s:s, s:{s:i, s:[{s:{s:I, s:s}}, {s:{s:s, s:[{s:s, s:s}]}}, {s:{s:[{s:s, s:{s:s, "
        "s:s}}]}}]}}",
        "name", name, "projected", "defaultMode", 0644, "sources", "serviceAccountToken",
        "expirationSeconds", (json_int_t)PROJECTED_EXPIRATION_S, "path", "token", "configMap",
        "name", ROOT_CA, "items", "key", "ca.crt", "path", "ca.crt", "downwardAPI", "items", "path",
        "namespace", "fieldRef", "apiVersion", "v1", "fieldPath", "metadata.namespace");
}

static void mount_token(json_t *spec)
{
    bool exists = false;
    GS_AUTO_FREE char *name = access_volume_name(json_object_get(spec, "volumes"), &exists);

    if (mount_in_containers(spec, name) && !exists)
        json_array_append_new(list_of(spec, "volumes"), access_volume(name));
}

json_t *local_api_admit_account(const struct local_api_request *r, json_t *pod)
{
    json_t *spec = json_object_get(pod, "spec");
    const char *name = codec_json_str(spec, "serviceAccountName", NULL);
    const json_t *account =
        name ? local_api_stored(r->api, "", "serviceaccounts", r->ns, name) : NULL;

    if (!name)
        return NULL;
    if (!account) {
        GS_AUTO_FREE char *why =
            gs_format("error looking up service account %s/%s: serviceaccount \"%s\" not found",
                      r->ns, name, name);
        return local_api_forbidden(r, pod, why);
    }
    // As in Kubernetes, a mirror pod is what the kubelet runs already. Without a CA, the namespace
    // has no ConfigMap for the volume.
    if (kube_pod_is_mirror(pod))
        return NULL;
    if (r->api->ca_pem && wants_token(account, pod))
        mount_token(spec);
    const json_t *secrets = json_object_get(account, "imagePullSecrets");
    if (json_array_size(secrets) && !json_array_size(json_object_get(spec, "imagePullSecrets")))
        json_object_set_new(spec, "imagePullSecrets", json_deep_copy(secrets));
    return NULL;
}

// --- TokenRequest ---

static json_t *bad_request(const char *text)
{
    return kube_status_failure(400, "BadRequest", text, NULL);
}

static json_t *check_types(const json_t *spec)
{
    const json_t *audiences = json_object_get(spec, "audiences");
    const json_t *seconds = json_object_get(spec, "expirationSeconds");
    const json_t *bound = json_object_get(spec, "boundObjectRef");
    size_t i;
    json_t *item;

    bool good = (!spec || json_is_object(spec)) &&
                (!audiences || json_is_array(audiences) || json_is_null(audiences)) &&
                (!seconds || json_is_integer(seconds) || json_is_null(seconds)) &&
                (!bound || json_is_object(bound) || json_is_null(bound));
    json_array_foreach ((json_t *)audiences, i, item)
        good &= json_is_string(item);
    return good ? NULL
                : bad_request("TokenRequest in version \"v1\" cannot be handled as a TokenRequest: "
                              "spec has a field of a wrong type");
}

static json_t *check_expiration(int64_t seconds)
{
    struct kube_field_errors errors = {0};
    char value[24];

    if (seconds >= MIN_EXPIRATION_S && seconds <= MAX_EXPIRATION_S)
        return NULL;
    snprintf(value, sizeof value, "%lld", (long long)seconds);
    kube_field_error(&errors, "FieldValueInvalid", "spec.expirationSeconds", value,
                     seconds < MIN_EXPIRATION_S
                         ? "may not specify a duration less than 10 minutes"
                         : "may not specify a duration larger than 2^32 seconds");
    json_t *status = kube_status_invalid("TokenRequest.authentication.k8s.io", "", &errors);
    kube_field_errors_finish(&errors);
    return status;
}

static json_t *reference_claim(const json_t *obj)
{
    return json_pack("{s:s, s:s}", "name", kube_name(obj), "uid", kube_uid(obj));
}

// Adds the claim of the Pod or Secret to which the token is bound.
static json_t *bind_token(const struct local_api_request *r, const json_t *ref, json_t *private)
{
    const char *kind = codec_json_str(ref, "kind", NULL), *name = codec_json_str(ref, "name", NULL);
    const char *uid = codec_json_str(ref, "uid", NULL);
    bool pod = gs_streq(kind, "Pod");

    if (!pod && !gs_streq(kind, "Secret")) {
        GS_AUTO_FREE char *text = gs_format(
            "cannot bind token to object of type %s %s",
            codec_json_str(ref, "apiVersion", NULL) ? codec_json_str(ref, "apiVersion", NULL) : "",
            kind ? kind : "");
        return bad_request(text);
    }
    const char *plural = pod ? "pods" : "secrets";
    const json_t *obj = local_api_stored(r->api, "", plural, r->ns, name ? name : "");
    if (!obj)
        return kube_status_not_found(plural, name ? name : "");
    const char *account = codec_json_str(obj, "spec", "serviceAccountName", NULL);
    if (pod && !gs_streq(account, r->name)) {
        GS_AUTO_FREE char *text =
            gs_format("cannot bind token for serviceaccount \"%s\" to pod running with different "
                      "serviceaccount name.",
                      r->name);
        return bad_request(text);
    }
    if (uid && *uid && !gs_streq(uid, kube_uid(obj))) {
        GS_AUTO_FREE char *text =
            gs_format("the UID in the bound object reference (%s) does not match the UID in "
                      "record. The object might have been deleted and then recreated",
                      uid);
        return kube_status_conflict(plural, name, text);
    }
    json_object_set_new(private, pod ? "pod" : "secret", reference_claim(obj));
    return NULL;
}

static json_t *claims_of(const struct local_api_request *r, const json_t *audiences, int64_t now_s,
                         int64_t seconds, json_t *private)
{
    GS_AUTO_FREE char *jti = local_api_new_uid();
    json_t *claims = json_object();

    if (json_object_get(private, "pod") && seconds == PROJECTED_EXPIRATION_S) {
        codec_json_set_int(private, "warnafter", now_s + seconds);
        seconds = YEAR_S;
    }
    json_object_set(claims, "aud", (json_t *)audiences);
    codec_json_set_int(claims, "exp", now_s + seconds);
    codec_json_set_int(claims, "iat", now_s);
    codec_json_set_str(claims, "iss", LOCAL_API_ISSUER);
    codec_json_set_str(claims, "jti", jti);
    json_object_set(claims, "kubernetes.io", private);
    codec_json_set_int(claims, "nbf", now_s);
    json_object_set_new(claims, "sub",
                        codec_json_strf("system:serviceaccount:%s:%s", r->ns, r->name));
    return claims;
}

// Fills in the defaults and the status of a checked request.
static json_t *issue(const struct local_api_request *r, const json_t *account, json_t *request)
{
    json_t *spec = local_api_default_object(request, "spec");
    const json_t *bound = json_object_get(spec, "boundObjectRef");
    CODEC_AUTO_JSON json_t *private = json_object();
    GS_AUTO_FREE char *token = NULL;
    char expires[GS_RFC3339_SIZE];

    if (json_array_size(json_object_get(spec, "audiences")) == 0)
        json_object_set_new(spec, "audiences", json_pack("[s]", LOCAL_API_ISSUER));
    if (!json_is_integer(json_object_get(spec, "expirationSeconds")))
        codec_json_set_int(spec, "expirationSeconds", DEFAULT_EXPIRATION_S);
    int64_t seconds = codec_json_int(spec, 0, "expirationSeconds", NULL);
    json_t *status = check_expiration(seconds);
    codec_json_set_str(private, "namespace", r->ns);
    json_object_set_new(private, "serviceaccount", reference_claim(account));
    if (!status && json_is_object(bound))
        status = bind_token(r, bound, private);
    if (status)
        return status;
    int64_t now_s = gs_unix_ms() / 1000;
    CODEC_AUTO_JSON json_t *claims =
        claims_of(r, json_object_get(spec, "audiences"), now_s, seconds, private);
    struct gs_error *err = local_api_token_sign(r->api, claims, &token);
    if (err)
        return local_api_error_status(err);
    gs_format_rfc3339((now_s + seconds) * 1000, expires);
    json_object_set_new(request, "status",
                        json_pack("{s:s, s:s}", "token", token, "expirationTimestamp", expires));
    return NULL;
}

json_t *local_api_serve_token(const struct local_api_request *r)
{
    CODEC_AUTO_JSON json_t *request = NULL;
    const json_t *account = local_api_stored(r->api, "", "serviceaccounts", r->ns, r->name);

    if (strcmp(http_method(r->x), "POST") != 0)
        return local_api_method_not_allowed();
    if (!account)
        return local_api_not_found(r);
    json_t *status = local_api_read_body(r, &request);
    if (!status)
        status = local_api_check_kind(request, "TokenRequest");
    if (!status)
        status = check_types(json_object_get(request, "spec"));
    if (!status)
        status = issue(r, account, request);
    if (status)
        return status;
    json_t *meta = json_pack("{s:s, s:s}", "name", r->name, "namespace", r->ns);
    local_api_now(meta, "creationTimestamp");
    json_object_set_new(request, "metadata", meta);
    codec_json_set_str(request, "kind", "TokenRequest");
    codec_json_set_str(request, "apiVersion", "authentication.k8s.io/v1");
    kube_reply_json(r->x, 201, request);
    return NULL;
}
