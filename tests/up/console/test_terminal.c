// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/log.h"
#include "base/mem.h"
#include "up/console/console.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

// The output at the other side of a pseudo-terminal.
static char *read_all(int fd)
{
    struct gs_buf out = {0};
    char chunk[4096];
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (ssize_t n; (n = read(fd, chunk, sizeof(chunk))) > 0;)
        gs_buf_add(&out, chunk, (size_t)n);
    return gs_buf_take(&out);
}

// A chroot without /dev/pts has no pseudo-terminals.
static int open_master(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0)
        skip_because("no pseudo-terminal can be opened: %s", strerror(errno));
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    return master;
}

static void test_lines_scroll_above_the_block(void **state)
{
    GS_AUTO_FREE char *got = NULL;
    int master = open_master();
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    struct console_terminal *t = console_terminal_new(slave);
    assert_true(console_terminal_live(t));
    assert_false(console_terminal_colour(t));
    console_terminal_draw(t, GS_SLICE("first\nsecond\n"));
    gs_log_configure(GS_LOG_INFO, GS_LOG_TEXT);
    gs_info("test", "an event");
    console_terminal_free(t);
    got = read_all(master);
    const char *erase = strstr(got, "\033[2A\033[K\033[B\033[K\033[B\033[2A");
    assert_non_null(strstr(got, "first\r\nsecond\r\n"));
    assert_non_null(erase);
    const char *event = strstr(erase, "an event\r\n");
    assert_non_null(event);
    assert_non_null(strstr(event, "first\r\nsecond\r\n"));
    close(slave);
    close(master);
}

struct pty {
    int master, slave;
    struct console_terminal *t;
};

static void resize(const struct pty *p, unsigned short rows, unsigned short columns)
{
    const struct winsize size = {.ws_row = rows, .ws_col = columns};
    assert_int_equal(ioctl(p->slave, TIOCSWINSZ, &size), 0);
}

static struct pty pty_open(unsigned short rows, unsigned short columns)
{
    struct pty p = {.master = open_master()};
    p.slave = open(ptsname(p.master), O_RDWR | O_NOCTTY);
    resize(&p, rows, columns);
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    p.t = console_terminal_new(p.slave);
    return p;
}

static void pty_close(struct pty *p)
{
    console_terminal_free(p->t);
    close(p->slave);
    close(p->master);
}

static void test_the_block_has_no_more_rows_than_the_window(void **state)
{
    struct pty p = pty_open(4, 10);
    size_t rows, columns;
    console_terminal_size(p.t, &rows, &columns);
    assert_int_equal(rows, 4);
    assert_int_equal(columns, 10);
    console_terminal_draw(p.t, GS_SLICE("1\n2\n3\n4\n5\na long line\n"));
    GS_AUTO_FREE char *got = read_all(p.master);
    assert_string_equal(got, "1\r\n2\r\n3\r\n");
    pty_close(&p);
}

// The terminal has broken the lines of the block: all of their rows are erased.
static void test_a_narrowed_window_is_cleaned_up(void **state)
{
    struct pty p = pty_open(24, 40);
    console_terminal_draw(p.t, GS_SLICE("█ thirty columns, which is 30.\nshort\n"));
    resize(&p, 24, 12);
    GS_AUTO_FREE char *before = read_all(p.master);
    console_terminal_draw(p.t, GS_SLICE("abcdefghijklmnop\n"));
    GS_AUTO_FREE char *got = read_all(p.master);
    assert_true(gs_starts(got, "\r\033[4A\033[K\033[B"));
    assert_true(gs_ends(got, "\033[4Aabcdefghij…\r\n"));
    assert_null(strstr(got, "\033[J")); // terminals keep a copy of what is erased at once
    pty_close(&p);
}

static void test_dumb_terminals_have_no_block(void **state)
{
    static const char *const names[] = {"dumb", NULL};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        struct pty p = pty_open(24, 80);
        console_terminal_free(p.t);
        if (names[i])
            setenv("TERM", names[i], 1);
        else
            unsetenv("TERM");
        p.t = console_terminal_new(p.slave);
        assert_false(console_terminal_live(p.t));
        assert_false(console_terminal_colour(p.t));
        console_terminal_draw(p.t, GS_SLICE("block\n"));
        GS_AUTO_FREE char *got = read_all(p.master);
        assert_string_equal(got, "");
        pty_close(&p);
    }
}

static void test_a_pipe_gets_lines_only(void **state)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    struct console_terminal *t = console_terminal_new(fds[1]);
    assert_false(console_terminal_live(t));
    console_terminal_draw(t, GS_SLICE("block\n"));
    console_terminal_line(t, "line %d", 1);
    console_terminal_free(t);
    close(fds[1]);
    GS_AUTO_FREE char *got = read_all(fds[0]);
    assert_string_equal(got, "line 1\n");
    close(fds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_scroll_above_the_block),
        cmocka_unit_test(test_the_block_has_no_more_rows_than_the_window),
        cmocka_unit_test(test_a_narrowed_window_is_cleaned_up),
        cmocka_unit_test(test_dumb_terminals_have_no_block),
        cmocka_unit_test(test_a_pipe_gets_lines_only)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
