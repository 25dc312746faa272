// SPDX-License-Identifier: Apache-2.0
// Web configuration in the format of Prometheus' exporter-toolkit: TLS, headers, users with bcrypt
// hashes. libcrypt is loaded only if there are users. A check of a password takes about a tenth of
// a second on the loop, so valid credentials are cached and wrong ones limited per second.
#include "net/web_config/web_config.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "codec/yaml.h"
#include "net/tls/tls.h"

#include <crypt.h>
#include <dlfcn.h>
#include <strings.h>

enum {
    MAX_KNOWN = 64,    // cached valid credentials: a check takes a tenth of a second
    MAX_FAILURES = 10, // checks of wrong credentials per second
};

typedef char *(*crypt_r_fn)(const char *phrase, const char *setting, struct crypt_data *data);

struct web_config {
    char *cert, *key, *client_ca;
    char *cert_file, *key_file;
    bool require_client;
    json_t *users;   // name to bcrypt hash; NULL: no authentication
    json_t *headers; // added to replies; may be NULL
    crypt_r_fn crypt;
    struct crypt_data *crypt_data;
    char *known[MAX_KNOWN];
    size_t n_known, next_known;
    int64_t failures_since_ns;
    int failures;
    http_handler next;
    void *ctx;
};

// --- load ---

static struct gs_error *check_known_keys(const json_t *obj, const char *const *keys,
                                         const char *where)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)obj, key, value) {
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], key) != 0)
            i++;
        if (!keys[i])
            return gs_error_new(GS_EINVAL, "%s: unknown or unsupported key \"%s\"", where, key);
    }
    return NULL;
}

// Reads the text of KEY, or the content of the file named by KEY_file, relative to the web
// configuration's directory.
static struct gs_error *read_pem_or_text(const json_t *tls, const char *path, const char *key,
                                         char **ret, char **ret_file)
{
    GS_AUTO_FREE char *file_key = gs_format("%s_file", key);
    const char *text = codec_json_str(tls, key, NULL), *file = codec_json_str(tls, file_key, NULL);
    if (text && file)
        return gs_error_new(GS_EINVAL, "tls_server_config: %s and %s are both set", key, file_key);
    if (text)
        *ret = gs_strdup(text);
    if (!file || !*file)
        return NULL;
    const char *slash = strrchr(path, '/');
    GS_AUTO_FREE char *full = *file == '/' || !slash
                                  ? gs_strdup(file)
                                  : gs_format("%.*s/%s", (int)(slash - path), path, file);
    struct gs_error *err = tls_read_pem(full, ret);
    if (err)
        return gs_error_wrap(err, "tls_server_config: %s", file_key);
    if (ret_file)
        *ret_file = GS_TAKE(full);
    return NULL;
}

static struct gs_error *read_client_auth(const json_t *tls, struct web_config *w)
{
    const char *type = codec_json_str(tls, "client_auth_type", NULL);
    bool none = !type || !*type || gs_streq(type, "NoClientCert");
    w->require_client = type && gs_streq(type, "RequireAndVerifyClientCert");
    if (!none && !w->require_client && !gs_streq(type, "VerifyClientCertIfGiven"))
        return gs_error_new(GS_EINVAL,
                            "tls_server_config: client_auth_type \"%s\": want NoClientCert, "
                            "VerifyClientCertIfGiven or RequireAndVerifyClientCert",
                            type);
    if (none && w->client_ca)
        return gs_error_new(GS_EINVAL, "tls_server_config: a client CA requires client_auth_type");
    if (!none && !w->client_ca)
        return gs_error_new(GS_EINVAL, "tls_server_config: client_auth_type requires a client CA");
    return NULL;
}

static struct gs_error *read_tls(const json_t *tls, const char *path, struct web_config *w)
{
    static const char *const keys[] = {
        "cert",           "cert_file",        "key",         "key_file",    "client_ca",
        "client_ca_file", "client_auth_type", "min_version", "max_version", NULL};
    struct gs_error *err = check_known_keys(tls, keys, "tls_server_config");
    const char *min = codec_json_str(tls, "min_version", NULL);
    const char *max = codec_json_str(tls, "max_version", NULL);
    if (!err && ((min && !gs_streq(min, "TLS12")) || (max && !gs_streq(max, "TLS13"))))
        err = gs_error_new(GS_EINVAL, "tls_server_config: min_version and max_version cannot be "
                                      "changed: TLS 1.2 and 1.3 are used");
    if (!err)
        err = read_pem_or_text(tls, path, "cert", &w->cert, &w->cert_file);
    if (!err)
        err = read_pem_or_text(tls, path, "key", &w->key, &w->key_file);
    if (!err)
        err = read_pem_or_text(tls, path, "client_ca", &w->client_ca, NULL);
    if (!err && (!w->cert || !w->key))
        err = gs_error_new(GS_EINVAL, "tls_server_config: a certificate and its key are required");
    return err ? err : read_client_auth(tls, w);
}

static struct gs_error *load_crypt(struct web_config *w)
{
    void *lib = dlopen("libcrypt.so.1", RTLD_NOW | RTLD_LOCAL);
    void *fn = lib ? dlsym(lib, "crypt_r") : NULL;
    if (!fn)
        return gs_error_new(GS_ENOTSUP, "basic_auth_users: libcrypt is not installed (%s)",
                            dlerror());
    memcpy(&w->crypt, &fn, sizeof(fn));
    w->crypt_data = gs_alloc(sizeof(*w->crypt_data));
    return NULL;
}

static struct gs_error *read_users(json_t *users, struct web_config *w)
{
    const char *name;
    json_t *hash;
    if (!users || json_is_null(users) || json_object_size(users) == 0)
        return NULL;
    json_object_foreach (users, name, hash) {
        if (!gs_starts(json_string_value(hash), "$2"))
            return gs_error_new(GS_EINVAL, "basic_auth_users: %s: want a bcrypt hash ($2…)", name);
    }
    w->users = json_incref(users);
    return load_crypt(w);
}

static struct gs_error *read_document(json_t *doc, const char *path, struct web_config *w)
{
    static const char *const keys[] = {"tls_server_config", "http_server_config",
                                       "basic_auth_users", NULL};
    static const char *const http_keys[] = {"http2", "headers", NULL};
    struct gs_error *err = check_known_keys(doc, keys, "web configuration");
    json_t *tls = json_object_get(doc, "tls_server_config");
    json_t *http = json_object_get(doc, "http_server_config");
    if (!err && json_is_object(tls) && json_object_size(tls))
        err = read_tls(tls, path, w);
    if (!err && json_is_object(http))
        err = check_known_keys(http, http_keys, "http_server_config");
    if (!err && json_is_object(http))
        w->headers = json_incref(json_object_get(http, "headers"));
    if (!err)
        err = read_users(json_object_get(doc, "basic_auth_users"), w);
    return err;
}

struct gs_error *web_config_load(const char *path, struct web_config **ret)
{
    struct web_config *w = gs_alloc(sizeof(*w));
    GS_CLEANUP(codec_yaml_docs_finish) struct codec_yaml_docs docs = {0};
    struct gs_error *err = path ? codec_yaml_load_file(path, &docs) : NULL;
    if (!err && docs.len)
        err = read_document(docs.items[0].value, path, w);
    if (err) {
        web_config_free(w);
        return gs_error_wrap(err, "the web configuration");
    }
    *ret = w;
    return NULL;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

struct gs_error *web_config_renew(struct web_config *w, const char *path,
                                  struct http_server *const *servers, size_t n)
{
    struct web_config *read = NULL;
    struct gs_error *err = web_config_load(path, &read);
    if (err || !read)
        return err;
    if (!read->cert != !w->cert || read->require_client != w->require_client ||
        !same_text(read->client_ca, w->client_ca))
        err = gs_error_new(GS_EINVAL,
                           "TLS and the verification of client certificates can only be turned on "
                           "or off by a restart");
    bool other = !same_text(read->cert, w->cert) || !same_text(read->key, w->key);
    if (!err && read->cert && other)
        err = tls_check_replacement(w->cert, read->cert, read->key);
    if (err)
        err = gs_error_wrap(err, "%s", path);
    // A certificate that one server accepts is accepted by all.
    for (size_t i = 0; i < n && !err && read->cert && other; i++)
        err = http_server_set_certificate(servers[i], read->cert, read->key);
    if (!err) {
        struct web_config old = *w;
        *w = *read;
        w->next = old.next;
        w->ctx = old.ctx;
        w->failures = old.failures;
        w->failures_since_ns = old.failures_since_ns;
        *read = old;
    }
    web_config_free(read);
    return err;
}

void web_config_free(struct web_config *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->n_known; i++)
        gs_free_secret(w->known[i]);
    json_decref(w->users);
    json_decref(w->headers);
    free(w->crypt_data);
    free(w->cert);
    gs_free_secret(w->key);
    free(w->client_ca);
    free(w->cert_file);
    free(w->key_file);
    free(w);
}

const char *web_config_cert_file(const struct web_config *w)
{
    return w->cert_file;
}

const char *web_config_key_file(const struct web_config *w)
{
    return w->key_file;
}

bool web_config_tls(const struct web_config *w)
{
    return w->cert != NULL;
}

void web_config_apply(const struct web_config *w, struct http_server_config *server)
{
    server->cert_pem = w->cert;
    server->key_pem = w->key;
    server->client_ca_pem = w->client_ca;
    server->require_identity = w->require_client;
}

// --- requests ---

static bool is_cached(const struct web_config *w, const char *credentials)
{
    bool known = false;
    for (size_t i = 0; i < w->n_known; i++)
        known |= tls_secret_equal(w->known[i], credentials) != 0;
    return known;
}

static void remember_credentials(struct web_config *w, const char *credentials)
{
    size_t at = w->next_known;
    w->next_known = (at + 1) % MAX_KNOWN;
    if (w->n_known < MAX_KNOWN)
        w->n_known++;
    else
        free(w->known[at]);
    w->known[at] = gs_strdup(credentials);
}

// Checks are expensive by design: guessed passwords must not block the loop.
static bool may_check(struct web_config *w)
{
    int64_t now = gs_mono_ns();
    if (now - w->failures_since_ns > GS_NS_PER_SEC) {
        w->failures_since_ns = now;
        w->failures = 0;
    }
    return w->failures < MAX_FAILURES;
}

static bool check_password(struct web_config *w, const char *user, const char *password)
{
    // A check of an unknown user takes as long as that of an existing one.
    static const char dummy[] = "$2y$10$abcdefghijklmnopqrstuuXlV7sJ2W3rZ5cF4kq9P6nB8mD0tGyHi";
    const char *hash = codec_json_str(w->users, user, NULL);
    const char *got = w->crypt(password, hash ? hash : dummy, w->crypt_data);
    bool right = hash && got && tls_secret_equal(got, hash);
    w->failures += !right;
    return right;
}

static bool is_authorized(struct web_config *w, const struct http_exchange *x)
{
    static const char scheme[] = "Basic ";
    GS_AUTO_BUF struct gs_buf plain = {0};
    const char *value = http_header(x, "Authorization");
    if (!w->users)
        return true;
    if (!value || strncasecmp(value, scheme, strlen(scheme)) != 0)
        return false;
    GS_AUTO_ERROR struct gs_error *err =
        codec_base64_decode(gs_slice_of(value + strlen(scheme)), &plain);
    if (err || !plain.data || strlen(plain.data) != plain.len)
        return false;
    char *colon = strchr(plain.data, ':');
    if (!colon)
        return false;
    if (is_cached(w, plain.data))
        return true;
    if (!may_check(w))
        return false;
    GS_AUTO_FREE char *user = gs_strndup(plain.data, (size_t)(colon - plain.data));
    bool right = check_password(w, user, colon + 1);
    if (right)
        remember_credentials(w, plain.data);
    explicit_bzero(plain.data, plain.len);
    return right;
}

static void add_headers(const struct web_config *w, struct http_exchange *x)
{
    const char *name;
    json_t *value;
    json_object_foreach (w->headers, name, value) {
        if (json_is_string(value) && *json_string_value(value))
            http_add_header(x, name, json_string_value(value));
    }
}

void web_config_guard(struct web_config *w, http_handler next, void *ctx)
{
    w->next = next;
    w->ctx = ctx;
}

void web_config_handle(void *arg, struct http_exchange *x)
{
    struct web_config *w = arg;
    add_headers(w, x);
    if (is_authorized(w, x)) {
        w->next(w->ctx, x);
        return;
    }
    http_add_header(x, "WWW-Authenticate", "Basic");
    http_reply_text(x, 401, "Unauthorized\n");
}
