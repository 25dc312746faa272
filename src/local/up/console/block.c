// SPDX-License-Identifier: Apache-2.0
// Distributes the rows of the window over the sections of the status block: in rounds, by
// importance, so that each section has its minimum before any has everything. What is left out is
// counted.
#include "up/console/console_private.h"

#include "base/mem.h"

#define MAX_SECTIONS 16

enum { MAX_TEXT_ROWS = 4, N_RANKS = MAX_TEXT_ROWS + 2 };

struct row {
    char *text;
    size_t section;
    unsigned rank;      // 0: an entry; details are shown if there is space, lower ranks first
    unsigned next_rank; // of the row that continues the text; 0: none
};

struct section {
    struct console_section is;
    size_t n_entries, n_rows; // entries; all rows
    size_t granted;
};

struct console_block {
    size_t rows, columns;
    struct section sections[MAX_SECTIONS];
    size_t n_sections;
    struct row *items;
    size_t len, cap;
};

struct console_block *console_block_new(size_t rows, size_t columns)
{
    struct console_block *b = gs_alloc(sizeof(*b));
    b->rows = rows ? rows : SIZE_MAX;
    b->columns = columns;
    return b;
}

void console_block_free(struct console_block *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->len; i++)
        free(b->items[i].text);
    free(b->items);
    free(b);
}

size_t console_block_columns(const struct console_block *b)
{
    return b->columns;
}

size_t console_block_rows(const struct console_block *b)
{
    return b->rows;
}

void console_block_section(struct console_block *b, struct console_section s)
{
    if (b->n_sections < MAX_SECTIONS)
        b->sections[b->n_sections++] = (struct section){.is = s};
}

static struct row *add_row(struct console_block *b, unsigned rank, char *text)
{
    struct section *s = &b->sections[b->n_sections - 1];
    gs_grow(&b->items, &b->cap, b->len, sizeof(*b->items));
    b->items[b->len] = (struct row){.text = text, .section = b->n_sections - 1, .rank = rank};
    s->n_rows++;
    s->n_entries += rank == 0;
    return &b->items[b->len++];
}

void console_block_entry(struct console_block *b, struct gs_slice text)
{
    struct gs_buf out = {0};
    gs_columns_fit(&out, text, b->columns);
    add_row(b, 0, gs_buf_take(&out));
}

void console_block_text(struct console_block *b, unsigned rank, const char *first, const char *next,
                        struct gs_slice text)
{
    for (unsigned n = 1; text.len && n <= MAX_TEXT_ROWS; n++) {
        const char *indent = n == 1 ? first : next;
        size_t taken = gs_columns_width(gs_slice_of(indent));
        size_t width = b->columns > taken ? b->columns - taken : 1;
        bool last = n == MAX_TEXT_ROWS;
        GS_AUTO_BUF struct gs_buf line = {0};
        struct gs_buf out = {0};
        gs_buf_add_str(&line, indent);
        gs_buf_add_slice(&line, last ? text : gs_columns_wrap(&text, width));
        if (last)
            text.len = 0;
        gs_columns_fit(&out, gs_buf_slice(&line), b->columns);
        struct row *row = add_row(b, rank, gs_buf_take(&out));
        rank = rank ? rank + 1 : 2;
        row->next_rank = text.len ? rank : 0;
    }
}

// --- distribution of rows ---

static size_t rows_of_rank(const struct console_block *b, size_t section, unsigned rank)
{
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++)
        n += b->items[i].section == section && b->items[i].rank == rank;
    return n;
}

static void grant_section_rows(struct section *s, size_t want, size_t *left)
{
    size_t more = want > s->granted ? want - s->granted : 0;
    if (more > *left)
        more = *left;
    s->granted += more;
    *left -= more;
}

enum { ROUND_LEAST, ROUND_SHARE, ROUND_ENTRIES, ROUND_REASONS, ROUND_ALL, N_ROUNDS };

// The number of rows that a section may have after a round. In the second round a section takes at
// most half of the remaining rows, so that a long section leaves rows to the others.
static size_t wanted_rows(const struct console_block *b, size_t section, int round, size_t left)
{
    const struct section *s = &b->sections[section];
    size_t share = s->granted + (left + 1) / 2;
    size_t with_reasons = s->n_entries + rows_of_rank(b, section, 1);
    switch (round) {
    case ROUND_LEAST:
        return s->is.least < s->n_entries ? s->is.least : s->n_entries;
    case ROUND_SHARE:
        return with_reasons < share ? with_reasons : share;
    case ROUND_ENTRIES:
        return s->n_entries;
    case ROUND_REASONS:
        return with_reasons;
    default:
        return s->n_rows;
    }
}

static void grant_rows(struct console_block *b)
{
    size_t order[MAX_SECTIONS], left = b->rows;
    for (size_t i = 0; i < b->n_sections; i++) {
        size_t at = i;
        b->sections[i].granted = 0;
        for (; at && b->sections[order[at - 1]].is.importance < b->sections[i].is.importance; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (int round = 0; round < N_ROUNDS; round++)
        for (size_t i = 0; i < b->n_sections; i++)
            grant_section_rows(&b->sections[order[i]], wanted_rows(b, order[i], round, left),
                               &left);
}

// --- printing ---

static void print_more(const struct section *s, size_t columns, size_t hidden, struct gs_buf *out)
{
    GS_AUTO_FREE char *text =
        gs_format("  … %zu %s%s", hidden, hidden < s->n_entries ? "more " : "", s->is.more);
    gs_columns_fit(out, gs_slice_of(text), columns);
    gs_buf_add_char(out, '\n');
}

// The section's rows by rank: all entries, then as many details as fit.
static void print_whole(const struct console_block *b, size_t section, struct gs_buf *out)
{
    const struct section *s = &b->sections[section];
    size_t room[N_RANKS + 1] = {s->n_entries}, left = s->granted - s->n_entries;
    for (unsigned rank = 1; rank < N_RANKS; rank++) {
        room[rank] = rows_of_rank(b, section, rank);
        if (room[rank] > left)
            room[rank] = left;
        left -= room[rank];
    }
    for (size_t i = 0; i < b->len; i++) {
        const struct row *r = &b->items[i];
        if (r->section != section || !room[r->rank])
            continue;
        room[r->rank]--;
        if (r->next_rank && !room[r->next_rank]) {
            GS_AUTO_FREE char *cut = gs_format("%s …", r->text);
            gs_columns_fit(out, gs_slice_of(cut), b->columns);
        } else {
            gs_buf_add_str(out, r->text);
        }
        gs_buf_add_char(out, '\n');
    }
}

static void print_part(const struct console_block *b, size_t section, struct gs_buf *out)
{
    const struct section *s = &b->sections[section];
    size_t shown = s->is.more && s->granted ? s->granted - 1 : s->granted, n = 0;
    for (size_t i = 0; i < b->len && n < shown; i++) {
        if (b->items[i].section != section || b->items[i].rank)
            continue;
        GS_AUTO_FREE char *cut = gs_format("%s …", b->items[i].text);
        bool whole = !b->items[i].next_rank;
        gs_columns_fit(out, gs_slice_of(whole ? b->items[i].text : cut), b->columns);
        gs_buf_add_char(out, '\n');
        n++;
    }
    if (s->is.more && s->granted)
        print_more(s, b->columns, s->n_entries - n, out);
}

void console_block_print(const struct console_block *b, struct gs_buf *out)
{
    struct console_block granted = *b;
    grant_rows(&granted);
    for (size_t i = 0; i < b->n_sections; i++) {
        if (granted.sections[i].granted >= b->sections[i].n_entries)
            print_whole(&granted, i, out);
        else
            print_part(&granted, i, out);
    }
}
