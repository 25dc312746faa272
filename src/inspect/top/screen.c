// SPDX-License-Identifier: Apache-2.0
// The terminal, through ncurses. A frame is UTF-8 text with SGR sequences for styles.
#include "top/top_private.h"

#include "base/mem.h"

#define NCURSES_WIDECHAR 1
#define NCURSES_NOMACROS 1
#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

struct top_screen {
    SCREEN *curses;
    char *locale; // LC_CTYPE before
    bool utf8, colour;
};

// For a crash: what gives the terminal back. Only async-signal-safe functions use it.
static struct {
    volatile sig_atomic_t active;
    struct termios modes;
    char text[256];
    size_t len;
} rescue;

static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

static void on_crash(int signal_number)
{
    if (rescue.active) {
        rescue.active = 0;
        (void)!write(STDOUT_FILENO, rescue.text, rescue.len);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &rescue.modes);
    }
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number);
}

static void add_rescue(const char *capability)
{
    size_t n = capability && capability != (char *)-1 ? strlen(capability) : 0;
    if (rescue.len + n > sizeof(rescue.text))
        return;
    memcpy(rescue.text + rescue.len, n ? capability : "", n);
    rescue.len += n;
}

static bool has_capability(const char *name)
{
    const char *text = tigetstr(name);
    return text && text != (char *)-1;
}

static void prepare_rescue(void)
{
    rescue.len = 0;
    add_rescue("\033[?1006l\033[?1000l"); // mouse
    add_rescue(tigetstr("sgr0"));
    add_rescue(tigetstr("cnorm"));
    add_rescue(tigetstr("rmcup"));
    rescue.active = 1;
    for (size_t i = 0; i < GS_ARRAY_LEN(fatal); i++) {
        struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};
        (void)sigaction(fatal[i], &action, NULL);
    }
}

static void use_colours(struct top_screen *s)
{
    const char *no_colour = getenv("NO_COLOR");
    static const short colours[] = {COLOR_RED, COLOR_GREEN, COLOR_YELLOW, COLOR_CYAN};
    s->colour = !(no_colour && *no_colour) && has_colors() && start_color() == OK &&
                use_default_colors() == OK;
    for (short i = 0; s->colour && i < (short)GS_ARRAY_LEN(colours); i++)
        (void)init_pair((short)(i + 1), colours[i], -1);
}

struct gs_error *top_screen_open(struct top_screen **ret)
{
    struct top_screen *s = gs_alloc(sizeof(*s));
    const char *term = getenv("TERM");
    s->locale = gs_strdup(setlocale(LC_CTYPE, NULL));
    (void)setlocale(LC_CTYPE, "");
    s->utf8 = gs_streq(nl_langinfo(CODESET), "UTF-8");
    (void)tcgetattr(STDIN_FILENO, &rescue.modes);
    // newterm() does not end the program, unlike initscr().
    s->curses = term && !gs_streq(term, "dumb") ? newterm(NULL, stdout, stdin) : NULL;
    if (!s->curses || !has_capability("cup")) {
        struct gs_error *err =
            gs_error_new(GS_ENOTSUP, "the terminal type \"%s\" (TERM) cannot show a live view",
                         term ? term : "");
        top_screen_close(s);
        return err;
    }
    (void)raw(); // Ctrl-C and Ctrl-Z are keys
    (void)noecho();
    (void)nonl();
    (void)keypad(stdscr, TRUE);
    (void)nodelay(stdscr, TRUE);
    (void)set_escdelay(50);
    (void)curs_set(0);
    (void)mousemask(BUTTON1_CLICKED | BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
    (void)mouseinterval(0);
    use_colours(s);
    prepare_rescue();
    *ret = s;
    return NULL;
}

void top_screen_close(struct top_screen *s)
{
    if (!s)
        return;
    if (s->curses) {
        (void)endwin();
        rescue.active = 0;
        delscreen(s->curses);
        for (size_t i = 0; i < GS_ARRAY_LEN(fatal); i++)
            (void)signal(fatal[i], SIG_DFL);
    }
    (void)setlocale(LC_CTYPE, s->locale);
    free(s->locale);
    free(s);
}

bool top_screen_colour(const struct top_screen *s)
{
    return s->colour;
}

void top_screen_size(const struct top_screen *s, size_t *ret_rows, size_t *ret_columns)
{
    (void)s;
    int rows = getmaxy(stdscr), columns = getmaxx(stdscr);
    *ret_rows = rows > 0 ? (size_t)rows : 1;
    *ret_columns = columns > 0 ? (size_t)columns : 1;
}

void top_screen_resize(struct top_screen *s)
{
    struct winsize size = {0};
    (void)s;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
        (void)resizeterm(size.ws_row, size.ws_col);
    (void)clearok(stdscr, TRUE);
}

void top_screen_suspend(struct top_screen *s)
{
    (void)endwin();
    (void)raise(SIGTSTP);
    top_screen_resize(s);
}

// --- drawing ---

// Applies the parameters of an SGR sequence: "1", "1;31", "".
static void apply_style(const struct top_screen *s, struct gs_slice parameters, attr_t *attributes,
                        short *pair)
{
    for (bool first = true; first || parameters.data; first = false) {
        struct gs_slice one = gs_slice_cut(&parameters, ';');
        if (!one.len || gs_slice_eq_str(one, "0")) {
            *attributes = A_NORMAL;
            *pair = 0;
        } else if (gs_slice_eq_str(one, "1")) {
            *attributes |= A_BOLD;
        } else if (gs_slice_eq_str(one, "2")) {
            *attributes |= A_DIM;
        } else if (gs_slice_eq_str(one, "4")) {
            *attributes |= A_UNDERLINE;
        } else if (gs_slice_eq_str(one, "7")) {
            *attributes |= A_REVERSE;
        } else if (s->colour && one.len == 2 && one.data[0] == '3') {
            *pair = (short)(one.data[1] == '1'   ? 1
                            : one.data[1] == '2' ? 2
                            : one.data[1] == '3' ? 3
                                                 : 4);
        }
    }
}

static void draw_line(const struct top_screen *s, int row, struct gs_slice line)
{
    attr_t attributes = A_NORMAL;
    short pair = 0;
    (void)move(row, 0);
    while (line.len) {
        if (line.len > 1 && line.data[0] == '\033' && line.data[1] == '[') {
            struct gs_slice rest = gs_slice_make(line.data + 2, line.len - 2);
            struct gs_slice parameters = gs_slice_cut(&rest, 'm');
            apply_style(s, parameters, &attributes, &pair);
            (void)attr_set(attributes, pair, NULL);
            line = rest;
            continue;
        }
        size_t n = 0;
        while (n < line.len && line.data[n] != '\033')
            n++;
        (void)addnstr(line.data, (int)n);
        line = gs_slice_make(line.data + n, line.len - n);
    }
    (void)attr_set(A_NORMAL, 0, NULL);
    (void)clrtoeol();
}

void top_screen_draw(struct top_screen *s, struct gs_slice frame)
{
    GS_AUTO_BUF struct gs_buf ascii = {0};
    size_t rows, columns;
    top_screen_size(s, &rows, &columns);
    if (!s->utf8) {
        top_frame_ascii(frame, &ascii);
        frame = gs_buf_slice(&ascii);
    }
    (void)erase();
    for (int row = 0; frame.len && (size_t)row < rows; row++)
        draw_line(s, row, gs_slice_cut(&frame, '\n'));
    (void)refresh();
}

// --- keys ---

static int mouse_key(size_t *ret_line, size_t *ret_column)
{
    MEVENT event;
    if (getmouse(&event) != OK)
        return TOP_KEY_OTHER;
    *ret_line = event.y > 0 ? (size_t)event.y : 0;
    *ret_column = event.x > 0 ? (size_t)event.x : 0;
    if (event.bstate & BUTTON4_PRESSED)
        return TOP_KEY_UP;
    if (event.bstate & BUTTON5_PRESSED)
        return TOP_KEY_DOWN;
    if (event.bstate & (BUTTON1_PRESSED | BUTTON1_CLICKED))
        return TOP_KEY_CLICK;
    return TOP_KEY_OTHER;
}

static int function_key(wint_t key, size_t *ret_line, size_t *ret_column)
{
    switch (key) {
    case KEY_UP:
        return TOP_KEY_UP;
    case KEY_DOWN:
        return TOP_KEY_DOWN;
    case KEY_LEFT:
        return TOP_KEY_LEFT;
    case KEY_RIGHT:
        return TOP_KEY_RIGHT;
    case KEY_PPAGE:
        return TOP_KEY_PAGE_UP;
    case KEY_NPAGE:
        return TOP_KEY_PAGE_DOWN;
    case KEY_HOME:
        return TOP_KEY_HOME;
    case KEY_END:
        return TOP_KEY_END;
    case KEY_ENTER:
        return TOP_KEY_ENTER;
    case KEY_BACKSPACE:
        return TOP_KEY_BACKSPACE;
    case KEY_BTAB:
        return TOP_KEY_BACK_TAB;
    case KEY_F(1):
        return '?';
    case KEY_F(10):
        return 'q';
    case KEY_MOUSE:
        return mouse_key(ret_line, ret_column);
    default:
        return TOP_KEY_OTHER;
    }
}

int top_screen_key(struct top_screen *s, size_t *ret_line, size_t *ret_column)
{
    wint_t key = 0;
    (void)s;
    int kind = get_wch(&key);
    if (kind == ERR)
        return TOP_KEY_NONE;
    if (kind == KEY_CODE_YES)
        return function_key(key, ret_line, ret_column);
    return key == '\r' || key == '\n' ? TOP_KEY_ENTER
           : key == '\t'              ? TOP_KEY_TAB
           : key == 27                ? TOP_KEY_ESCAPE
                                      : (int)key;
}
