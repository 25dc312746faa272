// SPDX-License-Identifier: Apache-2.0
// The kubelet of one node: a worker per pod, made and ended by changes of the pod cache. At the
// start it kills what a former kubelet of the data directory left, found by recorded processes and
// by a mark in their environment. Simulated machines have kubelets that share the first one's
// parts.
#include "local/kubelet.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/event.h"
#include "kube/names.h"
#include "kube/object.h"
#include "local/kubelet/hosts.h"
#include "local/kubelet/images.h"
#include "local/kubelet/kubelet_private.h"
#include "local/kubelet/logs.h"
#include "local/kubelet/mounts.h"
#include "local/kubelet/node.h"
#include "local/kubelet/pod_ips.h"
#include "local/kubelet/pod_worker.h"
#include "local/kubelet/shim.h"
#include "local/kubelet/start_guard.h"
#include "local/kubelet/streaming.h"
#include "local/kubelet/volumes.h"
#include "local/pod.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/file.h>

enum { STOP_EXTRA_MS = 5000 }; // beyond the grace time, until we give up waiting

// --- what a former kubelet left ---

static void kill_if_same(pid_t pid, uint64_t start_ticks)
{
    if (pid > 1 && start_ticks && kubelet_proc_start_time(pid) == start_ticks)
        kill(pid, SIGKILL);
}

// true when the container of this status file may have left something.
static bool kill_recorded(const char *path)
{
    struct kubelet_shim_status s;
    GS_AUTO_ERROR struct gs_error *err = kubelet_shim_status_read(path, &s);
    if (err || s.finished_ms)
        return false;
    kill_if_same(s.shim_pid, s.shim_start_ticks);
    kill_if_same(s.pid, s.start_ticks);
    return true;
}

static void kill_leftovers_of(const struct kubelet *k, const char *uid)
{
    GS_AUTO_FREE char *pattern =
        gs_format("%s/%s/%s/*/*.status", k->data_dir, KUBELET_DIR_CONTAINERS, uid);
    GS_AUTO_FREE char *mark = gs_format("%s=%s", LOCAL_ENV_POD_UID, uid);
    glob_t found;
    bool any = false;
    if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            any = kill_recorded(found.gl_pathv[i]) || any;
        globfree(&found);
    }
    if (any)
        kubelet_proc_kill_marked(mark, NULL);
}

static void each_known_pod(struct kubelet *k, const char *what,
                           void (*fn)(const struct kubelet *k, const char *uid))
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", k->data_dir, what);
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.')
            fn(k, e->d_name);
    closedir(dir);
}

static void remove_if_unknown(const struct kubelet *k, const char *uid)
{
    if (gs_hmap_get_str(k->workers, uid))
        return;
    GS_AUTO_FREE char *work = gs_format("%s/%s/%s", k->data_dir, KUBELET_DIR_PODS, uid);
    GS_AUTO_FREE char *logs = gs_format("%s/%s/%s", k->data_dir, KUBELET_DIR_CONTAINERS, uid);
    gs_remove_tree(work);
    gs_remove_tree(logs);
}

// --- pods come and go ---

static bool is_plain_word(const char *s)
{
    size_t n = s ? strspn(s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") : 0;
    return n > 0 && n < 128 && s[n] == '\0';
}

// They become names of folders.
static bool has_safe_names(const json_t *pod)
{
    static const char *const lists[] = {"containers", "initContainers"};
    if (!is_plain_word(kube_uid(pod)))
        return false;
    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++) {
        size_t i;
        json_t *c;
        json_array_foreach (codec_json_get(pod, "spec", lists[l], NULL), i, c)
            if (!is_plain_word(codec_json_str(c, "name", NULL)))
                return false;
    }
    return true;
}

static bool is_ours(const struct kubelet *k, const json_t *pod)
{
    return gs_streq(kube_pod_node(pod), k->node_name) && has_safe_names(pod);
}

static struct kubelet_worker *find_worker(const struct kubelet *k, const json_t *pod)
{
    const char *uid = kube_uid(pod);
    return uid ? gs_hmap_get_str(k->workers, uid) : NULL;
}

static void on_change(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct kubelet *k = arg;
    struct kubelet_worker *former = old_obj ? find_worker(k, old_obj) : NULL;
    // A re-list may show a new pod of the same name in place of the old one.
    if (former && (!new_obj || !gs_streq(kube_uid(old_obj), kube_uid(new_obj)))) {
        kubelet_worker_update(former, NULL);
        if (former->is_static)
            kubelet_statics_sync(k, false);
    }
    if (!new_obj || !is_ours(k, new_obj) || kubelet_static_is_leftover(k, new_obj))
        return;
    struct kubelet_worker *w = find_worker(k, new_obj);
    kubelet_guard_enter(k->guard, kube_uid(new_obj), kube_namespace(new_obj), kube_name(new_obj));
    if (w)
        kubelet_worker_update(w, new_obj);
    else if (!k->stopping)
        gs_hmap_put_str(k->workers, kube_uid(new_obj), kubelet_worker_new(k, new_obj));
    kubelet_guard_leave(k->guard);
}

static void each_worker(struct kubelet *k, void (*fn)(struct kubelet_worker *w))
{
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(k->workers, &pos, &key, &value))
        fn(value);
}

static void on_synced(void *arg)
{
    struct kubelet *k = arg;
    k->synced = true;
    each_known_pod(k, KUBELET_DIR_PODS, remove_if_unknown);
    each_known_pod(k, KUBELET_DIR_CONTAINERS, remove_if_unknown);
    each_worker(k, kubelet_worker_wake);
    kubelet_statics_sync(k, true);
}

void kubelet_forget(struct kubelet *k, struct kubelet_worker *w)
{
    gs_hmap_remove_str(k->workers, w->uid);
    kubelet_guard_forget(k->guard, w->uid);
    kubelet_worker_free(w);
}

// --- making ---

static char *find_podnet(const char *self_exe)
{
    // Beside the program, in the build folder, or where meson installs it.
    static const char *const places[] = {"", "../local/", "../lib/gpuscale/", "../lib/*/gpuscale/",
                                         "../lib64/gpuscale/"};
    const char *slash = strrchr(self_exe, '/');
    char *path = NULL;
    for (size_t i = 0; slash && !path && i < GS_ARRAY_LEN(places); i++) {
        GS_AUTO_FREE char *pattern =
            gs_format("%.*s/%slibgpuscale-podnet.so", (int)(slash - self_exe), self_exe, places[i]);
        glob_t found;
        if (!strchr(places[i], '*')) { // the program's folder may have characters of a pattern
            path = realpath(pattern, NULL);
            continue;
        }
        if (glob(pattern, 0, NULL, &found) != 0)
            continue;
        path = realpath(found.gl_pathv[0], NULL);
        globfree(&found);
    }
    return path;
}

// LD_PRELOAD is a list separated by spaces and colons, in which '$' begins a variable, and nothing
// is escaped. For a library with such a path, a link is made in a directory of its own. A path in
// /proc/PID/fd would not do: it cannot be opened in the user namespace of a container.
static void set_podnet(struct kubelet *k)
{
    k->podnet = find_podnet(k->self_exe);
    if (!k->podnet || !strpbrk(k->podnet, " \t\n:$"))
        return;
    char dir[] = "/var/tmp/gpuscale-podnet-XXXXXX";
    GS_AUTO_FREE char *library = GS_TAKE(k->podnet);
    if (!mkdtemp(dir))
        return;
    k->podnet_dir = gs_strdup(dir);
    GS_AUTO_FREE char *link = gs_format("%s/libgpuscale-podnet.so", dir);
    if (chmod(dir, 0755) == 0 && symlink(library, link) == 0) // pods may have other users
        k->podnet = GS_TAKE(link);
}

static void remove_podnet_dir(struct kubelet *k)
{
    if (!k->podnet_dir)
        return;
    if (k->podnet)
        unlink(k->podnet);
    rmdir(k->podnet_dir);
    free(k->podnet_dir);
}

// Two kubelets on one data directory would end each other's containers.
static struct gs_error *lock_data_dir(struct kubelet *k)
{
    GS_AUTO_FREE char *path = gs_format("%s/kubelet.lock", k->data_dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return gs_error_errno(errno, "%s", path);
    k->lock_fd = fd;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return NULL;
    if (errno == EWOULDBLOCK)
        return gs_error_new(GS_EEXIST,
                            "%s is in use by another gpuscale: end it, or choose another "
                            "--data-dir",
                            k->data_dir);
    return gs_error_errno(errno, "locking %s", path);
}

static struct gs_error *open_data_dir(struct kubelet *k, const char *dir)
{
    if (!dir)
        return gs_error_new(GS_EINVAL, "the kubelet needs a data directory");
    struct gs_error *err = gs_mkdir_p(dir, 0700);
    if (err)
        return err;
    k->data_dir = realpath(dir, NULL);
    if (!k->data_dir)
        return gs_error_errno(errno, "%s", dir);
    k->tools_dir = gs_format("%s/tools", k->data_dir);
    err = lock_data_dir(k);
    return err ? err : kubelet_guard_open(k->data_dir, &k->guard);
}

static size_t count_renamed(const struct kubelet *k)
{
    size_t n = 0;
    for (size_t i = 0; k->slices_renamed && i < k->device_ids.len; i++)
        n += local_gpu_is_slice(k->device_ids.items[i]);
    return n;
}

static void copy_config(struct kubelet *k, const struct local_kubelet_config *cfg)
{
    k->self_exe = gs_strdup(cfg->self_exe);
    k->first = cfg->first ? cfg->first : k;
    k->node_name = gs_strdup(cfg->first ? cfg->node_name : k->cluster->node_name);
    k->address = gs_strdup(cfg->first ? cfg->address : LOCAL_NODE_IP);
    k->simulated_gpus = cfg->simulated_gpus;
    k->slices_renamed = cfg->slices_renamed;
    k->slices_single = cfg->slices_single;
    k->reported_images = json_object();
    for (size_t i = 0; i < cfg->n_devices; i++)
        kubelet_words_add(&k->device_ids, cfg->device_ids[i]);
    for (size_t i = 0; cfg->extra_env && cfg->extra_env[i]; i++)
        kubelet_words_add(&k->extra_env, cfg->extra_env[i]);
    if (cfg->podresources_socket) {
        const char *slash = strrchr(cfg->podresources_socket, '/');
        k->podresources_dir =
            slash ? gs_strndup(cfg->podresources_socket, (size_t)(slash - cfg->podresources_socket))
                  : gs_strdup(".");
    }
    k->api_port = cfg->api_port;
    k->work_dir = cfg->work_dir ? gs_strdup(cfg->work_dir) : getcwd(NULL, 0);
}

static void check_mounts(struct kubelet *k)
{
    GS_AUTO_ERROR struct gs_error *err = kubelet_mounts_check();
    if (err)
        k->mount_problem = gs_strdup(gs_error_message(err));
}

// The parent of the path exists on no machine, so more is needed than for another mount. A pod that
// does not need the token must not fail because of it.
static struct gs_error *try_token_mount(const struct kubelet *k)
{
    GS_AUTO_FREE char *staging = gs_format("%s/" KUBELET_DIR_STAGING, k->data_dir);
    GS_AUTO_FREE char *mount = kubelet_mount_text(LOCAL_ACCESS_PATH, true, k->data_dir);
    struct gs_error *err = gs_mkdir_p(staging, 0700);
    if (!err)
        err = kubelet_mounts_try(staging, &mount, 1);
    rmdir(staging);
    return err;
}

static void check_token_mount(struct kubelet *k)
{
    if (k->mount_problem)
        return;
    GS_AUTO_ERROR struct gs_error *err = try_token_mount(k);
    k->mounts_tokens = !err;
    if (err)
        gs_warn("kubelet", "pods run without the token of their service account: %s",
                gs_error_message(err));
}

static void on_stop_timer(void *arg);

// The parts that all kubelets of this program share.
static struct gs_error *start_first(struct kubelet *k, const struct local_kubelet_config *cfg)
{
    set_podnet(k);
    k->ips = kubelet_pod_ips_new(k->data_dir);
    k->hosts = kubelet_hosts_new(k);
    return kubelet_images_new(cfg->self_exe, cfg->images, cfg->n_images, &k->images);
}

static void join_first(struct kubelet *k)
{
    k->podnet = k->first->podnet;
    k->ips = k->first->ips;
    k->images = k->first->images;
    k->hosts = k->first->hosts;
    k->mounts_tokens = k->first->mounts_tokens;
    k->api_port = k->first->api_port;
    k->next = k->first->next;
    k->first->next = k;
}

static void leave_first(struct kubelet *k)
{
    for (struct kubelet **p = &k->first->next; *p; p = &(*p)->next)
        if (*p == k) {
            *p = k->next;
            return;
        }
}

static struct gs_error *start(struct kubelet *k, const struct local_kubelet_config *cfg)
{
    struct gs_error *err = open_data_dir(k, cfg->first ? cfg->data_dir : k->cluster->data_dir);
    if (!err && k->first == k)
        err = start_first(k, cfg);
    else if (!err)
        join_first(k);
    if (!err && cfg->podresources_socket)
        err = kubelet_podresources_new(k, cfg->podresources_socket, &k->podresources);
    if (err)
        return err;
    check_mounts(k);
    if (k->first == k)
        check_token_mount(k);
    err = kubelet_images_link_tools(k->self_exe, k->tools_dir);
    if (err)
        return err;
    k->recorder = kube_recorder_new(k->cluster->client, "kubelet", k->node_name);
    size_t n_shared = count_renamed(k);
    struct kubelet_node_config node = {.name = k->node_name,
                                       .address = k->address,
                                       .provider_id = cfg->provider_id,
                                       .not_ready = cfg->not_ready,
                                       .capacity = cfg->capacity,
                                       .control_plane = k->first == k,
                                       .labels = cfg->node_labels,
                                       .taints = cfg->node_taints,
                                       .n_gpus = cfg->n_devices - n_shared,
                                       .n_shared = n_shared,
                                       .max_pods = cfg->max_pods,
                                       .data_dir = k->data_dir};
    k->node = kubelet_node_new(k->cluster, &node);
    if (k->first == k)
        k->claims = kubelet_claims_new(k);
    each_known_pod(k, KUBELET_DIR_CONTAINERS, kill_leftovers_of);
    const struct local_api_kubelet handlers_of_api = {.logs = kubelet_logs_handle,
                                                      .connect = kubelet_streams_handle,
                                                      .serve = kubelet_serve_path,
                                                      .ctx = k};
    if (k->api)
        local_api_set_kubelet(k->api, k->node_name, &handlers_of_api);
    struct kube_cache_handlers handlers = {
        .on_change = on_change, .on_synced = on_synced, .arg = k};
    kube_cache_add_handlers(k->cluster->pods, &handlers);
    return NULL;
}

struct gs_error *kubelet_new(struct local_cluster *c, struct local_api *api,
                             const struct local_kubelet_config *cfg, struct kubelet **ret)
{
    struct kubelet *k = gs_alloc(sizeof(*k));
    k->cluster = c;
    k->api = api;
    k->lock_fd = -1;
    k->workers = gs_hmap_new(NULL);
    k->stop_timer = gs_timer_new(c->loop, k);
    copy_config(k, cfg);
    struct gs_error *err = start(k, cfg);
    if (err) {
        kubelet_free(k);
        return gs_error_wrap(err, "starting the kubelet");
    }
    *ret = k;
    return NULL;
}

void kubelet_set_devices(struct kubelet *k, const char *const *ids, size_t n)
{
    kubelet_words_finish(&k->device_ids);
    k->device_ids = (struct kubelet_words){0};
    for (size_t i = 0; i < n; i++)
        kubelet_words_add(&k->device_ids, ids[i]);
    size_t n_shared = count_renamed(k);
    kubelet_node_set_gpus(k->node, n - n_shared, n_shared);
}

void kubelet_set_ready(struct kubelet *k, const char *message)
{
    kubelet_node_set_ready(k->node, message);
}

void kubelet_set_port(struct kubelet *k, uint16_t port)
{
    kubelet_node_set_port(k->node, port);
}

void kubelet_add_labels(struct kubelet *k, const json_t *labels)
{
    kubelet_node_add_labels(k->node, labels);
}

// --- the end ---

static void stopped(struct kubelet *k)
{
    void (*done)(void *arg) = k->stop_done;
    k->stop_done = NULL;
    gs_timer_stop(k->stop_timer);
    if (done)
        done(k->stop_arg);
}

static bool any_alive(const struct kubelet *k)
{
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(k->workers, &pos, &key, &value))
        if (kubelet_worker_alive(value))
            return true;
    return false;
}

void kubelet_maybe_stopped(struct kubelet *k)
{
    if (!any_alive(k))
        stopped(k);
}

static void on_stop_timer(void *arg)
{
    struct kubelet *k = arg;
    if (any_alive(k))
        gs_warn("kubelet", "some containers did not end; going on without waiting for them");
    stopped(k);
}

void kubelet_stop(struct kubelet *k, unsigned timeout_ms, void (*done)(void *arg), void *arg)
{
    k->stopping = true;
    k->stop_done = done;
    k->stop_arg = arg;
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(k->workers, &pos, &key, &value))
        kubelet_worker_stop(value, timeout_ms);
    gs_timer_start(k->stop_timer, on_stop_timer,
                   any_alive(k) ? (uint64_t)timeout_ms + STOP_EXTRA_MS : 0);
}

void kubelet_free(struct kubelet *k)
{
    if (!k)
        return;
    kube_cache_remove_handlers(k->cluster->pods, k);
    if (k->api)
        local_api_set_kubelet(k->api, k->node_name, NULL);
    kubelet_streams_close_all(k);
    kubelet_logs_close_all(k);
    kubelet_podresources_free(k->podresources);
    kubelet_node_free(k->node);
    kubelet_claims_free(k->claims);
    kubelet_statics_free(k);
    each_worker(k, kubelet_worker_free);
    gs_hmap_free(k->workers);
    if (k->first == k) {
        kubelet_hosts_free(k->hosts);
        kubelet_pod_ips_free(k->ips);
        kubelet_images_free(k->images);
        remove_podnet_dir(k);
        free(k->podnet);
    } else {
        leave_first(k);
    }
    kube_recorder_free(k->recorder);
    kubelet_guard_free(k->guard);
    gs_timer_free(k->stop_timer);
    kubelet_words_finish(&k->extra_env);
    kubelet_words_finish(&k->device_ids);
    if (k->lock_fd >= 0)
        close(k->lock_fd);
    free(k->self_exe);
    free(k->node_name);
    free(k->address);
    free(k->data_dir);
    free(k->work_dir);
    free(k->podresources_dir);
    free(k->tools_dir);
    json_decref(k->reported_images);
    free(k->mount_problem);
    free(k);
}
