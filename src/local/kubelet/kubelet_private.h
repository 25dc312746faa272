// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the kubelet: one worker per pod holds the pod's containers. Every change
// that may affect a pod ends in kubelet_worker_wake(). The worker compares the desired with the
// actual state in a later loop turn. All functions belong to the thread of the loop.
#pragma once

#include "base/hmap.h"
#include "base/timer.h"
#include "kube/client.h"
#include "kube/object.h"
#include "local/kubelet.h"
#include "local/kubelet/env.h"
#include "local/kubelet/start_guard.h"
#include "local/pod.h"
#include "net/http/http.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

// Identifies one instance of a container, so that its remaining processes can be found.
#define KUBELET_ENV_CONTAINER_ID "GPUSCALE_CONTAINER_ID"

struct kubelet_container;
struct kubelet_worker;

// --- images.c: the command of an image on a machine without a container runtime (--image) ---

// Splits as a POSIX shell does: blanks, '…', "…" (with \" \\ \$ \` inside), backslash. No
// expansion.
struct gs_error *kubelet_split_words(const char *text, struct kubelet_words *ret);

struct kubelet_images;
struct gs_error *kubelet_images_new(const char *self_exe, const struct local_image *images,
                                    size_t n, struct kubelet_images **ret);
void kubelet_images_free(struct kubelet_images *m);

// The command of an image, its program resolved to a path: an exact entry of the map, else its
// longest prefix entry, else that of the built-in table. NULL if no entry matches.
const struct kubelet_words *kubelet_images_find(const struct kubelet_images *m, const char *image);

// The entry of the built-in table that is used for an image. NULL if no entry matches or its
// program is not installed, or the map has the image.
const struct kubelet_substitute *kubelet_images_substitute(const struct kubelet_images *m,
                                                           const char *image);

// The argv of a container by Kubernetes' rules: `command` replaces the image's command line, `args`
// alone are appended to it. GS_ENOTFOUND if neither the pod, the map nor the table has a command.
struct gs_error *kubelet_images_argv(const struct kubelet_images *m, const json_t *container,
                                     struct kubelet_words *ret);

// A directory with links to the programs that replace those of images: dcgm-exporter, vectorAdd
// …. It is in the PATH of containers.
struct gs_error *kubelet_images_link_tools(const char *self_exe, const char *dir);

// --- substitutes.c: the built-in table ---
struct kubelet_substitute {
    const char *image;   // the end of its path, or "*:TAG"; a pattern of fnmatch
    const char *command; // words as in a shell; "gpuscale" is this program
    const char *text;    // what runs in place of the image, for people
    bool gpu;            // it uses GPUs, which may be simulated
    bool cmd_only;       // the image has no entry point: args replace the command
    bool port;           // PORT is the first port of the container
    const char *link;    // name of the program in the image's working directory; NULL: none
};
const struct kubelet_substitute *kubelet_substitute(size_t i); // NULL: end of the table
// How this image of dcgm-exporter writes the host name label: "Hostname" up to 4.5.3-4.8.2. NULL:
// as gpuscale exporter, or no image of dcgm-exporter.
const char *kubelet_substitute_hostname_label(const char *image);
size_t kubelet_substitute_index(const char *image); // the table's length: no entry

// The path of a program of the map. Relative paths and plain names are searched beside this
// program, in its build folder and in the current folder. Otherwise the name is returned unchanged
// (PATH). Caller frees.
char *kubelet_find_program(const char *self_exe, const char *name);

// --- podenv.c: the environment of a container. Fetches nothing. ---
// It contains the variables of the pod's spec and those that replace the isolation that processes
// of one machine lack (pod IP, GPUs).

// Keys "configmaps/NAME" and "secrets/NAME" that the container's env and envFrom mention, as
// members of ret (values null). Fetch them before kubelet_env_add_spec.
void kubelet_env_references(const json_t *container, json_t *ret);

struct kubelet_env_context {
    const json_t *pod;
    const json_t *container; // its spec
    const char *pod_ip, *host_ip;
    const json_t *node;    // for resourceFieldRef without a limit; may be NULL
    const json_t *sources; // keys of kubelet_env_references; values: the objects, null if not found
};

// Adds envFrom and env. GS_ENOTFOUND if a required reference is missing, with the kubelet's text
// ('configmap "x" not found'). GS_ELIMIT: a variable exceeds a limit of env.h.
struct gs_error *kubelet_env_add_spec(struct kubelet_env *env,
                                      const struct kubelet_env_context *ctx);

// The parts of it that volumes use, too. The ConfigMap or Secret, NULL if it was not found.
const json_t *kubelet_env_source(const struct kubelet_env_context *ctx, bool secret,
                                 const char *name);
// Value of a fieldRef. "" if the pod has no such field.
const char *kubelet_env_field(const struct kubelet_env_context *ctx, const char *path);
// Value of a resourceFieldRef of ctx->container. Caller frees.
char *kubelet_env_resource(const struct kubelet_env_context *ctx, const json_t *ref);
void kubelet_env_add_reference(json_t *ret, bool secret, const char *name);
// The GPUs of a container by LOCAL_ANN_GPUS, in the notation of CUDA and the NVIDIA container tools
// ("GPU-a,GPU-b"; time slices of one GPU are listed once). "" without GPUs. Caller frees.
char *kubelet_env_gpus(const json_t *pod, const char *container);

// --- env_fetch.c: the ConfigMaps and Secrets of a container's environment ---

struct kubelet_env_fetch;
// refs: from kubelet_env_references and kubelet_volume_references. done is called once, in a later
// loop turn: sources contains the objects as values, null for those that do not exist (borrowed).
// err (borrowed) is set if the request failed. The fetch is freed afterwards.
struct kubelet_env_fetch *
kubelet_env_fetch_start(struct kube_client *client, const char *ns, const json_t *refs,
                        void (*done)(void *arg, const json_t *sources, const struct gs_error *err),
                        void *arg);
// Accepts NULL. Not allowed inside `done`.
void kubelet_env_fetch_cancel(struct kubelet_env_fetch *f);

// --- volume_files.c: the files of configMap, secret, downwardAPI and projected volumes ---

struct kubelet_file {
    char *path; // relative, without ".."
    char *data;
    size_t len;
    unsigned mode;
};
struct kubelet_files {
    struct kubelet_file *items;
    size_t len, cap;
    // What the files take, with the overhead of each, and its limit.
    size_t bytes, max_bytes;
};
void kubelet_files_finish(struct kubelet_files *f);

// Keys of the objects that the volume needs, as those of kubelet_env_references. Also
// "tokens/EXPIRATION/AUDIENCE" for tokens of the pod's service account; their values are the
// requests for kubelet_env_fetch_start, and their results are TokenRequests.
void kubelet_volume_references(const json_t *pod, const json_t *volume, json_t *ret);
// Of the files of all volumes of a pod: a short pod can name one large value many times.
enum { KUBELET_MAX_FILES_BYTES = 64 * 1024 * 1024 };
// The files of a volume, of which the pod has max_bytes left.
// ctx->sources has the objects; ctx->container is not used. Errors are the kubelet's texts, or
// GS_ELIMIT.
struct gs_error *kubelet_volume_files(const struct kubelet_env_context *ctx, const json_t *volume,
                                      size_t max_bytes, struct kubelet_files *ret);
// Writes the files into dir so that readers see either all old or all new ones: the entries of dir
// are links to ..data/NAME, and ..data is a link to the current directory. Source: the documented
// layout of the kubelet's atomic writer, on which programs that watch files depend.
struct gs_error *kubelet_files_write(const char *dir, const struct kubelet_files *files);
uint64_t kubelet_files_hash(const struct kubelet_files *files);

// --- volumes.c: the volumes of a pod as folders, and the mounts of its containers ---

struct kubelet_volumes;
struct kubelet_volumes *kubelet_volumes_new(struct kubelet_worker *w);
void kubelet_volumes_free(struct kubelet_volumes *v); // accepts NULL
// True if all volumes are set up. Otherwise begins or retries that, records FailedMount events, and
// wakes the worker when they are.
bool kubelet_volumes_ready(struct kubelet_volumes *v);
// The pod has changed: its labels or annotations may be in volumes.
void kubelet_volumes_pod_changed(struct kubelet_volumes *v);
// True if the pod has a volume beside that of the token of its service account.
bool kubelet_volumes_of_user(const struct kubelet_volumes *v);
// The mounts of a container (mounts.h), parents before children. env: for subPathExpr.
struct gs_error *kubelet_volumes_mounts(const struct kubelet_volumes *v, const json_t *container,
                                        const struct kubelet_env *env, struct kubelet_words *ret);

// --- claims.c: PersistentVolumeClaims ---
struct kubelet_claims;
struct kubelet_claims *kubelet_claims_new(struct kubelet *k);
void kubelet_claims_free(struct kubelet_claims *claims); // accepts NULL
// The folder of a bound claim. Caller frees.
struct gs_error *kubelet_claim_folder(const struct kubelet *k, const char *ns, const char *name,
                                      char **ret);

// --- volume_paths.c ---
// A hostPath as the kubelet's user reaches it. Creates it where its type says so. Paths that this
// machine lacks are in DIR/host. Caller frees.
struct gs_error *kubelet_host_path(const struct kubelet *k, const char *path, const char *type,
                                   char **ret);
// The path `sub` in the volume folder `root`, created as a directory if it does not exist. It
// cannot lead out of the volume. Caller frees.
struct gs_error *kubelet_sub_path(const char *root, const char *sub, char **ret);
bool kubelet_is_inner_path(const char *path); // relative, not empty, no "..", at most 4096 bytes

// --- process.c: a command under a supervisor process (shim.h) ---

struct kubelet_process;

struct kubelet_process_spec {
    const char *self_exe;
    char *const *argv; // NULL-terminated
    char *const *env;  // NULL-terminated "NAME=value"
    const char *cwd;
    const char *preload;      // for the command only; NULL: none
    const char *log_path;     // NULL: on_output receives the output
    const char *status_path;  // NULL: none; on_started is not called then
    const char *console_path; // socket for attach (console.h); NULL: none
    bool with_stdin, tty;     // the command has an input, a terminal
    unsigned grace_ms;
    // The mount namespace of the command (mounts.h): a new one with these mounts, or that of the
    // process `join`. NULL and 0: the machine's.
    const struct kubelet_words *mounts;
    const char *staging; // for mounts
    pid_t join;
    const char *inner_cwd; // in that namespace; NULL: cwd
    const char *hostname;  // of the command, where permitted; NULL: the machine's
};

struct kubelet_process_exit {
    int exit_code;
    int exec_errno; // errno of exec if the command could not be started, else 0
    int64_t started_ms, finished_ms;
    bool supervisor_died; // killed by a signal: descendants may still run
    const char *message;  // why the command was not started; "" or NULL: exec_errno says it
};

struct kubelet_process_callbacks {
    void (*on_started)(void *arg);
    void (*on_output)(void *arg, struct gs_slice bytes);
    void (*on_exit)(void *arg, const struct kubelet_process_exit *e); // once; free the process then
};

struct gs_error *kubelet_process_start(uv_loop_t *loop, const struct kubelet_process_spec *spec,
                                       const struct kubelet_process_callbacks *cb, void *arg,
                                       struct kubelet_process **ret);
pid_t kubelet_process_pid(const struct kubelet_process *p); // of the supervisor
// Sends SIGTERM now, and SIGKILL to all descendants after grace_ms. A second call can only shorten
// the grace time.
void kubelet_process_stop(struct kubelet_process *p, int64_t grace_ms);
// Kills the running processes. No callback follows. Accepts NULL.
void kubelet_process_free(struct kubelet_process *p);

// --- handler.c: one execution of the handler of a probe or a lifecycle hook ---
// Handlers are exec, httpGet, tcpSocket, grpc and sleep. Failure messages are the kubelet's.

struct kubelet_handler;
// Called once, in a later loop turn. message is the cause of a failure (output of a command, an
// HTTP status code), "" if empty. The handler is freed afterwards.
typedef void (*kubelet_handler_done)(void *arg, bool ok, const char *message);
struct kubelet_handler *kubelet_handler_start(struct kubelet_container *c, const json_t *spec,
                                              unsigned timeout_ms, kubelet_handler_done done,
                                              void *arg);
// No callback follows. Accepts NULL. Not allowed inside `done`.
void kubelet_handler_cancel(struct kubelet_handler *h);

// --- probe.c: startup, liveness and readiness probes of a running container ---
// Source: the Kubernetes API's Probe type and the kubelet's documented behavior.

struct kubelet_probe;

enum kubelet_probe_kind {
    KUBELET_PROBE_STARTUP,
    KUBELET_PROBE_LIVENESS,
    KUBELET_PROBE_READINESS,
    KUBELET_N_PROBES
};

extern const char *const kubelet_probe_members[KUBELET_N_PROBES]; // "startupProbe", …

// Runs until freed. Liveness and readiness probes wait for the container's `started`. Each change
// of the result beyond its threshold calls kubelet_container_probed(). Each failure is an Unhealthy
// event.
struct kubelet_probe *kubelet_probe_new(struct kubelet_container *c, enum kubelet_probe_kind kind,
                                        const json_t *spec);
void kubelet_probe_free(struct kubelet_probe *p); // accepts NULL

// --- pod_ips.c: pod addresses, 127.64.0.1 to 127.95.255.254, each used by one pod ---
// The first address depends on the data directory, so that two clusters on one machine rarely use
// the same one.

struct kubelet_pod_ips;
struct kubelet_pod_ips *kubelet_pod_ips_new(const char *seed);
void kubelet_pod_ips_free(struct kubelet_pod_ips *ips);
// Reserves the address of an existing pod. False if it is outside the range or in use.
bool kubelet_pod_ips_reserve(struct kubelet_pod_ips *ips, const char *ip);
char *kubelet_pod_ips_take(struct kubelet_pod_ips *ips); // caller frees; NULL: all are in use
void kubelet_pod_ips_give_back(struct kubelet_pod_ips *ips, const char *ip);

// --- the state of the kubelet ---

struct kubelet_log_stream;
struct kubelet_stream;
struct kubelet_node;
struct kubelet_podresources;

struct kubelet {
    struct local_cluster *cluster;
    struct kubelet *first; // of this program: itself, or the one whose parts it uses
    struct kubelet *next;  // the others, if it is the first
    char *node_name, *address;
    struct local_api *api;
    struct kube_recorder *recorder;
    char *self_exe;
    char *data_dir; // absolute
    char *work_dir; // where the commands of images run; NULL: the current one was removed
    char *podnet; // of the first kubelet: path of the bind() library for LD_PRELOAD, NULL if it was
                  // not found
    char *podnet_dir;       // contains a link to the library, if LD_PRELOAD cannot contain its path
    char *podresources_dir; // NULL: the service is off
    char *tools_dir;        // see kubelet_images_link_tools
    bool simulated_gpus;
    json_t *reported_images;       // set of the images whose substitution was logged
    char *mount_problem;           // why containers cannot have mounts; NULL: they can
    bool mounts_tokens;            // the token of the service account can be mounted at its path
    uint16_t api_port;             // 0: unknown
    struct kubelet_images *images; // of the first kubelet
    struct kubelet_words extra_env, device_ids;
    bool slices_renamed, slices_single; // as in struct local_kubelet_config
    struct gs_hmap *workers;            // pod UID -> struct kubelet_worker
    struct kubelet_pod_ips *ips;        // of the first kubelet
    struct kubelet_claims *claims;      // NULL: only the first kubelet binds claims
    struct kubelet_node *node;
    struct kubelet_podresources *podresources;
    struct kubelet_static *statics; // static_pods.c
    struct kubelet_guard *guard;
    struct kubelet_log_stream *log_streams;
    struct kubelet_stream *streams; // streaming.h
    uint64_t usage_ticks;           // of usage.c: the CPU time of all its containers, their memory
    double usage_bytes;
    int lock_fd;
    bool synced; // the cache has its first list, so all used addresses are reserved
    bool stopping;
    struct gs_timer *stop_timer;
    void (*stop_done)(void *arg);
    void *stop_arg;
};

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

// --- kubelet.c ---
void kubelet_forget(struct kubelet *k, struct kubelet_worker *w); // frees w
void kubelet_maybe_stopped(struct kubelet *k);

// --- static_pods.c: pods that show parts of this program (kubelet_add_static_pod) ---
// The log file of the pod. NULL: it is not a static pod of this kubelet.
const char *kubelet_static_log_path(const struct kubelet *k, const json_t *pod);
// True if the pod is a mirror pod that is not one of ours any more. Its deletion has begun then.
bool kubelet_static_is_leftover(struct kubelet *k, const json_t *pod);
// Creates and replaces them as needed; now false: in a second.
void kubelet_statics_sync(struct kubelet *k, bool now);
void kubelet_statics_free(struct kubelet *k);

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

// --- pod_status.c ---
#define KUBELET_REJECTED_REASON "UnexpectedAdmissionError" // of Kubernetes' kubelet
json_t *kubelet_worker_status(struct kubelet_worker *w);   // new reference
const char *kubelet_container_waiting_reason(const struct kubelet_container *c);
const char *kubelet_worker_phase(const struct kubelet_worker *w);
bool kubelet_worker_initialized(const struct kubelet_worker *w);
int64_t kubelet_grace_ms(int64_t seconds); // limited to 0 … LOCAL_MAX_GRACE_S
int64_t kubelet_worker_default_grace_ms(const struct kubelet_worker *w);

// --- logs.c, log_tail.c: GET …/pods/NAME/log ---
// Serves the logs that the supervisors write. Parameters and errors are the kubelet's: container,
// follow, previous, timestamps, tailLines, sinceSeconds, sinceTime, limitBytes.

void kubelet_logs_handle(void *kubelet, const json_t *pod, struct http_exchange *x);
// The container of a request on a pod: the parameter `container`, else the pod's only one.
// Borrowed. GS_EINVAL: it has to be given.
struct gs_error *kubelet_choose_container(struct http_exchange *x, const json_t *pod,
                                          const char **ret);
void kubelet_logs_close_all(struct kubelet *k); // ends all open streams
// Moves the file offset to the start of the n-th line from the end, or to the beginning if there
// are fewer lines. Returns the number of lines after the offset, at most n.
int64_t kubelet_log_tail_seek(int fd, int64_t n);
// The text of the last lines, at most max_bytes of its end. NULL for an empty or unreadable log.
// Caller frees.
char *kubelet_log_tail_text(const char *path, int64_t max_lines, size_t max_bytes);

// --- node.c: the Node object of this machine and its Lease ---
// The node is created at the start and sends a heartbeat every 10 seconds.

struct kubelet_node_config {
    const char *name, *address;
    const char *provider_id;       // may be NULL
    const char *not_ready;         // the message of the condition Ready; NULL: it is True
    const json_t *capacity;        // replaces that of the machine; may be NULL
    const json_t *labels, *taints; // besides the kubelet's own; may be NULL
    size_t n_gpus, n_shared;       // capacity of LOCAL_GPU and LOCAL_GPU_SHARED
    int64_t max_pods;              // capacity of pods; 0: the kubelet's default
    const char *data_dir;          // its file system is the node's disk
    bool control_plane;            // the label of its role
};

struct kubelet_node *kubelet_node_new(struct local_cluster *c,
                                      const struct kubelet_node_config *cfg);
void kubelet_node_free(struct kubelet_node *n);
// Each change is sent at once, in a request after the one that is under way.
void kubelet_node_set_gpus(struct kubelet_node *n, size_t n_gpus, size_t n_shared);
void kubelet_node_set_ready(struct kubelet_node *n, const char *not_ready);
void kubelet_node_set_port(struct kubelet_node *n, uint16_t port); // of the kubelet's API
void kubelet_node_add_labels(struct kubelet_node *n, const json_t *labels);

// --- podresources.c: the kubelet's PodResources v1 service ---
// Exporters query it for the GPUs of each container.

struct gs_error *kubelet_podresources_new(struct kubelet *k, const char *socket_path,
                                          struct kubelet_podresources **ret);
void kubelet_podresources_free(struct kubelet_podresources *r);

// --- http_api.c: the kubelet's own HTTP API ---
void kubelet_serve_path(void *kubelet, const char *path, struct http_exchange *x);

// --- usage.c ---
// As kubelet_write_metrics() for one node, without labels of the node.
void kubelet_write_node_metrics(struct kubelet *k, struct gs_buf *out);
json_t *kubelet_stats_summary(struct kubelet *k); // of /stats/summary; new reference
