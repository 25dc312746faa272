// SPDX-License-Identifier: Apache-2.0
// oauth2 of HTTP settings: one server gives tokens and shows what requests carry.
#include "../../kube/loop.h"
#include "base/mem.h"
#include "net/endpoint/endpoint_private.h"
#include "net/http/server.h"

#include <unistd.h>

struct fixture {
    uv_loop_t loop;
    struct http_server *server;
    char *base, *token_url;
    struct endpoint_oauth2 oauth2;
    struct endpoint_settings http;
    struct http_client *client;
    struct endpoint_tokens *tokens;
    bool only_body;       // secrets in headers are refused
    int token_status;     // 0: a token
    const char *lifetime; // of tokens
    int asked, served;
    char *form, *basic; // of the last token's request
    char *seen;         // "POST /path body authorization" of the last other request
    int done;
    int status;
    char *error;
    struct http_exchange *held; // token requests wait here when `hold`
    bool hold;
};

static void keep(char **slot, char *value)
{
    free(*slot);
    *slot = value;
}

static void give_token(struct fixture *f, struct http_exchange *x)
{
    GS_AUTO_FREE char *body =
        gs_format("{\"access_token\":\"t%d\",\"token_type\":\"bearer\"%s%s}", f->asked,
                  f->lifetime ? ",\"expires_in\":" : "", f->lifetime ? f->lifetime : "");
    if (f->token_status)
        http_reply(x, f->token_status, "application/json", GS_SLICE("{\"error\":\"no_way\"}"));
    else if (f->only_body && http_header(x, "Authorization"))
        http_reply(x, 401, "text/plain", GS_SLICE("secret things"));
    else
        http_reply(x, 200, "application/json", gs_slice_of(body));
}

static void gone(void *arg)
{
    ((struct fixture *)arg)->held = NULL;
}

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    const char *authorization = http_header(x, "Authorization");
    if (strcmp(http_path(x), "/token") == 0) {
        f->asked++;
        keep(&f->form, gs_slice_dup(http_body(x)));
        keep(&f->basic, gs_strdup(authorization ? authorization : ""));
        if (f->hold) {
            f->held = x;
            http_on_abort(x, gone, f);
        } else {
            give_token(f, x);
        }
        return;
    }
    f->served++;
    keep(&f->seen, gs_format("%s %s " GS_SLICE_FMT " %s %s", http_method(x), http_path(x),
                             GS_SLICE_ARG(http_body(x)), authorization ? authorization : "",
                             http_header(x, "X-A") ? http_header(x, "X-A") : ""));
    http_reply(x, 200, "text/plain", GS_SLICE("ok"));
}

static void setup(struct fixture *f)
{
    *f = (struct fixture){0};
    uv_loop_init(&f->loop);
    const struct http_server_config cfg = {.address = "127.0.0.1"};
    assert_ok(http_server_start(&f->loop, &cfg, serve, f, &f->server));
    f->base = gs_format("http://127.0.0.1:%d", http_server_port(f->server));
    f->token_url = gs_format("%s/token", f->base);
    f->oauth2 = (struct endpoint_oauth2){
        .client_id = "me too", .token_url = f->token_url, .client_secret.text = "s&t"};
    f->http = (struct endpoint_settings){.oauth2 = &f->oauth2};
}

static void connect_client(struct fixture *f)
{
    const struct endpoint_options options = {.tokens = &f->tokens};
    assert_ok(endpoint_client_new(&f->loop, f->base, &f->http, &options, &f->client));
}

static void finish(struct fixture *f)
{
    http_client_free(f->client);
    endpoint_tokens_unref(f->tokens);
    http_server_stop(f->server);
    loop_finish(&f->loop);
    free(f->base);
    free(f->token_url);
    free(f->form);
    free(f->basic);
    free(f->seen);
    free(f->error);
}

static void on_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct fixture *f = arg;
    f->status = response->status;
    keep(&f->error, err ? gs_strdup(gs_error_message(err)) : NULL);
    gs_error_free(err);
    f->done++;
}

static struct http_op *ask(struct fixture *f, const char *path, const char *body)
{
    static const struct http_callbacks callbacks = {.on_done = on_done};
    const struct http_header headers[] = {{"X-A", "b"}, {NULL, NULL}};
    const struct http_request request = {.method = *body ? "POST" : NULL,
                                         .path = path,
                                         .headers = headers,
                                         .body = gs_slice_of(body),
                                         .timeout_ms = WAIT_MS};
    return http_send(f->client, &request, &callbacks, f);
}

static void ask_and_wait(struct fixture *f, const char *path)
{
    int done = f->done;
    ask(f, path, "");
    loop_until(&f->loop, f->done > done);
}

static void test_a_token_is_fetched_once_and_goes_with_each_request(void **state)
{
    struct fixture f;
    setup(&f);
    static const char *const scopes[] = {"read", "write all"};
    const struct http_header params[] = {{"audience", "a/b"}, {"zone", ""}};
    f.oauth2.scopes = scopes;
    f.oauth2.n_scopes = 2;
    f.oauth2.params = params;
    f.oauth2.n_params = 2;
    f.lifetime = "3600";
    connect_client(&f);
    ask(&f, "/one", "hello");
    ask(&f, "/two", "");
    loop_until(&f.loop, f.done == 2);
    assert_int_equal(f.asked, 1);
    assert_int_equal(f.served, 2);
    assert_string_equal(f.form, "audience=a%2Fb&grant_type=client_credentials&scope=read+write+all&"
                                "zone=");
    assert_string_equal(f.basic, "Basic bWUrdG9vOnMlMjZ0"); // me+too:s%26t
    ask(&f, "/three", "again");
    loop_until(&f.loop, f.done == 3);
    assert_string_equal(f.seen, "POST /three again Bearer t1 b");
    assert_int_equal(f.asked, 1);
    // Another client of the same settings has the same token.
    http_client_free(f.client);
    connect_client(&f);
    ask_and_wait(&f, "/four");
    assert_string_equal(f.seen, "GET /four  Bearer t1 b");
    assert_int_equal(f.asked, 1);
    finish(&f);
    (void)state;
}

static void test_bodies_of_requests_that_wait_are_kept(void **state)
{
    struct fixture f;
    setup(&f);
    connect_client(&f);
    GS_AUTO_FREE char *body = gs_strdup("hello");
    ask(&f, "/one", body);
    memset(body, 'x', strlen(body));
    loop_until(&f.loop, f.done == 1);
    assert_string_equal(f.seen, "POST /one hello Bearer t1 b");
    finish(&f);
    (void)state;
}

// Ten seconds before its end a token is not used any more, and a new one is always good for those
// that waited for it.
static void test_tokens_that_end_are_fetched_anew(void **state)
{
    struct fixture f;
    setup(&f);
    f.lifetime = "\"9\"";
    connect_client(&f);
    ask_and_wait(&f, "/");
    assert_string_equal(f.seen, "GET /  Bearer t1 b");
    ask_and_wait(&f, "/");
    assert_string_equal(f.seen, "GET /  Bearer t2 b");
    f.lifetime = NULL; // for ever
    ask_and_wait(&f, "/");
    ask_and_wait(&f, "/");
    assert_string_equal(f.seen, "GET /  Bearer t3 b");
    finish(&f);
    (void)state;
}

static void test_the_secret_goes_where_the_server_wants_it(void **state)
{
    struct fixture f;
    setup(&f);
    f.only_body = true;
    f.lifetime = "1";
    connect_client(&f);
    ask_and_wait(&f, "/");
    assert_int_equal(f.asked, 2);
    assert_string_equal(f.basic, "");
    assert_string_equal(f.form,
                        "client_id=me+too&client_secret=s%26t&grant_type=client_credentials");
    ask_and_wait(&f, "/"); // it is known now
    assert_int_equal(f.asked, 3);
    assert_int_equal(f.served, 2);
    finish(&f);
    (void)state;
}

static void test_a_changed_secret_is_used_at_once(void **state)
{
    struct fixture f;
    char file[] = "/tmp/gpuscale-secret-XXXXXX";
    setup(&f);
    int fd = mkstemp(file);
    assert_int_equal(write(fd, "one\n", 4), 4);
    f.oauth2.client_secret = (struct endpoint_secret){.file = file};
    connect_client(&f);
    ask_and_wait(&f, "/");
    assert_string_equal(f.basic, "Basic bWUrdG9vOm9uZQ=="); // …:one
    ask_and_wait(&f, "/");
    assert_int_equal(f.asked, 1);
    assert_int_equal(pwrite(fd, "two\n", 4, 0), 4);
    ask_and_wait(&f, "/");
    assert_string_equal(f.basic, "Basic bWUrdG9vOnR3bw==");
    assert_string_equal(f.seen, "GET /  Bearer t2 b");
    assert_int_equal(remove(file), 0);
    ask_and_wait(&f, "/");
    assert_non_null(strstr(f.error, "unable to read oauth2 client secret"));
    assert_int_equal(f.served, 3);
    close(fd);
    finish(&f);
    (void)state;
}

static void test_failures_are_told_to_all_that_wait(void **state)
{
    struct fixture f;
    setup(&f);
    f.token_status = 400;
    connect_client(&f);
    ask(&f, "/one", "");
    ask(&f, "/two", "");
    loop_until(&f.loop, f.done == 2);
    assert_string_equal(f.error, "oauth2: \"no_way\"");
    assert_int_equal(f.status, 0);
    assert_int_equal(f.served, 0);
    f.token_status = 0;
    ask_and_wait(&f, "/");
    assert_null(f.error);
    assert_int_equal(f.status, 200);
    finish(&f);
    (void)state;
}

static void test_requests_that_wait_can_be_cancelled(void **state)
{
    struct fixture f;
    setup(&f);
    f.hold = true;
    connect_client(&f);
    struct http_op *first = ask(&f, "/first", "");
    http_op_cancel(first); // nothing was sent yet
    first = ask(&f, "/first", "");
    ask(&f, "/second", "");
    loop_until(&f.loop, f.held != NULL);
    http_op_cancel(first);
    give_token(&f, GS_TAKE(f.held));
    loop_until(&f.loop, f.done == 1);
    assert_string_equal(f.seen, "GET /second  Bearer t1 b");
    assert_int_equal(f.served, 1);
    finish(&f);
    (void)state;
}

static void test_a_client_can_go_while_requests_wait(void **state)
{
    struct fixture f;
    setup(&f);
    f.hold = true;
    connect_client(&f);
    ask(&f, "/one", "");
    ask(&f, "/two", "");
    loop_until(&f.loop, f.held != NULL);
    http_client_free(GS_TAKE(f.client));
    endpoint_tokens_unref(GS_TAKE(f.tokens));
    loop_until(&f.loop, f.held == NULL); // the token's request was given up
    assert_int_equal(f.done, 0);
    finish(&f);
    (void)state;
}

// --- messages ---

static struct gs_error *read_answer(int status, const char *type, const char *body, char **ret)
{
    struct endpoint_token t = {0};
    const struct http_response response = {
        .status = status, .content_type = type, .body = gs_slice_of(body)};
    struct gs_error *err = endpoint_token_read_answer(&response, &t);
    if (!err)
        *ret = gs_format("%s %d %lld", t.authorization, t.expires, (long long)t.lifetime_s);
    endpoint_token_finish(&t);
    return err;
}

static void test_answers_are_json_or_forms(void **state)
{
    static const char form[] = "application/x-www-form-urlencoded", json[] = "application/json";
    static const struct {
        const char *type, *body, *want;
    } cases[] = {
        {json, "{\"access_token\":\"a\"}", "Bearer a 0 0"},
        {NULL, "{\"access_token\":\"a\",\"token_type\":\"MAC\",\"expires_in\":5}", "MAC a 1 5"},
        {json, "{\"access_token\":\"a\",\"token_type\":\"Own\",\"expires_in\":null}", "Own a 0 0"},
        {json, "{\"access_token\":\"a\",\"expires_in\":\"99999999999\"}", "Bearer a 1 2147483647"},
        {json, "{\"access_token\":\"a\",\"expires_in\":-5,\"more\":[1]}", "Bearer a 1 0"},
        {form, "access_token=a%2Bb+c&expires_in=7&x", "Bearer a+b c 1 7"},
        {"Text/Plain; charset=utf-8", "token_type=bearer&access_token=a", "Bearer a 0 0"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *got = NULL;
        assert_ok(read_answer(201, cases[i].type, cases[i].body, &got));
        assert_string_equal(got, cases[i].want);
    }
    (void)state;
}

static void test_wrong_answers_tell_nothing_of_their_contents(void **state)
{
    static const struct {
        int status;
        const char *body, *want;
    } cases[] = {
        {200, "{\"access_token\":\"\"}", "missing access_token"},
        {200, "[]", "missing access_token"},
        {200, "{\"access_token\":\"a\\nb\"}", "several lines"},
        {200, "{\"access_token\":\"s3cret\"", "cannot parse json"},
        {200, "{\"access_token\":5.5}", "cannot parse json"},
        {200, "{\"access_token\":\"s3cret\",\"expires_in\":\"soon\"}", "expires_in"},
        {200, "{\"access_token\":\"s3cret\",\"error\":\"bad_client\"}", "oauth2: \"bad_client\""},
        {401, "s3cret", "oauth2: cannot fetch token: 401 Unauthorized"},
        {500, "{\"error\":\"a\\nb\"}", "oauth2: cannot fetch token: 500 Internal Server Error"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        char *none = NULL;
        GS_AUTO_ERROR struct gs_error *err =
            read_answer(cases[i].status, "application/json", cases[i].body, &none);
        assert_non_null(err);
        assert_non_null(strstr(gs_error_message(err), cases[i].want));
        assert_null(strstr(gs_error_message(err), "s3cret"));
    }
    (void)state;
}

static void test_parameters_replace_only_the_grant_type(void **state)
{
    struct http_header params[] = {{"grant_type", "own"}, {"client_id", "other"}};
    static const char *const scopes[] = {"s"};
    struct endpoint_oauth2 cfg = {.client_id = "c", .params = params, .n_params = 2};
    GS_AUTO_BUF struct gs_buf body = {0};
    assert_ok(endpoint_token_request_body(&cfg, "", ENDPOINT_TOKEN_IN_BODY, &body));
    assert_string_equal(body.data, "client_id=c&grant_type=own");
    cfg.scopes = scopes;
    cfg.n_scopes = 1;
    params[0].name = "scope";
    assert_error(endpoint_token_request_body(&cfg, "", ENDPOINT_TOKEN_IN_BODY, &body), GS_EINVAL,
                 "cannot overwrite parameter \"scope\"");
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_token_is_fetched_once_and_goes_with_each_request),
        cmocka_unit_test(test_bodies_of_requests_that_wait_are_kept),
        cmocka_unit_test(test_tokens_that_end_are_fetched_anew),
        cmocka_unit_test(test_the_secret_goes_where_the_server_wants_it),
        cmocka_unit_test(test_a_changed_secret_is_used_at_once),
        cmocka_unit_test(test_failures_are_told_to_all_that_wait),
        cmocka_unit_test(test_requests_that_wait_can_be_cancelled),
        cmocka_unit_test(test_a_client_can_go_while_requests_wait),
        cmocka_unit_test(test_answers_are_json_or_forms),
        cmocka_unit_test(test_wrong_answers_tell_nothing_of_their_contents),
        cmocka_unit_test(test_parameters_replace_only_the_grant_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
