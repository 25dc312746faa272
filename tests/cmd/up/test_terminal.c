// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/log.h"
#include "base/mem.h"
#include "cmd/up/terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

// What arrives on the other side of a pseudo-terminal.
static char *read_all(int fd)
{
    struct gs_buf out = {0};
    char chunk[4096];
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (ssize_t n; (n = read(fd, chunk, sizeof(chunk))) > 0;)
        gs_buf_add(&out, chunk, (size_t)n);
    return gs_buf_take(&out);
}

static void test_lines_scroll_above_the_block(void **state)
{
    GS_AUTO_FREE char *got = NULL;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    struct up_terminal *t = up_terminal_new(slave);
    assert_true(up_terminal_live(t));
    assert_false(up_terminal_colour(t));
    up_terminal_draw(t, GS_SLICE("first\nsecond\n"));
    gs_log_configure(GS_LOG_INFO, GS_LOG_TEXT);
    gs_info("test", "an event");
    up_terminal_free(t);
    got = read_all(master);
    const char *erase = strstr(got, "\033[2A\033[J");
    assert_non_null(strstr(got, "first\r\nsecond\r\n"));
    assert_non_null(erase);
    const char *event = strstr(erase, "an event\r\n");
    assert_non_null(event);
    assert_non_null(strstr(event, "first\r\nsecond\r\n"));
    close(slave);
    close(master);
}

static void test_a_pipe_gets_lines_only(void **state)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    struct up_terminal *t = up_terminal_new(fds[1]);
    assert_false(up_terminal_live(t));
    up_terminal_draw(t, GS_SLICE("block\n"));
    up_terminal_line(t, "line %d", 1);
    up_terminal_free(t);
    close(fds[1]);
    GS_AUTO_FREE char *got = read_all(fds[0]);
    assert_string_equal(got, "line 1\n");
    close(fds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines_scroll_above_the_block),
                                       cmocka_unit_test(test_a_pipe_gets_lines_only)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
