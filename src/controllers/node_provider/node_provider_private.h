// SPDX-License-Identifier: Apache-2.0
// One loop owns everything here. A machine is a row of the state file (state.c). A pool changes the
// steps of its machines and runs commands (machine.c, pool.c, reconcile.c). The service answers the
// Cluster Autoscaler from memory (service.c).
#pragma once

#include "node_provider/node_provider.h"

#include "base/arena.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/hmap.h"
#include "base/timer.h"
#include "codec/json.h"
#include "nodes/pool.h"

#include <uv.h>

#define NODE_PROVIDER_MAX_MACHINES 10000 // of one pool

// --- output of commands ---

enum node_provider_listed_state {
    NODE_PROVIDER_LISTED_RUNNING,
    NODE_PROVIDER_LISTED_CREATING,
    NODE_PROVIDER_LISTED_DELETING,
    NODE_PROVIDER_LISTED_FAILED,
};

struct node_provider_listed {
    char *name;        // NULL: not given (only of a create command)
    char *provider_id; // NULL: the default
    enum node_provider_listed_state state;
    char *error_code, *error_message; // NULL: no error
    bool out_of_resources;
};
void node_provider_listed_finish(struct node_provider_listed *l);

struct node_provider_list {
    struct node_provider_listed *items;
    size_t len, cap;
};
void node_provider_list_finish(struct node_provider_list *list);

// GS_EPROTO and GS_ELIMIT name the line or the item. A list with an error is not used at all.
struct gs_error *node_provider_parse_list(struct gs_slice text, struct node_provider_list *ret);
// A create command may print one JSON object. Other output is ignored.
struct gs_error *node_provider_parse_created(struct gs_slice text,
                                             struct node_provider_listed *ret);
bool node_provider_is_provider_id(const char *text);

// --- commands ---

struct node_provider_command;

struct node_provider_command_spec {
    const char *const *argv;
    size_t n_argv;
    const char *const *env; // "NAME=value", added to the environment of gpuscale
    size_t n_env;
    const char *cwd;   // NULL: the current one
    const char *label; // of log lines: "POOL/NAME: create"
    int64_t timeout_ms;
};

// Borrowed for the call.
struct node_provider_result {
    bool ok;        // exit status 0
    bool unknown;   // of an adopted process: only its end is known
    bool timed_out; // it was killed
    int64_t status;
    struct gs_slice output;
    const char *text; // what went wrong, with the last line of standard error
};
typedef void (*node_provider_command_fn)(void *arg, const struct node_provider_result *result);

// Starts a process that waits for node_provider_command_release(). The callback is called once,
// and may free the command. Texts of spec are copied.
struct gs_error *node_provider_command_new(uv_loop_t *loop,
                                           const struct node_provider_command_spec *spec,
                                           node_provider_command_fn cb, void *arg,
                                           struct node_provider_command **ret);
// Identifies the process across restarts: "PID START-TIME BOOT-ID". Caller frees.
char *node_provider_command_identity(const struct node_provider_command *c);
void node_provider_command_release(struct node_provider_command *c);
// Waits for the end of a process of an earlier run.
struct node_provider_command *node_provider_command_adopt(uv_loop_t *loop, const char *identity,
                                                          const char *label, int64_t timeout_ms,
                                                          node_provider_command_fn cb, void *arg);
bool node_provider_process_alive(const char *identity);
// No callback follows. A released command goes on; the next start adopts it. Accepts NULL.
void node_provider_command_free(struct node_provider_command *c);

// --- pools of the file ---

enum node_provider_action {
    NODE_PROVIDER_CREATE,
    NODE_PROVIDER_DELETE,
    NODE_PROVIDER_LIST,
    NODE_PROVIDER_N_ACTIONS,
};
const char *node_provider_action_name(enum node_provider_action action);

struct node_provider_argv {
    const char *const *items; // n 0: not given
    size_t n;
};

struct node_provider_commands {
    struct node_provider_argv argv[NODE_PROVIDER_N_ACTIONS];
    int64_t timeout_ms[NODE_PROVIDER_N_ACTIONS]; // 0: not given
    size_t concurrency;                          // create and delete commands at once; 0: not given
    const char *const *env;                      // "NAME=value"
    size_t n_env;
};

// Of NodeGroupGetOptions; negative: not given.
struct node_provider_options_spec {
    double utilization, gpu_utilization; // 0 to 1
    int64_t unneeded_ms, unready_ms, provision_ms;
};

struct node_provider_spec {
    const char *name;
    size_t min, max;
    const struct nodes_pool *pool;
    struct node_provider_commands commands;
    const char *const *hosts; // names of existing machines; n_hosts 0: names are generated
    size_t n_hosts;
    const char *provider_id;     // "gpuscale://$POOL/$NAME"
    bool ignore_unknown;         // machines of the list that are not in the state file
    const char *labels, *taints; // as --node-labels and --register-with-taints of the kubelet
    const char *gpu_type;        // value of the GPU label in the template; "" if absent
    struct node_provider_options_spec options;
};

struct node_provider_file {
    struct nodes_pools pools;
    char *dir;                        // of the file; commands run there
    const char *gpu_label;            // ""; none
    struct node_provider_spec *specs; // one for each pool
};
struct gs_error *node_provider_file_load(const char *path, struct node_provider_file **ret);
struct gs_error *node_provider_file_parse(const char *path, struct gs_slice text,
                                          struct node_provider_file **ret);
void node_provider_file_free(struct node_provider_file *f);
GS_DEFINE_CLEANUP(struct node_provider_file *, node_provider_file_free)

// --- templates of nodes ---

#define NODE_PROVIDER_GPU_LABEL "gpuscale.dev/accelerator"

// A v1 Node as a new machine of the pool has it; new reference. The GPU label is added if the
// autoscaler recognizes the GPU resource of the pool: a node with the label and without such a
// resource would never count as ready. Its value is the model.
json_t *node_provider_template(const struct nodes_pool *p, const char *gpu_label);
// For --node-labels and --register-with-taints of the kubelet.
const char *node_provider_labels_text(struct gs_arena *arena, const json_t *node);
const char *node_provider_taints_text(struct gs_arena *arena, const struct nodes_pool *p);

// --- machines ---

// The numbers are in the state file.
enum node_provider_step {
    NODE_PROVIDER_WANTED = 1, // the create command has not started
    NODE_PROVIDER_CREATING,   // it runs or may have run
    NODE_PROVIDER_CREATED,    // it has succeeded, or the list contains the machine
    NODE_PROVIDER_FAILED,     // the creation failed; parts of the machine may exist
    NODE_PROVIDER_DELETING,   // the delete command is to run, runs, or has run
    NODE_PROVIDER_GONE,       // the list does not contain the machine; its Node may exist
    NODE_PROVIDER_N_STEPS,
};
const char *node_provider_step_name(enum node_provider_step step);

struct node_provider_pool;

struct node_provider_machine {
    char *name, *pool_name, *provider_id;
    enum node_provider_step step;
    int64_t created_ms, changed_ms;   // Unix time: of the row, of the last change of the step
    unsigned attempts;                // of the command of this step
    char *error_code, *error_message; // NULL: none
    bool out_of_resources;
    char *process; // identity of the running command; NULL: none

    // Not in the state file:
    struct node_provider_pool *pool;
    struct node_provider_command *command;
    int64_t retry_ms;      // Unix time before which the command is not started again
    unsigned list_after;   // lists with a lower number began before the last command ended
    unsigned missed;       // successive lists without a created machine
    bool deleted_ok;       // the delete command succeeded; the next list confirms it
    bool has_node;         // a Node with the provider ID exists
    bool reported_missing; // that no Node appeared
};
void node_provider_machine_free(struct node_provider_machine *m);

// --- state file ---

struct node_provider_state;
// GS_EEXIST: another process uses the directory.
struct gs_error *node_provider_state_open(const char *dir, struct node_provider_state **ret);
void node_provider_state_close(struct node_provider_state *s);
// fn owns the machine.
struct gs_error *node_provider_state_load(struct node_provider_state *s,
                                          void (*fn)(void *arg, struct node_provider_machine *m),
                                          void *arg);
struct gs_error *node_provider_state_put(struct node_provider_state *s,
                                         const struct node_provider_machine *m);
struct gs_error *node_provider_state_delete(struct node_provider_state *s, const char *name);
// Several rows at once: end() commits, or rolls back if err is set, and returns the error.
struct gs_error *node_provider_state_begin(struct node_provider_state *s);
struct gs_error *node_provider_state_end(struct node_provider_state *s, struct gs_error *err);

// --- fleet: all pools and machines ---

struct node_provider_pool {
    const struct node_provider_spec *spec;
    struct node_provider_fleet *fleet;
    struct node_provider_machine **machines;
    size_t len, cap;
    size_t running; // create and delete commands
    struct node_provider_command *lister;
    bool list_again;      // a list was requested while one ran
    bool list_tried;      // since the start
    bool listed;          // a list has succeeded since the start
    unsigned list_number; // of the last list that was started
    int64_t listed_ms;    // Unix time of its end
    char *list_error;     // NULL: the last one succeeded
    int64_t failed_ms;    // Unix time of the last failed creation; 0: none
    uint64_t commands[NODE_PROVIDER_N_ACTIONS], failures[NODE_PROVIDER_N_ACTIONS];
};

struct node_provider_fleet_config {
    uv_loop_t *loop;
    const struct node_provider_file *file;
    struct node_provider_state *state;
    int64_t list_interval_ms, provision_ms;
    int64_t retry_ms;  // delay after the first failure; doubles up to 30 times this
    int64_t missed_ms; // a created machine is not missed before; lists may be late
    // A machine has become NODE_PROVIDER_GONE, or a gone machine was loaded. May be NULL.
    void (*on_gone)(void *arg, struct node_provider_machine *m);
    void *arg;
};

struct node_provider_fleet {
    struct node_provider_fleet_config config;
    struct node_provider_pool *pools;
    size_t n_pools;
    struct gs_hmap *by_id; // provider ID -> machine
    struct gs_timer *timer;
    bool watches_nodes;
    bool paused;      // no create or delete command starts
    size_t n_orphans; // rows of pools that the file does not contain
};

// Reads the state file. Commands start with node_provider_fleet_start().
struct gs_error *node_provider_fleet_new(const struct node_provider_fleet_config *config,
                                         struct node_provider_fleet **ret);
void node_provider_fleet_start(struct node_provider_fleet *f);
void node_provider_fleet_free(struct node_provider_fleet *f);
// For a change of the file: pause, wait until no create or delete command runs, make a new fleet
// with the same state, let it inherit what the state file does not contain, and free the old one.
void node_provider_fleet_set_paused(struct node_provider_fleet *f, bool paused);
bool node_provider_fleet_idle(const struct node_provider_fleet *f);
void node_provider_fleet_inherit(struct node_provider_fleet *f,
                                 const struct node_provider_fleet *old);
struct node_provider_pool *node_provider_find_pool(const struct node_provider_fleet *f,
                                                   const char *name);
struct node_provider_machine *node_provider_find_machine(const struct node_provider_fleet *f,
                                                         const char *provider_id);
struct node_provider_machine *node_provider_find_named(const struct node_provider_pool *p,
                                                       const char *name);
// Whether every pool was listed, or its list command has failed, since the start.
bool node_provider_fleet_ready(const struct node_provider_fleet *f);

// --- calls of the autoscaler ---

// Machines that exist or will exist.
size_t node_provider_target(const struct node_provider_pool *p);
size_t node_provider_count(const struct node_provider_pool *p, enum node_provider_step step);
// They return when the change is on the disk.
struct gs_error *node_provider_increase(struct node_provider_pool *p, size_t n);
// Only machines whose creation has not started.
struct gs_error *node_provider_decrease(struct node_provider_pool *p, size_t n);
// All or none. GS_EINVAL: a machine belongs to another pool, or is unknown.
struct gs_error *node_provider_delete(struct node_provider_pool *p, const char *const *ids,
                                      size_t n);

// --- inside the fleet ---

// Starts commands that are due.
void node_provider_schedule(struct node_provider_pool *p);
// Waits for the command of an earlier run, if it still runs. Before the first list.
void node_provider_adopt(struct node_provider_machine *m);
// Runs the list command now, or once more after the running one.
void node_provider_list_now(struct node_provider_pool *p);
struct node_provider_command_spec node_provider_command_spec(struct node_provider_pool *p,
                                                             enum node_provider_action action,
                                                             const struct node_provider_machine *m,
                                                             struct gs_arena *arena);
struct gs_error *node_provider_set_step(struct node_provider_machine *m,
                                        enum node_provider_step step);
struct gs_error *node_provider_set_process(struct node_provider_machine *m, const char *process);
void node_provider_set_error(struct node_provider_machine *m, const char *code, const char *message,
                             bool out_of_resources);
struct node_provider_machine *node_provider_add_machine(struct node_provider_pool *p,
                                                        const char *name, const char *id,
                                                        enum node_provider_step step);
// Deletes the row, and frees the machine.
void node_provider_forget_machine(struct node_provider_machine *m);
// Adds machines until the minimum is reached, except shortly after a failure.
void node_provider_keep_minimum(struct node_provider_pool *p);
void node_provider_set_id(struct node_provider_machine *m, const char *id);
// The state file cannot be written: logged, and the caller tries again later.
void node_provider_log_state_error(const struct node_provider_pool *p, struct gs_error *err);
char *node_provider_default_id(const struct node_provider_spec *spec, const char *name);

// --- Kubernetes ---

struct node_provider_nodes;
struct kube_client;
struct node_provider_nodes_config {
    uv_loop_t *loop;
    const char *kubeconfig; // NULL: of the pod
    bool keep_nodes;
    struct node_provider_fleet *fleet;
};
struct gs_error *node_provider_nodes_new(const struct node_provider_nodes_config *config,
                                         struct node_provider_nodes **ret);
void node_provider_nodes_gone(struct node_provider_nodes *n, struct node_provider_machine *m);
struct kube_client *node_provider_nodes_client(const struct node_provider_nodes *n);
void node_provider_nodes_set_fleet(struct node_provider_nodes *n, struct node_provider_fleet *f);
uint64_t node_provider_nodes_removed(const struct node_provider_nodes *n); // accepts NULL
void node_provider_nodes_free(struct node_provider_nodes *n);

// --- servers ---

struct grpc_server;
// Sets the handlers. The fleet must outlive the server.
void node_provider_serve(struct grpc_server *s, struct node_provider_fleet *f);
void node_provider_write_metrics(const struct node_provider_fleet *f,
                                 const struct node_provider_nodes *nodes, struct gs_buf *out);
json_t *node_provider_pools_json(const struct node_provider_fleet *f);

// --- certificates ---

// Makes a CA, a server and a client certificate in a directory, unless valid ones exist, and the
// cloud-config of the autoscaler.
struct gs_error *node_provider_generate(const char *dir, const struct gs_opt_list *names,
                                        uint16_t port);
