// SPDX-License-Identifier: Apache-2.0
// The connection between a container's supervisor and clients of `kubectl attach`: frames over a
// Unix socket. A client that does not read is dropped, so that it cannot stop the container's
// output.
#include "local/kubelet/console.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

enum {
    MAX_OUTPUT = 1024 * 1024, // that a client has not read
    MAX_INPUT = 256 * 1024,   // that the command has not read; more is left in the sockets
    DRAIN_MS = 1000,
};

// --- frames ---

void kubelet_console_add_frame(struct gs_buf *b, enum kubelet_console_type type,
                               struct gs_slice payload)
{
    while (payload.len > KUBELET_CONSOLE_MAX_FRAME) {
        kubelet_console_add_frame(b, type, gs_slice_make(payload.data, KUBELET_CONSOLE_MAX_FRAME));
        payload.data += KUBELET_CONSOLE_MAX_FRAME;
        payload.len -= KUBELET_CONSOLE_MAX_FRAME;
    }
    const uint8_t head[KUBELET_CONSOLE_HEAD] = {(uint8_t)type, (uint8_t)(payload.len >> 24),
                                                (uint8_t)(payload.len >> 16),
                                                (uint8_t)(payload.len >> 8), (uint8_t)payload.len};
    gs_buf_add(b, head, sizeof(head));
    gs_buf_add_slice(b, payload);
}

bool kubelet_console_take_frame(struct gs_slice *bytes, enum kubelet_console_type *ret_type,
                                struct gs_slice *ret_payload, bool *ret_bad)
{
    const uint8_t *b = (const uint8_t *)bytes->data;
    *ret_bad = false;
    if (bytes->len < KUBELET_CONSOLE_HEAD)
        return false;
    size_t len = (size_t)b[1] << 24 | (size_t)b[2] << 16 | (size_t)b[3] << 8 | b[4];
    *ret_bad = len > KUBELET_CONSOLE_MAX_FRAME;
    if (*ret_bad || bytes->len - KUBELET_CONSOLE_HEAD < len)
        return false;
    *ret_type = (enum kubelet_console_type)b[0];
    *ret_payload = gs_slice_make(bytes->data + KUBELET_CONSOLE_HEAD, len);
    bytes->data += KUBELET_CONSOLE_HEAD + len;
    bytes->len -= KUBELET_CONSOLE_HEAD + len;
    return true;
}

struct gs_error *kubelet_open_terminal(int *ret_master, int *ret_slave)
{
    GS_AUTO_CLOSE int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    int slave = master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0
                    ? ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)
                    : -1;
    if (slave < 0)
        return gs_error_errno(errno, "opening a terminal");
    *ret_master = master;
    *ret_slave = slave;
    master = -1; // NOLINT(clang-analyzer-deadcode.DeadStores): the cleanup reads it
    return NULL;
}

// --- the supervisor's side ---

void kubelet_console_init(struct kubelet_console *c)
{
    *c = (struct kubelet_console){.listen_fd = -1, .input_fd = -1};
    for (size_t i = 0; i < KUBELET_CONSOLE_MAX_CLIENTS; i++)
        c->clients[i].fd = -1;
}

struct gs_error *kubelet_console_open(struct kubelet_console *c, const char *path)
{
    struct sockaddr_un address;
    GS_AUTO_CLOSE int dir = -1;
    struct gs_error *err = gs_unix_address(path, &address, &dir);
    if (err)
        return err;
    unlink(path);
    c->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->listen_fd < 0 ||
        bind(c->listen_fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(c->listen_fd, KUBELET_CONSOLE_MAX_CLIENTS) < 0)
        return gs_error_errno(errno, "%s", path);
    c->path = gs_strdup(path);
    return NULL;
}

static void drop_client(struct kubelet_console_client *client)
{
    gs_closep(&client->fd);
    client->fd = -1;
    gs_buf_finish(&client->in);
    gs_buf_finish(&client->out);
}

static void close_input(struct kubelet_console *c)
{
    gs_buf_finish(&c->input);
    gs_closep(&c->input_fd);
    c->input_fd = -1;
}

static void flush_input(struct kubelet_console *c)
{
    while (c->input_fd >= 0 && c->input.len) {
        ssize_t n = write(c->input_fd, c->input.data, c->input.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            close_input(c);
        else
            gs_buf_consume(&c->input, (size_t)n);
    }
    if (c->input_ended && c->input_fd >= 0)
        close_input(c);
}

static void set_size(const struct kubelet_console *c, struct gs_slice payload)
{
    const uint8_t *b = (const uint8_t *)payload.data;
    if (!c->terminal || c->input_fd < 0 || payload.len != 4)
        return;
    struct winsize size = {.ws_col = (unsigned short)(b[0] << 8 | b[1]),
                           .ws_row = (unsigned short)(b[2] << 8 | b[3])};
    ioctl(c->input_fd, TIOCSWINSZ, &size);
}

static void take_frames(struct kubelet_console *c, struct kubelet_console_client *client)
{
    struct gs_slice rest = gs_buf_slice(&client->in), payload;
    enum kubelet_console_type type;
    bool bad;
    while (kubelet_console_take_frame(&rest, &type, &payload, &bad)) {
        if (type == KUBELET_CONSOLE_INPUT && c->input_fd >= 0 && !c->input_ended)
            gs_buf_add_slice(&c->input, payload);
        else if (type == KUBELET_CONSOLE_END && !c->terminal)
            c->input_ended = true;
        else if (type == KUBELET_CONSOLE_SIZE)
            set_size(c, payload);
    }
    gs_buf_consume(&client->in, client->in.len - rest.len);
    flush_input(c);
    if (bad)
        drop_client(client);
}

static void read_client(struct kubelet_console *c, struct kubelet_console_client *client)
{
    char chunk[16384];
    ssize_t n = recv(client->fd, chunk, sizeof(chunk), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop_client(client);
        return;
    }
    gs_buf_add(&client->in, chunk, (size_t)n);
    take_frames(c, client);
}

static void flush_client(struct kubelet_console_client *client)
{
    while (client->fd >= 0 && client->out.len) {
        ssize_t n = send(client->fd, client->out.data, client->out.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            drop_client(client);
        else
            gs_buf_consume(&client->out, (size_t)n);
    }
}

static void accept_client(struct kubelet_console *c)
{
    int fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    for (size_t i = 0; fd >= 0 && i < KUBELET_CONSOLE_MAX_CLIENTS; i++) {
        if (c->clients[i].fd >= 0)
            continue;
        c->clients[i].fd = fd;
        return;
    }
    gs_closep(&fd);
}

void kubelet_console_poll(const struct kubelet_console *c, struct pollfd *fds)
{
    bool full = c->input.len > MAX_INPUT;
    fds[0] = (struct pollfd){.fd = c->listen_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = c->input.len ? c->input_fd : -1, .events = POLLOUT};
    for (size_t i = 0; i < KUBELET_CONSOLE_MAX_CLIENTS; i++)
        fds[2 + i] = (struct pollfd){
            .fd = c->clients[i].fd,
            .events = (short)((full ? 0 : POLLIN) | (c->clients[i].out.len ? POLLOUT : 0)),
        };
}

void kubelet_console_handle(struct kubelet_console *c, const struct pollfd *fds)
{
    if (fds[1].revents)
        flush_input(c);
    for (size_t i = 0; i < KUBELET_CONSOLE_MAX_CLIENTS; i++) {
        struct kubelet_console_client *client = &c->clients[i];
        short events = fds[2 + i].revents;
        if (client->fd >= 0 && (events & POLLOUT))
            flush_client(client);
        if (client->fd >= 0 && (events & (POLLIN | POLLHUP | POLLERR)))
            read_client(c, client);
    }
    if (fds[0].revents)
        accept_client(c);
}

void kubelet_console_output(struct kubelet_console *c, enum kubelet_console_type type,
                            struct gs_slice bytes)
{
    for (size_t i = 0; i < KUBELET_CONSOLE_MAX_CLIENTS; i++) {
        struct kubelet_console_client *client = &c->clients[i];
        if (client->fd < 0)
            continue;
        kubelet_console_add_frame(&client->out, type, bytes);
        flush_client(client);
        if (client->out.len > MAX_OUTPUT)
            drop_client(client);
    }
}

static bool has_output(const struct kubelet_console *c)
{
    for (size_t i = 0; i < KUBELET_CONSOLE_MAX_CLIENTS; i++)
        if (c->clients[i].fd >= 0 && c->clients[i].out.len)
            return true;
    return false;
}

static void drain(struct kubelet_console *c)
{
    struct pollfd fds[KUBELET_CONSOLE_POLLS];
    int64_t end = gs_mono_ns() + DRAIN_MS * GS_NS_PER_MS;
    while (has_output(c) && gs_mono_ns() < end) {
        for (size_t i = 0; i < KUBELET_CONSOLE_MAX_CLIENTS; i++) {
            const struct kubelet_console_client *client = &c->clients[i];
            fds[i] = (struct pollfd){.fd = client->out.len ? client->fd : -1, .events = POLLOUT};
        }
        poll(fds, KUBELET_CONSOLE_MAX_CLIENTS, 100);
        for (size_t i = 0; i < KUBELET_CONSOLE_MAX_CLIENTS; i++)
            if (fds[i].revents)
                flush_client(&c->clients[i]);
    }
}

void kubelet_console_finish(struct kubelet_console *c)
{
    drain(c);
    if (c->path)
        unlink(c->path);
    free(GS_TAKE(c->path));
    gs_closep(&c->listen_fd);
    c->listen_fd = -1;
    close_input(c);
    for (size_t i = 0; i < KUBELET_CONSOLE_MAX_CLIENTS; i++)
        drop_client(&c->clients[i]);
}
