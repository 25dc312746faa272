// SPDX-License-Identifier: Apache-2.0
// Kubeconfig files by the rules of client-go's clientcmd: several files in KUBECONFIG are merged,
// the first one that has an entry wins, and paths are relative to their file. Without a file, a
// pod's service account is used. Keys and tokens are wiped when they are freed.
#include "kube/kubeconfig.h"

#include "base/file.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "codec/yaml.h"
#include "kube/kube_private.h"
#include "kube/up_dir.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define FILE_LIMIT      (1024 * 1024)
#define MAX_HEADERS     64
#define EXTENSION       KUBE_CONFIG_EXTENSION
#define EXEC_EXTENSION  "client.authentication.k8s.io/exec"
#define SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

void kube_config_finish(struct kube_config *c)
{
    free(c->server);
    free(c->ca_pem);
    free(c->client_cert_pem);
    free(c->ns);
    free(c->token_file);
    for (size_t i = 0; i < c->n_headers; i++) {
        free((char *)(uintptr_t)c->headers[i].name);
        free((char *)(uintptr_t)c->headers[i].value.text);
    }
    free(c->headers);
    free(c->server_name);
    free(c->proxy_url);
    json_decref(c->exec);
    json_decref(c->exec_config);
    free(c->exec_dir);
    free(c->engine_url);
    free(c->simulated_gpus);
    free(c->up_dir);
    gs_free_secret(c->client_key_pem);
    gs_free_secret(c->token);
    *c = (struct kube_config){0};
}

// --- reading ---

struct source {
    char *path;
    json_t *doc;
};

struct sources {
    struct source *items; // in order of precedence
    size_t len, cap;
};

static void sources_finish(struct sources *s)
{
    for (size_t i = 0; i < s->len; i++) {
        free(s->items[i].path);
        json_decref(s->items[i].doc);
    }
    free(s->items);
}

static struct gs_error *sources_add(struct sources *s, const char *path)
{
    GS_CLEANUP(codec_yaml_docs_finish) struct codec_yaml_docs docs = {0};
    struct gs_error *err = codec_yaml_load_file(path, &docs);
    if (err)
        return err;
    if (docs.len != 1 || !json_is_object(docs.items[0].value))
        return gs_error_new(GS_EINVAL, "%s: not a kubeconfig: expected one mapping", path);
    gs_grow(&s->items, &s->cap, s->len, sizeof(*s->items));
    s->items[s->len++] = (struct source){gs_strdup(path), json_incref(docs.items[0].value)};
    return NULL;
}

// Returns the entry `name` of the list "clusters", "users" or "contexts": its member "cluster",
// "user" …
static const json_t *find_entry(const struct sources *s, const char *list, const char *member,
                                const char *name, const char **ret_path)
{
    for (size_t i = 0; i < s->len; i++) {
        size_t n;
        json_t *entry;
        json_array_foreach (json_object_get(s->items[i].doc, list), n, entry) {
            if (gs_streq(codec_json_str(entry, "name", NULL), name)) {
                *ret_path = s->items[i].path;
                return json_object_get(entry, member);
            }
        }
    }
    return NULL;
}

// A file named in a kubeconfig is relative to the kubeconfig.
static char *path_beside(const char *config_path, const char *path)
{
    const char *slash = strrchr(config_path, '/');
    if (path[0] == '/' || !slash)
        return gs_strdup(path);
    return gs_format("%.*s/%s", (int)(slash - config_path), config_path, path);
}

static struct gs_error *read_file_beside(const char *config_path, const char *path, char **ret)
{
    GS_AUTO_FREE char *full = path_beside(config_path, path);
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(full, FILE_LIMIT, &text);
    if (err)
        return err;
    *ret = gs_buf_take(&text);
    return NULL;
}

// Reads PEM from "<key>-data" (base64) or from the file that "<key>" names. Both may be absent.
static struct gs_error *read_pem_or_data(const json_t *obj, const char *config_path,
                                         const char *key, char **ret)
{
    GS_AUTO_FREE char *data_key = gs_format("%s-data", key);
    const char *data = codec_json_str(obj, data_key, NULL);
    const char *path = codec_json_str(obj, key, NULL);
    if (data && *data) {
        GS_AUTO_BUF struct gs_buf pem = {0};
        struct gs_error *err = codec_base64_decode(gs_slice_of(data), &pem);
        if (err)
            return gs_error_wrap(err, "%s: %s", config_path, data_key);
        *ret = gs_buf_take(&pem);
        return NULL;
    }
    if (!path || !*path)
        return NULL;
    struct gs_error *err = read_file_beside(config_path, path, ret);
    return err ? gs_error_wrap(err, "%s: %s", config_path, key) : NULL;
}

json_t *kube_config_extension(const json_t *object, const char *name)
{
    size_t i;
    json_t *entry;
    json_array_foreach (json_object_get(object, "extensions"), i, entry)
        if (gs_streq(codec_json_str(entry, "name", NULL), name))
            return json_object_get(entry, "extension");
    return NULL;
}

// NULL: absent or empty. The caller frees it.
static char *text_of(const json_t *obj, const char *member)
{
    const char *value = codec_json_str(obj, member, NULL);
    return value && *value ? gs_strdup(value) : NULL;
}

static struct gs_error *load_cluster(const struct sources *s, const char *name,
                                     struct kube_config *c)
{
    const char *path = NULL;
    const json_t *cluster = find_entry(s, "clusters", "cluster", name, &path);
    if (!cluster)
        return gs_error_new(GS_EINVAL, "%s: cluster \"%s\" does not exist", s->items[0].path, name);
    c->server = gs_strdup(codec_json_str(cluster, "server", NULL));
    if (!c->server)
        return gs_error_new(GS_EINVAL, "%s: cluster \"%s\" has no server", path, name);
    c->insecure = codec_json_bool(cluster, false, "insecure-skip-tls-verify", NULL);
    c->server_name = text_of(cluster, "tls-server-name");
    c->proxy_url = text_of(cluster, "proxy-url");
    c->engine_url = text_of(kube_config_extension(cluster, EXTENSION), "engineURL");
    c->simulated_gpus = text_of(kube_config_extension(cluster, EXTENSION), "simulatedGPUs");
    c->exec_config = json_incref(kube_config_extension(cluster, EXEC_EXTENSION));
    return read_pem_or_data(cluster, path, "certificate-authority", &c->ca_pem);
}

// --- impersonation ---

// Takes the name.
static void add_header(struct kube_config *c, char *name, const json_t *value)
{
    const char *text = json_string_value(value);
    if (!text || !*text || c->n_headers == MAX_HEADERS) {
        free(name);
        return;
    }
    if (!c->headers)
        c->headers = gs_alloc_array(MAX_HEADERS, sizeof(*c->headers));
    c->headers[c->n_headers++] = (struct endpoint_header){name, {.text = gs_strdup(text)}};
}

// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
static void add_impersonation(struct kube_config *c, const json_t *user)
{
    const char *key;
    size_t i;
    json_t *group, *values, *value;
    add_header(c, gs_strdup("Impersonate-User"), json_object_get(user, "as"));
    add_header(c, gs_strdup("Impersonate-Uid"), json_object_get(user, "as-uid"));
    json_array_foreach (json_object_get(user, "as-groups"), i, group)
        add_header(c, gs_strdup("Impersonate-Group"), group);
    json_object_foreach (json_object_get(user, "as-user-extra"), key, values) {
        GS_AUTO_BUF struct gs_buf encoded = {0};
        http_encode(gs_slice_of(key), &encoded);
        json_array_foreach (values, i, value)
            add_header(c, gs_format("Impersonate-Extra-%s", encoded.data ? encoded.data : ""),
                       value);
    }
}

static struct gs_error *load_user(const struct sources *s, const char *name, struct kube_config *c)
{
    const char *path = NULL;
    const json_t *user = find_entry(s, "users", "user", name, &path);
    if (!user)
        return gs_error_new(GS_EINVAL, "%s: user \"%s\" does not exist", s->items[0].path, name);
    if (json_object_get(user, "auth-provider"))
        return gs_error_new(
            GS_ENOTSUP,
            "%s: user \"%s\" has an auth-provider, which Kubernetes 1.26 removed: use "
            "a credential plug-in (exec), a client certificate or a token",
            path, name);
    add_impersonation(c, user);
    struct gs_error *err = read_pem_or_data(user, path, "client-certificate", &c->client_cert_pem);
    if (!err)
        err = read_pem_or_data(user, path, "client-key", &c->client_key_pem);
    if (err)
        return err;
    const json_t *exec = json_object_get(user, "exec");
    const char *token = codec_json_str(user, "token", NULL);
    const char *token_file = codec_json_str(user, "tokenFile", NULL);
    if (token && *token) {
        c->token = gs_strdup(token);
    } else if (token_file && *token_file) {
        err = read_file_beside(path, token_file, &c->token);
        if (err)
            return gs_error_wrap(err, "%s: tokenFile", path);
        c->token[strcspn(c->token, "\r\n")] = '\0';
        c->token_file = path_beside(path, token_file);
    } else if (json_is_object(exec) && !c->client_cert_pem) {
        c->exec = json_deep_copy(exec);
        c->exec_dir = gs_folder_of(path);
    }
    return NULL;
}

static const char *current_context(const struct sources *s)
{
    for (size_t i = 0; i < s->len; i++) {
        const char *name = codec_json_str(s->items[i].doc, "current-context", NULL);
        if (name && *name)
            return name;
    }
    return NULL;
}

static struct gs_error *load_context(const struct sources *s, const char *name,
                                     struct kube_config *c)
{
    const char *path = NULL;
    if (!name)
        name = current_context(s);
    if (!name)
        return gs_error_new(GS_EINVAL,
                            "%s: current-context is not set (kubectl config use-context NAME)",
                            s->items[0].path);
    const json_t *context = find_entry(s, "contexts", "context", name, &path);
    if (!context)
        return gs_error_new(GS_EINVAL, "%s: context \"%s\" does not exist", s->items[0].path, name);
    const char *cluster = codec_json_str(context, "cluster", NULL);
    const char *user = codec_json_str(context, "user", NULL);
    const char *ns = codec_json_str(context, "namespace", NULL);
    if (!cluster)
        return gs_error_new(GS_EINVAL, "%s: context \"%s\" has no cluster", path, name);
    c->ns = gs_strdup(ns && *ns ? ns : "default");
    struct gs_error *err = load_cluster(s, cluster, c);
    if (!err && user)
        err = load_user(s, user, c);
    return err;
}

static struct gs_error *load_in_cluster(const char *host, const char *port, struct kube_config *c)
{
    bool v6 = strchr(host, ':') != NULL;
    c->server = gs_format("https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port);
    struct gs_error *err = read_file_beside("", SERVICE_ACCOUNT "/token", &c->token);
    if (!err)
        err = read_file_beside("", SERVICE_ACCOUNT "/ca.crt", &c->ca_pem);
    if (err)
        return gs_error_wrap(err, "the pod's service account");
    c->token[strcspn(c->token, "\r\n")] = '\0';
    c->token_file = gs_strdup(SERVICE_ACCOUNT "/token");
    gs_error_free(read_file_beside("", SERVICE_ACCOUNT "/namespace", &c->ns)); // then "default"
    if (!c->ns)
        c->ns = gs_strdup("default");
    return NULL;
}

char *kube_config_of_up(void)
{
    GS_AUTO_FREE char *dir = kube_up_running_dir();
    GS_AUTO_FREE char *path = dir ? gs_format("%s/kubeconfig", dir) : NULL;
    return path && access(path, F_OK) == 0 ? GS_TAKE(path) : NULL;
}

static struct gs_error *no_file(const char *list)
{
    GS_AUTO_FREE char *hint = kube_up_hint();
    return gs_error_new(GS_ENOTFOUND, "KUBECONFIG=%s: no such file%s", list, hint);
}

// KUBECONFIG may name several files. Absent files are skipped. In a pod, a file in the home
// directory does not count. *ret_of_up: the file is that of the running `gpuscale up`.
static struct gs_error *find_sources(bool in_pod, struct sources *s, bool *ret_of_up)
{
    const char *list = getenv("KUBECONFIG");
    if (list && *list) {
        struct gs_slice rest = gs_slice_of(list);
        while (rest.data) {
            GS_AUTO_FREE char *path = gs_slice_dup(gs_slice_cut(&rest, ':'));
            if (!*path || (access(path, F_OK) != 0 && errno != EACCES))
                continue;
            struct gs_error *err = sources_add(s, path);
            if (err)
                return err;
        }
        return s->len ? NULL : no_file(list);
    }
    if (in_pod)
        return NULL;
    const char *home = getenv("HOME");
    GS_AUTO_FREE char *path = gs_format("%s/.kube/config", home ? home : "");
    if (access(path, F_OK) == 0)
        return sources_add(s, path);
    GS_AUTO_FREE char *of_up = kube_config_of_up();
    *ret_of_up = of_up != NULL;
    return of_up ? sources_add(s, of_up) : NULL;
}

struct gs_error *kube_config_load(const char *path, const char *context, struct kube_config *ret)
{
    GS_CLEANUP(sources_finish) struct sources s = {0};
    struct kube_config c = {0};
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    bool in_pod = host && *host && port && *port;
    bool of_up = false;
    struct gs_error *err = path ? sources_add(&s, path) : find_sources(in_pod, &s, &of_up);
    if (err)
        return err;
    if (s.len > 0)
        err = load_context(&s, context, &c);
    else if (in_pod)
        err = load_in_cluster(host, port, &c);
    else
        err = gs_error_new(GS_ENOTFOUND, "no kubeconfig: set KUBECONFIG, write ~/.kube/config, or "
                                         "run in a pod with a service account");
    if (err) {
        kube_config_finish(&c);
        return err;
    }
    c.up_dir = of_up ? kube_up_running_dir() : NULL;
    *ret = c;
    return NULL;
}

void kube_config_each_context(const char *path, void (*fn)(void *arg, const char *name), void *arg)
{
    GS_CLEANUP(sources_finish) struct sources s = {0};
    bool of_up;
    gs_error_free(path ? sources_add(&s, path) : find_sources(false, &s, &of_up));
    for (size_t i = 0; i < s.len; i++) {
        size_t n;
        json_t *entry;
        json_array_foreach (json_object_get(s.items[i].doc, "contexts"), n, entry) {
            const char *name = codec_json_str(entry, "name", NULL);
            if (name)
                fn(arg, name);
        }
    }
}

// --- writing ---

// A JSON string is a YAML scalar.
static void add_string(struct gs_buf *out, const char *indent, const char *key, const char *value)
{
    if (!value)
        return;
    CODEC_AUTO_JSON json_t *text = json_string(value);
    gs_buf_addf(out, "%s%s: ", indent, key);
    codec_json_dump(text, out);
    gs_buf_add_char(out, '\n');
}

static void add_base64(struct gs_buf *out, const char *key, const char *pem)
{
    if (!pem)
        return;
    gs_buf_addf(out, "    %s: ", key);
    codec_base64_encode(gs_slice_of(pem), out);
    gs_buf_add_char(out, '\n');
}

struct gs_error *kube_config_login(struct kube_config *c)
{
    const struct kube_exec_cluster cluster = {.server = c->server,
                                              .ca_pem = c->ca_pem,
                                              .server_name = c->server_name,
                                              .proxy_url = c->proxy_url,
                                              .insecure = c->insecure != 0,
                                              .config = c->exec_config};
    if (!c->exec || c->login)
        return NULL;
    struct gs_error *err = kube_exec_credential_get(c->exec, c->exec_dir, &cluster, &c->login);
    return err ? gs_error_wrap(err, "the credentials for %s", c->server) : NULL;
}

struct endpoint_settings kube_config_endpoint(const struct kube_config *c)
{
    struct endpoint_settings s = {
        .credentials = {c->token, c->token_file, NULL, NULL},
        .ca.text = c->ca_pem,
        .cert.text = c->client_cert_pem,
        .key.text = c->client_key_pem,
        .headers = c->headers,
        .n_headers = c->n_headers,
        .server_name = c->server_name,
        .insecure_skip_verify = c->insecure != 0,
        .proxy_url = c->proxy_url,
        .proxy_from_environment = true,
    };
    if (c->login && kube_exec_credential_token(c->login))
        s.credentials =
            (struct endpoint_secret){.current = kube_exec_credential_token, .arg = c->login};
    if (c->login && kube_exec_credential_cert(c->login)) {
        s.cert.text = kube_exec_credential_cert(c->login);
        s.key.text = kube_exec_credential_key(c->login);
    }
    return s;
}

struct gs_error *kube_config_connect(struct kube_config *c, uv_loop_t *loop, const char *user_agent,
                                     struct http_client **ret)
{
    struct gs_error *err = kube_config_login(c);
    if (err)
        return err;
    const struct endpoint_settings settings = kube_config_endpoint(c);
    const struct endpoint_options options = {.user_agent = user_agent,
                                             .refresh_ms = KUBE_CONFIG_REFRESH_MS,
                                             .idle_connections = KUBE_CONFIG_MAX_REQUESTS,
                                             .max_requests = KUBE_CONFIG_MAX_REQUESTS,
                                             .component = "kube",
                                             .name = c->server};
    return endpoint_client_new(loop, c->server, &settings, &options, ret);
}

void kube_config_text(const char *name, const struct kube_config *c, struct gs_buf *out)
{
    gs_buf_add_str(out, "apiVersion: v1\nkind: Config\n");
    add_string(out, "", "current-context", name);
    gs_buf_add_str(out, "preferences: {}\nclusters:\n- cluster:\n");
    add_base64(out, "certificate-authority-data", c->ca_pem);
    if (c->insecure)
        gs_buf_add_str(out, "    insecure-skip-tls-verify: true\n");
    add_string(out, "    ", "server", c->server);
    if (c->engine_url || c->simulated_gpus)
        gs_buf_add_str(out, "    extensions:\n    - name: " EXTENSION "\n      extension:\n");
    add_string(out, "        ", "engineURL", c->engine_url);
    add_string(out, "        ", "simulatedGPUs", c->simulated_gpus);
    add_string(out, "  ", "name", name);
    gs_buf_add_str(out, "contexts:\n- context:\n");
    add_string(out, "    ", "cluster", name);
    add_string(out, "    ", "namespace", c->ns);
    add_string(out, "    ", "user", name);
    add_string(out, "  ", "name", name);
    bool no_credential = !c->client_cert_pem && !c->client_key_pem && !c->token;
    gs_buf_addf(out, "users:\n- user:%s\n", no_credential ? " {}" : "");
    add_base64(out, "client-certificate-data", c->client_cert_pem);
    add_base64(out, "client-key-data", c->client_key_pem);
    add_string(out, "    ", "token", c->token);
    add_string(out, "  ", "name", name);
}

struct gs_error *kube_config_write(const char *path, const char *name, const struct kube_config *c)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    kube_config_text(name, c, &out);
    struct gs_error *err = gs_file_write_atomic(path, 0600, gs_buf_slice(&out));
    explicit_bzero(out.data, out.len);
    return err;
}
