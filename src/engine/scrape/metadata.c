// SPDX-License-Identifier: Apache-2.0
// The families of a target. Most targets of a job have the same ones, so that their texts are
// symbols: each is stored once.
#include "engine/scrape/scrape.h"

#include "base/mem.h"

#define MAX_FAMILIES ((size_t)20000)

struct family {
    const char *type_name; // static string
    uint32_t name, help, unit;
    uint16_t type;
    bool seen; // since the sweep began
};

struct scrape_metadata {
    struct tsdb_symbols *texts; // borrowed
    struct family *families;
    size_t n, cap;
    uint32_t *table;  // index + 1 by name, 0: empty; open addressing
    size_t table_cap; // a power of two
};

static size_t home_of(const struct scrape_metadata *m, uint32_t name)
{
    return (name * UINT32_C(0x9e3779b1) >> 7) & (m->table_cap - 1);
}

static void table_put(struct scrape_metadata *m, size_t i)
{
    size_t at = home_of(m, m->families[i].name);
    while (m->table[at])
        at = (at + 1) & (m->table_cap - 1);
    m->table[at] = (uint32_t)i + 1;
}

static void table_build(struct scrape_metadata *m)
{
    free(m->table);
    m->table_cap = 16;
    while (m->table_cap < m->n * 2)
        m->table_cap *= 2;
    m->table = gs_alloc_array(m->table_cap, sizeof(*m->table));
    for (size_t i = 0; i < m->n; i++)
        table_put(m, i);
}

static void drop_texts(struct scrape_metadata *m, const struct family *f)
{
    tsdb_symbol_unref(m->texts, f->name);
    tsdb_symbol_unref(m->texts, f->help);
    tsdb_symbol_unref(m->texts, f->unit);
}

static void drop_all(struct scrape_metadata *m)
{
    for (size_t i = 0; i < m->n; i++)
        drop_texts(m, &m->families[i]);
    m->n = 0;
}

struct scrape_metadata *scrape_metadata_new(struct tsdb_symbols *texts)
{
    struct scrape_metadata *m = gs_alloc(sizeof(*m));
    m->texts = texts;
    table_build(m);
    return m;
}

void scrape_metadata_free(struct scrape_metadata *m)
{
    if (!m)
        return;
    drop_all(m);
    free(m->families);
    free(m->table);
    free(m);
}

static char *unescape_help(struct gs_slice raw, bool quotes)
{
    char *out = gs_alloc(raw.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.data[i], next = '\0';
        if (i + 1 < raw.len)
            next = raw.data[i + 1];
        bool known = c == '\\' && (next == '\\' || next == 'n' || (quotes && next == '"'));
        if (known)
            c = (char)(next == 'n' ? '\n' : next);
        out[n++] = c;
        i += known;
    }
    return out;
}

static struct family *find_family(const struct scrape_metadata *m, struct gs_slice name)
{
    uint32_t symbol = tsdb_symbol_find(m->texts, name);
    if (symbol == TSDB_NO_SYMBOL)
        return NULL;
    for (size_t at = home_of(m, symbol); m->table[at]; at = (at + 1) & (m->table_cap - 1))
        if (m->families[m->table[at] - 1].name == symbol)
            return &m->families[m->table[at] - 1];
    return NULL;
}

// Families keep their number, and there are many targets, so that doubling would waste memory.
static struct family *add_family(struct scrape_metadata *m, struct gs_slice name)
{
    if (m->n >= MAX_FAMILIES) {
        drop_all(m);
        table_build(m);
    }
    if (m->n == m->cap) {
        m->cap += m->cap / 8 + 4;
        m->families = gs_realloc_array(m->families, m->cap, sizeof(*m->families));
    }
    m->families[m->n++] =
        (struct family){.type_name = "unknown", .name = tsdb_symbol_intern(m->texts, name)};
    if (m->n * 4 > m->table_cap * 3)
        table_build(m);
    else
        table_put(m, m->n - 1);
    return &m->families[m->n - 1];
}

static void replace_text(struct scrape_metadata *m, uint32_t *symbol, struct gs_slice text)
{
    uint32_t before = *symbol;
    *symbol = tsdb_symbol_intern(m->texts, text);
    tsdb_symbol_unref(m->texts, before);
}

void scrape_metadata_set(struct scrape_metadata *m, const struct metrics_metadata *part)
{
    struct family *f = find_family(m, part->family);
    if (!f)
        f = add_family(m, part->family);
    f->seen = true;
    if (part->type_name) {
        f->type_name = part->type_name;
        f->type = (uint16_t)part->type;
    }
    if (part->help.data) {
        GS_AUTO_FREE char *help = unescape_help(part->help, part->escaped_quotes);
        replace_text(m, &f->help, gs_slice_of(help));
    }
    if (part->unit.data)
        replace_text(m, &f->unit, part->unit);
}

void scrape_metadata_begin_sweep(struct scrape_metadata *m)
{
    for (size_t i = 0; i < m->n; i++)
        m->families[i].seen = false;
}

void scrape_metadata_sweep(struct scrape_metadata *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->n; i++) {
        if (m->families[i].seen)
            m->families[kept++] = m->families[i];
        else
            drop_texts(m, &m->families[i]);
    }
    if (kept == m->n)
        return;
    m->n = kept;
    table_build(m);
}

static struct metrics_metadata view_of(const struct scrape_metadata *m, const struct family *f)
{
    return (struct metrics_metadata){.family = tsdb_symbol_text(m->texts, f->name),
                                     .help = tsdb_symbol_text(m->texts, f->help),
                                     .unit = tsdb_symbol_text(m->texts, f->unit),
                                     .type = (enum metrics_type)f->type,
                                     .type_name = f->type_name};
}

void scrape_metadata_each(const struct scrape_metadata *m,
                          void (*fn)(void *arg, const struct metrics_metadata *m), void *arg)
{
    for (size_t i = 0; i < m->n; i++) {
        struct metrics_metadata out = view_of(m, &m->families[i]);
        fn(arg, &out);
    }
}

bool scrape_metadata_find(const struct scrape_metadata *m, struct gs_slice series,
                          struct metrics_metadata *ret)
{
    static const struct {
        const char *suffix, *type;
    } parts[] = {{"", NULL}, // any
                 {"_total", "counter"},
                 {"_bucket", "histogram"},
                 {"_sum", "histogram"},
                 {"_count", "histogram"},
                 {"_sum", "summary"},
                 {"_count", "summary"},
                 {"_bucket", "gaugehistogram"},
                 {"_gsum", "gaugehistogram"},
                 {"_gcount", "gaugehistogram"},
                 {"_info", "info"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++) {
        if (!gs_slice_ends(series, parts[i].suffix))
            continue;
        struct gs_slice name = gs_slice_make(series.data, series.len - strlen(parts[i].suffix));
        const struct family *f = find_family(m, name);
        if (!f || (parts[i].type && !gs_streq(parts[i].type, f->type_name)))
            continue;
        *ret = view_of(m, f);
        return true;
    }
    return false;
}
