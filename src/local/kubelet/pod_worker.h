// SPDX-License-Identifier: Apache-2.0
// The kubelet's inside: one worker a pod, which holds its containers. Private to the kubelet's
// files. Everything that may change what a pod should do ends in local_worker_wake(); the worker
// then compares what should run with what does, in a later loop turn.
#pragma once

#include "base/hmap.h"
#include "kube/object.h"
#include "local/kubelet.h"
#include "local/kubelet/images.h"
#include "local/kubelet/pod_ips.h"
#include "local/kubelet/probe.h"
#include "local/kubelet/process.h"
#include "local/timer.h"

// Of one instance; by it we find what was left of it.
#define LOCAL_ENV_CONTAINER_ID "GPUSCALE_CONTAINER_ID"

struct local_log_stream;
struct local_node;
struct local_podresources;

struct local_kubelet {
    struct local_cluster *cluster;
    struct local_api *api;
    struct kube_recorder *recorder;
    char *self_exe;
    char *data_dir; // absolute
    char *work_dir; // where the commands of images run; NULL: the current one was removed
    char *podnet;   // the bind() library as LD_PRELOAD takes it, NULL when it was not found
    int podnet_fd;  // the same, where its path cannot be in LD_PRELOAD; else -1
    char *gpu_product;
    struct local_images *images;
    struct local_words extra_env, device_ids;
    struct gs_hmap *workers; // pod UID -> struct local_worker
    struct local_pod_ips *ips;
    struct local_node *node;
    struct local_podresources *podresources;
    struct local_log_stream *log_streams;
    int lock_fd;
    bool synced; // the cache's first list is in: addresses in use are known
    bool stopping;
    struct local_timer *stop_timer;
    void (*stop_done)(void *arg);
    void *stop_arg;
};

enum local_container_state {
    LOCAL_WAITING, // no process; reason says why
    LOCAL_RUNNING,
    LOCAL_EXITED, // `current` says how
};

struct local_termination {
    bool set;
    int exit_code;
    int64_t started_ms, finished_ms; // Unix; 0: unknown
    char *reason, *message, *container_id;
};

struct local_container {
    struct local_worker *worker;
    char *name;
    size_t index; // in spec.initContainers or spec.containers
    bool init;
    enum local_container_state state;
    char *reason, *message;        // while waiting; reason NULL: not begun
    struct local_process *process; // from its start on, also before LOCAL_RUNNING
    struct local_env_fetch *fetch; // references being fetched before a start
    struct local_timer *timer;     // a start or a change of the waiting reason is due
    bool timer_set;
    bool has_run;           // an instance was started, also by a former kubelet
    unsigned restart_count; // of the current or last instance
    char *container_id;
    char *image;            // of the current instance
    char *failed_image;     // could not be "pulled": wait until the pod has another one
    struct local_words env; // of the current instance; probes and hooks use it
    char *cwd;              // likewise
    int64_t started_ms;
    struct local_termination current, last;
    int64_t backoff_ms, backoff_since_ms; // 0: none
    struct local_probe *probes[LOCAL_N_PROBES];
    bool started, ready; // what the probes found; true without probes
    struct local_handler *hook;
    bool hook_pending; // postStart has not finished
    char *
        sweep_mark; // of an instance whose supervisor was killed: what it left has this environment
    int sweeps_left;
    struct local_timer *sweep;
    bool stopping;
    int64_t stop_by_ns; // monotonic; end of the grace time
};

struct local_worker {
    struct local_kubelet *k;
    json_t *pod; // the latest object
    char *uid, *ns, *name;
    char *ip;    // NULL until the pod is begun
    char *ports; // its declared ports that move, "80=8080" (local/ports.h); NULL: none
    int64_t start_time_ms;
    struct local_container *containers; // init containers first
    size_t n_init, n_containers;
    bool terminating; // to be deleted
    bool gone;        // the object is deleted already
    bool finished;    // phase Succeeded or Failed: nothing more to run
    bool settled;     // it was so before we came: its status is not ours to change
    bool rejected;    // it has GPUs that the machine has no more: it fails without being run
    bool removed;     // the API server has deleted it, or waits for finalizers only
    int64_t grace_ms;
    bool warned_volumes;
    json_t *conditions;  // ours, with their transition times
    json_t *sent_status; // what the API server has of us
    bool status_refused; // the last patch failed: wait for the retry timer
    struct kube_request *patch, *removal;
    struct local_timer *wake, *retry;
};

// --- kubelet ---
void local_kubelet_forget(struct local_kubelet *k, struct local_worker *w); // frees w
void local_kubelet_maybe_stopped(struct local_kubelet *k);
void local_remove_tree(const char *path);

// --- worker ---
struct local_worker *local_worker_new(struct local_kubelet *k, const json_t *pod);
void local_worker_free(struct local_worker *w);
void local_worker_update(struct local_worker *w, const json_t *pod); // NULL: the object is gone
void local_worker_wake(struct local_worker *w);
void local_worker_stop(struct local_worker *w, int64_t grace_ms); // for the end of the kubelet
bool local_worker_alive(const struct local_worker *w);            // a process is left
const json_t *local_worker_spec(const struct local_worker *w, const char *member);
struct local_container *local_worker_find(struct local_worker *w, const char *container);
// data_dir/<what>/<pod uid>[/<container>]; caller frees.
char *local_worker_path(const struct local_worker *w, const char *what, const char *container);
#define LOCAL_DIR_PODS "pods" // working folders
#define LOCAL_DIR_CONTAINERS                                                                       \
    "containers" // logs and supervisor status: <restart count>.log, .status

// --- container ---
void local_container_init(struct local_container *c, struct local_worker *w, bool init,
                          size_t index);
void local_container_restore(struct local_container *c, const json_t *status);
void local_container_finish(struct local_container *c);
const json_t *local_container_spec(const struct local_container *c);
bool local_container_is_sidecar(const struct local_container *c);
bool local_container_should_restart(const struct local_container *c);
// Its turn has come: starts it, or what is due before that. Nothing when it runs or waits already.
void local_container_step(struct local_container *c);
// preStop hook, SIGTERM, SIGKILL after grace_ms. why: the Killing event's text, NULL for the usual.
void local_container_stop(struct local_container *c, int64_t grace_ms, const char *why);
void local_container_probed(struct local_container *c, enum local_probe_kind kind, bool ok);
bool local_container_ready(const struct local_container *c);
char *local_container_file(const struct local_container *c, unsigned instance, const char *suffix);
// The declared port by number or by the name of one of the container's ports; 0: no such port.
// Where it listens says local_pod_port().
int local_container_port(const struct local_container *c, const json_t *port);

// --- status ---
#define LOCAL_REJECTED_REASON "UnexpectedAdmissionError" // as the kubelet says it
#define LOCAL_REJECTED_MESSAGE                                                                     \
    "Pod was rejected: Allocate failed: this machine no longer has the GPUs that the pod was "     \
    "given"
json_t *local_worker_status(struct local_worker *w);                         // new reference
const char *local_container_waiting_reason(const struct local_container *c); // of one that waits
const char *local_worker_phase(const struct local_worker *w);
bool local_worker_initialized(const struct local_worker *w);
int64_t local_grace_ms(int64_t seconds); // within 0 and LOCAL_MAX_GRACE_S
int64_t local_worker_default_grace_ms(const struct local_worker *w);
