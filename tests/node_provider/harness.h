// SPDX-License-Identifier: Apache-2.0
// A provider in a child process, which tests may kill, a backend whose machines are files, and a
// client of the gRPC service.
#pragma once

#include "patience.h"
#include "unit.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/grpc/grpc.h"
#include "node_provider/externalgrpc.pb-c.h"
#include "node_provider/node_provider_private.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE "/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/"

// A machine is a file m/NAME.RANDOM. Another run of create with the same name makes another file:
// the backend does not protect against creating twice. A file crash-POINT makes it kill the
// provider there, once. "-exit": and end. "-slow": and go on later.
static const char backend_script[] =
    "#!/bin/sh\n"
    "set -eu\n"
    "crash() {\n"
    "    for end in '' -exit -slow; do\n"
    "        if rm \"crash-$1$end\" 2>/dev/null; then\n"
    "            kill -9 $PPID || true\n"
    "            [ \"$end\" != -exit ] || exit 1\n"
    "            [ \"$end\" != -slow ] || sleep 0.5\n"
    "        fi\n"
    "    done\n"
    "}\n"
    "case $GPUSCALE_ACTION in\n"
    "create)\n"
    "    crash before-create\n"
    "    [ ! -e fail ] || { cat fail >&2; exit \"$(cat status)\"; }\n"
    "    [ ! -e hang ] || sleep 1000\n"
    "    [ ! -e output ] || cat output\n"
    "    file=$(mktemp \"m/$GPUSCALE_NAME.XXXXXX\")\n"
    "    env | grep ^GPUSCALE_ | sort >\"$file\"\n"
    "    crash after-create ;;\n"
    "delete)\n"
    "    crash before-delete\n"
    "    [ ! -e fail-delete ] || { rm fail-delete; echo no >&2; exit 3; }\n"
    "    rm -f \"m/$GPUSCALE_NAME\".*\n"
    "    crash after-delete ;;\n"
    "list)\n"
    "    crash list\n"
    "    [ ! -e garbage ] || { cat garbage; exit 0; }\n"
    "    for f in m/*-$GPUSCALE_POOL-*; do\n"
    "        [ ! -e \"$f\" ] || { f=${f#m/}; echo \"${f%.*}\"; }\n"
    "    done ;;\n"
    "esac\n";

static const char default_pools[] = "commands:\n"
                                    "  create: [./backend]\n"
                                    "  delete: [./backend]\n"
                                    "  list: [./backend]\n"
                                    "  timeout: 20s\n"
                                    "pools:\n"
                                    "- name: t4\n"
                                    "  max: 20\n"
                                    "  price: 2\n"
                                    "  machine: {cpu: 4, memory: 16Gi, gpus: 2, model: Tesla T4}\n"
                                    "  taints: ['nvidia.com/gpu=present:NoSchedule']\n"
                                    "- name: cpu\n"
                                    "  max: 5\n"
                                    "  machine: {cpu: 2, memory: 4Gi}\n";

struct harness {
    uv_loop_t loop;
    char dir[64];
    pid_t child;
    struct grpc_client *client;
};

static inline void write_text(const struct harness *h, const char *name, const char *text)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", h->dir, name);
    assert_ok(gs_file_write_atomic(path, 0700, gs_slice_of(text)));
}

static inline bool has_file(const struct harness *h, const char *name)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", h->dir, name);
    return access(path, F_OK) == 0;
}

// --- child ---

static inline void on_term(uv_signal_t *s, int number)
{
    (void)number;
    uv_stop(s->loop);
}

// A child of the killed provider has its socket until it executes its command.
static inline struct gs_error *listen_again(struct grpc_server *server, const char *path)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS;; usleep(1000)) {
        struct gs_error *err = grpc_server_listen_unix(server, path);
        if (!err || gs_error_code(err) != GS_EEXIST || gs_mono_ns() > end)
            return err;
        gs_error_free(err);
    }
}

static inline int run_child(const char *dir)
{
    uv_loop_t loop;
    uv_signal_t term;
    struct node_provider_file *file = NULL;
    struct node_provider_state *state = NULL;
    struct node_provider_fleet *fleet = NULL;
    GS_AUTO_FREE char *pools = gs_format("%s/pools.yaml", dir);
    GS_AUTO_FREE char *data = gs_format("%s/state", dir), *sock = gs_format("%s/sock", dir);
    gs_log_configure(getenv("TEST_LOG") ? GS_LOG_DEBUG : GS_LOG_ERROR, GS_LOG_TEXT);
    uv_loop_init(&loop);
    uv_signal_init(&loop, &term);
    uv_signal_start(&term, on_term, SIGTERM);
    struct gs_error *err = node_provider_file_load(pools, &file);
    if (!err)
        err = node_provider_state_open(data, &state);
    const struct node_provider_fleet_config config = {.loop = &loop,
                                                      .file = file,
                                                      .state = state,
                                                      .list_interval_ms = 200,
                                                      .retry_ms = 100,
                                                      .missed_ms = 300};
    if (!err)
        err = node_provider_fleet_new(&config, &fleet);
    struct grpc_server *server = grpc_server_new(&loop);
    if (!err) {
        node_provider_serve(server, fleet);
        err = listen_again(server, sock);
    }
    if (err) {
        fprintf(stderr, "child: %s\n", gs_error_message(err));
        gs_error_free(err);
        return 1;
    }
    node_provider_fleet_start(fleet);
    uv_run(&loop, UV_RUN_DEFAULT);
    grpc_server_free(server);
    node_provider_fleet_free(fleet);
    uv_close((uv_handle_t *)&term, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    node_provider_state_close(state);
    node_provider_file_free(file);
    return uv_loop_close(&loop) == 0 ? 0 : 1;
}

static inline void start_child(struct harness *h)
{
    fflush(stdout);
    fflush(stderr);
    h->child = fork();
    assert_true(h->child >= 0);
    if (h->child == 0)
        exit(run_child(h->dir));
}

static inline void reap_child(struct harness *h)
{
    int status = 0;
    assert_int_equal(waitpid(h->child, &status, 0), h->child);
    h->child = 0;
}

static inline void kill_child(struct harness *h)
{
    kill(h->child, SIGKILL);
    reap_child(h);
}

static inline bool child_has_died(const struct harness *h)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)h->child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == h->child;
}

// --- calls ---

struct answer {
    bool done;
    enum grpc_status status;
    char *message;
    struct gs_buf body;
};

static inline void answer_finish(struct answer *a)
{
    free(a->message);
    gs_buf_finish(&a->body);
}
#define AUTO_ANSWER GS_CLEANUP(answer_finish)

static inline void on_answer(void *arg, const struct grpc_reply *reply)
{
    struct answer *a = arg;
    a->done = true;
    a->status = reply->status;
    a->message = gs_strdup(reply->message);
    gs_buf_add_slice(&a->body, reply->body);
}

static inline void run_once(struct harness *h)
{
    uv_run(&h->loop, UV_RUN_NOWAIT);
    usleep(500);
}

static inline struct gs_buf packed(const ProtobufCMessage *m)
{
    struct gs_buf out = {0};
    GS_AUTO_FREE uint8_t *bytes = gs_alloc(protobuf_c_message_get_packed_size(m) + 1);
    gs_buf_add(&out, bytes, protobuf_c_message_pack(m, bytes));
    return out;
}

static inline struct answer call(struct harness *h, const char *method, const void *message)
{
    struct answer a = {0};
    GS_AUTO_BUF struct gs_buf bytes = message ? packed(message) : (struct gs_buf){0};
    GS_AUTO_FREE char *path = gs_format(SERVICE "%s", method);
    (void)grpc_client_call(h->client, path, gs_buf_slice(&bytes), WAIT_MS, on_answer, &a);
    while (!a.done)
        run_once(h);
    return a;
}

// The message of an answer; the caller frees it.
static inline void *unpacked(const struct answer *a, const ProtobufCMessageDescriptor *type)
{
    if (a->status != GRPC_OK)
        fail_msg("status %d: %s", a->status, a->message);
    void *m = protobuf_c_message_unpack(type, NULL, a->body.len, (const uint8_t *)a->body.data);
    assert_non_null(m);
    return m;
}

static inline void wait_ready(struct harness *h)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end;) {
        AUTO_ANSWER struct answer a = call(h, "Refresh", NULL);
        if (a.status == GRPC_OK)
            return;
        assert_int_equal(a.status, GRPC_UNAVAILABLE);
        assert_false(child_has_died(h));
        usleep(2000);
    }
    fail_msg("the provider does not become ready");
}

static inline struct answer change(struct harness *h, const char *method, const char *pool,
                                   int delta)
{
    Externalgrpc__DeltaRequest m = EXTERNALGRPC__DELTA_REQUEST__INIT;
    m.id = (char *)pool;
    m.delta = delta;
    return call(h, method, &m);
}

static inline void increase(struct harness *h, const char *pool, int delta)
{
    AUTO_ANSWER struct answer a = change(h, "NodeGroupIncreaseSize", pool, delta);
    if (a.status != GRPC_OK)
        fail_msg("status %d: %s", a.status, a.message);
}

static inline struct answer ask_group(struct harness *h, const char *method, const char *pool)
{
    Externalgrpc__GroupRequest m = EXTERNALGRPC__GROUP_REQUEST__INIT;
    m.id = (char *)pool;
    return call(h, method, &m);
}

static inline int target(struct harness *h, const char *pool)
{
    AUTO_ANSWER struct answer a = ask_group(h, "NodeGroupTargetSize", pool);
    Externalgrpc__TargetSizeResponse *r =
        unpacked(&a, &externalgrpc__target_size_response__descriptor);
    const int n = r->target_size;
    protobuf_c_message_free_unpacked(&r->base, NULL);
    return n;
}

static inline Externalgrpc__NodesResponse *nodes(struct harness *h, const char *pool)
{
    AUTO_ANSWER struct answer a = ask_group(h, "NodeGroupNodes", pool);
    return unpacked(&a, &externalgrpc__nodes_response__descriptor);
}

// Machines of the pool in this state; with_error: of those with an error.
static inline int count_state(struct harness *h, const char *pool, int state, bool with_error)
{
    Externalgrpc__NodesResponse *r = nodes(h, pool);
    int n = 0;
    for (size_t i = 0; i < r->n_instances; i++)
        n += r->instances[i]->status->instance_state == state &&
             (r->instances[i]->status->error_info != NULL) == with_error;
    protobuf_c_message_free_unpacked(&r->base, NULL);
    return n;
}

static inline void wait_state(struct harness *h, const char *pool, int state, bool with_error,
                              int n)
{
    int now = -1;
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; usleep(5000)) {
        now = count_state(h, pool, state, with_error);
        if (now == n)
            return;
    }
    fail_msg("%s: %d machines in state %d, want %d", pool, now, state, n);
}

static inline char *first_id(struct harness *h, const char *pool)
{
    Externalgrpc__NodesResponse *r = nodes(h, pool);
    assert_true(r->n_instances > 0);
    char *id = gs_strdup(r->instances[0]->id);
    protobuf_c_message_free_unpacked(&r->base, NULL);
    return id;
}

static inline struct answer delete_ids(struct harness *h, const char *pool, const char *a,
                                       const char *b)
{
    Externalgrpc__Node one = EXTERNALGRPC__NODE__INIT, two = EXTERNALGRPC__NODE__INIT;
    Externalgrpc__Node *items[] = {&one, &two};
    Externalgrpc__DeleteNodesRequest m = EXTERNALGRPC__DELETE_NODES_REQUEST__INIT;
    one.provider_id = (char *)a;
    two.name = (char *)(b ? b : ""); // as of a Node that the autoscaler makes up
    m.nodes = items;
    m.n_nodes = b ? 2 : 1;
    m.id = (char *)pool;
    return call(h, "NodeGroupDeleteNodes", &m);
}

// --- backend ---

// Files of machines. Fails if a machine was created twice.
static inline int count_machines(const struct harness *h)
{
    GS_AUTO_FREE char *path = gs_format("%s/m", h->dir);
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *names = gs_hmap_new(NULL);
    DIR *d = opendir(path);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        char *dot = strrchr(e->d_name, '.');
        if (e->d_name[0] == '.')
            continue;
        *dot = 0;
        if (gs_hmap_get_str(names, e->d_name))
            fail_msg("machine %s was created twice", e->d_name);
        gs_hmap_put_str(names, e->d_name, names);
        n++;
    }
    closedir(d);
    return n;
}

static inline void wait_machines(struct harness *h, int n)
{
    int now = -1;
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; usleep(5000)) {
        now = count_machines(h);
        if (now == n)
            return;
        run_once(h);
    }
    fail_msg("%d machines, want %d", now, n);
}

// --- fixture ---

static inline void setup(struct harness *h, const char *pools)
{
    *h = (struct harness){0};
    (void)signal(SIGPIPE, SIG_IGN);
    snprintf(h->dir, sizeof(h->dir), "/tmp/gs-provider-XXXXXX");
    assert_non_null(mkdtemp(h->dir));
    GS_AUTO_FREE char *m = gs_format("%s/m", h->dir);
    assert_int_equal(mkdir(m, 0700), 0);
    write_text(h, "backend", backend_script);
    write_text(h, "pools.yaml", pools ? pools : default_pools);
    uv_loop_init(&h->loop);
    GS_AUTO_FREE char *target_text = gs_format("unix:%s/sock", h->dir);
    assert_ok(grpc_client_new(&h->loop, target_text, &h->client));
    start_child(h);
    wait_ready(h);
}

static inline void remove_tree(const char *path)
{
    GS_AUTO_FREE char *command = gs_format("rm -r '%s'", path);
    assert_int_equal(system(command), 0);
}

static inline void teardown(struct harness *h)
{
    int status = 0;
    kill(h->child, SIGTERM);
    assert_int_equal(waitpid(h->child, &status, 0), h->child);
    assert_int_equal(status, 0);
    grpc_client_free(h->client);
    uv_run(&h->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&h->loop), 0);
    remove_tree(h->dir);
}
