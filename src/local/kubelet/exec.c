// SPDX-License-Identifier: Apache-2.0
// exec: a command beside a container, with its environment, folder and namespaces.
#include "local/kubelet/streaming.h"

#include "base/mem.h"
#include "kube/status.h"

#include <errno.h>

enum { MAX_WORDS = 1024, KILLED = 137 };

struct kubelet_exec {
    struct kubelet_stream stream;
    struct kubelet_remote *remote;   // NULL: the client is gone
    struct kubelet_session *session; // NULL: not started, or ended
    struct kubelet_remote_options options;
    struct kubelet_words argv;
    char *container;
    uint16_t columns, rows; // of a size that came before the command ran
};

static void exec_free(struct kubelet_exec *e)
{
    kubelet_stream_remove(&e->stream);
    kubelet_session_free(e->session);
    kubelet_words_finish(&e->argv);
    free(e->container);
    free(e);
}

static void exec_finish(struct kubelet_exec *e, int exit_code, const char *failure)
{
    kubelet_session_free(GS_TAKE(e->session));
    kubelet_remote_finish(e->remote, exit_code, failure);
}

// --- from the command ---

static void on_output(void *arg, enum kubelet_remote_stream stream, struct gs_slice bytes)
{
    struct kubelet_exec *e = arg;
    kubelet_remote_write(e->remote, stream, bytes);
    if (kubelet_remote_pending(e->remote) > KUBELET_STREAM_HIGH)
        kubelet_session_pause(e->session, true);
}

static void on_session_drained(void *arg)
{
    struct kubelet_exec *e = arg;
    kubelet_remote_pause(e->remote, false);
}

static char *describe_failure(const struct kubelet_exec *e, int error, const char *message)
{
    if (*message)
        return gs_format("error executing command in container: %s", message);
    const char *program = e->argv.items[0];
    bool not_found = error == ENOENT && !strchr(program, '/');
    return gs_format("error executing command in container: exec: \"%s\": %s", program,
                     not_found ? "executable file not found in $PATH" : strerror(error));
}

static void on_session_exit(void *arg, int exit_code, int exec_errno, const char *message)
{
    struct kubelet_exec *e = arg;
    GS_AUTO_FREE char *failure = exec_errno ? describe_failure(e, exec_errno, message) : NULL;
    exec_finish(e, exit_code, failure);
}

static const struct kubelet_session_callbacks session_callbacks = {
    .on_output = on_output,
    .on_drained = on_session_drained,
    .on_exit = on_session_exit,
};

// --- the start ---

// The container may have ended since the request.
static struct kubelet_container *find_instance(const struct kubelet_exec *e)
{
    struct kubelet *k = e->stream.k;
    struct kubelet_worker *w = k ? gs_hmap_get_str(k->workers, e->stream.pod_uid) : NULL;
    struct kubelet_container *c = w ? kubelet_worker_find(w, e->container) : NULL;
    bool runs = c && c->state == KUBELET_RUNNING && c->process &&
                gs_streq(c->container_id, e->stream.container_id);
    return runs ? c : NULL;
}

static struct gs_error *start_session(struct kubelet_exec *e, const struct kubelet_container *c)
{
    struct kubelet *k = e->stream.k;
    GS_CLEANUP(kubelet_words_finish) struct kubelet_words env = {0};
    char hostname[KUBELET_HOSTNAME_SIZE];
    for (size_t i = 0; i < c->env.words.len; i++)
        kubelet_words_add(&env, c->env.words.items[i]);
    // As container runtimes do.
    if (e->options.tty && !kubelet_env_get(&c->env, "TERM"))
        kubelet_words_add(&env, "TERM=xterm");
    const struct kubelet_session_spec spec = {
        .self_exe = k->self_exe,
        .argv = e->argv.items,
        .env = env.items,
        .cwd = c->cwd,
        .preload = k->podnet,
        .join = c->mounted ? kubelet_container_pid(c) : 0,
        .hostname = kubelet_worker_hostname(c->worker, hostname),
        .streams = e->options,
    };
    return kubelet_session_start(k->cluster->loop, &spec, &session_callbacks, e, &e->session);
}

// --- from the client ---

static void on_open(void *arg)
{
    struct kubelet_exec *e = arg;
    const struct kubelet_container *c = find_instance(e);
    GS_AUTO_FREE char *gone =
        c ? NULL
          : gs_format("error executing command in container: container not found (\"%s\")",
                      e->container);
    GS_AUTO_ERROR struct gs_error *err = c ? start_session(e, c) : NULL;
    GS_AUTO_FREE char *failure =
        err ? gs_format("error executing command in container: %s", gs_error_message(err)) : NULL;
    if (gone || failure)
        exec_finish(e, 0, gone ? gone : failure);
    else if (e->columns)
        kubelet_session_resize(e->session, e->columns, e->rows);
}

static void on_stdin(void *arg, struct gs_slice bytes)
{
    struct kubelet_exec *e = arg;
    if (!e->session)
        return;
    kubelet_session_write(e->session, bytes);
    if (kubelet_session_pending(e->session) > KUBELET_STREAM_HIGH)
        kubelet_remote_pause(e->remote, true);
}

static void on_stdin_end(void *arg)
{
    struct kubelet_exec *e = arg;
    if (e->session)
        kubelet_session_end_input(e->session);
}

static void on_resize(void *arg, uint16_t columns, uint16_t rows)
{
    struct kubelet_exec *e = arg;
    e->columns = columns;
    e->rows = rows;
    if (e->session)
        kubelet_session_resize(e->session, columns, rows);
}

static void on_remote_drained(void *arg)
{
    struct kubelet_exec *e = arg;
    if (e->session)
        kubelet_session_pause(e->session, false);
}

static void on_remote_close(void *arg)
{
    struct kubelet_exec *e = arg;
    e->remote = NULL;
    exec_free(e);
}

static const struct kubelet_remote_callbacks remote_callbacks = {
    .on_open = on_open,
    .on_stdin = on_stdin,
    .on_stdin_end = on_stdin_end,
    .on_resize = on_resize,
    .on_drained = on_remote_drained,
    .on_close = on_remote_close,
};

// --- the request ---

static void end_exec(struct kubelet_stream *stream)
{
    struct kubelet_exec *e = GS_CONTAINER_OF(stream, struct kubelet_exec, stream);
    if (e->remote)
        exec_finish(e, KILLED, NULL);
}

static struct gs_error *read_command(struct http_exchange *x, struct kubelet_words *ret)
{
    const char *name, *value;
    for (size_t i = 0; (value = http_query_nth(x, i, &name)); i++) {
        if (!gs_streq(name, "command"))
            continue;
        if (ret->len == MAX_WORDS)
            return gs_error_new(GS_ELIMIT, "the command has more than %d words", MAX_WORDS);
        kubelet_words_add(ret, value);
    }
    if (!ret->len)
        return gs_error_new(GS_EINVAL, "you must specify a command to execute");
    return NULL;
}

void kubelet_exec(struct kubelet *k, struct kubelet_container *c, struct http_exchange *x)
{
    struct kubelet_exec *e = gs_alloc(sizeof(*e));
    e->stream.end = end_exec;
    e->container = gs_strdup(c->name);
    GS_AUTO_ERROR struct gs_error *err = kubelet_remote_options(x, &e->options);
    if (!err)
        err = read_command(x, &e->argv);
    if (err)
        kube_reply_failure(x, 400, "BadRequest", "%s", gs_error_message(err));
    else
        e->remote = kubelet_remote_open(k->cluster->loop, x, &e->options, &remote_callbacks, e);
    if (!e->remote) {
        exec_free(e);
        return;
    }
    kubelet_stream_add(k, &e->stream, c->worker, c->container_id);
}
