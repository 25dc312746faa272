// SPDX-License-Identifier: Apache-2.0
// A gate with real sockets. Clients and servers are plain sockets of the same thread, which never
// block.
#pragma once

#include "../kube/loop.h"
#include "activator/gate.h"
#include "base/clock.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define IP            "127.0.0.1"
#define REQUEST       "POST /v1 HTTP/1.1\r\nHost: api\r\nContent-Length: 2\r\n\r\n{}"
#define GATE_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

struct fixture {
    uv_loop_t loop;
    struct activator_budget budget;
    struct activator_gate_config cfg;
    struct activator_gate *gate;
    uint16_t port;
    int changes;
};

static inline void on_waiting(void *arg)
{
    ((struct fixture *)arg)->changes++;
}

static inline void start(struct fixture *f)
{
    f->gate = activator_gate_new(&f->loop, &f->cfg);
    f->port = 0;
    assert_ok(activator_gate_listen(f->gate, 0, IP, &f->port));
}

static inline int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    uv_loop_init(&f->loop);
    f->budget.left = 8 << 20;
    f->cfg = (struct activator_gate_config){.max_held = 1000,
                                            .max_bytes = 64 * 1024,
                                            .hold_ms = 600000,
                                            .silent_ms = 600000,
                                            .idle_ms = 600000,
                                            .connect_ms = 5000,
                                            .max_open = 1000,
                                            .per_endpoint = 8,
                                            .budget = &f->budget,
                                            .on_waiting = on_waiting,
                                            .arg = f};
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    activator_gate_free(f->gate);
    loop_finish(&f->loop);
    free(f);
    return 0;
}

// --- sockets ---

static inline struct sockaddr_in address(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, IP, &a.sin_addr);
    return a;
}

static inline int client(const struct fixture *f, const char *text)
{
    struct sockaddr_in a = address(f->port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    return fd;
}

static inline int server(uint16_t *ret_port)
{
    struct sockaddr_in a = address(0);
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 64), 0);
    getsockname(fd, (struct sockaddr *)&a, &len);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static inline void set_server(struct fixture *f, uint16_t port)
{
    const struct activator_address a = {.ip = IP, .port = port};
    activator_gate_set(f->gate, 0, &a, port ? 1 : 0);
}

// Accepts if it can. -1: nothing came.
static inline bool accepts(int fd, int *ret)
{
    *ret = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return *ret >= 0;
}

// Adds what has come. True: that is at least this text, and nothing else; "" is the end.
static inline bool got(int fd, struct gs_buf *have, const char *want)
{
    char bytes[4096];
    ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n > 0)
        gs_buf_add(have, bytes, (size_t)n);
    if (!*want)
        return n == 0 || (n < 0 && errno == ECONNRESET);
    return have->len == strlen(want) && memcmp(have->data, want, have->len) == 0;
}

// Reads until the end, or until the text has come.
static inline bool got_part(int fd, struct gs_buf *have, const char *part)
{
    got(fd, have, "?");
    return have->len && memmem(have->data, have->len, part, strlen(part));
}

static inline struct activator_gate_stats stats(const struct fixture *f)
{
    struct activator_gate_stats s;
    activator_gate_stats(f->gate, &s);
    return s;
}

static inline void expect(struct fixture *f, int fd, const char *want)
{
    GS_AUTO_BUF struct gs_buf have = {0};
    loop_until(&f->loop, got(fd, &have, want));
}

static inline void expect_part(struct fixture *f, int fd, const char *part)
{
    GS_AUTO_BUF struct gs_buf have = {0};
    loop_until(&f->loop, got_part(fd, &have, part));
}

// Accepts the connection of the gate, which has sent this.
static inline int expect_request(struct fixture *f, int listener, const char *want)
{
    int at = -1;
    loop_until(&f->loop, accepts(listener, &at));
    expect(f, at, want);
    return at;
}

static inline void reply(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}
