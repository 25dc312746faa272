// SPDX-License-Identifier: Apache-2.0
// The messages of the token endpoint: the request as a form with sorted names, the response as
// JSON or a form. Error texts never contain a part of the response that could be a token.
#include "net/endpoint/endpoint_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/slice.h"
#include "codec/encoding.h"
#include "codec/json.h"

#include <stdlib.h>

#define MAX_TOKEN    ((size_t)64 << 10)
#define MAX_CODE     100 // of the server's error code, for people
#define MAX_LIFETIME INT32_MAX

void endpoint_token_finish(struct endpoint_token *t)
{
    free(t->authorization);
    *t = (struct endpoint_token){0};
}

// --- requests ---

struct pair {
    const char *name, *value;
};

static int compare_pairs(const void *a, const void *b)
{
    return strcmp(((const struct pair *)a)->name, ((const struct pair *)b)->name);
}

static void encode_form(const char *text, struct gs_buf *out)
{
    struct gs_slice rest = gs_slice_of(text);
    while (rest.data) {
        http_encode(gs_slice_cut(&rest, ' '), out);
        if (rest.data)
            gs_buf_add_char(out, '+');
    }
}

static void join_scopes(const char *const *texts, size_t n, struct gs_buf *out)
{
    for (size_t i = 0; i < n; i++)
        gs_buf_addf(out, "%s%s", i ? " " : "", texts[i]);
}

static struct gs_error *add_extra_params(const struct endpoint_oauth2 *cfg, struct pair *pairs,
                                         size_t *n)
{
    size_t n_own = *n;
    for (size_t i = 0; i < cfg->n_params; i++) {
        const struct http_header *p = &cfg->params[i];
        size_t k = 0;
        while (k < n_own && !gs_streq(pairs[k].name, p->name))
            k++;
        // Some servers require another grant type. No other parameter of the grant may be replaced.
        if (k < n_own && !gs_streq(p->name, "grant_type"))
            return gs_error_new(GS_EINVAL, "oauth2: cannot overwrite parameter \"%s\"", p->name);
        pairs[k < n_own ? k : (*n)++] = (struct pair){p->name, p->value};
    }
    return NULL;
}

// As in Go, the client's name and secret replace parameters of the same name.
static void set_pair(struct pair *pairs, size_t *n, const char *name, const char *value)
{
    size_t k = 0;
    while (k < *n && !gs_streq(pairs[k].name, name))
        k++;
    pairs[k] = (struct pair){name, value};
    *n += k == *n;
}

struct gs_error *endpoint_token_request_body(const struct endpoint_oauth2 *cfg, const char *secret,
                                             enum endpoint_token_style style, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf scope = {0};
    GS_AUTO_FREE struct pair *pairs = gs_alloc_array(cfg->n_params + 4, sizeof(*pairs));
    size_t n = 0;
    pairs[n++] = (struct pair){"grant_type", "client_credentials"};
    join_scopes(cfg->scopes, cfg->n_scopes, &scope);
    if (cfg->n_scopes)
        pairs[n++] = (struct pair){"scope", scope.data ? scope.data : ""};
    struct gs_error *err = add_extra_params(cfg, pairs, &n);
    if (err)
        return err;
    if (style == ENDPOINT_TOKEN_IN_BODY) {
        set_pair(pairs, &n, "client_id", cfg->client_id);
        if (*secret)
            set_pair(pairs, &n, "client_secret", secret);
    }
    qsort(pairs, n, sizeof(*pairs), compare_pairs);
    for (size_t i = 0; i < n; i++) {
        if (i)
            gs_buf_add_char(out, '&');
        encode_form(pairs[i].name, out);
        gs_buf_add_char(out, '=');
        encode_form(pairs[i].value, out);
    }
    return NULL;
}

void endpoint_token_request_header(const struct endpoint_oauth2 *cfg, const char *secret,
                                   struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf plain = {0};
    encode_form(cfg->client_id, &plain);
    gs_buf_add_char(&plain, ':');
    encode_form(secret, &plain);
    gs_buf_add_str(out, "Basic ");
    codec_base64_encode(gs_buf_slice(&plain), out);
}

// --- answers ---

// The contents of a response in any of its forms. Values may be NULL.
struct said {
    char *token, *type, *error, *lifetime;
};

static void said_finish(struct said *s)
{
    free(s->token);
    free(s->type);
    free(s->error);
    free(s->lifetime);
}

static char **slot_of(struct said *s, struct gs_slice name)
{
    if (gs_slice_eq_str(name, "access_token"))
        return &s->token;
    if (gs_slice_eq_str(name, "token_type"))
        return &s->type;
    if (gs_slice_eq_str(name, "expires_in"))
        return &s->lifetime;
    return gs_slice_eq_str(name, "error") ? &s->error : NULL;
}

static struct gs_error *read_form(struct gs_slice body, struct said *ret)
{
    while (body.data) {
        struct gs_slice value = gs_slice_cut(&body, '&'), name = gs_slice_cut(&value, '=');
        char **slot = slot_of(ret, name);
        if (!slot || *slot || !value.data)
            continue;
        struct gs_error *err = http_decode_value(value, slot);
        if (err)
            return gs_error_wrap(err, "oauth2: cannot parse response");
    }
    return NULL;
}

static char *json_text(const json_t *j)
{
    if (json_is_integer(j))
        return gs_format("%lld", (long long)json_integer_value(j));
    return gs_strdup(json_string_value(j)); // NULL if the value is not a text
}

static struct gs_error *read_json(struct gs_slice body, struct said *ret)
{
    static const char *const names[] = {"access_token", "token_type", "expires_in", "error"};
    CODEC_AUTO_JSON json_t *doc = NULL;
    struct gs_error *err = codec_json_parse(body, false, &doc);
    if (err) { // the error text could contain a part of a token
        gs_error_free(err);
        return gs_error_new(GS_EPROTO, "oauth2: cannot parse json");
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        const json_t *value = json_object_get(doc, names[i]);
        char **slot = slot_of(ret, gs_slice_of(names[i]));
        *slot = json_text(value);
        if (value && !json_is_null(value) && !*slot)
            return gs_error_new(GS_EPROTO, "oauth2: cannot parse json: %s", names[i]);
    }
    return NULL;
}

static bool is_form(const char *content_type)
{
    struct gs_slice rest = gs_slice_of(content_type);
    struct gs_slice type = gs_slice_trim(gs_slice_cut(&rest, ';'));
    return gs_slice_is_word(type, "application/x-www-form-urlencoded") ||
           gs_slice_is_word(type, "text/plain");
}

static struct gs_error *refusal_error(const struct http_response *response, const struct said *s)
{
    if (s->error && *s->error && strlen(s->error) <= MAX_CODE && !gs_has_control(s->error))
        return gs_error_new(GS_EPERM, "oauth2: \"%s\"", s->error);
    return gs_error_new(GS_EPERM, "oauth2: cannot fetch token: %d %s", response->status,
                        http_reason(response->status));
}

static const char *type_of(const char *type)
{
    struct gs_slice t = gs_slice_of(type);
    if (!t.len || gs_slice_is_word(t, "bearer"))
        return "Bearer";
    if (gs_slice_is_word(t, "mac"))
        return "MAC";
    return gs_slice_is_word(t, "basic") ? "Basic" : type;
}

static struct gs_error *take_token(const struct said *s, struct endpoint_token *ret)
{
    int64_t lifetime = 0;
    if (!s->token || !*s->token)
        return gs_error_new(GS_EPROTO, "oauth2: server response missing access_token");
    const char *type = type_of(s->type);
    if (strlen(s->token) + strlen(type) > MAX_TOKEN || gs_has_control(s->token) ||
        gs_has_control(type))
        return gs_error_new(GS_EPROTO, "oauth2: the token is too long or has several lines");
    if (s->lifetime && *s->lifetime) {
        struct gs_error *err =
            gs_parse_i64(gs_slice_of(s->lifetime), INT64_MIN, INT64_MAX, &lifetime);
        gs_error_free(err);
        if (err)
            return gs_error_new(GS_EPROTO, "oauth2: expires_in is not a whole number");
    }
    ret->authorization = gs_format("%s %s", type, s->token);
    ret->expires = lifetime != 0;
    ret->lifetime_s = lifetime > MAX_LIFETIME ? MAX_LIFETIME : lifetime < 0 ? 0 : lifetime;
    return NULL;
}

struct gs_error *endpoint_token_read_answer(const struct http_response *response,
                                            struct endpoint_token *ret)
{
    struct said s = {0};
    bool failed = response->status < 200 || response->status > 299;
    struct gs_error *err = is_form(response->content_type) ? read_form(response->body, &s)
                                                           : read_json(response->body, &s);
    if (failed || (!err && s.error && *s.error)) {
        gs_error_free(err);
        err = refusal_error(response, &s);
    }
    if (!err)
        err = take_token(&s, ret);
    said_finish(&s);
    return err;
}
