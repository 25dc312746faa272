// SPDX-License-Identifier: Apache-2.0
// One worker per pod holds the pod's containers. Every change that may affect a pod ends in
// kubelet_worker_wake(); the worker compares the desired with the actual state in a later loop
// turn. All functions belong to the thread of the loop.
#pragma once

#include "base/timer.h"
#include "kube/client.h"
#include "local/kubelet/env.h"
#include "local/kubelet/kubelet_private.h"
#include "local/kubelet/probe.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// --- the state of a pod ---

// Identifies one instance of a container, so that its remaining processes can be found.
#define KUBELET_ENV_CONTAINER_ID "GPUSCALE_CONTAINER_ID"

struct kubelet_env_fetch;
struct kubelet_process;
struct kubelet_process_callbacks;
struct kubelet_volumes;

enum kubelet_container_state {
    KUBELET_WAITING, // no process; `reason` is the cause
    KUBELET_RUNNING,
    KUBELET_EXITED, // `current` has the exit code
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
    bool ephemeral; // of spec.ephemeralContainers: found by its name, since their order may change
    enum kubelet_container_state state;
    char *reason, *message;          // while waiting; reason NULL: not yet started
    struct kubelet_process *process; // set from its start, before KUBELET_RUNNING
    struct kubelet_env_fetch *fetch; // of the references, before a start
    struct gs_timer *timer;          // the next start or change of the waiting reason
    bool timer_set;
    bool has_run;           // an instance was started, possibly by a previous kubelet
    unsigned restart_count; // of the current or last instance
    char *container_id;
    char *image;            // of the current instance
    char *failed_image;     // could not be "pulled": no start until the pod's image changes
    struct kubelet_env env; // of the current instance; probes and hooks use it
    char *cwd;              // of the current instance
    bool mounted;           // it has a mount namespace
    int64_t started_ms;
    struct kubelet_termination current, last;
    int64_t backoff_ms, backoff_since_ms; // 0: none
    struct kubelet_probe *probes[KUBELET_N_PROBES];
    bool started, ready; // results of the probes; true without probes
    struct kubelet_handler *hook;
    bool hook_pending; // postStart has not finished
    // Set if the supervisor of an instance was killed: environment entry of remaining processes.
    char *sweep_mark;
    int sweeps_left;
    struct gs_timer *sweep;
    // Of usage.c: the measured supervisor, its ticks at the last measurement, the counter.
    pid_t usage_pid;
    uint64_t usage_seen, usage_ticks;
    bool stopping;
    int64_t stop_by_ns; // monotonic; end of the grace time
};

struct kubelet_worker {
    struct kubelet *k;
    json_t *pod; // the latest object
    char *uid, *ns, *name;
    char *ip;    // NULL until the pod is started
    char *ports; // moved ports, "80=8080" (local/ports.h); NULL: none
    int64_t start_time_ms;
    struct kubelet_container *containers; // init containers first
    size_t n_init, n_containers;
    struct kubelet_container **ephemeral; // in the order in which they were added
    size_t n_ephemeral, ephemeral_cap;
    bool terminating; // has a deletion timestamp
    bool gone;        // the object was deleted
    bool finished;    // phase Succeeded or Failed: nothing more to run
    bool settled;     // finished before this kubelet started: its status is not changed
    char *rejected;   // why it fails without a start: it does not get its GPUs; NULL: it starts
    bool removed;     // the API server has deleted it, or waits for finalizers only
    int64_t grace_ms;
    bool warned_volumes;
    bool is_static; // a part of this program: its containers have no processes
    struct kubelet_volumes *volumes;
    json_t *conditions;  // of this kubelet, with their transition times
    json_t *sent_status; // the last status that the API server accepted
    bool status_refused; // the last patch failed: the retry timer sends the next one
    struct kube_request *patch, *removal;
    struct gs_timer *wake, *retry;
};

// --- pod_worker.c ---
struct kubelet_worker *kubelet_worker_new(struct kubelet *k, const json_t *pod);
void kubelet_worker_free(struct kubelet_worker *w);
void kubelet_worker_update(struct kubelet_worker *w, const json_t *pod); // NULL: it was deleted
void kubelet_worker_wake(struct kubelet_worker *w);
void kubelet_worker_stop(struct kubelet_worker *w, int64_t grace_ms); // the kubelet stops
bool kubelet_worker_alive(const struct kubelet_worker *w);            // a process still runs
const json_t *kubelet_worker_spec(const struct kubelet_worker *w, const char *member);
// All containers in turn, the ephemeral ones last. NULL: after the last one.
struct kubelet_container *kubelet_worker_container(const struct kubelet_worker *w, size_t i);
struct kubelet_container *kubelet_worker_find(const struct kubelet_worker *w,
                                              const char *container);
// data_dir/<what>/<pod uid>[/<container>]; caller frees.
#define KUBELET_HOSTNAME_SIZE 64
// spec.hostname, or the name of the pod as far as a host name can be long. NULL: the pod has the
// network, and so the host name, of the node.
const char *kubelet_worker_hostname(const struct kubelet_worker *w,
                                    char buf[KUBELET_HOSTNAME_SIZE]);
char *kubelet_worker_path(const struct kubelet_worker *w, const char *what, const char *container);
#define KUBELET_DIR_PODS    "pods"     // working folders
#define KUBELET_DIR_VOLUMES ".volumes" // in a pod's folder; no container can have this name
#define KUBELET_DIR_CLAIMS  "claims"   // pvc-<claim uid>: persistent volumes
#define KUBELET_DIR_STAGING ".staging" // in a pod's folder: empty, see mounts.h
// Logs and supervisor status: <restart count>.log, .status.
#define KUBELET_DIR_CONTAINERS "containers"

// --- pod_container.c ---
void kubelet_container_init(struct kubelet_container *c, struct kubelet_worker *w, bool init,
                            size_t index);
void kubelet_container_init_ephemeral(struct kubelet_container *c, struct kubelet_worker *w,
                                      const char *name);
void kubelet_container_restore(struct kubelet_container *c, const json_t *status);
void kubelet_container_finish(struct kubelet_container *c);
const json_t *kubelet_container_spec(const struct kubelet_container *c);
bool kubelet_container_is_sidecar(const struct kubelet_container *c);
// It runs a process of local/standin.
bool kubelet_container_is_standin(const struct kubelet_container *c);
bool kubelet_container_should_restart(const struct kubelet_container *c);
// Starts the container or the next step before its start. Does nothing if it runs or waits.
void kubelet_container_step(struct kubelet_container *c);
// preStop hook, SIGTERM, SIGKILL after grace_ms. why: text of the Killing event; NULL: the default.
void kubelet_container_stop(struct kubelet_container *c, int64_t grace_ms, const char *why);
void kubelet_container_probed(struct kubelet_container *c, enum kubelet_probe_kind kind, bool ok);
bool kubelet_container_ready(const struct kubelet_container *c);
// The process of the running command, whose namespaces others may join. 0: unknown.
pid_t kubelet_container_pid(const struct kubelet_container *c);
char *kubelet_container_file(const struct kubelet_container *c, unsigned instance,
                             const char *suffix);
// The declared port, by its number or the name of one of the container's ports. 0: no such port.
// local_pod_port() returns the port on which it listens.
int kubelet_container_port(const struct kubelet_container *c, const json_t *port);

// --- pod_start.c: from a container's spec to its process ---
// Steps: command, references, environment, folders, supervisor.

// Ends with c->process set, or with a waiting reason. May need several loop turns.
void kubelet_container_begin(struct kubelet_container *c);
// Called by pod_start.c with the result; defined in pod_container.c.
void kubelet_container_wait(struct kubelet_container *c, const char *reason, const char *fmt, ...)
    GS_PRINTF(3, 4);
void kubelet_container_retry(struct kubelet_container *c, uint64_t ms);
extern const struct kubelet_process_callbacks kubelet_container_callbacks;

// --- pod_keep.c ---
// Paths that must stay reachable, whatever the mounts of the container hide. program: the first
// word of the command; own_dir: the container's own directory.
void kubelet_container_keep(const struct kubelet_container *c, const char *program,
                            const char *own_dir, struct kubelet_words *ret);
#define KUBELET_SHARED_MEMORY "/dev/shm" // POSIX shared memory of Linux
// Adds the mount of the simulated GPUs' file in a volume that is mounted there.
void kubelet_container_keep_gpus(const struct kubelet_container *c, struct kubelet_words *mounts);

// --- pod_status.c ---
#define KUBELET_REJECTED_REASON "UnexpectedAdmissionError" // of Kubernetes' kubelet
json_t *kubelet_worker_status(struct kubelet_worker *w);   // new reference
const char *kubelet_container_waiting_reason(const struct kubelet_container *c);
const char *kubelet_worker_phase(const struct kubelet_worker *w);
bool kubelet_worker_initialized(const struct kubelet_worker *w);
int64_t kubelet_grace_ms(int64_t seconds); // limited to 0 … LOCAL_MAX_GRACE_S
int64_t kubelet_worker_default_grace_ms(const struct kubelet_worker *w);
