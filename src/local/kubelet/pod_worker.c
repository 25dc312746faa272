// SPDX-License-Identifier: Apache-2.0
// The worker of one pod: compares what should run with what runs, and reports the status. It is
// woken by changes and never blocks.
// A pod: running its containers -> terminating (deleted, or gone from the API) or finished (all
// ended) -> status published -> removed from the API -> the worker is freed. Freed in on_wake only.
#include "local/kubelet/pod_worker.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/event.h"
#include "kube/object.h"
#include "local/kubelet/kubelet_private.h"
#include "local/kubelet/pod_ips.h"
#include "local/kubelet/start_guard.h"
#include "local/kubelet/volumes.h"
#include "local/pod.h"
#include "local/ports.h"

enum { STATUS_RETRY_MS = 1000, GONE_GRACE_MS = 2000, STARTS_PER_TURN = 16 };

const json_t *kubelet_worker_spec(const struct kubelet_worker *w, const char *member)
{
    return codec_json_get(w->pod, "spec", member, NULL);
}

char *kubelet_worker_path(const struct kubelet_worker *w, const char *what, const char *container)
{
    return gs_format("%s/%s/%s%s%s", w->k->data_dir, what, w->uid, container ? "/" : "",
                     container ? container : "");
}

int64_t kubelet_grace_ms(int64_t seconds)
{
    if (seconds < 0)
        return 0;
    return (seconds < LOCAL_MAX_GRACE_S ? seconds : LOCAL_MAX_GRACE_S) * 1000;
}

int64_t kubelet_worker_default_grace_ms(const struct kubelet_worker *w)
{
    return kubelet_grace_ms(
        codec_json_int(w->pod, 30, "spec", "terminationGracePeriodSeconds", NULL));
}

struct kubelet_container *kubelet_worker_container(const struct kubelet_worker *w, size_t i)
{
    if (i < w->n_containers)
        return &w->containers[i];
    return i - w->n_containers < w->n_ephemeral ? w->ephemeral[i - w->n_containers] : NULL;
}

struct kubelet_container *kubelet_worker_find(const struct kubelet_worker *w, const char *container)
{
    struct kubelet_container *c;
    for (size_t i = 0; (c = kubelet_worker_container(w, i)); i++)
        if (gs_streq(c->name, container))
            return c;
    return NULL;
}

bool kubelet_worker_alive(const struct kubelet_worker *w)
{
    const struct kubelet_container *c;
    for (size_t i = 0; (c = kubelet_worker_container(w, i)); i++)
        if (c->process)
            return true;
    return false;
}

// --- making ---

static const json_t *find_status(const json_t *pod, const char *list, const char *name)
{
    size_t i;
    json_t *status;
    json_array_foreach (codec_json_get(pod, "status", list, NULL), i, status)
        if (gs_streq(codec_json_str(status, "name", NULL), name))
            return status;
    return NULL;
}

static bool has_device(const struct kubelet *k, const char *id)
{
    for (size_t i = 0; i < k->device_ids.len; i++)
        if (gs_streq(k->device_ids.items[i], id))
            return true;
    return false;
}

// Why the device plug-in refuses the GPUs of a container. NULL: it gives them. After a restart, the
// GPUs may be others than those that the scheduler gave.
static char *refusal(const struct kubelet *k, const json_t *ids)
{
    size_t i, slices = 0;
    const json_t *id;
    json_array_foreach ((json_t *)ids, i, id) {
        const char *text = json_string_value(id);
        if (!text || !has_device(k, text))
            return gs_strdup("this machine no longer has the GPUs that the pod was given");
        slices += local_gpu_is_slice(text);
    }
    if (!k->slices_single || slices < 2)
        return NULL;
    return gs_format("invalid request: maximum request size for shared resources is 1; found %zu",
                     slices);
}

// Why the pod is rejected; NULL: it is not.
static char *rejection(const struct kubelet_worker *w)
{
    const char *text = codec_json_str(w->pod, "metadata", "annotations", LOCAL_ANN_GPUS, NULL);
    CODEC_AUTO_JSON json_t *gpus = text ? json_loads(text, 0, NULL) : NULL;
    const char *container;
    json_t *ids;
    json_object_foreach (gpus, container, ids) {
        GS_AUTO_FREE char *why = refusal(w->k, ids);
        if (why)
            return gs_format("Pod was rejected: Allocate failed: %s", why);
    }
    return NULL;
}

static void begin_static(struct kubelet_worker *w)
{
    w->ip = gs_strdup(w->k->address);
    w->start_time_ms = gs_unix_ms();
    for (size_t i = 0; i < w->n_containers; i++) {
        struct kubelet_container *c = &w->containers[i];
        c->state = KUBELET_RUNNING;
        c->has_run = c->started = c->ready = true;
        c->started_ms = w->start_time_ms;
    }
}

static void restore(struct kubelet_worker *w)
{
    const char *phase = kube_phase(w->pod);
    const char *ip = codec_json_str(w->pod, "status", "podIP", NULL);
    const char *since = codec_json_str(w->pod, "status", "startTime", NULL);
    if (ip && kubelet_pod_ips_reserve(w->k->ips, ip))
        w->ip = gs_strdup(ip);
    if (since)
        gs_error_free(gs_parse_rfc3339(gs_slice_of(since), &w->start_time_ms));
    w->finished = w->settled = gs_streq(phase, "Succeeded") || gs_streq(phase, "Failed");
    w->rejected = w->settled ? NULL : rejection(w);
    struct kubelet_container *c;
    for (size_t i = 0; (c = kubelet_worker_container(w, i)); i++) {
        const char *list = c->ephemeral ? "ephemeralContainerStatuses"
                           : c->init    ? "initContainerStatuses"
                                        : "containerStatuses";
        kubelet_container_restore(c, find_status(w->pod, list, c->name));
    }
}

static void on_wake(void *arg);
static void on_retry(void *arg);

// Containers that were added since. They stay until the pod is deleted.
static void add_ephemeral(struct kubelet_worker *w)
{
    size_t i;
    json_t *spec;
    json_array_foreach (kubelet_worker_spec(w, "ephemeralContainers"), i, spec) {
        const char *name = codec_json_str(spec, "name", NULL);
        if (!name || kubelet_worker_find(w, name))
            continue;
        struct kubelet_container *c = gs_alloc(sizeof(*c));
        kubelet_container_init_ephemeral(c, w, name);
        gs_grow(&w->ephemeral, &w->ephemeral_cap, w->n_ephemeral,
                sizeof(struct kubelet_container *));
        w->ephemeral[w->n_ephemeral++] = c;
    }
}

static void take_object(struct kubelet_worker *w, const json_t *pod)
{
    json_decref(w->pod);
    w->pod = json_incref((json_t *)pod);
    if (!kube_is_deleting(pod))
        return;
    w->terminating = true;
    w->grace_ms = kubelet_grace_ms(codec_json_int(pod, kubelet_worker_default_grace_ms(w) / 1000,
                                                  "metadata", "deletionGracePeriodSeconds", NULL));
}

struct kubelet_worker *kubelet_worker_new(struct kubelet *k, const json_t *pod)
{
    struct kubelet_worker *w = gs_alloc(sizeof(*w));
    w->k = k;
    w->uid = gs_strdup(kube_uid(pod));
    w->ns = gs_strdup(kube_namespace(pod));
    w->name = gs_strdup(kube_name(pod));
    w->conditions = json_array();
    w->wake = gs_timer_new(k->cluster->loop, w);
    w->retry = gs_timer_new(k->cluster->loop, w);
    take_object(w, pod);
    w->ports = local_ports_of_pod(pod);
    w->n_init = json_array_size(kubelet_worker_spec(w, "initContainers"));
    w->n_containers = w->n_init + json_array_size(kubelet_worker_spec(w, "containers"));
    w->containers = gs_alloc_array(w->n_containers ? w->n_containers : 1, sizeof(*w->containers));
    for (size_t i = 0; i < w->n_containers; i++)
        kubelet_container_init(&w->containers[i], w, i < w->n_init,
                               i < w->n_init ? i : i - w->n_init);
    add_ephemeral(w);
    w->volumes = kubelet_volumes_new(w);
    w->is_static = kubelet_static_log_path(k, pod);
    if (w->is_static)
        begin_static(w);
    else
        restore(w);
    if (kubelet_guard_skips(k->guard, w->uid))
        kube_event(k->recorder, pod, "Warning", KUBELET_SKIPPED_REASON, KUBELET_SKIPPED_MESSAGE);
    kubelet_worker_wake(w);
    return w;
}

static void remove_files(const struct kubelet_worker *w)
{
    GS_AUTO_FREE char *work = kubelet_worker_path(w, KUBELET_DIR_PODS, NULL);
    GS_AUTO_FREE char *logs = kubelet_worker_path(w, KUBELET_DIR_CONTAINERS, NULL);
    gs_remove_tree(work);
    gs_remove_tree(logs);
}

void kubelet_worker_free(struct kubelet_worker *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->n_containers; i++)
        kubelet_container_finish(&w->containers[i]);
    free(w->containers);
    for (size_t i = 0; i < w->n_ephemeral; i++) {
        kubelet_container_finish(w->ephemeral[i]);
        free(w->ephemeral[i]);
    }
    free(w->ephemeral);
    kubelet_volumes_free(w->volumes);
    if (w->ip)
        kubelet_pod_ips_give_back(w->k->ips, w->ip);
    if (w->gone)
        remove_files(w);
    kube_request_cancel(w->patch);
    kube_request_cancel(w->removal);
    gs_timer_free(w->wake);
    gs_timer_free(w->retry);
    json_decref(w->conditions);
    json_decref(w->sent_status);
    json_decref(w->pod);
    free(w->uid);
    free(w->ns);
    free(w->name);
    free(w->ip);
    free(w->rejected);
    free(w->ports);
    free(w);
}

const char *kubelet_worker_hostname(const struct kubelet_worker *w, char buf[KUBELET_HOSTNAME_SIZE])
{
    const char *name = codec_json_str(w->pod, "spec", "hostname", NULL);

    if (codec_json_bool(w->pod, false, "spec", "hostNetwork", NULL))
        return NULL;
    snprintf(buf, KUBELET_HOSTNAME_SIZE, "%s", name && *name ? name : w->name);
    for (size_t n = strlen(buf); n > 0 && (buf[n - 1] == '-' || buf[n - 1] == '.'); n--)
        buf[n - 1] = '\0'; // where a long name was cut
    return buf;
}

// --- what changes ---

static void apply_spec_change(struct kubelet_container *c)
{
    const char *image = codec_json_str(kubelet_container_spec(c), "image", NULL);
    if (!c->process || c->stopping || !image || gs_streq(image, c->image))
        return;
    GS_AUTO_FREE char *why =
        gs_format("Container %s definition changed, will be restarted", c->name);
    kubelet_container_stop(c, kubelet_worker_default_grace_ms(c->worker), why);
}

void kubelet_worker_update(struct kubelet_worker *w, const json_t *pod)
{
    if (!pod) {
        w->gone = true;
        w->grace_ms = GONE_GRACE_MS;
    } else {
        take_object(w, pod);
        for (size_t i = 0; i < w->n_containers && !w->terminating; i++)
            apply_spec_change(&w->containers[i]);
        if (!w->is_static)
            add_ephemeral(w);
        kubelet_volumes_pod_changed(w->volumes);
    }
    kubelet_worker_wake(w);
}

void kubelet_worker_wake(struct kubelet_worker *w)
{
    gs_timer_start(w->wake, on_wake, 0);
}

void kubelet_worker_stop(struct kubelet_worker *w, int64_t grace_ms)
{
    struct kubelet_container *c;
    w->grace_ms = grace_ms;
    for (size_t i = 0; (c = kubelet_worker_container(w, i)); i++)
        kubelet_container_stop(c, grace_ms, NULL);
}

// --- reporting ---

static void remove_from_api(struct kubelet_worker *w);

static void retry_later(struct kubelet_worker *w)
{
    w->status_refused = true;
    gs_timer_start(w->retry, on_retry, STATUS_RETRY_MS);
}

static void on_retry(void *arg)
{
    struct kubelet_worker *w = arg;
    w->status_refused = false;
    kubelet_worker_wake(w);
}

static void on_patched(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct kubelet_worker *w = arg;
    (void)body;
    w->patch = NULL;
    if (err) {
        json_decref(w->sent_status);
        w->sent_status = NULL;
        // Not found: the cache reports the deletion.
        if (status != 404)
            gs_warn("kubelet", "status of pod %s/%s: %s", w->ns, w->name, gs_error_message(err));
        gs_error_free(err);
        retry_later(w);
        return;
    }
    kubelet_worker_wake(w);
}

// true when the API server has our latest status.
static bool publish(struct kubelet_worker *w)
{
    if (w->settled)
        return true;
    if (w->patch || w->status_refused)
        return false;
    json_t *status = kubelet_worker_status(w);
    if (w->sent_status && json_equal(status, w->sent_status)) {
        json_decref(status);
        return true;
    }
    json_decref(w->sent_status);
    w->sent_status = status;
    CODEC_AUTO_JSON json_t *patch = json_object();
    // The uid makes the server refuse it when another pod has the name by now.
    codec_json_set(patch, json_string(w->uid), "metadata", "uid", NULL);
    json_object_set(patch, "status", status);
    // In one write with the address, so that no client reads the address without its ports.
    if (!gs_streq(kube_annotation(w->pod, KUBE_ANN_PORTS), w->ports))
        codec_json_set(patch, w->ports ? json_string(w->ports) : json_null(), "metadata",
                       "annotations", KUBE_ANN_PORTS, NULL);
    w->patch = kube_patch(w->k->cluster->client, KUBE_PODS, w->ns, w->name, "status",
                          KUBE_MERGE_PATCH, patch, on_patched, w);
    return false;
}

static void on_removed(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct kubelet_worker *w = arg;
    (void)body;
    w->removal = NULL;
    w->removed = !err || status == 404;
    if (!w->removed) {
        gs_warn("kubelet", "deleting pod %s/%s: %s", w->ns, w->name, gs_error_message(err));
        retry_later(w);
    }
    gs_error_free(err);
}

static void remove_from_api(struct kubelet_worker *w)
{
    const json_t *now = kube_cache_get(w->k->cluster->pods, w->ns, w->name);
    if (w->removal || w->removed || w->status_refused || !gs_streq(kube_uid(now), w->uid))
        return;
    w->removal = kube_delete(w->k->cluster->client, KUBE_PODS, w->ns, w->name, 0, on_removed, w);
}

// --- what should run ---

static bool any_process(const struct kubelet_worker *w, bool sidecars)
{
    const struct kubelet_container *c;
    for (size_t i = 0; (c = kubelet_worker_container(w, i)); i++)
        if (c->process && kubelet_container_is_sidecar(c) == sidecars)
            return true;
    return false;
}

// Sidecars end when what they serve has ended.
static void stop_all(struct kubelet_worker *w)
{
    struct kubelet_container *c;
    bool mains = any_process(w, false);
    for (size_t i = 0; (c = kubelet_worker_container(w, i)); i++)
        if (!mains || !kubelet_container_is_sidecar(c))
            kubelet_container_stop(c, w->grace_ms, NULL);
}

// A start waits for the new process, so a pod with many containers starts them in several turns of
// the loop.
static void run_containers(struct kubelet_worker *w)
{
    size_t starts = 0;
    for (size_t i = 0; i < w->n_ephemeral; i++) // also while the pod initializes
        kubelet_container_step(w->ephemeral[i]);
    for (size_t i = 0; i < w->n_containers; i++) {
        struct kubelet_container *c = &w->containers[i];
        if (c->init && !kubelet_container_is_sidecar(c) && c->state == KUBELET_EXITED &&
            c->current.exit_code == 0)
            continue;
        if (starts == STARTS_PER_TURN) {
            kubelet_worker_wake(w);
            return;
        }
        bool had_process = c->process;
        kubelet_container_step(c);
        starts += !had_process && c->process;
        if (c->init && !(kubelet_container_is_sidecar(c) && c->started))
            return;
    }
}

static void say_moved_ports(const struct kubelet_worker *w)
{
    if (!w->ip || !w->ports)
        return;
    GS_AUTO_FREE char *why = local_ports_remedy(local_ports_lowest(w->ports));
    kube_event(w->k->recorder, w->pod, "Normal", "PortMoved",
               "Container ports listen elsewhere on %s (%s): %s", w->ip, w->ports, why);
}

static void begin(struct kubelet_worker *w)
{
    if (!w->ip) {
        w->ip = kubelet_pod_ips_take(w->k->ips);
        say_moved_ports(w);
    }
    if (!w->start_time_ms)
        w->start_time_ms = gs_unix_ms();
    if (w->warned_volumes || !w->k->mount_problem || !kubelet_volumes_of_user(w->volumes))
        return;
    w->warned_volumes = true;
    kube_event(w->k->recorder, w->pod, "Warning", "VolumesNotMounted",
               "Volumes are not mounted: containers see the files of this machine, since mount "
               "namespaces are not available (%s)",
               w->k->mount_problem);
}

static void run(struct kubelet_worker *w)
{
    begin(w);
    if (!w->ip) {
        kube_event(w->k->recorder, w->pod, "Warning", "FailedCreatePodSandBox",
                   "All pod addresses from 127.64.0.1 to 127.95.255.254 are in use");
        return;
    }
    if (w->rejected)
        kube_event(w->k->recorder, w->pod, "Warning", KUBELET_REJECTED_REASON, "%s", w->rejected);
    const char *phase = kubelet_worker_phase(w);
    if (gs_streq(phase, "Succeeded") || gs_streq(phase, "Failed")) {
        w->finished = true;
        w->grace_ms = kubelet_worker_default_grace_ms(w);
        stop_all(w);
        return;
    }
    if (kubelet_volumes_ready(w->volumes))
        run_containers(w);
}

// A pod that ended the process twice: its containers wait until it is deleted.
static void skip(struct kubelet_worker *w)
{
    struct kubelet_container *c;
    for (size_t i = 0; (c = kubelet_worker_container(w, i)); i++)
        if (c->state != KUBELET_EXITED)
            kubelet_container_wait(c, KUBELET_SKIPPED_REASON, "%s", KUBELET_SKIPPED_MESSAGE);
}

// Frees w when its pod is gone and nothing of it is left.
static void sync_worker(struct kubelet_worker *w)
{
    struct kubelet *k = w->k;
    if (w->gone || w->terminating || w->finished)
        stop_all(w);
    else if (kubelet_guard_skips(k->guard, w->uid))
        skip(w);
    else if (!w->is_static)
        run(w);
    if (w->gone) {
        if (!kubelet_worker_alive(w))
            kubelet_forget(k, w);
        return;
    }
    if (publish(w) && w->terminating && !kubelet_worker_alive(w))
        remove_from_api(w);
}

static void on_wake(void *arg)
{
    struct kubelet_worker *w = arg;
    struct kubelet *k = w->k; // w may be freed
    if (k->stopping) {
        kubelet_maybe_stopped(k);
        return;
    }
    if (!k->synced)
        return;
    kubelet_guard_enter(k->guard, w->uid, w->ns, w->name);
    sync_worker(w);
    kubelet_guard_leave(k->guard);
}
