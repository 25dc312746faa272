// SPDX-License-Identifier: Apache-2.0
// Draws the block below the log. Log lines come from any thread, under the lock of the log: the
// block is erased, the line written and the block drawn again in one write.
#include "up/console/console.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "up/console/console_private.h"

#include <sys/ioctl.h>
#include <unistd.h>

struct console_terminal {
    int fd;
    bool live, colour;
    struct gs_buf block; // as last drawn
};

static void write_all(int fd, struct gs_slice s)
{
    while (s.len) {
        ssize_t n = write(fd, s.data, s.len);
        if (n <= 0)
            return; // the terminal was closed
        s = gs_slice_make(s.data + n, s.len - (size_t)n);
    }
}

static size_t from_environment(const char *name, size_t fallback)
{
    const char *text = getenv(name);
    uint64_t n = 0;
    gs_error_free(text ? gs_parse_u64(gs_slice_of(text), 10000, &n) : NULL);
    return n ? (size_t)n : fallback;
}

void console_terminal_size(const struct console_terminal *t, size_t *ret_rows, size_t *ret_columns)
{
    struct winsize size = {0};
    if (ioctl(t->fd, TIOCGWINSZ, &size) < 0)
        size = (struct winsize){0};
    *ret_rows = size.ws_row ? size.ws_row : from_environment("LINES", 24);
    *ret_columns = size.ws_col ? size.ws_col : from_environment("COLUMNS", 80);
}

// Rows that the block occupies now. If the window becomes narrower, the terminal wraps lines that
// are already displayed.
static size_t rows_of_block(const struct console_terminal *t)
{
    size_t rows, columns, n = 0;
    console_terminal_size(t, &rows, &columns);
    for (struct gs_slice rest = gs_buf_slice(&t->block); rest.len;) {
        size_t width = gs_columns_width(gs_slice_cut(&rest, '\n'));
        n += width > columns ? (width + columns - 1) / columns : 1;
    }
    return n;
}

// Erases row by row. If the whole screen is erased at once, terminals such as tmux add its content
// to the scrollback, and each redraw of a block as high as the window leaves a copy.
static void add_erase(const struct console_terminal *t, struct gs_buf *out)
{
    size_t n = rows_of_block(t);
    if (!n)
        return;
    gs_buf_addf(out, "\r\033[%zuA", n);
    for (size_t i = 0; i < n; i++)
        gs_buf_add_str(out, "\033[K\033[B");
    gs_buf_addf(out, "\033[%zuA", n);
}

// Log lines may come from other threads. Each line is written with one call.
static void on_log_line(void *arg, const char *line, size_t len)
{
    struct console_terminal *t = arg;
    GS_AUTO_BUF struct gs_buf out = {0};
    add_erase(t, &out);
    gs_buf_add(&out, line, len);
    gs_buf_add_slice(&out, gs_buf_slice(&t->block));
    write_all(t->fd, gs_buf_slice(&out));
}

struct console_terminal *console_terminal_new(int fd)
{
    struct console_terminal *t = gs_alloc(sizeof(*t));
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    t->fd = fd;
    t->live = isatty(fd) && term && !gs_streq(term, "dumb");
    t->colour = t->live && !(no_colour && *no_colour);
    if (t->live)
        gs_log_set_sink(on_log_line, t);
    return t;
}

void console_terminal_free(struct console_terminal *t)
{
    if (!t)
        return;
    gs_log_set_sink(NULL, NULL);
    console_terminal_draw(t, (struct gs_slice){NULL, 0});
    gs_buf_finish(&t->block);
    free(t);
}

bool console_terminal_live(const struct console_terminal *t)
{
    return t->live;
}

bool console_terminal_colour(const struct console_terminal *t)
{
    return t->colour;
}

void console_terminal_line(struct console_terminal *t, const char *fmt, ...)
{
    GS_AUTO_BUF struct gs_buf line = {0};
    va_list ap;
    va_start(ap, fmt);
    gs_buf_vaddf(&line, fmt, ap);
    va_end(ap);
    gs_buf_add_char(&line, '\n');
    on_log_line(t, line.data, line.len);
}

void console_terminal_draw(struct console_terminal *t, struct gs_slice block)
{
    if (!t->live)
        return;
    GS_AUTO_BUF struct gs_buf out = {0};
    add_erase(t, &out);
    size_t rows, columns;
    console_terminal_size(t, &rows, &columns);
    gs_buf_clear(&t->block);
    for (size_t n = 1; block.len && n < rows; n++) {
        struct gs_slice line = gs_slice_cut(&block, '\n');
        // Some terminals wrap a line that is as wide as the window.
        gs_columns_fit(&t->block, line, columns > 1 ? columns - 1 : 1);
        gs_buf_add_str(&t->block, t->colour ? "\033[0m\n" : "\n");
    }
    gs_buf_add_slice(&out, gs_buf_slice(&t->block));
    write_all(t->fd, gs_buf_slice(&out));
}
