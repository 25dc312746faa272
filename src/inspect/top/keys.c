// SPDX-License-Identifier: Apache-2.0
// What each key changes in the state of the user interface.
#include "top/top_private.h"

#include "base/mem.h"

enum {
    CTRL_C = 3,
    CTRL_L = 12,
    CTRL_U = 21,
    DELETE = 127,
    MIN_INTERVAL_MS = 500,
    MAX_INTERVAL_MS = 3600000,
};

void top_ui_finish(struct top_ui *ui)
{
    for (int i = 0; i < TOP_PANES; i++) {
        free(ui->selected[i]);
        ui->selected[i] = NULL;
    }
}

// --- cursor ---

// The selection follows the cursor; the frame finds its new key.
static void move_cursor(struct top_ui *ui, long by)
{
    if (ui->help || ui->details) {
        ui->scroll = by < 0 && (size_t)-by > ui->scroll ? 0 : ui->scroll + (size_t)by;
        return;
    }
    size_t *cursor = &ui->cursor[ui->pane], n = ui->n_rows[ui->pane];
    if (by < 0)
        *cursor = (size_t)-by > *cursor ? 0 : *cursor - (size_t)-by;
    else
        *cursor = n && *cursor + (size_t)by < n ? *cursor + (size_t)by : n ? n - 1 : 0;
    free(ui->selected[ui->pane]);
    ui->selected[ui->pane] = NULL;
}

static long page_of(const struct top_ui *ui)
{
    size_t shown = ui->shown[ui->pane];
    return shown > 1 ? (long)shown - 1 : 1;
}

static void show_pane(struct top_ui *ui, enum top_pane pane)
{
    ui->pane = pane;
    ui->details = false;
}

// --- order ---

// The next column by which rows can be sorted; -1, the natural order, is one of the choices.
static void next_order(struct top_ui *ui, int step)
{
    const struct top_column *columns = top_columns_of(ui->pane);
    struct top_order *order = &ui->order[ui->pane];
    int n = 0;
    while (columns[n].name)
        n++;
    do {
        order->column += step;
        if (order->column >= n)
            order->column = -1;
        else if (order->column < -1)
            order->column = n - 1;
    } while (order->column >= 0 && columns[order->column].most == TOP_HISTORY);
    order->reverse = false;
}

static void order_by(struct top_ui *ui, const char *name)
{
    int column = top_columns_find(ui->pane, name);
    if (column >= 0)
        ui->order[ui->pane] = (struct top_order){.column = column};
}

// --- filter ---

static void begin_typing(struct top_ui *ui)
{
    memcpy(ui->before, ui->filter, sizeof(ui->filter));
    ui->typing = true;
    ui->details = false;
}

static void remove_last_character(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && ((unsigned char)text[n - 1] & 0xc0) == 0x80)
        n--;
    text[n > 0 ? n - 1 : 0] = '\0';
}

static void add_character(char *text, int c)
{
    char bytes[5] = {0};
    size_t n = strlen(text);
    if (c < 0x80) {
        bytes[0] = (char)c;
    } else if (c < 0x800) {
        bytes[0] = (char)(0xc0 | c >> 6);
        bytes[1] = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        bytes[0] = (char)(0xe0 | c >> 12);
        bytes[1] = (char)(0x80 | (c >> 6 & 0x3f));
        bytes[2] = (char)(0x80 | (c & 0x3f));
    } else {
        bytes[0] = (char)(0xf0 | c >> 18);
        bytes[1] = (char)(0x80 | (c >> 12 & 0x3f));
        bytes[2] = (char)(0x80 | (c >> 6 & 0x3f));
        bytes[3] = (char)(0x80 | (c & 0x3f));
    }
    if (n + strlen(bytes) < TOP_FILTER_SIZE)
        memcpy(text + n, bytes, strlen(bytes) + 1);
}

// Only keys that edit the filter have a meaning here.
static void type_filter(struct top_ui *ui, int key)
{
    switch (key) {
    case TOP_KEY_ENTER:
        ui->typing = false;
        break;
    case CTRL_C:
    case TOP_KEY_ESCAPE:
        memcpy(ui->filter, ui->before, sizeof(ui->filter));
        ui->typing = false;
        break;
    case TOP_KEY_BACKSPACE:
    case DELETE:
    case '\b':
        if (!*ui->filter)
            ui->typing = false;
        else
            remove_last_character(ui->filter);
        break;
    case CTRL_U:
        *ui->filter = '\0';
        break;
    default:
        if (key >= ' ' && key != DELETE && (key < 0x80 || key > 0x9f) && key < 0x110000)
            add_character(ui->filter, key);
        break;
    }
}

// --- other keys ---

static void escape(struct top_ui *ui)
{
    if (ui->help || ui->details)
        ui->help = ui->details = false;
    else
        *ui->filter = '\0';
    ui->scroll = 0;
}

static void change_interval(struct top_ui *ui, bool longer)
{
    int64_t ms = longer ? ui->interval_ms * 2 : ui->interval_ms / 2;
    ui->interval_ms = ms < MIN_INTERVAL_MS   ? MIN_INTERVAL_MS
                      : ms > MAX_INTERVAL_MS ? MAX_INTERVAL_MS
                                             : ms;
    ui->refresh_now = true;
}

static bool move_key(struct top_ui *ui, int key)
{
    switch (key) {
    case TOP_KEY_UP:
    case 'k':
        move_cursor(ui, -1);
        return true;
    case TOP_KEY_DOWN:
    case 'j':
        move_cursor(ui, 1);
        return true;
    case TOP_KEY_PAGE_UP:
        move_cursor(ui, -page_of(ui));
        return true;
    case TOP_KEY_PAGE_DOWN:
        move_cursor(ui, page_of(ui));
        return true;
    case TOP_KEY_HOME:
    case 'g':
        move_cursor(ui, -INT32_MAX);
        return true;
    case TOP_KEY_END:
    case 'G':
        move_cursor(ui, INT32_MAX);
        return true;
    default:
        return false;
    }
}

static bool order_key(struct top_ui *ui, int key)
{
    switch (key) {
    case 's':
    case '>':
    case TOP_KEY_RIGHT:
        next_order(ui, 1);
        return true;
    case 'S':
    case '<':
    case TOP_KEY_LEFT:
        next_order(ui, -1);
        return true;
    case 'r':
        ui->order[ui->pane].reverse = !ui->order[ui->pane].reverse;
        return true;
    case 'U':
        order_by(ui, "util");
        return true;
    case 'M':
        order_by(ui, "memory");
        return true;
    case 'N':
        ui->order[ui->pane] = (struct top_order){.column = -1};
        return true;
    default:
        return false;
    }
}

static void other_key(struct top_ui *ui, int key)
{
    switch (key) {
    case TOP_KEY_TAB:
        show_pane(ui, (ui->pane + 1) % TOP_PANES);
        break;
    case TOP_KEY_BACK_TAB:
        show_pane(ui, (ui->pane + TOP_PANES - 1) % TOP_PANES);
        break;
    case '1':
    case '2':
    case '3':
        show_pane(ui, (enum top_pane)(key - '1'));
        break;
    case 'z':
        ui->only_pane = !ui->only_pane;
        break;
    case TOP_KEY_ENTER:
        ui->details = !ui->details && ui->n_rows[ui->pane] > 0;
        ui->scroll = 0;
        break;
    case '/':
        begin_typing(ui);
        break;
    case ' ':
    case 'p':
        ui->paused = !ui->paused;
        ui->refresh_now = !ui->paused;
        break;
    case '+':
    case '-':
        change_interval(ui, key == '+');
        break;
    case CTRL_L:
    case TOP_KEY_REDRAW:
        ui->redraw = true;
        break;
    default:
        break;
    }
}

void top_ui_key(struct top_ui *ui, int key)
{
    if (ui->typing) {
        type_filter(ui, key);
    } else if (key == CTRL_C || key == 'Q') {
        ui->quit = true;
    } else if (key == 'q') { // leaves a page first, as in less and k9s
        ui->quit = !ui->help && !ui->details;
        ui->help = ui->details = false;
        ui->scroll = 0;
    } else if (key == '?' || key == 'h') {
        ui->help = !ui->help;
        ui->scroll = 0;
    } else if (key == TOP_KEY_ESCAPE) {
        escape(ui);
    } else if (!move_key(ui, key) && !ui->help && !order_key(ui, key)) {
        other_key(ui, key);
    }
}
