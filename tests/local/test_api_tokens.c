// SPDX-License-Identifier: Apache-2.0
// Service accounts and their tokens: TokenRequest, TokenReview, authentication.
#include "api_setup.h"

#include "codec/encoding.h"

#define ACCOUNTS "/api/v1/namespaces/default/serviceaccounts"
#define PODS     "/api/v1/namespaces/default/pods"
#define ISSUER   "https://kubernetes.default.svc.cluster.local"

// spec: of the TokenRequest, in YAML's flow style.
static struct reply ask(struct harness *h, const char *spec)
{
    GS_AUTO_FREE char *body =
        gs_format("{kind: TokenRequest, apiVersion: authentication.k8s.io/v1, spec: {%s}}", spec);
    return request_with(h, "POST", ACCOUNTS "/default/token", "application/yaml", NULL, body);
}

static char *token_of(struct harness *h, const char *spec)
{
    AUTO_REPLY struct reply r = ask(h, spec);
    assert_status(r, 201);
    return gs_strdup(codec_json_str(r.body, "status", "token", NULL));
}

static json_t *part_of(const char *token, size_t n)
{
    struct gs_slice rest = gs_slice_of(token), part = {0};
    GS_AUTO_BUF struct gs_buf text = {0};
    json_t *value = NULL;
    for (size_t i = 0; i <= n; i++)
        part = gs_slice_cut(&rest, '.');
    assert_null(codec_base64url_decode(part, &text));
    assert_null(codec_json_parse(gs_buf_slice(&text), true, &value));
    return value;
}

static bool is_accepted(struct harness *h, const char *token)
{
    struct http_identity who = {0};
    bool accepted = local_api_check_token(h->api, token, &who);
    if (accepted) {
        assert_string_equal(who.user, "system:serviceaccount:default:default");
        assert_int_equal(who.n_groups, 2);
        assert_string_equal(who.groups[0], "system:serviceaccounts");
        assert_string_equal(who.groups[1], "system:serviceaccounts:default");
    }
    return accepted;
}

static json_t *review(struct harness *h, const char *token, const char *audiences)
{
    GS_AUTO_FREE char *body =
        gs_format("{kind: TokenReview, apiVersion: authentication.k8s.io/v1, spec: {token: '%s', "
                  "audiences: %s}}",
                  token, audiences);
    AUTO_REPLY struct reply r = request_with(
        h, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", "application/yaml", NULL, body);
    assert_status(r, 201);
    return json_incref(json_object_get(r.body, "status"));
}

static void test_each_namespace_has_an_account(void **state)
{
    struct harness *h = *state;
    AUTO_REPLY struct reply ns =
        request(h, "POST", "/api/v1/namespaces",
                "{\"kind\":\"Namespace\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"new\"}}");
    assert_status(ns, 201);
    AUTO_REPLY struct reply a =
        request(h, "GET", "/api/v1/namespaces/new/serviceaccounts/default", NULL);
    assert_status(a, 200);
    AUTO_REPLY struct reply b =
        request(h, "GET", "/api/v1/namespaces/kube-system/serviceaccounts/default", NULL);
    assert_status(b, 200);
}

static void test_a_deleted_default_account_returns(void **state)
{
    struct harness *h = *state;
    AUTO_REPLY struct reply before = request(h, "GET", ACCOUNTS "/default", NULL);
    AUTO_REPLY struct reply gone = request(h, "DELETE", ACCOUNTS "/default", NULL);
    AUTO_REPLY struct reply after = request(h, "GET", ACCOUNTS "/default", NULL);
    assert_status(gone, 200);
    assert_status(after, 200);
    assert_string_not_equal(codec_json_str(before.body, "metadata", "uid", NULL),
                            codec_json_str(after.body, "metadata", "uid", NULL));
}

static void test_claims_of_a_token(void **state)
{
    struct harness *h = *state;
    AUTO_REPLY struct reply r = ask(h, "");
    assert_status(r, 201);
    assert_number(r, 3600, "spec", "expirationSeconds");
    assert_member(r, "default", "metadata", "name");
    const char *token = codec_json_str(r.body, "status", "token", NULL);
    CODEC_AUTO_JSON json_t *head = part_of(token, 0), *claims = part_of(token, 1);
    assert_string_equal(codec_json_str(head, "alg", NULL), "ES256");
    assert_string_equal(codec_json_str(claims, "sub", NULL),
                        "system:serviceaccount:default:default");
    assert_string_equal(codec_json_str(claims, "iss", NULL), ISSUER);
    assert_string_equal(json_string_value(json_array_get(json_object_get(claims, "aud"), 0)),
                        ISSUER);
    assert_int_equal(
        codec_json_int(claims, 0, "exp", NULL) - codec_json_int(claims, 0, "iat", NULL), 3600);
    assert_string_equal(codec_json_str(claims, "kubernetes.io", "serviceaccount", "name", NULL),
                        "default");
    assert_true(is_accepted(h, token));
}

// As kubectl 1.32 sends `kubectl create token default`.
static void test_protobuf_requests_are_read(void **state)
{
    static const char body[] = "k8s\0\x0a\x28\x0a\x18"
                               "authentication.k8s.io/v1\x12\x0c"
                               "TokenRequest\x12\x1a\x0a\x10\x0a\0\x12\0\x1a\0\x22\0\x2a\0\x32\0"
                               "\x38\0\x42\0\x12\0\x1a\x04\x0a\0\x12\0\x1a\0\x22\0";
    struct harness *h = *state;
    AUTO_REPLY struct reply r = {0};
    const struct http_callbacks cb = {.on_done = reply_done};
    http_send(h->client,
              &(struct http_request){.method = "POST",
                                     .path = ACCOUNTS "/default/token",
                                     .content_type = "application/vnd.kubernetes.protobuf",
                                     .body = gs_slice_make(body, sizeof body - 1)},
              &cb, &r);
    while (!r.done)
        uv_run(&h->loop, UV_RUN_ONCE);
    assert_status(r, 201);
    assert_number(r, 3600, "spec", "expirationSeconds");
    assert_true(is_accepted(h, codec_json_str(r.body, "status", "token", NULL)));
}

static void test_wrong_requests_are_refused(void **state)
{
    static const struct {
        const char *spec, *message;
        int status;
    } cases[] = {
        {"expirationSeconds: 599",
         "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid "
         "value: 599: may not specify a duration less than 10 minutes",
         422},
        {"expirationSeconds: 4294967297", "may not specify a duration larger than 2^32 seconds",
         422},
        {"expirationSeconds: x", "wrong type", 400},
        {"audiences: [1]", "wrong type", 400},
        {"boundObjectRef: {kind: Pod, apiVersion: v1, name: none}", "pods \"none\" not found", 404},
        {"boundObjectRef: {kind: Node, apiVersion: v1, name: none}",
         "cannot bind token to object of type v1 Node", 400},
    };
    struct harness *h = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        AUTO_REPLY struct reply r = ask(h, cases[i].spec);
        assert_status(r, cases[i].status);
        assert_message(r, cases[i].message);
    }
    AUTO_REPLY struct reply none = request(h, "POST", ACCOUNTS "/none/token", "{}");
    assert_status(none, 404);
}

static void test_a_pod_s_token_ends_with_the_pod(void **state)
{
    struct harness *h = *state;
    AUTO_REPLY struct reply pod =
        request(h, "POST", PODS,
                "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\"},\"spec\":{"
                "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}");
    assert_status(pod, 201);
    GS_AUTO_FREE char *token = token_of(
        h, "expirationSeconds: 3607, boundObjectRef: {kind: Pod, apiVersion: v1, name: p}");
    CODEC_AUTO_JSON json_t *claims = part_of(token, 1);
    assert_string_equal(codec_json_str(claims, "kubernetes.io", "pod", "name", NULL), "p");
    // Extended, as kube-apiserver does for projected volumes.
    assert_true(codec_json_int(claims, 0, "exp", NULL) -
                    codec_json_int(claims, 0, "kubernetes.io", "warnafter", NULL) >
                1000000);
    assert_true(is_accepted(h, token));
    AUTO_REPLY struct reply gone = request(h, "DELETE", PODS "/p", NULL);
    assert_status(gone, 200);
    assert_false(is_accepted(h, token));
    CODEC_AUTO_JSON json_t *status = review(h, token, "[]");
    assert_string_equal(codec_json_str(status, "error", NULL),
                        "[invalid bearer token, service account token has been invalidated]");
}

static void test_reviews(void **state)
{
    struct harness *h = *state;
    GS_AUTO_FREE char *token = token_of(h, "");
    CODEC_AUTO_JSON json_t *status = review(h, token, "[]");
    assert_true(codec_json_bool(status, false, "authenticated", NULL));
    assert_string_equal(codec_json_str(status, "user", "username", NULL),
                        "system:serviceaccount:default:default");
    CODEC_AUTO_JSON json_t *groups =
        json_pack("[s,s,s]", "system:serviceaccounts", "system:serviceaccounts:default",
                  "system:authenticated");
    assert_true(json_equal(codec_json_get(status, "user", "groups", NULL), groups));
    CODEC_AUTO_JSON json_t *audiences = json_pack("[s]", ISSUER);
    assert_true(json_equal(json_object_get(status, "audiences"), audiences));

    CODEC_AUTO_JSON json_t *other = review(h, token, "[vault]");
    assert_false(codec_json_bool(other, false, "authenticated", NULL));
}

static void test_other_audiences_are_not_the_api_s(void **state)
{
    struct harness *h = *state;
    GS_AUTO_FREE char *token = token_of(h, "audiences: [vault, other]");
    assert_false(is_accepted(h, token));
    CODEC_AUTO_JSON json_t *status = review(h, token, "[vault]");
    assert_true(codec_json_bool(status, false, "authenticated", NULL));
    assert_int_equal(json_array_size(json_object_get(status, "audiences")), 1);
}

static void test_changed_tokens_are_refused(void **state)
{
    struct harness *h = *state;
    GS_AUTO_FREE char *token = token_of(h, "");
    size_t len = strlen(token);
    for (size_t i = 0; i < len; i += 7) {
        GS_AUTO_FREE char *changed = gs_strdup(token);
        changed[i] = (char)(changed[i] == 'A' ? 'B' : 'A');
        assert_false(is_accepted(h, changed));
        changed[i] = '\0';
        assert_false(is_accepted(h, changed));
    }
    static const char *const others[] = {"", ".", "..", "...", "a.b.c", "e30.e30.", "e30.e30.e30"};
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++)
        assert_false(is_accepted(h, others[i]));
    // An unsigned token, and the token of another cluster.
    GS_AUTO_FREE char *end = gs_strdup(strchr(token, '.'));
    *strrchr(end, '.') = '\0';
    GS_AUTO_FREE char *none = gs_format("eyJhbGciOiJub25lIn0%s.", end);
    assert_false(is_accepted(h, none));
    struct harness foreign;
    harness_open(&foreign, NULL);
    GS_AUTO_FREE char *theirs = token_of(&foreign, "");
    harness_close(&foreign);
    assert_false(is_accepted(h, theirs));
}

static void test_a_recreated_account_has_new_tokens(void **state)
{
    struct harness *h = *state;
    GS_AUTO_FREE char *token = token_of(h, "");
    AUTO_REPLY struct reply gone = request(h, "DELETE", ACCOUNTS "/default", NULL);
    assert_status(gone, 200);
    assert_false(is_accepted(h, token));
}

static void test_pods_need_an_existing_account(void **state)
{
    struct harness *h = *state;
    AUTO_REPLY struct reply r = request(
        h, "POST", PODS,
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\"},\"spec\":{"
        "\"serviceAccountName\":\"ci\",\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}");
    assert_status(r, 403);
    assert_member(r,
                  "pods \"p\" is forbidden: error looking up service account default/ci: "
                  "serviceaccount \"ci\" not found",
                  "message");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_namespace_has_an_account),
        TEST(test_a_deleted_default_account_returns),
        TEST(test_claims_of_a_token),
        TEST(test_protobuf_requests_are_read),
        TEST(test_wrong_requests_are_refused),
        TEST(test_a_pod_s_token_ends_with_the_pod),
        TEST(test_reviews),
        TEST(test_other_audiences_are_not_the_api_s),
        TEST(test_changed_tokens_are_refused),
        TEST(test_a_recreated_account_has_new_tokens),
        TEST(test_pods_need_an_existing_account),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
