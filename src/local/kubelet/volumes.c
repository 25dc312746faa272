// SPDX-License-Identifier: Apache-2.0
// The volumes of a pod: they are set up before its containers start, and files of ConfigMaps,
// Secrets and tokens are written again when their contents change. A failure is reported as
// FailedMount and retried with exponential backoff.
#include "local/kubelet/volumes.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "kube/event.h"
#include "kube/object.h"
#include "local/kubelet/mounts.h"
#include "local/kubelet/pod_worker.h"
#include "local/kubelet/podenv.h"

#include <errno.h>
#include <sys/stat.h>

// Source: the kubelet's documented back-off of volume operations, and its resync of mounted
// objects, which is faster here. Every pod has the volume of the token, whose files change once in
// an hour.
enum {
    RETRY_FIRST_MS = 500,
    RETRY_MAX_MS = 122000,
    QUIET_RETRY_MS = 2000,
    REFRESH_MS = 5000,
    REFRESH_TOKEN_MS = 60000
};

struct volume {
    char *path;    // its folder, or the path of a hostPath
    uint64_t hash; // of the files that are written
    size_t bytes;  // of these files
    bool written;
};

struct kubelet_volumes {
    struct kubelet_worker *w;
    struct volume *items;
    size_t len;
    json_t *tokens; // key of kubelet_volume_references -> TokenRequest
    struct kubelet_env_fetch *fetch;
    struct gs_timer *timer;
    int64_t retry_ms; // the next delay
    bool ready, started;
};

static const json_t *volume_spec(const struct kubelet_volumes *v, size_t i)
{
    return json_array_get(kubelet_worker_spec(v->w, "volumes"), i);
}

static const char *volume_name(const struct kubelet_volumes *v, size_t i)
{
    const char *name = codec_json_str(volume_spec(v, i), "name", NULL);
    return name ? name : "";
}

struct kubelet_volumes *kubelet_volumes_new(struct kubelet_worker *w)
{
    struct kubelet_volumes *v = gs_alloc(sizeof(*v));
    v->w = w;
    v->tokens = json_object();
    v->len = json_array_size(kubelet_worker_spec(w, "volumes"));
    v->items = gs_alloc_array(v->len ? v->len : 1, sizeof(*v->items));
    v->timer = gs_timer_new(w->k->cluster->loop, v);
    v->retry_ms = RETRY_FIRST_MS;
    return v;
}

void kubelet_volumes_free(struct kubelet_volumes *v)
{
    if (!v)
        return;
    kubelet_env_fetch_cancel(v->fetch);
    gs_timer_free(v->timer);
    for (size_t i = 0; i < v->len; i++)
        free(v->items[i].path);
    free(v->items);
    json_decref(v->tokens);
    free(v);
}

// --- set-up ---

// "kubernetes.io~configmap" of a kubelet's folders; NULL: a type that is not available.
static const char *plugin_of(const json_t *volume)
{
    static const struct {
        const char *member, *plugin;
    } plugins[] = {
        {"emptyDir", "kubernetes.io~empty-dir"},
        {"configMap", "kubernetes.io~configmap"},
        {"secret", "kubernetes.io~secret"},
        {"downwardAPI", "kubernetes.io~downward-api"},
        {"projected", "kubernetes.io~projected"},
        {"hostPath", "kubernetes.io~host-path"},
        {"persistentVolumeClaim", "kubernetes.io~local-volume"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(plugins); i++)
        if (json_object_get(volume, plugins[i].member))
            return plugins[i].plugin;
    return NULL;
}

static bool is_files(const json_t *volume)
{
    return json_object_get(volume, "configMap") || json_object_get(volume, "secret") ||
           json_object_get(volume, "downwardAPI") || json_object_get(volume, "projected");
}

static const char *type_of(const json_t *volume)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)volume, key, value)
        if (!gs_streq(key, "name"))
            return key;
    return "emptyDir";
}

static struct gs_error *make_folder(const struct kubelet_volumes *v, const char *plugin,
                                    const char *name, mode_t mode, char **ret)
{
    if (strchr(name, '/') || *name == '.' || !*name)
        return gs_error_new(GS_EINVAL, "the name \"%s\" is not valid", name);
    GS_AUTO_FREE char *dir = kubelet_worker_path(v->w, KUBELET_DIR_PODS, NULL);
    GS_AUTO_FREE char *path = gs_format("%s/" KUBELET_DIR_VOLUMES "/%s/%s", dir, plugin, name);
    struct gs_error *err = gs_mkdir_p(path, 0755);
    if (!err && chmod(path, mode) < 0)
        err = gs_error_errno(errno, "chmod %s", path);
    if (!err)
        *ret = GS_TAKE(path);
    return err;
}

// What the files of the other volumes leave for those of one.
static size_t bytes_left(const struct kubelet_volumes *v, size_t volume)
{
    size_t sum = 0;
    for (size_t i = 0; i < v->len; i++)
        sum += i == volume ? 0 : v->items[i].bytes;
    return KUBELET_MAX_FILES_BYTES - sum;
}

static struct gs_error *write_files(struct kubelet_volumes *v, size_t i, const json_t *sources)
{
    struct kubelet_worker *w = v->w;
    struct volume *item = &v->items[i];
    const struct kubelet_env_context ctx = {
        .pod = w->pod,
        .pod_ip = w->ip,
        .host_ip = w->k->address,
        .node = kube_cache_get(w->k->cluster->nodes, NULL, w->k->node_name),
        .sources = sources,
    };
    GS_CLEANUP(kubelet_files_finish) struct kubelet_files files = {0};
    struct gs_error *err = kubelet_volume_files(&ctx, volume_spec(v, i), bytes_left(v, i), &files);
    uint64_t hash = kubelet_files_hash(&files);
    if (err || (item->written && hash == item->hash))
        return err;
    err = kubelet_files_write(item->path, &files);
    item->written = !err;
    item->hash = hash;
    item->bytes = err ? item->bytes : files.bytes;
    return err;
}

// Volumes that are set up once; the path stays.
static struct gs_error *make_volume(struct kubelet_volumes *v, size_t i, char **ret)
{
    const json_t *spec = volume_spec(v, i);
    const json_t *host = json_object_get(spec, "hostPath");
    const char *plugin = json_object_size(spec) > 1 ? plugin_of(spec) : "kubernetes.io~empty-dir";
    const char *claim = codec_json_str(spec, "persistentVolumeClaim", "claimName", NULL);
    if (!plugin)
        return gs_error_new(GS_ENOTSUP, "volumes of type %s are not available on this machine",
                            type_of(spec));
    if (host)
        return kubelet_host_path(v->w->k, codec_json_str(host, "path", NULL),
                                 codec_json_str(host, "type", NULL), ret);
    if (claim)
        return kubelet_claim_folder(v->w->k, v->w->ns, claim, ret);
    return make_folder(v, plugin, volume_name(v, i), is_files(spec) ? 0755 : 0777, ret);
}

static struct gs_error *set_up(struct kubelet_volumes *v, size_t i, const json_t *sources)
{
    struct volume *item = &v->items[i];
    struct gs_error *err = item->path ? NULL : make_volume(v, i, &item->path);
    if (!err && is_files(volume_spec(v, i)))
        err = write_files(v, i, sources);
    return err;
}

static void report(const struct kubelet_volumes *v, size_t i, const char *message)
{
    kube_event(v->w->k->recorder, v->w->pod, "Warning", "FailedMount",
               "MountVolume.SetUp failed for volume \"%s\" : %s", volume_name(v, i), message);
}

static void on_timer(void *arg);

static bool is_access_volume(const char *name)
{
    return name && gs_starts(name, LOCAL_ACCESS_VOLUME);
}

bool kubelet_volumes_of_user(const struct kubelet_volumes *v)
{
    for (size_t i = 0; i < v->len; i++)
        if (!is_access_volume(volume_name(v, i)))
            return true;
    return false;
}

// Milliseconds; 0: never.
static uint64_t refresh_interval(const struct kubelet_volumes *v)
{
    uint64_t ms = 0;
    for (size_t i = 0; i < v->len; i++) {
        if (!is_files(volume_spec(v, i)))
            continue;
        if (!is_access_volume(volume_name(v, i)))
            return REFRESH_MS;
        ms = REFRESH_TOKEN_MS;
    }
    return ms;
}

static void set_up_all(struct kubelet_volumes *v, const json_t *sources)
{
    bool ok = true, first = !v->ready;
    for (size_t i = 0; i < v->len; i++) {
        GS_AUTO_ERROR struct gs_error *err = set_up(v, i, sources);
        // A claim is usually bound within a second.
        if (err && (gs_error_code(err) != GS_EUNAVAIL || v->retry_ms > QUIET_RETRY_MS))
            report(v, i, gs_error_message(err));
        ok = ok && !err;
    }
    if (!ok) {
        gs_timer_start(v->timer, on_timer, (uint64_t)v->retry_ms);
        v->retry_ms = gs_backoff_next(v->retry_ms, RETRY_FIRST_MS, RETRY_MAX_MS);
        return;
    }
    v->ready = true;
    v->retry_ms = RETRY_FIRST_MS;
    if (refresh_interval(v))
        gs_timer_start(v->timer, on_timer, refresh_interval(v));
    if (first)
        kubelet_worker_wake(v->w);
}

// Tokens are kept until a fifth of their life is left.
static bool token_is_fresh(const json_t *request)
{
    const char *text = codec_json_str(request, "status", "expirationTimestamp", NULL);
    int64_t life_ms = codec_json_int(request, 0, "spec", "expirationSeconds", NULL) * 1000;
    int64_t until_ms = 0;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_rfc3339(gs_slice_of(text), &until_ms);
    return !err && gs_unix_ms() < until_ms - life_ms / 5;
}

static void keep_tokens(struct kubelet_volumes *v, const json_t *sources)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)sources, key, value)
        if (gs_starts(key, "tokens/") && json_is_object(value))
            json_object_set(v->tokens, key, value);
}

static void drop_fresh_tokens(const struct kubelet_volumes *v, json_t *refs)
{
    const char *key;
    json_t *value;
    json_object_foreach (v->tokens, key, value)
        if (token_is_fresh(value))
            json_object_del(refs, key);
}

static void set_up_from(struct kubelet_volumes *v, const json_t *sources)
{
    CODEC_AUTO_JSON json_t *all = json_copy((json_t *)sources);
    keep_tokens(v, sources);
    json_object_update(all, v->tokens);
    set_up_all(v, all);
}

static void on_fetched(void *arg, const json_t *sources, const struct gs_error *err)
{
    struct kubelet_volumes *v = arg;
    v->fetch = NULL;
    if (!err) {
        set_up_from(v, sources);
        return;
    }
    for (size_t i = 0; i < v->len; i++)
        if (is_files(volume_spec(v, i)))
            report(v, i, gs_error_message(err));
    gs_timer_start(v->timer, on_timer, (uint64_t)v->retry_ms);
}

static void on_timer(void *arg)
{
    struct kubelet_volumes *v = arg;
    struct kubelet_worker *w = v->w;
    if (v->fetch || w->gone || w->finished)
        return;
    CODEC_AUTO_JSON json_t *refs = json_object();
    for (size_t i = 0; i < v->len; i++)
        kubelet_volume_references(w->pod, volume_spec(v, i), refs);
    drop_fresh_tokens(v, refs);
    if (json_object_size(refs))
        v->fetch = kubelet_env_fetch_start(w->k->cluster->client, w->ns, refs, on_fetched, v);
    else
        set_up_from(v, refs);
}

bool kubelet_volumes_ready(struct kubelet_volumes *v)
{
    if (v->len == 0)
        return true;
    if (!v->started) {
        v->started = true;
        gs_timer_start(v->timer, on_timer, 0);
    }
    return v->ready;
}

void kubelet_volumes_pod_changed(struct kubelet_volumes *v)
{
    if (v->ready && !v->fetch && refresh_interval(v) == REFRESH_MS)
        gs_timer_start(v->timer, on_timer, 0);
}

// --- mounts of a container ---

static const struct volume *find_volume(const struct kubelet_volumes *v, const char *name)
{
    for (size_t i = 0; name && i < v->len; i++)
        if (gs_streq(volume_name(v, i), name))
            return &v->items[i];
    return NULL;
}

static struct gs_error *mount_source(const struct kubelet_volumes *v, const json_t *mount,
                                     const json_t *container, const struct kubelet_env *env,
                                     char **ret)
{
    const char *name = codec_json_str(mount, "name", NULL);
    const char *sub = codec_json_str(mount, "subPath", NULL);
    const char *expression = codec_json_str(mount, "subPathExpr", NULL);
    const struct volume *volume = find_volume(v, name);
    GS_AUTO_FREE char *expanded = NULL;
    struct gs_error *err = NULL;
    if (!volume || !volume->path)
        return gs_error_new(GS_ENOTFOUND,
                            "cannot find volume \"%s\" to mount into container \"%s\"",
                            name ? name : "", codec_json_str(container, "name", NULL));
    if (expression && *expression)
        err = kubelet_env_expand_strictly(env, expression, &expanded);
    if (!err && (expanded || (sub && *sub)))
        err = kubelet_sub_path(volume->path, expanded ? expanded : sub, ret);
    else if (!err)
        *ret = gs_strdup(volume->path);
    return err ? gs_error_wrap(err,
                               "failed to prepare subPath for volumeMount \"%s\" of container "
                               "\"%s\"",
                               name, codec_json_str(container, "name", NULL))
               : NULL;
}

static size_t depth(const char *text)
{
    size_t n = 0;
    for (; *text && *text != ':'; text++)
        n += *text == '/';
    return n;
}

// Stable, so that of two mounts of equal depth the later one wins.
static void sort_by_depth(struct kubelet_words *mounts)
{
    for (size_t i = 1; i < mounts->len; i++)
        for (size_t j = i; j > 0 && depth(mounts->items[j - 1]) > depth(mounts->items[j]); j--) {
            char *swap = mounts->items[j];
            mounts->items[j] = mounts->items[j - 1];
            mounts->items[j - 1] = swap;
        }
}

// "/a//b/" -> "/a/b". NULL: not a path that can be mounted on.
static char *clean_target(const char *path)
{
    struct gs_buf out = {0};
    if (!path || strchr(path, ':') || !kubelet_is_inner_path(*path == '/' ? path + 1 : path))
        return NULL;
    for (const char *at = path; *at;) {
        size_t len = strcspn(at, "/");
        if (len && !(len == 1 && *at == '.'))
            gs_buf_addf(&out, "/%.*s", (int)len, at);
        at += len + (at[len] == '/');
    }
    return gs_buf_take(&out);
}

static struct gs_error *add_mount(const struct kubelet_volumes *v, const json_t *mount,
                                  const json_t *container, const struct kubelet_env *env,
                                  struct kubelet_words *ret)
{
    const char *path = codec_json_str(mount, "mountPath", NULL);
    GS_AUTO_FREE char *target = clean_target(path);
    GS_AUTO_FREE char *source = NULL;
    if (!target || !*target)
        return gs_error_new(GS_EINVAL, "mountPath \"%s\" is not valid", path ? path : "");
    struct gs_error *err = mount_source(v, mount, container, env, &source);
    if (err)
        return err;
    GS_AUTO_FREE char *text =
        kubelet_mount_text(target, codec_json_bool(mount, false, "readOnly", NULL), source);
    kubelet_words_add(ret, text);
    return NULL;
}

// --- mounts in the volume of another mount ---

// What is below the target of `outer` in that of `inner`; NULL: it is elsewhere. Both are texts of
// mounts.
static const char *below(const char *outer, const char *inner)
{
    size_t len = strcspn(outer, ":");
    return strncmp(outer, inner, len) == 0 && inner[len] == '/' ? inner + len + 1 : NULL;
}

// Of the mounts before the i-th, the one in which its target is.
static const char *outer_mount(const struct kubelet_words *mounts, size_t i, const char **ret_rest)
{
    const char *found = NULL;
    for (size_t j = 0; j < i; j++) {
        const char *rest = below(mounts->items[j], mounts->items[i]);
        if (rest) { // a later one is deeper
            found = mounts->items[j];
            *ret_rest = rest;
        }
    }
    return found;
}

static const char *source_of(const char *mount)
{
    return mount + strcspn(mount, ":") + strlen(":ro:");
}

static bool is_in_files(const struct kubelet_volumes *v, const char *path)
{
    for (size_t i = 0; i < v->len; i++) {
        const char *root = v->items[i].path;
        size_t len = root ? strlen(root) : 0;
        if (root && is_files(volume_spec(v, i)) && strncmp(path, root, len) == 0 &&
            (path[len] == '/' || path[len] == '\0'))
            return true;
    }
    return false;
}

// Volumes of files are often mounted read-only, so the targets in them must exist before. Source:
// the kubelet's MakeNestedMountpoints.
static struct gs_error *make_nested_targets(const struct kubelet_volumes *v,
                                            const struct kubelet_words *mounts)
{
    struct gs_error *err = NULL;
    for (size_t i = 0; !err && i < mounts->len; i++) {
        const char *rest = NULL, *outer = outer_mount(mounts, i, &rest);
        struct stat st;
        if (!outer || !is_in_files(v, source_of(outer)))
            continue;
        GS_AUTO_FREE char *sub = gs_strndup(rest, strcspn(rest, ":"));
        bool file = stat(source_of(mounts->items[i]), &st) == 0 && !S_ISDIR(st.st_mode);
        err = kubelet_nested_mount_point(source_of(outer), sub, file);
    }
    return err;
}

struct gs_error *kubelet_volumes_mounts(const struct kubelet_volumes *v, const json_t *container,
                                        const struct kubelet_env *env, struct kubelet_words *ret)
{
    struct kubelet_words mounts = {0};
    size_t i;
    json_t *mount;
    json_array_foreach (json_object_get(container, "volumeMounts"), i, mount) {
        if (!v->w->k->mounts_tokens && is_access_volume(codec_json_str(mount, "name", NULL)))
            continue;
        struct gs_error *err = add_mount(v, mount, container, env, &mounts);
        if (err) {
            kubelet_words_finish(&mounts);
            return err;
        }
    }
    sort_by_depth(&mounts);
    struct gs_error *err = make_nested_targets(v, &mounts);
    if (err)
        kubelet_words_finish(&mounts);
    else
        *ret = mounts;
    return err;
}
