// SPDX-License-Identifier: Apache-2.0
// Files of volumes from ConfigMaps, Secrets, the downward API and tokens. They are written as the
// kubelet's AtomicWriter does: into a new folder that the link ..data then names, so a reader sees
// all old or all new files.
#include "local/kubelet/volumes.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "kube/names.h"
#include "kube/object.h"
#include "local/kubelet/podenv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/stat.h>

enum { DEFAULT_MODE = 0644, FILE_COST = 4096, MAX_VALUE = 1024 * 1024, TOKEN_SECONDS = 3600 };

void kubelet_files_finish(struct kubelet_files *f)
{
    for (size_t i = 0; i < f->len; i++) {
        free(f->items[i].path);
        free(f->items[i].data);
    }
    free(f->items);
    *f = (struct kubelet_files){0};
}

// --- what a volume consists of ---

struct part {
    enum { PART_NONE, PART_CONFIG_MAP, PART_SECRET, PART_DOWNWARD, PART_TOKEN } kind;
    const json_t *spec;
    const char *name; // of the ConfigMap or Secret
};

static struct part read_part(const json_t *source, bool projected)
{
    const json_t *config_map = json_object_get(source, "configMap");
    const json_t *secret = json_object_get(source, "secret");
    const json_t *downward = json_object_get(source, "downwardAPI");
    const json_t *token = json_object_get(source, "serviceAccountToken");
    if (config_map)
        return (struct part){PART_CONFIG_MAP, config_map, codec_json_str(config_map, "name", NULL)};
    if (secret)
        return (struct part){PART_SECRET, secret,
                             codec_json_str(secret, projected ? "name" : "secretName", NULL)};
    if (downward)
        return (struct part){PART_DOWNWARD, downward, NULL};
    return (struct part){token ? PART_TOKEN : PART_NONE, token, NULL};
}

static char *token_key(const json_t *spec)
{
    const char *audience = codec_json_str(spec, "audience", NULL);
    return gs_format("tokens/%lld/%s",
                     (long long)codec_json_int(spec, TOKEN_SECONDS, "expirationSeconds", NULL),
                     audience ? audience : "");
}

// Source: TokenRequest of the API group authentication.k8s.io/v1.
static json_t *token_request(const json_t *pod, const json_t *spec)
{
    const char *account = codec_json_str(pod, "spec", "serviceAccountName", NULL);
    const char *audience = codec_json_str(spec, "audience", NULL);
    json_t *body =
        json_pack("{s:s, s:s, s:{s:I, s:{s:s, s:s, s:s?, s:s?}}}", "apiVersion",
                  "authentication.k8s.io/v1", "kind", "TokenRequest", "spec", "expirationSeconds",
                  (json_int_t)codec_json_int(spec, TOKEN_SECONDS, "expirationSeconds", NULL),
                  "boundObjectRef", "apiVersion", "v1", "kind", "Pod", "name", kube_name(pod),
                  "uid", kube_uid(pod));
    json_t *audiences = audience ? json_pack("[s]", audience) : json_array();
    codec_json_set(body, audiences, "spec", "audiences", NULL);
    return json_pack("{s:s, s:o}", "serviceAccount", account && *account ? account : "default",
                     "body", body);
}

static void add_references(const json_t *pod, struct part p, json_t *ret)
{
    if (p.kind == PART_CONFIG_MAP || p.kind == PART_SECRET)
        kubelet_env_add_reference(ret, p.kind == PART_SECRET, p.name);
    if (p.kind != PART_TOKEN)
        return;
    GS_AUTO_FREE char *key = token_key(p.spec);
    json_object_set_new(ret, key, token_request(pod, p.spec));
}

void kubelet_volume_references(const json_t *pod, const json_t *volume, json_t *ret)
{
    size_t i;
    json_t *source;
    add_references(pod, read_part(volume, false), ret);
    json_array_foreach (codec_json_get(volume, "projected", "sources", NULL), i, source)
        add_references(pod, read_part(source, true), ret);
}

// --- files ---

bool kubelet_is_inner_path(const char *path)
{
    if (!path || !*path || *path == '/' || strlen(path) > PATH_MAX)
        return false;
    for (const char *at = path; *at;) {
        size_t len = strcspn(at, "/");
        if ((len == 2 && strncmp(at, "..", 2) == 0) || len > NAME_MAX)
            return false;
        at += len + (at[len] == '/');
    }
    return true;
}

static struct gs_error *add_file(struct kubelet_files *f, const char *path, struct gs_slice data,
                                 int64_t mode)
{
    if (!kubelet_is_inner_path(path) || gs_starts(path, ".."))
        return gs_error_new(GS_EINVAL, "invalid path: must be relative and not contain '..': %s",
                            path ? path : "");
    if (data.len + FILE_COST > f->max_bytes - f->bytes)
        return gs_error_new(GS_ELIMIT,
                            "the files of the pod's volumes are larger than the limit, which is "
                            "%d MiB, with %d bytes for each file",
                            KUBELET_MAX_FILES_BYTES >> 20, FILE_COST);
    f->bytes += data.len + FILE_COST;
    gs_grow(&f->items, &f->cap, f->len, sizeof(*f->items));
    struct kubelet_file *file = &f->items[f->len++];
    *file = (struct kubelet_file){.path = gs_strdup(path),
                                  .data = gs_alloc(data.len + 1),
                                  .len = data.len,
                                  .mode = (unsigned)mode & 0777};
    if (data.len)
        memcpy(file->data, data.data, data.len);
    return NULL;
}

// GS_ENOTFOUND if the object has no such key.
static struct gs_error *add_key(struct kubelet_files *f, const struct part *p, const json_t *object,
                                const char *key, const char *path, int64_t mode)
{
    bool secret = p->kind == PART_SECRET;
    const char *text = codec_json_str(object, "data", key, NULL);
    const char *encoded = secret ? text : codec_json_str(object, "binaryData", key, NULL);
    if (!secret && text)
        return add_file(f, path, gs_slice_of(text), mode);
    if (!encoded)
        return gs_error_new(GS_ENOTFOUND, "%s: %s",
                            secret ? "references non-existent secret key"
                                   : "configmap references non-existent config key",
                            key);
    GS_AUTO_BUF struct gs_buf bytes = {.limit = 2 * MAX_VALUE};
    struct gs_error *err = codec_base64_decode(gs_slice_of(encoded), &bytes);
    return err ? err : add_file(f, path, gs_buf_slice(&bytes), mode);
}

static struct gs_error *add_all_keys(struct kubelet_files *f, const struct part *p,
                                     const json_t *object, int64_t mode)
{
    static const char *const maps[] = {"data", "binaryData"};
    struct gs_error *err = NULL;
    for (size_t i = 0; i < GS_ARRAY_LEN(maps); i++) {
        const char *key;
        json_t *value;
        json_object_foreach ((json_t *)codec_json_get(object, maps[i], NULL), key, value)
            if (!err)
                err = add_key(f, p, object, key, key, mode);
    }
    return err;
}

static struct gs_error *add_items(struct kubelet_files *f, const struct part *p,
                                  const json_t *object, const json_t *items, int64_t mode,
                                  bool optional)
{
    size_t i;
    json_t *item;
    json_array_foreach (items, i, item) {
        const char *key = codec_json_str(item, "key", NULL);
        struct gs_error *err =
            add_key(f, p, object, key ? key : "", codec_json_str(item, "path", NULL),
                    codec_json_int(item, mode, "mode", NULL));
        if (err && optional && gs_error_code(err) == GS_ENOTFOUND) {
            gs_error_free(err);
            continue;
        }
        if (err)
            return err;
    }
    return NULL;
}

static struct gs_error *add_object(struct kubelet_files *f, const struct kubelet_env_context *ctx,
                                   const struct part *p, int64_t mode)
{
    bool secret = p->kind == PART_SECRET;
    bool optional = codec_json_bool(p->spec, false, "optional", NULL);
    const json_t *object = kubelet_env_source(ctx, secret, p->name);
    const json_t *items = json_object_get(p->spec, "items");
    if (!object && optional)
        return NULL;
    if (!object)
        return gs_error_new(GS_ENOTFOUND, "%s \"%s\" not found", secret ? "secret" : "configmap",
                            p->name ? p->name : "");
    return json_array_size(items) ? add_items(f, p, object, items, mode, optional)
                                  : add_all_keys(f, p, object, mode);
}

// key="value" lines in the order of the keys.
static void print_map(const json_t *map, struct gs_buf *out)
{
    size_t n = 0;
    const char **keys = gs_alloc_array(json_object_size(map) + 1, sizeof(*keys));
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)map, key, value)
        keys[n++] = key;
    qsort(keys, n, sizeof(*keys), gs_compare_texts);
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_object_get(map, keys[i]));
        gs_buf_addf(out, "%s%s=", i ? "\n" : "", keys[i]);
        kube_quote(gs_slice_of(text ? text : ""), out);
    }
    free(keys);
}

static const json_t *find_container(const json_t *pod, const char *name)
{
    static const char *const lists[] = {"containers", "initContainers"};
    for (size_t l = 0; name && l < GS_ARRAY_LEN(lists); l++) {
        size_t i;
        json_t *c;
        json_array_foreach (codec_json_get(pod, "spec", lists[l], NULL), i, c)
            if (gs_streq(codec_json_str(c, "name", NULL), name))
                return c;
    }
    return NULL;
}

static void print_item(const struct kubelet_env_context *ctx, const json_t *item,
                       struct gs_buf *out)
{
    const char *field = codec_json_str(item, "fieldRef", "fieldPath", NULL);
    const json_t *resource = json_object_get(item, "resourceFieldRef");
    if (field && (gs_streq(field, "metadata.labels") || gs_streq(field, "metadata.annotations"))) {
        print_map(codec_json_get(ctx->pod, "metadata", field + strlen("metadata."), NULL), out);
    } else if (field) {
        gs_buf_add_str(out, kubelet_env_field(ctx, field));
    } else if (resource) {
        struct kubelet_env_context inner = *ctx;
        inner.container = find_container(ctx->pod, codec_json_str(resource, "containerName", NULL));
        GS_AUTO_FREE char *value = kubelet_env_resource(&inner, resource);
        gs_buf_add_str(out, value);
    }
}

static struct gs_error *add_downward(struct kubelet_files *f, const struct kubelet_env_context *ctx,
                                     const struct part *p, int64_t mode)
{
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(p->spec, "items"), i, item) {
        GS_AUTO_BUF struct gs_buf text = {0};
        print_item(ctx, item, &text);
        struct gs_error *err = add_file(f, codec_json_str(item, "path", NULL), gs_buf_slice(&text),
                                        codec_json_int(item, mode, "mode", NULL));
        if (err)
            return err;
    }
    return NULL;
}

static struct gs_error *add_token(struct kubelet_files *f, const struct kubelet_env_context *ctx,
                                  const struct part *p)
{
    GS_AUTO_FREE char *key = token_key(p->spec);
    const char *token = codec_json_str(json_object_get(ctx->sources, key), "status", "token", NULL);
    if (!token)
        return gs_error_new(GS_ENOTFOUND, "failed to fetch token: serviceaccount \"%s\" not found",
                            kubelet_env_field(ctx, "spec.serviceAccountName"));
    return add_file(f, codec_json_str(p->spec, "path", NULL), gs_slice_of(token), 0600);
}

static struct gs_error *add_part(struct kubelet_files *f, const struct kubelet_env_context *ctx,
                                 struct part p, int64_t mode)
{
    switch (p.kind) {
    case PART_CONFIG_MAP:
    case PART_SECRET:
        return add_object(f, ctx, &p, mode);
    case PART_DOWNWARD:
        return add_downward(f, ctx, &p, mode);
    case PART_TOKEN:
        return add_token(f, ctx, &p);
    case PART_NONE:
        break;
    }
    return NULL;
}

struct gs_error *kubelet_volume_files(const struct kubelet_env_context *ctx, const json_t *volume,
                                      size_t max_bytes, struct kubelet_files *ret)
{
    struct kubelet_files f = {.max_bytes = max_bytes};
    struct part single = read_part(volume, false);
    const json_t *projected = json_object_get(volume, "projected");
    struct gs_error *err = NULL;
    size_t i;
    json_t *source;
    if (single.kind != PART_NONE)
        err = add_part(&f, ctx, single,
                       codec_json_int(single.spec, DEFAULT_MODE, "defaultMode", NULL));
    json_array_foreach (json_object_get(projected, "sources"), i, source)
        if (!err)
            err = add_part(&f, ctx, read_part(source, true),
                           codec_json_int(projected, DEFAULT_MODE, "defaultMode", NULL));
    if (err) {
        kubelet_files_finish(&f);
        return err;
    }
    *ret = f;
    return NULL;
}

uint64_t kubelet_files_hash(const struct kubelet_files *files)
{
    uint64_t h = files->len;
    for (size_t i = 0; i < files->len; i++) {
        const struct kubelet_file *f = &files->items[i];
        uint64_t parts[] = {h, gs_hash(f->path, strlen(f->path)), gs_hash(f->data, f->len),
                            f->mode};
        h = gs_hash(parts, sizeof(parts));
    }
    return h;
}

// --- writing ---

static struct gs_error *write_file(const char *dir, const struct kubelet_file *f)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, f->path);
    GS_AUTO_FREE char *parent = gs_strndup(path, (size_t)(strrchr(path, '/') - path));
    struct gs_error *err = gs_mkdir_p(parent, 0755);
    return err ? err : gs_file_write_atomic(path, f->mode, gs_slice_make(f->data, f->len));
}

static struct gs_error *switch_link(const char *dir, const char *target)
{
    GS_AUTO_FREE char *link = gs_format("%s/..data", dir);
    GS_AUTO_FREE char *tmp = gs_format("%s/..data_tmp", dir);
    unlink(tmp);
    if (symlink(target, tmp) < 0 || rename(tmp, link) < 0)
        return gs_error_errno(errno, "linking %s", link);
    return NULL;
}

static bool has_entry(const struct kubelet_files *files, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < files->len; i++)
        if (strncmp(files->items[i].path, name, len) == 0 &&
            (files->items[i].path[len] == '/' || files->items[i].path[len] == '\0'))
            return true;
    return false;
}

static void remove_stale(const char *dir, const struct kubelet_files *files, const char *current)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));) {
        const char *name = e->d_name;
        GS_AUTO_FREE char *path = gs_format("%s/%s", dir, name);
        if (gs_streq(name, ".") || gs_streq(name, "..") || gs_streq(name, "..data") ||
            gs_streq(name, current))
            continue;
        if (gs_starts(name, ".."))
            gs_remove_tree(path);
        else if (e->d_type == DT_LNK && !has_entry(files, name))
            unlink(path);
    }
    closedir(d);
}

static struct gs_error *link_entries(const char *dir, const struct kubelet_files *files)
{
    for (size_t i = 0; i < files->len; i++) {
        const char *path = files->items[i].path;
        int len = (int)strcspn(path, "/");
        GS_AUTO_FREE char *link = gs_format("%s/%.*s", dir, len, path);
        GS_AUTO_FREE char *target = gs_format("..data/%.*s", len, path);
        if (symlink(target, link) < 0 && errno != EEXIST)
            return gs_error_errno(errno, "linking %s", link);
    }
    return NULL;
}

struct gs_error *kubelet_files_write(const char *dir, const struct kubelet_files *files)
{
    GS_AUTO_FREE char *name = gs_format("..%" PRId64, gs_unix_us());
    GS_AUTO_FREE char *data = gs_format("%s/%s", dir, name);
    struct gs_error *err = gs_mkdir_p(data, 0755);
    for (size_t i = 0; !err && i < files->len; i++)
        err = write_file(data, &files->items[i]);
    if (!err)
        err = switch_link(dir, name);
    if (!err)
        err = link_entries(dir, files);
    if (!err)
        remove_stale(dir, files, name);
    return err;
}
