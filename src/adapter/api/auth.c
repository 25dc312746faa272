// SPDX-License-Identifier: Apache-2.0
#include "adapter/api/auth.h"

#include "adapter/api/ca_set.h"
#include "adapter/api/reviews.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/cache.h"
#include "kube/names.h"
#include "kube/status.h"

#include <ctype.h>
#include <strings.h>

enum { MAX_NAMES = 64, MAX_GROUPS = 1000, MAX_VERDICTS = 1024 };
#define VERDICT_NS (60 * GS_NS_PER_SEC)
#define MAX_PEM    ((size_t)4 * 1024 * 1024)
#define MAP_NS     "kube-system"
#define MAP_NAME   "extension-apiserver-authentication"

struct names {
    char *items[MAX_NAMES];
    size_t n;
};

// What the front proxy is recognised by.
struct front_proxy {
    struct ca_set *ca;
    struct names user_headers, group_headers, extra_prefixes, allowed;
};

// What is known of a chain of certificates.
struct verdict {
    char *name, **groups;
    bool by_proxy_ca, by_client_ca; // verified by
    int64_t until_ns;               // certificates end
};
static void verdict_free(void *value);

struct auth {
    struct gs_hmap *verdicts;
    uv_loop_t *loop;
    struct auth_options o;
    struct front_proxy proxy;
    struct ca_set *client_ca;
    bool own_proxy, own_client_ca; // from flags: the ConfigMap does not change them
    struct reviews *tokens, *access;
    struct kube_cache *map;
    struct kube_request *first;
    void (*on_ready)(void *arg, struct gs_error *err);
    void *ready_arg;
    struct auth_stats stats;
};

// Who asks.
struct user {
    char *name, *uid;
    json_t *groups, *extra;
};

struct auth_op {
    struct auth *a;
    struct http_exchange *x;
    struct user user;
    // Copies: the path's owner may go first.
    bool is_resource;
    char *verb, *group, *version, *ns, *resource, *name, *subresource, *path;
    struct reviews_op *review;
    auth_fn cb;
    void *arg;
    bool inside, done;
};

static void names_finish(struct names *n)
{
    for (size_t i = 0; i < n->n; i++)
        free(n->items[i]);
    n->n = 0;
}

static void names_set(struct names *n, const char *const *items, size_t len)
{
    names_finish(n);
    for (size_t i = 0; i < len && n->n < MAX_NAMES; i++)
        n->items[n->n++] = gs_strdup(items[i]);
}

static void proxy_finish(struct front_proxy *p)
{
    ca_set_free(p->ca);
    names_finish(&p->user_headers);
    names_finish(&p->group_headers);
    names_finish(&p->extra_prefixes);
    names_finish(&p->allowed);
    *p = (struct front_proxy){0};
}

// --- the ConfigMap ---

static void read_names(const json_t *map, const char *key, struct names *ret)
{
    const char *text = gs_json_str(map, "data", key, NULL);
    GS_AUTO_JSON json_t *list = NULL;
    size_t i;
    json_t *item;
    names_finish(ret);
    gs_error_free(text ? gs_json_parse(gs_slice_of(text), true, &list) : NULL);
    json_array_foreach (list, i, item)
        if (json_is_string(item) && ret->n < MAX_NAMES)
            ret->items[ret->n++] = gs_strdup(json_string_value(item));
}

static struct ca_set *read_ca(const json_t *map, const char *key)
{
    const char *pem = gs_json_str(map, "data", key, NULL);
    struct ca_set *set = NULL;
    struct gs_error *err = pem ? ca_set_new(pem, &set) : NULL;
    if (err)
        gs_warn("adapter", MAP_NS "/" MAP_NAME ", %s: %s", key, gs_error_message(err));
    gs_error_free(err);
    return set;
}

static void take_map(struct auth *a, const json_t *map)
{
    gs_hmap_clear(a->verdicts);
    if (!a->own_client_ca) {
        ca_set_free(a->client_ca);
        a->client_ca = map ? read_ca(map, "client-ca-file") : NULL;
    }
    if (a->own_proxy)
        return;
    proxy_finish(&a->proxy);
    if (!map)
        return;
    a->proxy.ca = read_ca(map, "requestheader-client-ca-file");
    read_names(map, "requestheader-username-headers", &a->proxy.user_headers);
    read_names(map, "requestheader-group-headers", &a->proxy.group_headers);
    read_names(map, "requestheader-extra-headers-prefix", &a->proxy.extra_prefixes);
    read_names(map, "requestheader-allowed-names", &a->proxy.allowed);
    gs_info("adapter", "front proxy of " MAP_NS "/" MAP_NAME ": %s",
            a->proxy.ca ? "its CA is known" : "it names no CA, so nobody is believed");
}

static void on_map_change(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    const json_t *obj = new_obj ? new_obj : old_obj;
    if (gs_streq(gs_json_str(obj, "metadata", "name", NULL), MAP_NAME))
        take_map(arg, new_obj);
}

static void ready(struct auth *a, struct gs_error *err)
{
    a->on_ready(a->ready_arg, err);
}

static void on_first_map(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct auth *a = arg;
    a->first = NULL;
    if (!err)
        take_map(a, body);
    if (err && status != 404 && !a->o.tolerate_lookup_failure) {
        ready(a, gs_error_wrap(err,
                               "reading the ConfigMap " MAP_NS "/" MAP_NAME
                               " (bind the role extension-apiserver-authentication-reader, or pass "
                               "--authentication-tolerate-lookup-failure)"));
        return;
    }
    if (err)
        gs_warn("adapter", "the ConfigMap " MAP_NS "/" MAP_NAME " cannot be read: %s",
                gs_error_message(err));
    gs_error_free(err);
    struct kube_cache_handlers h = {.on_change = on_map_change, .arg = a};
    a->map = kube_cache_new(a->loop, a->o.authn, KUBE_CONFIGMAPS, MAP_NS,
                            "fieldSelector=metadata.name%3D" MAP_NAME);
    kube_cache_add_handlers(a->map, &h);
    kube_cache_start(a->map);
    ready(a, NULL);
}

// --- set-up ---

static bool token_is_good(const json_t *status)
{
    return gs_json_bool(status, false, "authenticated", NULL);
}

static bool access_is_good(const json_t *status)
{
    return gs_json_bool(status, false, "allowed", NULL);
}

static struct gs_error *load_ca(const char *path, struct ca_set **ret)
{
    GS_AUTO_BUF struct gs_buf pem = {0};
    struct gs_error *err = gs_file_read(path, MAX_PEM, &pem);
    if (!err)
        err = ca_set_new(pem.data ? pem.data : "", ret);
    return err ? gs_error_wrap(err, "%s", path) : NULL;
}

static struct gs_error *take_flags(struct auth *a)
{
    const struct auth_options *o = &a->o;
    struct gs_error *err = NULL;
    if (o->client_ca_file) {
        a->own_client_ca = true;
        err = load_ca(o->client_ca_file, &a->client_ca);
    }
    if (err || !o->requestheader_ca_file)
        return err;
    a->own_proxy = true;
    names_set(&a->proxy.user_headers, o->username_headers, o->n_username_headers);
    names_set(&a->proxy.group_headers, o->group_headers, o->n_group_headers);
    names_set(&a->proxy.extra_prefixes, o->extra_prefixes, o->n_extra_prefixes);
    names_set(&a->proxy.allowed, o->allowed_names, o->n_allowed_names);
    return load_ca(o->requestheader_ca_file, &a->proxy.ca);
}

struct gs_error *auth_new(uv_loop_t *loop, const struct auth_options *o,
                          void (*on_ready)(void *arg, struct gs_error *err), void *arg,
                          struct auth **ret)
{
    struct auth *a = gs_alloc(sizeof(*a));
    a->loop = loop;
    a->o = *o;
    a->verdicts = gs_hmap_new(verdict_free);
    a->on_ready = on_ready;
    a->ready_arg = arg;
    struct gs_error *err = take_flags(a);
    if (err) {
        auth_free(a);
        return err;
    }
    if (o->authn) {
        const struct reviews_options tokens = {
            .kube = o->authn,
            .gvr = {"authentication.k8s.io", "v1", "tokenreviews"},
            .kind = "TokenReview",
            .good_ttl_ms = o->token_ttl_ms,
            .bad_ttl_ms = o->token_ttl_ms,
            .is_good = token_is_good,
        };
        a->tokens = reviews_new(loop, &tokens);
    }
    if (o->authz) {
        const struct reviews_options access = {
            .kube = o->authz,
            .gvr = {"authorization.k8s.io", "v1", "subjectaccessreviews"},
            .kind = "SubjectAccessReview",
            .good_ttl_ms = o->allowed_ttl_ms,
            .bad_ttl_ms = o->denied_ttl_ms,
            .is_good = access_is_good,
        };
        a->access = reviews_new(loop, &access);
    }
    *ret = a;
    if (o->authn && !o->skip_lookup && !o->off)
        a->first = kube_get(o->authn, KUBE_CONFIGMAPS, MAP_NS, MAP_NAME, NULL, on_first_map, a);
    else
        ready(a, NULL);
    return NULL;
}

void auth_free(struct auth *a)
{
    if (!a)
        return;
    kube_request_cancel(a->first);
    if (a->map)
        kube_cache_free(a->map);
    reviews_free(a->tokens);
    reviews_free(a->access);
    ca_set_free(a->client_ca);
    proxy_finish(&a->proxy);
    gs_hmap_free(a->verdicts);
    free(a);
}

// --- ends of a check ---

static void op_free(struct auth_op *op)
{
    reviews_cancel(op->review);
    free(op->user.name);
    free(op->user.uid);
    json_decref(op->user.groups);
    json_decref(op->user.extra);
    char *texts[] = {op->verb,     op->group, op->version,     op->ns,
                     op->resource, op->name,  op->subresource, op->path};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++)
        free(texts[i]);
    free(op);
}

static void finish(struct auth_op *op, bool allowed)
{
    op->done = true;
    op->cb(op->arg, allowed);
    if (!op->inside)
        op_free(op);
}

static void refuse_401(struct auth_op *op)
{
    op->a->stats.unauthenticated++;
    kube_reply_failure(op->x, 401, "Unauthorized", "Unauthorized");
    finish(op, false);
}

static void refuse_500(struct auth_op *op, struct gs_error *err)
{
    gs_warn("adapter", "%s: %s", op->path, gs_error_message(err));
    http_reply_text(op->x, 500, "Internal Server Error: \"%s\": %s\n", op->path,
                    gs_error_message(err));
    gs_error_free(err);
    finish(op, false);
}

static void refuse_403(struct auth_op *op, const char *reason)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    op->a->stats.forbidden++;
    json_t *details = json_object();
    if (op->is_resource) {
        gs_buf_addf(&text, "%s%s%s", op->resource, op->group ? "." : "",
                    op->group ? op->group : "");
        if (op->name) {
            gs_buf_add_char(&text, ' ');
            kube_quote(gs_slice_of(op->name), &text);
        }
        gs_buf_add_str(&text, " is forbidden: User ");
        kube_quote(gs_slice_of(op->user.name), &text);
        gs_buf_addf(&text, " cannot %s resource \"%s%s%s\" in API group \"%s\" %s", op->verb,
                    op->resource, op->subresource ? "/" : "",
                    op->subresource ? op->subresource : "", op->group ? op->group : "",
                    op->ns ? "in the namespace " : "at the cluster scope");
        if (op->ns)
            kube_quote(gs_slice_of(op->ns), &text);
        gs_json_set_str(details, "name", op->name);
        gs_json_set_str(details, "group", op->group);
        gs_json_set_str(details, "kind", op->resource);
    } else {
        gs_buf_add_str(&text, "forbidden: User ");
        kube_quote(gs_slice_of(op->user.name), &text);
        gs_buf_addf(&text, " cannot %s path ", op->verb);
        kube_quote(gs_slice_of(op->path), &text);
    }
    if (reason && *reason)
        gs_buf_addf(&text, ": %s", reason);
    http_add_header(op->x, "X-Content-Type-Options", "nosniff");
    kube_reply_status(op->x, kube_status_failure(403, "Forbidden", text.data, details));
    finish(op, false);
}

// --- may they? ---

static bool in_group(const json_t *groups, const char *name)
{
    size_t i;
    json_t *g;
    json_array_foreach ((json_t *)(uintptr_t)groups, i, g)
        if (gs_streq(json_string_value(g), name))
            return true;
    return false;
}

static bool always_allowed(const struct auth_op *op)
{
    const struct auth_options *o = &op->a->o;
    for (size_t i = 0; i < o->n_always_allow_paths && !op->is_resource; i++) {
        const char *p = o->always_allow_paths[i];
        size_t n = strlen(p);
        bool prefix = n && p[n - 1] == '*';
        if (prefix ? strncmp(op->path, p, n - 1) == 0 : strcmp(op->path, p) == 0)
            return true;
    }
    return false;
}

static json_t *access_spec(const struct auth_op *op)
{
    json_t *spec = json_object();
    if (op->is_resource) {
        json_t *r = json_object();
        gs_json_set_str(r, "namespace", op->ns);
        gs_json_set_str(r, "verb", op->verb);
        gs_json_set_str(r, "group", op->group);
        gs_json_set_str(r, "version", op->version);
        gs_json_set_str(r, "resource", op->resource);
        gs_json_set_str(r, "subresource", op->subresource);
        gs_json_set_str(r, "name", op->name);
        json_object_set_new(spec, "resourceAttributes", r);
    } else {
        json_object_set_new(spec, "nonResourceAttributes",
                            json_pack("{s:s, s:s}", "path", op->path, "verb", op->verb));
    }
    gs_json_set_str(spec, "user", op->user.name);
    json_object_set(spec, "groups", op->user.groups);
    if (json_object_size(op->user.extra))
        json_object_set(spec, "extra", op->user.extra);
    gs_json_set_str(spec, "uid", op->user.uid);
    return spec;
}

static void on_access(void *arg, const json_t *status, struct gs_error *err)
{
    struct auth_op *op = arg;
    op->review = NULL;
    if (err) {
        op->a->stats.access_review_failures++;
        refuse_500(op, err);
    } else if (gs_json_bool(status, false, "allowed", NULL)) {
        finish(op, true);
    } else {
        refuse_403(op, gs_json_str(status, "reason", NULL));
    }
}

static void authorize(struct auth_op *op)
{
    struct auth *a = op->a;
    if (a->o.off || in_group(op->user.groups, "system:masters") || always_allowed(op)) {
        finish(op, true);
        return;
    }
    if (!a->access) {
        refuse_403(op, "there is no cluster that could be asked for permission");
        return;
    }
    // Answered from inside, op may be gone.
    struct reviews_op *review = reviews_ask(a->access, access_spec(op), on_access, op);
    if (review)
        op->review = review;
}

// --- who? ---

static void add_group(struct user *u, const char *group)
{
    if (json_array_size(u->groups) < MAX_GROUPS && !in_group(u->groups, group))
        json_array_append_new(u->groups, json_string(group));
}

static const char *first_header(const struct http_exchange *x, const struct names *names)
{
    for (size_t i = 0; i < names->n; i++) {
        const char *v = http_header(x, names->items[i]);
        if (v && *v)
            return v;
    }
    return NULL;
}

static bool is_one_of(const struct names *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcasecmp(names->items[i], name) == 0)
            return true;
    return false;
}

static void add_extra(struct user *u, const char *raw_key, const char *value)
{
    char *key = NULL;
    GS_AUTO_FREE char *lower = gs_strdup(raw_key);
    for (char *p = lower; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    gs_error_free(http_decode_segment(gs_slice_of(lower), &key));
    if (!key)
        return;
    json_t *list = json_object_get(u->extra, key);
    if (!list) {
        list = json_array();
        json_object_set_new(u->extra, key, list);
    }
    json_array_append_new(list, json_string(value));
    free(key);
}

static void verdict_free(void *value)
{
    struct verdict *v = value;
    free(v->name);
    ca_groups_free(v->groups);
    free(v);
}

static struct verdict *judge(const struct auth *a, const struct gs_slice *chain, size_t n)
{
    struct verdict *v = gs_alloc(sizeof(*v));
    v->until_ns = gs_mono_ns() + VERDICT_NS;
    if (!ca_read_subject(chain[0], &v->name, &v->groups))
        return v;
    v->by_proxy_ca = a->proxy.ca && ca_set_verify(a->proxy.ca, chain, n);
    v->by_client_ca = a->client_ca && ca_set_verify(a->client_ca, chain, n);
    return v;
}

// Verifying takes longer than all the rest, and a connection shows the same certificates with each
// request. The key is all their bytes.
static const struct verdict *verdict_of(struct auth *a, const struct gs_slice *chain, size_t n)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    for (size_t i = 0; i < n; i++) {
        gs_buf_add_u64(&key, chain[i].len);
        gs_buf_add_char(&key, ':');
        gs_buf_add_slice(&key, chain[i]);
    }
    struct verdict *v = gs_hmap_get(a->verdicts, gs_buf_slice(&key));
    if (v && v->until_ns > gs_mono_ns())
        return v;
    if (gs_hmap_len(a->verdicts) >= MAX_VERDICTS)
        gs_hmap_clear(a->verdicts);
    v = judge(a, chain, n);
    gs_hmap_put(a->verdicts, gs_buf_slice(&key), v);
    return v;
}

// The front proxy speaks for somebody.
static bool by_front_proxy(struct auth_op *op, const struct verdict *v)
{
    const struct front_proxy *p = &op->a->proxy;
    if (!v->by_proxy_ca)
        return false;
    bool allowed = p->allowed.n == 0;
    for (size_t i = 0; i < p->allowed.n; i++)
        allowed = allowed || strcmp(p->allowed.items[i], v->name) == 0;
    const char *user = first_header(op->x, &p->user_headers);
    if (!allowed || !user)
        return false;
    op->user.name = gs_strdup(user);
    const char *name, *value;
    for (size_t i = 0; (value = http_header_nth(op->x, i, &name)); i++) {
        if (is_one_of(&p->group_headers, name))
            add_group(&op->user, value);
        if (strcasecmp(name, "X-Remote-Uid") == 0 && !op->user.uid)
            op->user.uid = gs_strdup(value);
        for (size_t k = 0; k < p->extra_prefixes.n; k++) {
            size_t len = strlen(p->extra_prefixes.items[k]);
            if (strncasecmp(name, p->extra_prefixes.items[k], len) == 0)
                add_extra(&op->user, name + len, value);
        }
    }
    return true;
}

static bool by_certificate(struct auth_op *op, const struct verdict *v)
{
    if (!v->by_client_ca)
        return false;
    op->user.name = gs_strdup(v->name);
    for (size_t i = 0; v->groups[i]; i++)
        add_group(&op->user, v->groups[i]);
    return true;
}

static void authenticated(struct auth_op *op)
{
    add_group(&op->user, "system:authenticated");
    authorize(op);
}

static void on_token(void *arg, const json_t *status, struct gs_error *err)
{
    struct auth_op *op = arg;
    size_t i;
    json_t *g;
    op->review = NULL;
    const char *user = gs_json_str(status, "user", "username", NULL);
    if (err) {
        gs_warn("adapter", "TokenReview: %s", gs_error_message(err));
        gs_error_free(err);
        op->a->stats.token_review_failures++;
        refuse_401(op);
        return;
    }
    if (!gs_json_bool(status, false, "authenticated", NULL) || !user) {
        refuse_401(op);
        return;
    }
    op->user.name = gs_strdup(user);
    op->user.uid = gs_strdup(gs_json_str(status, "user", "uid", NULL));
    json_array_foreach (gs_json_get(status, "user", "groups", NULL), i, g)
        if (json_is_string(g))
            add_group(&op->user, json_string_value(g));
    const json_t *extra = gs_json_get(status, "user", "extra", NULL);
    if (json_is_object(extra))
        json_object_update(op->user.extra, (json_t *)(uintptr_t)extra);
    authenticated(op);
}

static void anonymous(struct auth_op *op)
{
    op->user.name = gs_strdup("system:anonymous");
    add_group(&op->user, "system:unauthenticated");
    authorize(op);
}

static void authenticate(struct auth_op *op)
{
    size_t n = 0;
    const struct gs_slice *chain = http_peer_chain(op->x, &n);
    const struct http_identity *carrier = http_identity(op->x);
    if (carrier->user) { // the in-process loopback: who it is was found out before
        op->user.name = gs_strdup(carrier->user);
        for (size_t i = 0; i < carrier->n_groups; i++)
            add_group(&op->user, carrier->groups[i]);
        authenticated(op);
        return;
    }
    const struct verdict *v = n ? verdict_of(op->a, chain, n) : NULL;
    if (v && (by_front_proxy(op, v) || by_certificate(op, v))) {
        authenticated(op);
        return;
    }
    const char *header = http_header(op->x, "Authorization");
    if (header && strncasecmp(header, "Bearer ", 7) == 0 && header[7]) {
        if (!op->a->tokens) {
            refuse_401(op);
            return;
        }
        op->review =
            reviews_ask(op->a->tokens, json_pack("{s:s}", "token", header + 7), on_token, op);
        return;
    }
    // A certificate of a CA that nobody knows is an error, not nobody.
    if (n && (op->a->proxy.ca || op->a->client_ca))
        refuse_401(op);
    else
        anonymous(op);
}

static const char *verb_of(const struct http_exchange *x, const struct api_path *p)
{
    static const struct {
        const char *method, *verb;
    } verbs[] = {{"POST", "create"}, {"PUT", "update"}, {"PATCH", "patch"}};
    const char *watch = http_query(x, "watch");
    for (size_t i = 0; i < GS_ARRAY_LEN(verbs); i++)
        if (gs_streq(http_method(x), verbs[i].method))
            return p->resource ? verbs[i].verb : NULL;
    if (gs_streq(http_method(x), "DELETE"))
        return !p->resource ? NULL : p->name ? "delete" : "deletecollection";
    if (!p->resource || p->name)
        return "get";
    return watch && !gs_streq(watch, "false") && !gs_streq(watch, "0") ? "watch" : "list";
}

static char *lower_method(const struct http_exchange *x)
{
    char *text = gs_strdup(http_method(x));
    for (char *p = text; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return text;
}

struct auth_op *auth_check(struct auth *a, struct http_exchange *x, const struct api_path *path,
                           auth_fn cb, void *arg)
{
    struct auth_op *op = gs_alloc(sizeof(*op));
    const char *verb = verb_of(x, path);
    op->a = a;
    op->x = x;
    op->user.groups = json_array();
    op->user.extra = json_object();
    op->is_resource = path->resource != NULL;
    op->verb = verb ? gs_strdup(verb) : lower_method(x);
    op->path = gs_strdup(http_path(x));
    op->group = gs_strdup(path->group);
    op->version = gs_strdup(path->version);
    op->ns = gs_strdup(path->ns);
    op->resource = gs_strdup(path->resource);
    op->name = gs_strdup(path->name);
    op->subresource = gs_strdup(path->subresource);
    op->cb = cb;
    op->arg = arg;
    op->inside = true;
    authenticate(op);
    op->inside = false;
    if (!op->done)
        return op;
    op_free(op);
    return NULL;
}

void auth_cancel(struct auth_op *op)
{
    if (op)
        op_free(op);
}

void auth_stats(const struct auth *a, struct auth_stats *ret)
{
    struct reviews_stats s = {0};
    *ret = a->stats;
    if (a->tokens) {
        reviews_stats(a->tokens, &s);
        ret->token_reviews = s.asked;
    }
    if (a->access) {
        reviews_stats(a->access, &s);
        ret->access_reviews = s.asked;
    }
}
