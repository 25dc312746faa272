// SPDX-License-Identifier: Apache-2.0
// The server of the simulated host engine: one thread with poll(2). Its state is that of the set of
// GPUs: `gpuscale sim hostengine stop` closes the connections and the port, `start` opens it again.
#include "dcgmsim/hostengine.h"

#include "base/clock.h"
#include "base/mem.h"
#include "dcgmsim/hostengine_private.h"
#include "net/http/server.h"
#include "nvmlsim/nvmlsim_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_CLIENTS = 32, STATE_CHECK_MS = 50, READ_SIZE = 65536 };

struct client {
    int fd;
    struct gs_buf in, out;
    size_t sent; // of out
    struct dcgmsim_session session;
};

struct server {
    const struct dcgmsim_hostengine_config *cfg;
    struct dcgmsim_calls calls;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un path;
    } address;
    socklen_t address_len;
    int listener; // -1: closed
    uint32_t generation;
    struct client *clients[MAX_CLIENTS];
    size_t n_clients;
};

static volatile sig_atomic_t stopping;

static void on_signal(int signal)
{
    stopping = 1;
}

// --- address ---

static struct gs_error *parse_tcp(struct server *s)
{
    GS_AUTO_FREE char *host = NULL;
    uint16_t port = 0;
    struct gs_error *err = http_server_parse_address("--listen", s->cfg->listen, &host, &port);
    if (err)
        return err;
    if (inet_pton(AF_INET, host, &s->address.v4.sin_addr) == 1) {
        s->address.v4.sin_family = AF_INET;
        s->address.v4.sin_port = htons(port);
        s->address_len = sizeof(s->address.v4);
    } else if (inet_pton(AF_INET6, host, &s->address.v6.sin6_addr) == 1) {
        s->address.v6.sin6_family = AF_INET6;
        s->address.v6.sin6_port = htons(port);
        s->address_len = sizeof(s->address.v6);
    } else {
        err = gs_error_new(GS_EINVAL, "--listen \"%s\": want an IP address", s->cfg->listen);
    }
    return err;
}

static struct gs_error *parse_address(struct server *s)
{
    const char *path = s->cfg->listen + 5;
    if (!gs_starts(s->cfg->listen, "unix:"))
        return parse_tcp(s);
    if (!*path || strlen(path) >= sizeof(s->address.path.sun_path))
        return gs_error_new(GS_EINVAL, "--listen \"%s\": want unix:PATH with at most %zu bytes",
                            s->cfg->listen, sizeof(s->address.path.sun_path) - 1);
    s->address.path.sun_family = AF_UNIX;
    memcpy(s->address.path.sun_path, path, strlen(path));
    s->address_len = sizeof(s->address.path);
    return NULL;
}

static void print_address(const struct server *s)
{
    char host[INET6_ADDRSTRLEN] = "";
    bool v6 = s->address.any.sa_family == AF_INET6;
    const void *at = v6 ? (const void *)&s->address.v6.sin6_addr : &s->address.v4.sin_addr;
    if (s->address.any.sa_family == AF_UNIX) {
        printf("simulated host engine at unix:%s\n", s->address.path.sun_path);
    } else if (inet_ntop(s->address.any.sa_family, at, host, sizeof(host))) {
        uint16_t port = ntohs(v6 ? s->address.v6.sin6_port : s->address.v4.sin_port);
        GS_AUTO_FREE char *text = http_server_address_text(host, port);
        printf("simulated host engine at %s\n", text);
    }
    (void)fflush(stdout);
}

// A socket that a program left behind would make bind() fail.
static void remove_socket(const struct server *s)
{
    struct stat st;
    if (s->address.any.sa_family == AF_UNIX && lstat(s->address.path.sun_path, &st) == 0 &&
        S_ISSOCK(st.st_mode))
        unlink(s->address.path.sun_path);
}

static struct gs_error *open_listener(struct server *s)
{
    int fd = socket(s->address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    remove_socket(s);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (fd < 0 || bind(fd, &s->address.any, s->address_len) < 0 || listen(fd, 16) < 0) {
        int e = errno;
        if (fd >= 0)
            close(fd);
        return gs_error_errno(e, "listening at %s", s->cfg->listen);
    }
    socklen_t len = sizeof(s->address);
    getsockname(fd, &s->address.any, &len); // port 0 becomes a number, which stays after a restart
    s->listener = fd;
    return NULL;
}

// --- clients ---

static void drop(struct server *s, size_t i)
{
    struct client *c = s->clients[i];
    dcgmsim_session_finish(&c->session);
    close(c->fd);
    gs_buf_finish(&c->in);
    gs_buf_finish(&c->out);
    free(c);
    s->clients[i] = s->clients[--s->n_clients];
}

static void drop_all(struct server *s)
{
    while (s->n_clients)
        drop(s, s->n_clients - 1);
    if (s->listener >= 0)
        close(s->listener);
    s->listener = -1;
}

static void accept_client(struct server *s)
{
    struct dcgm_connect_v2 p = {.version = DCGM_CONNECT_V2};
    int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    struct client *c = gs_alloc(sizeof(*c));
    c->session.calls = &s->calls;
    c->fd = fd;
    c->in.limit = DCGM_WIRE_HEADER_SIZE + DCGM_WIRE_MAX_BODY + READ_SIZE;
    if (s->n_clients == MAX_CLIENTS || s->calls.connect("localhost", &p, &c->session.handle)) {
        close(fd);
        free(c);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    s->clients[s->n_clients++] = c;
}

// false: the connection has no use any more.
static bool answer(struct client *c)
{
    bool ok = true, complete = true;
    struct gs_slice stream = gs_buf_slice(&c->in);
    while (ok && complete) {
        struct dcgm_wire_frame f;
        GS_AUTO_ERROR struct gs_error *err = dcgm_wire_cut(&stream, &f, &complete);
        ok = !err;
        if (ok && complete)
            ok = dcgmsim_session_answer(&c->session, &f, &c->out);
    }
    gs_buf_consume(&c->in, c->in.len - stream.len);
    return ok;
}

static bool receive(struct client *c)
{
    char *at = gs_buf_room(&c->in, READ_SIZE);
    ssize_t n = at ? recv(c->fd, at, READ_SIZE, 0) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    c->in.len += (size_t)n;
    at[n] = 0;
    return answer(c);
}

static bool send_more(struct client *c)
{
    while (c->sent < c->out.len) {
        ssize_t n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent, MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        c->sent += (size_t)n;
    }
    gs_buf_clear(&c->out);
    c->sent = 0;
    return true;
}

// --- the loop ---

static bool is_running(const struct server *s, uint32_t *ret_generation)
{
    const struct nvmlsim_shm_engine *e = &s->cfg->sim->seg->engine;
    *ret_generation = __atomic_load_n(&e->generation, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&e->flags, __ATOMIC_ACQUIRE) & NVMLSIM_ENGINE_RUNNING;
}

static struct gs_error *follow_state(struct server *s)
{
    uint32_t generation = 0;
    bool running = is_running(s, &generation);
    if (!running || generation != s->generation)
        drop_all(s);
    s->generation = generation;
    return running && s->listener < 0 ? open_listener(s) : NULL;
}

static void serve_once(struct server *s)
{
    struct pollfd fds[MAX_CLIENTS + 1] = {{s->listener, POLLIN, 0}};
    size_t n = s->n_clients;
    for (size_t i = 0; i < n; i++)
        fds[i + 1] =
            (struct pollfd){s->clients[i]->fd, s->clients[i]->out.len ? POLLOUT : POLLIN, 0};
    if (poll(fds, n + 1, STATE_CHECK_MS) <= 0)
        return;
    for (size_t i = n; i-- > 0;) { // backwards: drop() moves the last one
        struct client *c = s->clients[i];
        bool ok = !fds[i + 1].revents || c->out.len || receive(c);
        if (!ok || !send_more(c))
            drop(s, i);
    }
    if (fds[0].revents)
        accept_client(s);
}

static struct gs_error *serve(struct server *s)
{
    struct gs_error *err = parse_address(s);
    err = err ? err : dcgmsim_calls_load(s->cfg->library, &s->calls);
    if (err)
        return err;
    if (s->calls.init())
        return gs_error_new(GS_EIO, "the simulated libdcgm does not start");
    nvmlsim_engine_control(s->cfg->sim, NVMLSIM_ENGINE_START);
    err = follow_state(s);
    if (!err)
        print_address(s);
    while (!err && !stopping) {
        serve_once(s);
        err = follow_state(s);
    }
    drop_all(s);
    remove_socket(s);
    nvmlsim_engine_control(s->cfg->sim, NVMLSIM_ENGINE_STOP);
    s->calls.shutdown();
    return err;
}

struct gs_error *dcgmsim_hostengine_run(const struct dcgmsim_hostengine_config *cfg)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct server s = {.cfg = cfg, .listener = -1};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    return serve(&s);
}
