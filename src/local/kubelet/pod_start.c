// SPDX-License-Identifier: Apache-2.0
// Starts a container, in the order of the kubelet: image, environment, volumes, folders, process.
// A step that must wait (a fetch, a missing key, GPUs) sets the waiting reason that Kubernetes
// has, and the container is tried again.
#include "local/kubelet/pod_worker.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/event.h"
#include "local/kubelet/hosts.h"
#include "local/kubelet/images.h"
#include "local/kubelet/mounts.h"
#include "local/kubelet/podenv.h"
#include "local/kubelet/process.h"
#include "local/kubelet/start_guard.h"
#include "local/kubelet/volumes.h"
#include "local/pod.h"
#include "local/ports.h"

#include <inttypes.h>
#include <sys/stat.h>

enum { CONFIG_RETRY_MS = 5000, PULL_BACKOFF_MS = 2000 };

// Variables of the kubelet's own environment that commands of this machine need.
static const char *const inherited[] = {"PATH",   "HOME", "USER",   "LANG",
                                        "LC_ALL", "TZ",   "TMPDIR", "LD_LIBRARY_PATH"};

// For a process of local/standin.
static void set_standin(struct kubelet_env *env, const struct kubelet_container *c)
{
    const struct kubelet *k = c->worker->k;
    const struct kubelet_substitute *s =
        kubelet_images_substitute_of(k->images, kubelet_container_spec(c));
    if (!kubelet_substitute_is_standin(s))
        return;
    GS_AUTO_FREE char *socket = gs_format("%s/" LOCAL_STANDIN_SOCKET, k->first->data_dir);
    kubelet_env_set(env, LOCAL_ENV_STANDIN_SOCKET, socket);
    kubelet_env_set(env, LOCAL_ENV_STANDIN_IMAGE, c->image);
    kubelet_env_set(env, LOCAL_ENV_STANDIN_TEXT, s->text);
}

static void set_identity(struct kubelet_env *env, const struct kubelet_container *c)
{
    const struct kubelet_worker *w = c->worker;
    kubelet_env_set(env, LOCAL_ENV_POD_UID, w->uid);
    kubelet_env_set(env, LOCAL_ENV_POD_NAME, w->name);
    kubelet_env_set(env, LOCAL_ENV_POD_NS, w->ns);
    kubelet_env_set(env, LOCAL_ENV_CONTAINER, c->name);
    kubelet_env_set(env, LOCAL_ENV_POD_IP, w->ip);
    set_standin(env, c);
    if (local_ports_first() > 0) {
        // For the library that is loaded into the processes: see podnet.c.
        GS_AUTO_FREE char *ports = gs_format("%d %d%s%s", local_ports_first(), LOCAL_PORT_SHIFT,
                                             w->ports ? " " : "", w->ports ? w->ports : "");
        kubelet_env_set(env, "GPUSCALE_POD_PORTS", ports);
    }
}

// Variables that the image would set.
static void set_image_env(struct kubelet_env *env, const struct kubelet_container *c)
{
    const struct kubelet *k = c->worker->k;
    const struct kubelet_substitute *s = kubelet_images_substitute(k->images, c->image);
    GS_AUTO_FREE char *gpus = kubelet_env_gpus(c->worker->pod, c->name);
    const json_t *ports = codec_json_get(kubelet_container_spec(c), "ports", NULL);
    long long port = codec_json_int(json_array_get(ports, 0), 0, "containerPort", NULL);
    if ((s && s->gpu) || *gpus) {
        GS_AUTO_FREE char *path = gs_format("%s:%s", k->tools_dir, kubelet_env_get(env, "PATH"));
        kubelet_env_set(env, "PATH", path);
    }
    if (s && s->port && port > 0) {
        GS_AUTO_FREE char *text = gs_format("%lld", port);
        kubelet_env_set(env, "PORT", text);
    }
    const char *label = s ? kubelet_substitute_hostname_label(c->image) : NULL;
    if (label)
        kubelet_env_set(env, "GPUSCALE_EXPORTER_HOSTNAME_LABEL", label);
    if (c->init)
        kubelet_env_set(env, "GPUSCALE_INIT_CONTAINER", "true");
    if (k->mount_problem && k->podresources_dir) {
        GS_AUTO_FREE char *socket = gs_format("%s/kubelet.sock", k->podresources_dir);
        kubelet_env_set(env, "DCGM_POD_RESOURCES_KUBELET_SOCKET", socket);
    }
}

// The variables of Kubernetes' Service "kubernetes". Without the token, a program would find a
// cluster that it cannot use.
static void set_service_env(struct kubelet_env *env, const struct kubelet *k)
{
    if (!k->api_port || !k->mounts_tokens)
        return;
    GS_AUTO_FREE char *port = gs_format("%u", k->api_port);
    GS_AUTO_FREE char *url = gs_format("tcp://" LOCAL_NODE_IP ":%s", port);
    const char *const values[][2] = {
        {"", url}, {"_PROTO", "tcp"}, {"_PORT", port}, {"_ADDR", LOCAL_NODE_IP}};
    kubelet_env_set(env, "KUBERNETES_SERVICE_HOST", LOCAL_NODE_IP);
    kubelet_env_set(env, "KUBERNETES_SERVICE_PORT", port);
    kubelet_env_set(env, "KUBERNETES_SERVICE_PORT_HTTPS", port);
    kubelet_env_set(env, "KUBERNETES_PORT", url);
    for (size_t i = 0; i < GS_ARRAY_LEN(values); i++) {
        GS_AUTO_FREE char *name = gs_format("KUBERNETES_PORT_%s_TCP%s", port, values[i][0]);
        kubelet_env_set(env, name, values[i][1]);
    }
}

static void set_base(struct kubelet_env *env, const struct kubelet_container *c)
{
    const struct kubelet_worker *w = c->worker;
    const char *hostname = codec_json_str(w->pod, "spec", "hostname", NULL);
    kubelet_env_set(env, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    for (size_t i = 0; i < GS_ARRAY_LEN(inherited); i++) {
        const char *value = getenv(inherited[i]);
        if (value)
            kubelet_env_set(env, inherited[i], value);
    }
#ifdef __SANITIZE_ADDRESS__
    // Without it, programs that are built with the sanitizer fail when a library is preloaded.
    kubelet_env_set(env, "ASAN_OPTIONS", "verify_asan_link_order=0");
#endif
    set_service_env(env, w->k);
    for (size_t i = 0; i < w->k->extra_env.len; i++) {
        const char *entry = w->k->extra_env.items[i];
        const char *value = strchr(entry, '=');
        GS_AUTO_FREE char *name = value ? gs_strndup(entry, (size_t)(value - entry)) : NULL;
        if (name)
            kubelet_env_set(env, name, value + 1);
    }
    set_image_env(env, c);
    kubelet_env_set(env, "HOSTNAME", hostname ? hostname : w->name);
    kubelet_env_set(env, "POD_IP", w->ip);
    set_identity(env, c);
}

// A container without GPUs sees none, unless its manifest says otherwise; what the scheduler gave
// cannot be overridden, since numbers would mean other GPUs here than in a real container.
static struct gs_error *fill_env(struct kubelet_env *env, const struct kubelet_container *c,
                                 const json_t *sources)
{
    const struct kubelet_worker *w = c->worker;
    GS_AUTO_FREE char *gpus = kubelet_env_gpus(w->pod, c->name);
    set_base(env, c);
    kubelet_env_set(env, "CUDA_VISIBLE_DEVICES", "");
    kubelet_env_set(env, "NVIDIA_VISIBLE_DEVICES", "void");
    struct kubelet_env_context ctx = {
        .pod = w->pod,
        .container = kubelet_container_spec(c),
        .pod_ip = w->ip,
        .host_ip = w->k->address,
        .node = kube_cache_get(w->k->cluster->nodes, NULL, w->k->node_name),
        .sources = sources,
    };
    struct gs_error *err = kubelet_env_add_spec(env, &ctx);
    set_identity(env, c);
    if (*gpus) {
        kubelet_env_set(env, "CUDA_VISIBLE_DEVICES", gpus);
        kubelet_env_set(env, "NVIDIA_VISIBLE_DEVICES", gpus);
    }
    return err ? err : kubelet_env_take_error(env);
}

// Replaces c->env.
static struct gs_error *build_env(struct kubelet_container *c, const json_t *sources)
{
    GS_CLEANUP(kubelet_env_finish) struct kubelet_env env = {0};
    struct gs_error *err = fill_env(&env, c, sources);
    if (err)
        return err;
    kubelet_env_finish(&c->env);
    c->env = env;
    env = (struct kubelet_env){0};
    return NULL;
}

// The image's own program lies in its working folder in many images ("./vectorAdd"): so it does
// here, also for a pod that brings its own command.
static void link_program(const struct kubelet_container *c, const char *own)
{
    const struct kubelet_words *mapped = kubelet_images_find(c->worker->k->images, c->image);
    const struct kubelet_substitute *s = kubelet_images_substitute(c->worker->k->images, c->image);
    const char *base = mapped ? strrchr(mapped->items[0], '/') : NULL;
    if (!base)
        return;
    GS_AUTO_FREE char *link = gs_format("%s/%s", own, s && s->link ? s->link : base + 1);
    unlink(link);
    if (symlink(mapped->items[0], link) < 0)
        gs_debug("kubelet", "%s: %m", link);
}

static void remove_old_logs(const struct kubelet_container *c)
{
    static const char *const suffixes[] = {"log", "log.1", "status", "console"};
    for (size_t i = 0; c->restart_count >= 2 && i < GS_ARRAY_LEN(suffixes); i++) {
        GS_AUTO_FREE char *path = kubelet_container_file(c, c->restart_count - 2, suffixes[i]);
        unlink(path);
    }
}

static struct gs_error *make_folders(const struct kubelet_container *c, char **ret_own)
{
    GS_AUTO_FREE char *own = kubelet_worker_path(c->worker, KUBELET_DIR_PODS, c->name);
    GS_AUTO_FREE char *logs = kubelet_worker_path(c->worker, KUBELET_DIR_CONTAINERS, c->name);
    struct gs_error *err = gs_mkdir_p(own, 0700);
    if (!err)
        err = gs_mkdir_p(logs, 0700);
    if (!err)
        *ret_own = GS_TAKE(own);
    return err;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode) && access(path, X_OK) == 0;
}

static bool is_mounted(const char *path, const struct kubelet_words *mounts)
{
    for (size_t i = 0; i < mounts->len; i++) {
        size_t len = strcspn(mounts->items[i], ":");
        if (strncmp(path, mounts->items[i], len) == 0 && (path[len] == '/' || path[len] == '\0'))
            return true;
    }
    return false;
}

// The pod's workingDir as a folder of this machine; NULL: it has none. An image often has one that
// this machine lacks (/app).
static char *given_dir(const struct kubelet_container *c, const struct kubelet_words *mounts)
{
    const struct kubelet_worker *w = c->worker;
    const char *dir = codec_json_str(kubelet_container_spec(c), "workingDir", NULL);
    if (!dir || !*dir)
        return NULL;
    GS_AUTO_FREE char *path =
        *dir == '/' || !w->k->work_dir ? gs_strdup(dir) : gs_format("%s/%s", w->k->work_dir, dir);
    if (is_folder(path) || is_mounted(path, mounts))
        return GS_TAKE(path);
    kube_event(w->k->recorder, w->pod, "Warning", "WorkingDirNotFound",
               "Container %s: workingDir %s is not a directory of this machine that can be "
               "entered; it is ignored",
               c->name, path);
    return NULL;
}

// Words of --image such as "python3 app.py" are relative to where it was typed. A pod's own command
// finds its image's program in a folder of its own.
static char *choose_cwd(const struct kubelet_container *c, const char *own,
                        const struct kubelet_words *mounts)
{
    const struct kubelet *k = c->worker->k;
    char *given = given_dir(c, mounts);
    if (given)
        return given;
    bool own_command = json_array_size(json_object_get(kubelet_container_spec(c), "command")) > 0 ||
                       kubelet_images_substitute(k->images, c->image);
    return gs_strdup(!own_command && is_folder(k->work_dir) ? k->work_dir : own);
}

static char *make_container_id(const struct kubelet_container *c)
{
    char id[65];
    GS_AUTO_FREE char *what =
        gs_format("%s/%s/%u/%" PRId64, c->worker->uid, c->name, c->restart_count, gs_unix_us());
    uint64_t h = gs_hash(what, strlen(what));
    for (size_t i = 0; i < 4; i++) {
        snprintf(id + i * 16, sizeof(id) - i * 16, "%016" PRIx64, h);
        h = gs_hash(&h, sizeof(h));
    }
    return gs_format("gpuscale://%s", id);
}

static void begin_instance(struct kubelet_container *c)
{
    if (c->has_run)
        c->restart_count++;
    c->has_run = true;
    c->started_ms = 0;
    c->stopping = false;
    free(c->failed_image);
    c->failed_image = NULL;
    free(c->container_id);
    c->container_id = make_container_id(c);
}

static struct gs_error *make_staging(const struct kubelet_container *c, char **ret)
{
    GS_AUTO_FREE char *pod = kubelet_worker_path(c->worker, KUBELET_DIR_PODS, NULL);
    GS_AUTO_FREE char *path = gs_format("%s/" KUBELET_DIR_STAGING, pod);
    struct gs_error *err = gs_mkdir_p(path, 0700);
    if (!err)
        *ret = GS_TAKE(path);
    return err;
}

static struct gs_error *try_launch(struct kubelet_container *c, const struct kubelet_words *argv,
                                   const struct kubelet_words *mounts)
{
    struct kubelet *k = c->worker->k;
    GS_AUTO_FREE char *own = NULL, *staging = NULL;
    struct gs_error *err = make_folders(c, &own);
    if (!err && mounts->len)
        err = make_staging(c, &staging);
    if (err)
        return err;
    free(c->cwd);
    c->cwd = choose_cwd(c, own, mounts);
    c->mounted = mounts->len > 0;
    begin_instance(c);
    kubelet_env_set(&c->env, KUBELET_ENV_CONTAINER_ID, c->container_id);
    link_program(c, own);
    remove_old_logs(c);
    GS_AUTO_FREE char *log = kubelet_container_file(c, c->restart_count, "log");
    GS_AUTO_FREE char *status = kubelet_container_file(c, c->restart_count, "status");
    GS_AUTO_FREE char *console = kubelet_container_file(c, c->restart_count, "console");
    bool tty = codec_json_bool(kubelet_container_spec(c), false, "tty", NULL);
    char hostname[KUBELET_HOSTNAME_SIZE];
    // As container runtimes do.
    if (tty && !kubelet_env_get(&c->env, "TERM"))
        kubelet_env_set(&c->env, "TERM", "xterm");
    err = kubelet_env_take_error(&c->env);
    if (err)
        return err;
    GS_CLEANUP(kubelet_words_finish) struct kubelet_words keep = {0};
    kubelet_container_keep(c, argv->items[0], own, &keep);
    struct kubelet_process_spec spec = {
        .self_exe = k->self_exe,
        .argv = argv->items,
        .env = c->env.words.items,
        .cwd = c->mounted ? own : c->cwd,
        .inner_cwd = c->mounted ? c->cwd : NULL,
        .mounts = mounts,
        .staging = staging,
        .keep = &keep,
        .hostname = kubelet_worker_hostname(c->worker, hostname),
        .preload = k->podnet,
        .log_path = log,
        .status_path = status,
        .console_path = console,
        .with_stdin = codec_json_bool(kubelet_container_spec(c), false, "stdin", NULL),
        .tty = tty,
        .grace_ms = (unsigned)kubelet_worker_default_grace_ms(c->worker),
    };
    return kubelet_process_start(k->cluster->loop, &spec, &kubelet_container_callbacks, c,
                                 &c->process);
}

// An instance whose process could not be started does not count.
static struct gs_error *launch(struct kubelet_container *c, const struct kubelet_words *argv,
                               const struct kubelet_words *mounts)
{
    bool had_run = c->has_run;
    unsigned restarts = c->restart_count;
    struct gs_error *err = try_launch(c, argv, mounts);
    if (err) {
        c->has_run = had_run;
        c->restart_count = restarts;
    }
    return err;
}

static void fail_config(struct kubelet_container *c, const char *message)
{
    kube_event(c->worker->k->recorder, c->worker->pod, "Warning", "Failed", "Error: %s", message);
    kubelet_container_wait(c, "CreateContainerConfigError", "%s", message);
    kubelet_container_retry(c, CONFIG_RETRY_MS);
}

static void add_first(struct kubelet_words *mounts, const char *target, const char *source)
{
    GS_AUTO_FREE char *text = kubelet_mount_text(target, false, source);
    kubelet_words_add(mounts, text);
    char *last = mounts->items[mounts->len - 1];
    memmove(mounts->items + 1, mounts->items, (mounts->len - 1) * sizeof(*mounts->items));
    mounts->items[0] = last;
}

// A workingDir that this machine lacks is the container's own directory. It may contain mounts, so
// it comes before them.
static void add_working_dir(const struct kubelet_container *c, struct kubelet_words *mounts)
{
    const char *dir = codec_json_str(kubelet_container_spec(c), "workingDir", NULL);
    if (!dir || *dir != '/' || !kubelet_is_inner_path(dir + 1) || strchr(dir, ':') ||
        access(dir, F_OK) == 0 || is_mounted(dir, mounts))
        return;
    GS_AUTO_FREE char *own = kubelet_worker_path(c->worker, KUBELET_DIR_PODS, c->name);
    add_first(mounts, dir, own);
}

// The file of terminationMessagePath. The default is in /dev, which stays as it is.
static struct gs_error *add_message_file(const struct kubelet_container *c,
                                         struct kubelet_words *mounts)
{
    const char *path = codec_json_str(kubelet_container_spec(c), "terminationMessagePath", NULL);
    if (!path || *path != '/' || gs_starts(path, "/dev/") || !kubelet_is_inner_path(path + 1) ||
        strchr(path, ':'))
        return NULL;
    GS_AUTO_FREE char *file = kubelet_container_file(c, 0, "message");
    GS_AUTO_FREE char *text = kubelet_mount_text(path, false, file);
    kubelet_words_add(mounts, text);
    return gs_file_write_atomic(file, 0666, gs_slice_make("", 0));
}

// Names of Services, unless the pod has a file of its own there. The containers of a namespace
// share the file, so none may write it.
static struct gs_error *add_hosts(const struct kubelet_container *c, struct kubelet_words *mounts)
{
    static const char target[] = "/etc/hosts";
    GS_AUTO_FREE char *file = NULL;
    if (is_mounted(target, mounts))
        return NULL;
    struct gs_error *err = kubelet_hosts_file(c->worker->k->hosts, c->worker->ns, &file);
    if (err)
        return gs_error_wrap(err, "the names of Services");
    GS_AUTO_FREE char *text = kubelet_mount_text(target, true, file);
    kubelet_words_add(mounts, text);
    return NULL;
}

static struct gs_error *add_mounts(struct kubelet_container *c, struct kubelet_words *mounts)
{
    GS_AUTO_FREE char *own = NULL;
    if (c->worker->k->mount_problem)
        return NULL;
    struct gs_error *err =
        kubelet_volumes_mounts(c->worker->volumes, kubelet_container_spec(c), &c->env, mounts);
    if (!err)
        err = make_folders(c, &own);
    if (err)
        return err;
    add_working_dir(c, mounts);
    if (is_mounted(KUBELET_SHARED_MEMORY, mounts))
        kubelet_container_keep_gpus(c, mounts);
    err = add_hosts(c, mounts);
    return err ? err : add_message_file(c, mounts);
}

// A debugged container, beside which this one runs, has to have run.
static struct gs_error *check_target(const struct kubelet_container *c)
{
    const char *name = codec_json_str(kubelet_container_spec(c), "targetContainerName", NULL);
    const struct kubelet_container *target =
        name && *name ? kubelet_worker_find(c->worker, name) : NULL;
    if (!name || !*name || (target && target->has_run))
        return NULL;
    return gs_error_new(GS_ENOTFOUND, "unable to find target container %s", name);
}

static void start_with(struct kubelet_container *c, const json_t *sources)
{
    struct kubelet_worker *w = c->worker;
    GS_CLEANUP(kubelet_words_finish) struct kubelet_words argv = {0}, expanded = {0}, mounts = {0};
    GS_AUTO_ERROR struct gs_error *err =
        kubelet_images_argv(w->k->images, kubelet_container_spec(c), &argv);
    if (!err)
        err = check_target(c);
    if (!err)
        err = build_env(c, sources);
    if (!err)
        err = add_mounts(c, &mounts);
    if (!err)
        err = kubelet_env_expand_words(&c->env, &argv, &expanded);
    if (err) {
        fail_config(c, gs_error_message(err));
        return;
    }
    err = launch(c, &expanded, &mounts);
    if (err) {
        kube_event(w->k->recorder, w->pod, "Warning", "Failed", "Error: %s", gs_error_message(err));
        kubelet_container_wait(c, "CreateContainerError", "%s", gs_error_message(err));
        kubelet_container_retry(c, CONFIG_RETRY_MS);
        return;
    }
    kube_event(w->k->recorder, w->pod, "Normal", "Created", "Created container: %s", c->name);
}

static void on_fetched(void *arg, const json_t *sources, const struct gs_error *err)
{
    struct kubelet_container *c = arg;
    const struct kubelet_worker *w = c->worker;
    c->fetch = NULL;
    kubelet_guard_enter(w->k->guard, w->uid, w->ns, w->name);
    if (err)
        fail_config(c, gs_error_message(err));
    else
        start_with(c, sources);
    kubelet_guard_leave(w->k->guard);
}

// The image can never arrive, whatever the waiting reason says.
static void report_absence(const struct kubelet_container *c)
{
    size_t len = strcspn(c->image, "@");
    const char *slash = memrchr(c->image, '/', len), *name = slash ? slash + 1 : c->image;
    const char *colon = memchr(name, ':', len - (size_t)(name - c->image));
    int repository = (int)(colon ? (size_t)(colon - c->image) : len);
    kube_event(c->worker->k->recorder, c->worker->pod, "Warning", "NoSubstitute",
               "nothing runs in place of %.*s on this machine: start gpuscale up with --image "
               "'%.*s:*=COMMAND'%s",
               repository, c->image, repository, c->image, kubelet_absent_hint(c->image));
}

static void fail_image(struct kubelet_container *c, const char *message)
{
    struct kubelet_worker *w = c->worker;
    kube_event(w->k->recorder, w->pod, "Warning", "Failed", "%s", message);
    kube_event(w->k->recorder, w->pod, "Warning", "Failed", "Error: ErrImagePull");
    report_absence(c);
    free(c->failed_image);
    c->failed_image = gs_strdup(c->image);
    kubelet_container_wait(c, "ErrImagePull", "%s", message);
    kubelet_container_retry(c, PULL_BACKOFF_MS);
}

// The scheduler's choice comes with the binding; a pod that was bound by hand waits for it.
static bool waits_for_gpus(const struct kubelet_container *c)
{
    const json_t *spec = kubelet_container_spec(c);
    bool wants = local_container_gpus(spec, LOCAL_GPU) > 0 ||
                 local_container_gpus(spec, LOCAL_GPU_SHARED) > 0;
    GS_AUTO_FREE char *gpus = kubelet_env_gpus(c->worker->pod, c->name);
    return wants && !*gpus;
}

static void report_image(const struct kubelet_container *c)
{
    struct kubelet *k = c->worker->k;
    const struct kubelet_substitute *s =
        kubelet_images_substitute_of(k->images, kubelet_container_spec(c));
    if (!s) {
        kube_event(k->recorder, c->worker->pod, "Normal", "Pulled",
                   "Container image \"%s\" already present on machine", c->image);
        return;
    }
    GS_AUTO_FREE char *text =
        gs_format("Container image \"%s\" is substituted by %s%s", c->image, s->text,
                  s->gpu && k->simulated_gpus ? " (simulated GPUs)" : "");
    kube_event(k->recorder, c->worker->pod, "Normal", "Pulled", "%s", text);
    if (json_object_get(k->reported_images, c->image))
        return;
    json_object_set_new(k->reported_images, c->image, json_true());
    gs_info("kubelet", "%s", text);
}

void kubelet_container_begin(struct kubelet_container *c)
{
    struct kubelet_worker *w = c->worker;
    const json_t *spec = kubelet_container_spec(c);
    const char *image = codec_json_str(spec, "image", NULL);
    free(c->image);
    c->image = gs_strdup(image ? image : "");
    GS_CLEANUP(kubelet_words_finish) struct kubelet_words argv = {0};
    GS_AUTO_ERROR struct gs_error *err = kubelet_images_argv(w->k->images, spec, &argv);
    if (err) {
        fail_image(c, gs_error_message(err));
        return;
    }
    if (waits_for_gpus(c)) {
        kubelet_container_wait(c, "ContainerCreating",
                               "waiting for the scheduler to choose the GPUs (annotation %s)",
                               LOCAL_ANN_GPUS);
        return;
    }
    report_image(c);
    CODEC_AUTO_JSON json_t *refs = json_object();
    kubelet_env_references(spec, refs);
    kubelet_container_wait(c, "ContainerCreating", "%s", "");
    if (json_object_size(refs))
        c->fetch = kubelet_env_fetch_start(w->k->cluster->client, w->ns, refs, on_fetched, c);
    else
        start_with(c, refs);
}
