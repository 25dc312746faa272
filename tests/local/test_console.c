// SPDX-License-Identifier: Apache-2.0
// The frames between attach and a container's supervisor, and the supervisor's side.
#include "patience.h"

#include "base/file.h"
#include "base/mem.h"
#include "local/kubelet/console.h"
#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    struct kubelet_console console;
    char *dir, *path;
    int input[2];
};

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    const char *tmp = getenv("TMPDIR");
    f->dir = gs_format("%s/gpuscale-console-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->dir));
    // Longer than the address of a Unix socket can be.
    GS_AUTO_FREE char *long_dir = gs_format("%s/%0120d", f->dir, 0);
    assert_int_equal(mkdir(long_dir, 0700), 0);
    f->path = gs_format("%s/0.console", long_dir);
    kubelet_console_init(&f->console);
    assert_null(kubelet_console_open(&f->console, f->path));
    assert_int_equal(pipe2(f->input, O_CLOEXEC | O_NONBLOCK), 0);
    f->console.input_fd = f->input[1];
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *long_dir = gs_format("%s/%0120d", f->dir, 0);
    kubelet_console_finish(&f->console);
    assert_int_equal(rmdir(long_dir), 0); // the socket is removed
    assert_int_equal(rmdir(f->dir), 0);
    close(f->input[0]);
    free(f->dir);
    free(f->path);
    free(f);
    return 0;
}

static void turn(struct fixture *f)
{
    struct pollfd fds[KUBELET_CONSOLE_POLLS];
    kubelet_console_poll(&f->console, fds);
    if (poll(fds, KUBELET_CONSOLE_POLLS, 1) > 0)
        kubelet_console_handle(&f->console, fds);
}

#define wait_until(f, condition)                                                                   \
    do {                                                                                           \
        for (int64_t end_ = gs_mono_ns() + WAIT_NS; !(condition); turn(f))                         \
            assert_true(gs_mono_ns() < end_);                                                      \
    } while (0)

static size_t count_clients(const struct fixture *f)
{
    size_t n = 0;
    for (size_t i = 0; i < KUBELET_CONSOLE_MAX_CLIENTS; i++)
        n += f->console.clients[i].fd >= 0;
    return n;
}

static int connect_client(const struct fixture *f)
{
    struct sockaddr_un address;
    int dir;
    assert_null(gs_unix_address(f->path, &address, &dir));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    close(dir);
    return fd;
}

static void send_frame(int fd, enum kubelet_console_type type, struct gs_slice payload)
{
    GS_AUTO_BUF struct gs_buf b = {0};
    kubelet_console_add_frame(&b, type, payload);
    assert_int_equal(send(fd, b.data, b.len, MSG_NOSIGNAL), b.len);
}

static void test_long_payloads_become_several_frames(void **state)
{
    GS_AUTO_FREE char *text = gs_alloc(200000);
    GS_AUTO_BUF struct gs_buf b = {0};
    struct gs_slice payload;
    enum kubelet_console_type type;
    bool bad;
    size_t total = 0;
    kubelet_console_add_frame(&b, KUBELET_CONSOLE_STDERR, gs_slice_make(text, 200000));
    struct gs_slice rest = gs_buf_slice(&b);
    while (kubelet_console_take_frame(&rest, &type, &payload, &bad)) {
        assert_int_equal(type, KUBELET_CONSOLE_STDERR);
        total += payload.len;
    }
    assert_false(bad);
    assert_int_equal(rest.len, 0);
    assert_int_equal(total, 200000);
}

static void test_input_reaches_the_command_and_ends(void **state)
{
    struct fixture *f = *state;
    char text[16] = "";
    int fd = connect_client(f);
    send_frame(fd, KUBELET_CONSOLE_INPUT, GS_SLICE("hello"));
    send_frame(fd, KUBELET_CONSOLE_END, (struct gs_slice){0});
    wait_until(f, read(f->input[0], text, sizeof(text)) == 5);
    assert_string_equal(text, "hello");
    wait_until(f, read(f->input[0], text, sizeof(text)) == 0);
    close(fd);
}

static void test_output_reaches_every_client(void **state)
{
    struct fixture *f = *state;
    int a = connect_client(f), b = connect_client(f);
    char text[32];
    wait_until(f, count_clients(f) == 2);
    kubelet_console_output(&f->console, KUBELET_CONSOLE_STDOUT, GS_SLICE("x"));
    assert_int_equal(recv(a, text, sizeof(text), 0), 6);
    assert_memory_equal(text, "o\0\0\0\1x", 6);
    assert_int_equal(recv(b, text, sizeof(text), 0), 6);
    close(a);
    wait_until(f, count_clients(f) == 1);
    close(b);
    wait_until(f, count_clients(f) == 0);
}

static void test_a_client_that_does_not_read_is_dropped(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *block = gs_alloc(65536);
    int fd = connect_client(f);
    wait_until(f, count_clients(f) == 1);
    for (int i = 0; i < 100 && count_clients(f); i++)
        kubelet_console_output(&f->console, KUBELET_CONSOLE_STDOUT, gs_slice_make(block, 65536));
    assert_int_equal(count_clients(f), 0);
    close(fd);
}

static void test_malformed_frames_drop_the_client(void **state)
{
    struct fixture *f = *state;
    int fd = connect_client(f);
    wait_until(f, count_clients(f) == 1);
    assert_int_equal(send(fd, "i\xff\xff\xff\xff", 5, MSG_NOSIGNAL), 5);
    wait_until(f, count_clients(f) == 0);
    close(fd);
}

static void test_too_many_clients_are_refused(void **state)
{
    struct fixture *f = *state;
    int fds[KUBELET_CONSOLE_MAX_CLIENTS + 1];
    char byte;
    for (size_t i = 0; i <= KUBELET_CONSOLE_MAX_CLIENTS; i++) {
        fds[i] = connect_client(f);
        wait_until(f, count_clients(f) == (i < KUBELET_CONSOLE_MAX_CLIENTS ? i + 1 : i));
    }
    wait_until(f, recv(fds[KUBELET_CONSOLE_MAX_CLIENTS], &byte, 1, 0) == 0);
    for (size_t i = 0; i <= KUBELET_CONSOLE_MAX_CLIENTS; i++)
        close(fds[i]);
}

int main(void)
{
#define CONSOLE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CONSOLE_TEST(test_long_payloads_become_several_frames),
        CONSOLE_TEST(test_input_reaches_the_command_and_ends),
        CONSOLE_TEST(test_output_reaches_every_client),
        CONSOLE_TEST(test_a_client_that_does_not_read_is_dropped),
        CONSOLE_TEST(test_malformed_frames_drop_the_client),
        CONSOLE_TEST(test_too_many_clients_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
