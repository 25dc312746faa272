// SPDX-License-Identifier: Apache-2.0
#include "cmd/up/terminal.h"

#include "base/log.h"
#include "base/mem.h"

#include <sys/ioctl.h>
#include <unistd.h>

struct up_terminal {
    int fd;
    bool live, colour;
    struct gs_buf block; // as last drawn
    size_t drawn_lines;
};

static void write_all(int fd, struct gs_slice s)
{
    while (s.len) {
        ssize_t n = write(fd, s.data, s.len);
        if (n <= 0)
            return; // the terminal is gone: nothing to tell it to
        s = gs_slice_make(s.data + n, s.len - (size_t)n);
    }
}

static void add_erase(const struct up_terminal *t, struct gs_buf *out)
{
    if (t->drawn_lines)
        gs_buf_addf(out, "\r\033[%zuA\033[J", t->drawn_lines);
}

// Log lines may come from the sampler of another part's thread; they are short and whole.
static void on_log(void *arg, const char *line, size_t len)
{
    struct up_terminal *t = arg;
    GS_AUTO_BUF struct gs_buf out = {0};
    add_erase(t, &out);
    gs_buf_add(&out, line, len);
    gs_buf_add_slice(&out, gs_buf_slice(&t->block));
    write_all(t->fd, gs_buf_slice(&out));
}

struct up_terminal *up_terminal_new(int fd)
{
    struct up_terminal *t = gs_alloc(sizeof(*t));
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    t->fd = fd;
    t->live = isatty(fd) && term && !gs_streq(term, "dumb");
    t->colour = t->live && !(no_colour && *no_colour);
    if (t->live)
        gs_log_set_sink(on_log, t);
    return t;
}

void up_terminal_free(struct up_terminal *t)
{
    if (!t)
        return;
    gs_log_set_sink(NULL, NULL);
    up_terminal_draw(t, (struct gs_slice){NULL, 0});
    gs_buf_finish(&t->block);
    free(t);
}

bool up_terminal_live(const struct up_terminal *t)
{
    return t->live;
}

bool up_terminal_colour(const struct up_terminal *t)
{
    return t->colour;
}

static int width_of(const struct up_terminal *t)
{
    struct winsize size;
    if (ioctl(t->fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 20)
        return size.ws_col;
    return 100;
}

void up_terminal_line(struct up_terminal *t, const char *fmt, ...)
{
    GS_AUTO_BUF struct gs_buf line = {0};
    va_list ap;
    va_start(ap, fmt);
    gs_buf_vaddf(&line, fmt, ap);
    va_end(ap);
    gs_buf_add_char(&line, '\n');
    on_log(t, line.data, line.len);
}

// Bytes of the line that fit into `width` columns: escape sequences and UTF-8 continuation bytes
// take none.
static size_t fitting(struct gs_slice line, int width)
{
    int columns = 0;
    bool escape = false;
    for (size_t i = 0; i < line.len; i++) {
        unsigned char c = (unsigned char)line.data[i];
        if (c == 0x1b)
            escape = true;
        else if (escape && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
            escape = false;
        else if (!escape && (c & 0xc0) != 0x80 && ++columns > width)
            return i;
    }
    return line.len;
}

void up_terminal_draw(struct up_terminal *t, struct gs_slice block)
{
    if (!t->live)
        return;
    GS_AUTO_BUF struct gs_buf out = {0};
    add_erase(t, &out);
    gs_buf_clear(&t->block);
    t->drawn_lines = 0;
    int width = width_of(t) - 1;
    while (block.len) {
        struct gs_slice line = gs_slice_cut(&block, '\n');
        gs_buf_add(&t->block, line.data, fitting(line, width));
        gs_buf_add_str(&t->block, t->colour ? "\033[0m\n" : "\n");
        t->drawn_lines++;
    }
    gs_buf_add_slice(&out, gs_buf_slice(&t->block));
    write_all(t->fd, gs_buf_slice(&out));
}
