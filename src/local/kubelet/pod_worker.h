// SPDX-License-Identifier: Apache-2.0
// The kubelet's inside: one worker a pod, which holds its containers. Private to the kubelet's
// files. Everything that may change what a pod should do ends in kubelet_worker_wake(); the worker
// then compares what should run with what does, in a later loop turn.
#pragma once

#include "base/hmap.h"
#include "base/timer.h"
#include "kube/object.h"
#include "local/kubelet.h"
#include "local/kubelet/images.h"
#include "local/kubelet/pod_ips.h"
#include "local/kubelet/probe.h"
#include "local/kubelet/process.h"

// Of one instance; by it we find what was left of it.
#define KUBELET_ENV_CONTAINER_ID "GPUSCALE_CONTAINER_ID"

struct kubelet_log_stream;
struct kubelet_node;
struct kubelet_podresources;

struct kubelet {
    struct local_cluster *cluster;
    struct local_api *api;
    struct kube_recorder *recorder;
    char *self_exe;
    char *data_dir; // absolute
    char *work_dir; // where the commands of images run; NULL: the current one was removed
    char *podnet;   // the bind() library as LD_PRELOAD takes it, NULL when it was not found
    int podnet_fd;  // the same, where its path cannot be in LD_PRELOAD; else -1
    char *gpu_product;
    struct kubelet_images *images;
    struct kubelet_words extra_env, device_ids;
    struct gs_hmap *workers; // pod UID -> struct kubelet_worker
    struct kubelet_pod_ips *ips;
    struct kubelet_node *node;
    struct kubelet_podresources *podresources;
    struct kubelet_log_stream *log_streams;
    int lock_fd;
    bool synced; // the cache's first list is in: addresses in use are known
    bool stopping;
    struct gs_timer *stop_timer;
    void (*stop_done)(void *arg);
    void *stop_arg;
};

enum kubelet_container_state {
    KUBELET_WAITING, // no process; reason says why
    KUBELET_RUNNING,
    KUBELET_EXITED, // `current` says how
};

struct kubelet_termination {
    bool set;
    int exit_code;
    int64_t started_ms, finished_ms; // Unix; 0: unknown
    char *reason, *message, *container_id;
};

struct kubelet_container {
    struct kubelet_worker *worker;
    char *name;
    size_t index; // in spec.initContainers or spec.containers
    bool init;
    enum kubelet_container_state state;
    char *reason, *message;          // while waiting; reason NULL: not begun
    struct kubelet_process *process; // from its start on, also before KUBELET_RUNNING
    struct kubelet_env_fetch *fetch; // references being fetched before a start
    struct gs_timer *timer;          // a start or a change of the waiting reason is due
    bool timer_set;
    bool has_run;           // an instance was started, also by a former kubelet
    unsigned restart_count; // of the current or last instance
    char *container_id;
    char *image;              // of the current instance
    char *failed_image;       // could not be "pulled": wait until the pod has another one
    struct kubelet_words env; // of the current instance; probes and hooks use it
    char *cwd;                // likewise
    int64_t started_ms;
    struct kubelet_termination current, last;
    int64_t backoff_ms, backoff_since_ms; // 0: none
    struct kubelet_probe *probes[KUBELET_N_PROBES];
    bool started, ready; // what the probes found; true without probes
    struct kubelet_handler *hook;
    bool hook_pending; // postStart has not finished
    char *
        sweep_mark; // of an instance whose supervisor was killed: what it left has this environment
    int sweeps_left;
    struct gs_timer *sweep;
    // Of usage.c: the supervisor that was measured, its ticks in the last pass, the counter.
    pid_t usage_pid;
    uint64_t usage_seen, usage_ticks;
    bool stopping;
    int64_t stop_by_ns; // monotonic; end of the grace time
};

struct kubelet_worker {
    struct kubelet *k;
    json_t *pod; // the latest object
    char *uid, *ns, *name;
    char *ip;    // NULL until the pod is begun
    char *ports; // its declared ports that move, "80=8080" (local/ports.h); NULL: none
    int64_t start_time_ms;
    struct kubelet_container *containers; // init containers first
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
    struct gs_timer *wake, *retry;
};

// --- kubelet ---
void kubelet_forget(struct kubelet *k, struct kubelet_worker *w); // frees w
void kubelet_maybe_stopped(struct kubelet *k);
void kubelet_remove_tree(const char *path);

// --- worker ---
struct kubelet_worker *kubelet_worker_new(struct kubelet *k, const json_t *pod);
void kubelet_worker_free(struct kubelet_worker *w);
void kubelet_worker_update(struct kubelet_worker *w, const json_t *pod); // NULL: the object is gone
void kubelet_worker_wake(struct kubelet_worker *w);
void kubelet_worker_stop(struct kubelet_worker *w, int64_t grace_ms); // for the end of the kubelet
bool kubelet_worker_alive(const struct kubelet_worker *w);            // a process is left
const json_t *kubelet_worker_spec(const struct kubelet_worker *w, const char *member);
struct kubelet_container *kubelet_worker_find(struct kubelet_worker *w, const char *container);
// data_dir/<what>/<pod uid>[/<container>]; caller frees.
char *kubelet_worker_path(const struct kubelet_worker *w, const char *what, const char *container);
#define KUBELET_DIR_PODS "pods" // working folders
#define KUBELET_DIR_CONTAINERS                                                                     \
    "containers" // logs and supervisor status: <restart count>.log, .status

// --- container ---
void kubelet_container_init(struct kubelet_container *c, struct kubelet_worker *w, bool init,
                            size_t index);
void kubelet_container_restore(struct kubelet_container *c, const json_t *status);
void kubelet_container_finish(struct kubelet_container *c);
const json_t *kubelet_container_spec(const struct kubelet_container *c);
bool kubelet_container_is_sidecar(const struct kubelet_container *c);
bool kubelet_container_should_restart(const struct kubelet_container *c);
// Its turn has come: starts it, or what is due before that. Nothing when it runs or waits already.
void kubelet_container_step(struct kubelet_container *c);
// preStop hook, SIGTERM, SIGKILL after grace_ms. why: the Killing event's text, NULL for the usual.
void kubelet_container_stop(struct kubelet_container *c, int64_t grace_ms, const char *why);
void kubelet_container_probed(struct kubelet_container *c, enum kubelet_probe_kind kind, bool ok);
bool kubelet_container_ready(const struct kubelet_container *c);
char *kubelet_container_file(const struct kubelet_container *c, unsigned instance,
                             const char *suffix);
// The declared port by number or by the name of one of the container's ports; 0: no such port.
// Where it listens says local_pod_port().
int kubelet_container_port(const struct kubelet_container *c, const json_t *port);

// --- status ---
#define KUBELET_REJECTED_REASON "UnexpectedAdmissionError" // as the kubelet says it
#define KUBELET_REJECTED_MESSAGE                                                                   \
    "Pod was rejected: Allocate failed: this machine no longer has the GPUs that the pod was "     \
    "given"
json_t *kubelet_worker_status(struct kubelet_worker *w); // new reference
const char *
kubelet_container_waiting_reason(const struct kubelet_container *c); // of one that waits
const char *kubelet_worker_phase(const struct kubelet_worker *w);
bool kubelet_worker_initialized(const struct kubelet_worker *w);
int64_t kubelet_grace_ms(int64_t seconds); // within 0 and LOCAL_MAX_GRACE_S
int64_t kubelet_worker_default_grace_ms(const struct kubelet_worker *w);
