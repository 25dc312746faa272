// SPDX-License-Identifier: Apache-2.0
// Environment variables of a container from its spec: envFrom, valueFrom and the downward API,
// with the precedence and errors of the kubelet. Later values override earlier ones.
#include "local/kubelet/podenv.h"

#include "base/mem.h"
#include "codec/encoding.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "local/cluster.h"

enum { MAX_SECRET = 1024 * 1024 };

void kubelet_env_add_reference(json_t *ret, bool secret, const char *name)
{
    if (!name)
        return;
    GS_AUTO_FREE char *key = gs_format("%s/%s", secret ? "secrets" : "configmaps", name);
    json_object_set_new(ret, key, json_null());
}

static void add_reference(json_t *ret, bool secret, const json_t *ref)
{
    kubelet_env_add_reference(ret, secret, codec_json_str(ref, "name", NULL));
}

void kubelet_env_references(const json_t *container, json_t *ret)
{
    size_t i;
    json_t *entry;
    json_array_foreach (codec_json_get(container, "envFrom", NULL), i, entry) {
        add_reference(ret, false, codec_json_get(entry, "configMapRef", NULL));
        add_reference(ret, true, codec_json_get(entry, "secretRef", NULL));
    }
    json_array_foreach (codec_json_get(container, "env", NULL), i, entry) {
        const json_t *from = codec_json_get(entry, "valueFrom", NULL);
        add_reference(ret, false, codec_json_get(from, "configMapKeyRef", NULL));
        add_reference(ret, true, codec_json_get(from, "secretKeyRef", NULL));
    }
}

// A value of a ConfigMap or Secret as text; NULL when it has no such key. Caller frees.
static char *source_value(const json_t *source, bool secret, const char *key)
{
    const char *text = codec_json_str(source, "data", key, NULL);
    const char *encoded = secret ? text : codec_json_str(source, "binaryData", key, NULL);
    if (!secret && text)
        return gs_strdup(text);
    if (!encoded)
        return NULL;
    GS_AUTO_BUF struct gs_buf decoded = {.limit = MAX_SECRET};
    GS_AUTO_ERROR struct gs_error *err = codec_base64_decode(gs_slice_of(encoded), &decoded);
    return err ? NULL : gs_buf_take(&decoded);
}

const json_t *kubelet_env_source(const struct kubelet_env_context *ctx, bool secret,
                                 const char *name)
{
    GS_AUTO_FREE char *key =
        gs_format("%s/%s", secret ? "secrets" : "configmaps", name ? name : "");
    const json_t *source = json_object_get(ctx->sources, key);
    return json_is_object(source) ? source : NULL;
}

static const json_t *find_source(const struct kubelet_env_context *ctx, bool secret,
                                 const json_t *ref)
{
    return kubelet_env_source(ctx, secret, codec_json_str(ref, "name", NULL));
}

static struct gs_error *source_missing(bool secret, const json_t *ref)
{
    return gs_error_new(GS_ENOTFOUND, "%s \"%s\" not found", secret ? "secret" : "configmap",
                        codec_json_str(ref, "name", NULL));
}

static bool is_variable_name(const char *name)
{
    return name && *name && !strchr(name, '=');
}

static struct gs_error *add_all_of(struct kubelet_env *env, const struct kubelet_env_context *ctx,
                                   bool secret, const char *prefix, const json_t *ref)
{
    const json_t *source = find_source(ctx, secret, ref);
    if (!source)
        return codec_json_bool(ref, false, "optional", NULL) ? NULL : source_missing(secret, ref);
    const char *key;
    json_t *value;
    json_object_foreach (codec_json_get(source, "data", NULL), key, value) {
        if (env->error)
            break;
        GS_AUTO_FREE char *text = source_value(source, secret, key);
        GS_AUTO_FREE char *name = gs_format("%s%s", prefix ? prefix : "", key);
        if (text && is_variable_name(name))
            kubelet_env_set(env, name, text);
    }
    return NULL;
}

static struct gs_error *add_env_from(struct kubelet_env *env, const struct kubelet_env_context *ctx)
{
    size_t i;
    json_t *entry;
    struct gs_error *err = NULL;
    json_array_foreach (codec_json_get(ctx->container, "envFrom", NULL), i, entry) {
        const char *prefix = codec_json_str(entry, "prefix", NULL);
        const json_t *config_map = codec_json_get(entry, "configMapRef", NULL);
        const json_t *secret = codec_json_get(entry, "secretRef", NULL);
        if (config_map)
            err = add_all_of(env, ctx, false, prefix, config_map);
        if (!err && secret)
            err = add_all_of(env, ctx, true, prefix, secret);
        if (err || env->error)
            break;
    }
    return err;
}

// "metadata.labels['app']" -> "app"; NULL when path is not of that map.
static char *subscript(const char *path, const char *map)
{
    size_t len = strlen(map);
    size_t path_len = strlen(path);
    if (strncmp(path, map, len) != 0 || path_len < len + 4 || strncmp(path + len, "['", 2) != 0 ||
        strcmp(path + path_len - 2, "']") != 0)
        return NULL;
    return gs_strndup(path + len + 2, path_len - len - 4);
}

const char *kubelet_env_field(const struct kubelet_env_context *ctx, const char *path)
{
    static const struct {
        const char *path, *a, *b;
    } fields[] = {
        {"metadata.name", "metadata", "name"},
        {"metadata.namespace", "metadata", "namespace"},
        {"metadata.uid", "metadata", "uid"},
        {"spec.nodeName", "spec", "nodeName"},
        {"spec.serviceAccountName", "spec", "serviceAccountName"},
    };
    GS_AUTO_FREE char *label = subscript(path, "metadata.labels");
    GS_AUTO_FREE char *annotation = subscript(path, "metadata.annotations");
    const char *value = "";
    if (label)
        value = kube_label(ctx->pod, label);
    else if (annotation)
        value = kube_annotation(ctx->pod, annotation);
    else if (gs_streq(path, "status.podIP") || gs_streq(path, "status.podIPs"))
        value = ctx->pod_ip;
    else if (gs_streq(path, "status.hostIP") || gs_streq(path, "status.hostIPs"))
        value = ctx->host_ip;
    for (size_t i = 0; i < GS_ARRAY_LEN(fields); i++)
        if (gs_streq(path, fields[i].path))
            value = codec_json_str(ctx->pod, fields[i].a, fields[i].b, NULL);
    return value ? value : "";
}

static int64_t parse_milli(const char *text)
{
    int64_t milli = 0;
    GS_AUTO_ERROR struct gs_error *err =
        text ? kube_quantity_parse_milli(gs_slice_of(text), &milli) : NULL;
    return err ? 0 : milli;
}

// Rounded up in units of the divisor, as the downward API does. Memory in milli-bytes would
// overflow beyond 8 PiB only.
char *kubelet_env_resource(const struct kubelet_env_context *ctx, const json_t *ref)
{
    const char *resource = codec_json_str(ref, "resource", NULL);
    const char *dot = resource ? strchr(resource, '.') : NULL;
    if (!dot)
        return gs_strdup("0");
    GS_AUTO_FREE char *kind = gs_strndup(resource, (size_t)(dot - resource));
    const char *value = codec_json_str(ctx->container, "resources", kind, dot + 1, NULL);
    if (!value && gs_streq(kind, "limits"))
        value = codec_json_str(ctx->node, "status", "allocatable", dot + 1, NULL);
    int64_t divisor = parse_milli(codec_json_str(ref, "divisor", NULL));
    if (divisor <= 0)
        divisor = 1000;
    int64_t milli = parse_milli(value);
    long long units = milli / divisor + (milli % divisor != 0);
    return gs_format("%lld", units);
}

// *ret NULL: an optional reference that is missing.
static struct gs_error *key_value(const struct kubelet_env_context *ctx, bool secret,
                                  const json_t *ref, char **ret)
{
    const json_t *source = find_source(ctx, secret, ref);
    const char *key = codec_json_str(ref, "key", NULL);
    char *value = source && key ? source_value(source, secret, key) : NULL;
    if (!value && !codec_json_bool(ref, false, "optional", NULL)) {
        if (!source)
            return source_missing(secret, ref);
        return gs_error_new(GS_ENOTFOUND, "couldn't find key %s in %s %s/%s", key ? key : "",
                            secret ? "Secret" : "ConfigMap", kube_namespace(ctx->pod),
                            codec_json_str(ref, "name", NULL));
    }
    *ret = value;
    return NULL;
}

static struct gs_error *value_from(const struct kubelet_env_context *ctx, const json_t *from,
                                   char **ret)
{
    const json_t *config_map = codec_json_get(from, "configMapKeyRef", NULL);
    const json_t *secret = codec_json_get(from, "secretKeyRef", NULL);
    const json_t *resource = codec_json_get(from, "resourceFieldRef", NULL);
    const char *field = codec_json_str(from, "fieldRef", "fieldPath", NULL);
    if (config_map)
        return key_value(ctx, false, config_map, ret);
    if (secret)
        return key_value(ctx, true, secret, ret);
    *ret = resource ? kubelet_env_resource(ctx, resource)
                    : gs_strdup(field ? kubelet_env_field(ctx, field) : "");
    return NULL;
}

// *ret NULL: an optional reference that is missing.
static struct gs_error *variable_value(const struct kubelet_env *env,
                                       const struct kubelet_env_context *ctx, const json_t *entry,
                                       char **ret)
{
    const json_t *from = codec_json_get(entry, "valueFrom", NULL);
    const char *text = codec_json_str(entry, "value", NULL);
    if (from)
        return value_from(ctx, from, ret);
    struct gs_error *err = kubelet_env_expand(env, text ? text : "", ret);
    return err ? gs_error_wrap(err, "environment variable %.100s",
                               codec_json_str(entry, "name", NULL))
               : NULL;
}

static struct gs_error *add_env(struct kubelet_env *env, const struct kubelet_env_context *ctx)
{
    size_t i;
    json_t *entry;
    struct gs_error *err = NULL;
    json_array_foreach (codec_json_get(ctx->container, "env", NULL), i, entry) {
        const char *name = codec_json_str(entry, "name", NULL);
        GS_AUTO_FREE char *value = NULL;
        if (!is_variable_name(name))
            continue;
        err = variable_value(env, ctx, entry, &value);
        if (!err && value)
            kubelet_env_set(env, name, value);
        if (err || env->error)
            break;
    }
    return err;
}

struct gs_error *kubelet_env_add_spec(struct kubelet_env *env,
                                      const struct kubelet_env_context *ctx)
{
    struct gs_error *err = add_env_from(env, ctx);
    if (!err)
        err = add_env(env, ctx);
    return err ? err : kubelet_env_take_error(env);
}

static bool listed(const char *list, const char *word, size_t len)
{
    for (const char *at = list; at && *at;) {
        size_t n = strcspn(at, ",");
        if (n == len && strncmp(at, word, len) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

char *kubelet_env_gpus(const json_t *pod, const char *container)
{
    struct gs_buf out = {0};
    CODEC_AUTO_JSON json_t *all = NULL;
    const char *text = kube_annotation(pod, LOCAL_ANN_GPUS);
    if (text)
        gs_error_free(codec_json_parse(gs_slice_of(text), false, &all));
    size_t i;
    json_t *id;
    json_array_foreach (codec_json_get(all, container, NULL), i, id) {
        const char *device = json_string_value(id);
        const char *slice = device ? strstr(device, "::") : NULL;
        size_t len = slice ? (size_t)(slice - device) : device ? strlen(device) : 0;
        if (!len || listed(out.data, device, len))
            continue;
        if (out.len)
            gs_buf_add_char(&out, ',');
        gs_buf_add(&out, device, len);
    }
    return gs_buf_take(&out);
}
