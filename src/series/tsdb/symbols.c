// SPDX-License-Identifier: Apache-2.0
// Interned strings. They are in chained 64 KiB pages and never move. A table of entries has the
// text and reference count of each symbol. An open-addressing hash table finds the symbol of a
// text. Freed symbols and the space of freed texts (by rounded size) are reused.
#include "tsdb/symbols.h"

#include "base/hmap.h"
#include "base/mem.h"

#define PAGE_BYTES   ((size_t)64 * 1024)
#define ROUND        ((size_t)8)
#define SIZE_CLASSES 33 // free lists for texts of up to 32 units
#define PINNED       UINT32_MAX

struct entry {
    const char *text; // NUL-terminated; NULL: free
    uint32_t len;
    uint32_t refs;
    uint32_t hash;
    uint32_t next_free; // for free entries
};

struct page {
    struct page *next;
    char bytes[];
};

struct free_text {
    struct free_text *next;
};

struct tsdb_symbols {
    struct entry *entries;
    size_t n_entries, entries_cap, n_live;
    uint32_t first_free;
    uint32_t *table;  // symbol + 1; 0: empty slot
    size_t table_cap; // a power of two
    struct page *pages;
    size_t page_used, bytes;
    size_t text_bytes; // of the texts that are in use
    struct free_text *freed[SIZE_CLASSES];
};

// --- texts ---

static size_t rounded(size_t len)
{
    return (len + 1 + ROUND - 1) / ROUND * ROUND;
}

static char *text_alloc(struct tsdb_symbols *s, size_t len)
{
    size_t size = rounded(len), class = size / ROUND;
    s->text_bytes += size;
    if (class >= SIZE_CLASSES) {
        s->bytes += size;
        return gs_alloc(size);
    }
    if (s->freed[class]) {
        struct free_text *t = s->freed[class];
        s->freed[class] = t->next;
        return (char *)t;
    }
    if (!s->pages || s->page_used + size > PAGE_BYTES) {
        struct page *p = gs_alloc(sizeof(*p) + PAGE_BYTES);
        p->next = s->pages;
        s->pages = p;
        s->page_used = 0;
        s->bytes += sizeof(*p) + PAGE_BYTES;
    }
    char *text = s->pages->bytes + s->page_used;
    s->page_used += size;
    return text;
}

static void text_free(struct tsdb_symbols *s, const char *text, size_t len)
{
    size_t size = rounded(len), class = size / ROUND;
    s->text_bytes -= size;
    if (class >= SIZE_CLASSES) {
        s->bytes -= size;
        free((char *)text);
        return;
    }
    struct free_text *t = (struct free_text *)(void *)text;
    t->next = s->freed[class];
    s->freed[class] = t;
}

// --- the table ---

static uint32_t hash_text(struct gs_slice text)
{
    return (uint32_t)gs_hash(text.data, text.len);
}

// The slot of the text, or the empty slot where it would be inserted.
static size_t find_place(const struct tsdb_symbols *s, struct gs_slice text, uint32_t hash)
{
    size_t at = hash & (s->table_cap - 1);
    while (s->table[at]) {
        const struct entry *e = &s->entries[s->table[at] - 1];
        if (e->hash == hash && e->len == text.len && memcmp(e->text, text.data, text.len) == 0)
            return at;
        at = (at + 1) & (s->table_cap - 1);
    }
    return at;
}

static void grow_table(struct tsdb_symbols *s)
{
    size_t cap = s->table_cap ? s->table_cap * 2 : 1024;
    uint32_t *old = s->table;
    size_t old_cap = s->table_cap;
    s->table = gs_alloc_array(cap, sizeof(*s->table));
    s->table_cap = cap;
    for (size_t i = 0; i < old_cap; i++) {
        if (!old[i])
            continue;
        size_t at = s->entries[old[i] - 1].hash & (cap - 1);
        while (s->table[at])
            at = (at + 1) & (cap - 1);
        s->table[at] = old[i];
    }
    free(old);
}

// Empties a slot and moves entries that were displaced by it.
static void clear_place(struct tsdb_symbols *s, size_t hole)
{
    size_t mask = s->table_cap - 1, at = hole;
    s->table[hole] = 0;
    for (;;) {
        at = (at + 1) & mask;
        if (!s->table[at])
            return;
        size_t home = s->entries[s->table[at] - 1].hash & mask;
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        s->table[hole] = s->table[at];
        s->table[at] = 0;
        hole = at;
    }
}

// --- symbols ---

struct tsdb_symbols *tsdb_symbols_new(void)
{
    struct tsdb_symbols *s = gs_alloc(sizeof(*s));
    s->first_free = TSDB_NO_SYMBOL;
    grow_table(s);
    tsdb_symbol_intern(s, GS_SLICE(""));
    tsdb_symbol_intern(s, GS_SLICE("__name__"));
    s->entries[TSDB_SYMBOL_EMPTY].refs = s->entries[TSDB_SYMBOL_NAME].refs = PINNED;
    return s;
}

void tsdb_symbols_free(struct tsdb_symbols *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_entries; i++)
        if (s->entries[i].text && rounded(s->entries[i].len) / ROUND >= SIZE_CLASSES)
            free((char *)s->entries[i].text);
    while (s->pages) {
        struct page *next = s->pages->next;
        free(s->pages);
        s->pages = next;
    }
    free(s->entries);
    free(s->table);
    free(s);
}

static uint32_t take_entry(struct tsdb_symbols *s)
{
    uint32_t symbol = s->first_free;
    if (symbol != TSDB_NO_SYMBOL) {
        s->first_free = s->entries[symbol].next_free;
        return symbol;
    }
    gs_grow(&s->entries, &s->entries_cap, s->n_entries, sizeof(*s->entries));
    return (uint32_t)s->n_entries++;
}

uint32_t tsdb_symbol_intern(struct tsdb_symbols *s, struct gs_slice text)
{
    if (!text.data)
        text = GS_SLICE("");
    uint32_t hash = hash_text(text);
    size_t at = find_place(s, text, hash);
    if (s->table[at]) {
        tsdb_symbol_ref(s, s->table[at] - 1);
        return s->table[at] - 1;
    }
    if ((s->n_live + 1) * 4 > s->table_cap * 3) {
        grow_table(s);
        at = find_place(s, text, hash);
    }
    char *copy = text_alloc(s, text.len);
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    uint32_t symbol = take_entry(s);
    s->entries[symbol] = (struct entry){copy, (uint32_t)text.len, 1, hash, 0};
    s->table[at] = symbol + 1;
    s->n_live++;
    return symbol;
}

uint32_t tsdb_symbol_find(const struct tsdb_symbols *s, struct gs_slice text)
{
    if (!text.data)
        text = GS_SLICE("");
    size_t at = find_place(s, text, hash_text(text));
    return s->table[at] ? s->table[at] - 1 : TSDB_NO_SYMBOL;
}

void tsdb_symbol_ref(struct tsdb_symbols *s, uint32_t symbol)
{
    struct entry *e = &s->entries[symbol];
    if (e->refs != PINNED)
        e->refs++;
}

void tsdb_symbol_unref(struct tsdb_symbols *s, uint32_t symbol)
{
    struct entry *e = &s->entries[symbol];
    if (e->refs == PINNED || --e->refs)
        return;
    clear_place(s, find_place(s, gs_slice_make(e->text, e->len), e->hash));
    text_free(s, e->text, e->len);
    *e = (struct entry){.next_free = s->first_free};
    s->first_free = symbol;
    s->n_live--;
}

struct gs_slice tsdb_symbol_text(const struct tsdb_symbols *s, uint32_t symbol)
{
    const struct entry *e = &s->entries[symbol];
    return gs_slice_make(e->text, e->len);
}

uint32_t tsdb_symbols_end(const struct tsdb_symbols *s)
{
    return (uint32_t)s->n_entries;
}

size_t tsdb_symbols_len(const struct tsdb_symbols *s)
{
    return s->n_live;
}

size_t tsdb_symbols_text_bytes(const struct tsdb_symbols *s)
{
    return s->text_bytes;
}

size_t tsdb_symbols_bytes(const struct tsdb_symbols *s)
{
    return s->bytes + s->entries_cap * sizeof(*s->entries) + s->table_cap * sizeof(*s->table);
}
