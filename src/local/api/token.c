// SPDX-License-Identifier: Apache-2.0
// JSON Web Tokens (RFC 7519) of service accounts, with the claims of Kubernetes' bound tokens.
#include "base/clock.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "kube/object.h"
#include "local/api/admission.h"
#include "net/tls/signature.h"

// Longer ones do not fit into the head of a request.
#define MAX_TOKEN ((size_t)16 * 1024)

// --- signing ---

static void add_part(const json_t *value, struct gs_buf *out)
{
    GS_AUTO_FREE char *text = codec_json_text(value);
    codec_base64url_encode(gs_slice_of(text), out);
}

struct gs_error *local_api_token_sign(const struct local_api *api, const json_t *claims, char **ret)
{
    CODEC_AUTO_JSON json_t *header =
        json_pack("{s:s, s:s}", "alg", "ES256", "kid", tls_signing_key_id(api->token_key));
    GS_AUTO_BUF struct gs_buf token = {0};
    unsigned char signature[TLS_SIGNATURE_SIZE];

    add_part(header, &token);
    gs_buf_add_char(&token, '.');
    add_part(claims, &token);
    struct gs_error *err = tls_sign(api->token_key, gs_buf_slice(&token), signature);
    if (err)
        return err;
    gs_buf_add_char(&token, '.');
    codec_base64url_encode(gs_slice_make((const char *)signature, sizeof(signature)), &token);
    if (token.len > MAX_TOKEN)
        return gs_error_new(GS_EINVAL, "the token is longer than %zu bytes", MAX_TOKEN);
    *ret = gs_buf_take(&token);
    return NULL;
}

// --- verification ---

static struct gs_error *malformed(void)
{
    return gs_error_new(GS_EPERM, "the token is not a JSON Web Token of this cluster");
}

static struct gs_error *decode_json(struct gs_slice part, json_t **ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = codec_base64url_decode(part, &text);

    if (!err)
        err = codec_json_parse(gs_buf_slice(&text), true, ret);
    if (!err && json_is_object(*ret))
        return NULL;
    gs_error_free(err);
    return malformed();
}

static struct gs_error *verify_signature(const struct local_api *api, struct gs_slice token,
                                         json_t **ret_claims)
{
    CODEC_AUTO_JSON json_t *header = NULL;
    GS_AUTO_BUF struct gs_buf signature = {0};
    struct gs_slice rest = token;

    if (!token.data || token.len > MAX_TOKEN)
        return malformed();
    struct gs_slice head = gs_slice_cut(&rest, '.');
    struct gs_slice body = rest.data ? gs_slice_cut(&rest, '.') : rest;
    if (!rest.data)
        return malformed();
    struct gs_error *err = decode_json(head, &header);
    if (err)
        return err;
    err = codec_base64url_decode(rest, &signature);
    struct gs_slice text = gs_slice_make(token.data, head.len + 1 + body.len);
    bool good = !err && gs_streq(codec_json_str(header, "alg", NULL), "ES256") &&
                tls_verify(api->token_key, text, gs_buf_slice(&signature));
    gs_error_free(err);
    return good ? decode_json(body, ret_claims) : malformed();
}

static bool has_audience(const json_t *of_token, const json_t *wanted)
{
    size_t i, k;
    json_t *a, *b;

    json_array_foreach ((json_t *)of_token, i, a) {
        if (!wanted && gs_streq(json_string_value(a), LOCAL_API_ISSUER))
            return true;
        json_array_foreach ((json_t *)wanted, k, b)
            if (json_equal(a, b))
                return true;
    }
    return false;
}

static struct gs_error *check_times(const json_t *claims)
{
    int64_t now = gs_unix_ms() / 1000;

    if (!gs_streq(codec_json_str(claims, "iss", NULL), LOCAL_API_ISSUER))
        return malformed();
    if (codec_json_int(claims, 0, "exp", NULL) <= now)
        return gs_error_new(GS_EPERM, "service account token has expired");
    if (codec_json_int(claims, 0, "nbf", NULL) > now)
        return gs_error_new(GS_EPERM, "service account token is not valid yet");
    return NULL;
}

// An object of the token's private claims exists with the same UID.
static struct gs_error *check_object(const struct local_api *api, const json_t *claims,
                                     const char *claim, const char *plural)
{
    const json_t *ref = codec_json_get(claims, "kubernetes.io", claim, NULL);
    const char *ns = codec_json_str(claims, "kubernetes.io", "namespace", NULL);
    const char *name = codec_json_str(ref, "name", NULL), *uid = codec_json_str(ref, "uid", NULL);
    const json_t *obj = ns && name ? local_api_stored(api, "", plural, ns, name) : NULL;

    if (obj && uid && gs_streq(kube_uid(obj), uid))
        return NULL;
    return gs_error_new(GS_EPERM, "service account token has been invalidated");
}

struct gs_error *local_api_token_verify(const struct local_api *api, struct gs_slice token,
                                        const json_t *audiences, json_t **ret_claims)
{
    static const char *const bound[][2] = {{"pod", "pods"}, {"secret", "secrets"}};
    CODEC_AUTO_JSON json_t *claims = NULL;
    struct gs_error *err = verify_signature(api, token, &claims);

    if (!err)
        err = check_times(claims);
    if (!err && !has_audience(json_object_get(claims, "aud"), audiences))
        err = gs_error_new(GS_EPERM, "token audiences are not among those of the request");
    if (!err)
        err = check_object(api, claims, "serviceaccount", "serviceaccounts");
    for (size_t i = 0; !err && i < GS_ARRAY_LEN(bound); i++)
        if (codec_json_get(claims, "kubernetes.io", bound[i][0], NULL))
            err = check_object(api, claims, bound[i][0], bound[i][1]);
    if (err)
        return err;
    *ret_claims = GS_TAKE(claims);
    return NULL;
}

// --- users ---

static void add_extra(json_t *user, const char *key, const char *value)
{
    if (!value)
        return;
    GS_AUTO_FREE char *name = gs_format("authentication.kubernetes.io/%s", key);
    codec_json_set(user, json_pack("[s]", value), "extra", name, NULL);
}

json_t *local_api_token_user(const json_t *claims)
{
    const json_t *private = json_object_get(claims, "kubernetes.io");
    const char *jti = codec_json_str(claims, "jti", NULL);
    GS_AUTO_FREE char *credential = jti ? gs_format("JTI=%s", jti) : NULL;
    json_t *user = json_object(), *groups = json_array();

    codec_json_set_str(user, "username", codec_json_str(claims, "sub", NULL));
    codec_json_set_str(user, "uid", codec_json_str(private, "serviceaccount", "uid", NULL));
    json_array_append_new(groups, json_string("system:serviceaccounts"));
    json_array_append_new(groups, codec_json_strf("system:serviceaccounts:%s",
                                                  codec_json_str(private, "namespace", NULL)));
    json_array_append_new(groups, json_string("system:authenticated"));
    json_object_set_new(user, "groups", groups);
    add_extra(user, "credential-id", credential);
    add_extra(user, "pod-name", codec_json_str(private, "pod", "name", NULL));
    add_extra(user, "pod-uid", codec_json_str(private, "pod", "uid", NULL));
    return user;
}

bool local_api_check_token(void *arg, const char *token, struct http_identity *ret)
{
    struct local_api *api = arg;
    CODEC_AUTO_JSON json_t *claims = NULL;
    GS_AUTO_ERROR struct gs_error *err =
        local_api_token_verify(api, gs_slice_of(token), NULL, &claims);

    if (err)
        return false;
    json_decref(api->token_user);
    api->token_user = local_api_token_user(claims);
    const json_t *groups = json_object_get(api->token_user, "groups");
    size_t n = json_array_size(groups) - 1; // without system:authenticated, which all users have
    free(api->token_groups);
    api->token_groups = gs_alloc_array(n, sizeof(*api->token_groups));
    for (size_t i = 0; i < n; i++)
        api->token_groups[i] = json_string_value(json_array_get(groups, i));
    *ret = (struct http_identity){codec_json_str(api->token_user, "username", NULL),
                                  api->token_groups, n};
    return true;
}
