// SPDX-License-Identifier: Apache-2.0
#include "engine/scrape/scrape.h"

#include "base/hmap.h"
#include "base/mem.h"

#define MAX_FAMILIES ((size_t)20000)

struct family {
    const char *type_name; // static string
    enum metrics_type type;
    char *help, *unit;
    uint64_t sweep; // the sweep in which it was last set
};

struct scrape_metadata {
    struct gs_hmap *families; // name -> struct family
    uint64_t sweep;
};

static void family_free(void *p)
{
    struct family *f = p;
    free(f->help);
    free(f->unit);
    free(f);
}

struct scrape_metadata *scrape_metadata_new(void)
{
    struct scrape_metadata *m = gs_alloc(sizeof(*m));
    m->families = gs_hmap_new(family_free);
    return m;
}

void scrape_metadata_free(struct scrape_metadata *m)
{
    if (!m)
        return;
    gs_hmap_free(m->families);
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

void scrape_metadata_set(struct scrape_metadata *m, const struct metrics_metadata *part)
{
    struct family *f = gs_hmap_get(m->families, part->family);
    if (!f) {
        if (gs_hmap_len(m->families) >= MAX_FAMILIES)
            gs_hmap_clear(m->families);
        f = gs_alloc(sizeof(*f));
        f->type_name = "unknown";
        gs_hmap_put(m->families, part->family, f);
    }
    f->sweep = m->sweep;
    if (part->type_name) {
        f->type_name = part->type_name;
        f->type = part->type;
    }
    if (part->help.data) {
        free(f->help);
        f->help = unescape_help(part->help, part->escaped_quotes);
    }
    if (part->unit.data) {
        free(f->unit);
        f->unit = gs_slice_dup(part->unit);
    }
}

void scrape_metadata_begin_sweep(struct scrape_metadata *m)
{
    m->sweep++;
}

void scrape_metadata_sweep(struct scrape_metadata *m)
{
    size_t pos = 0, n = 0, cap = 0;
    struct gs_slice name;
    void *value;
    char **expired = NULL; // the map must not change during the iteration
    while (gs_hmap_next(m->families, &pos, &name, &value)) {
        if (((const struct family *)value)->sweep == m->sweep)
            continue;
        gs_grow(&expired, &cap, n, sizeof(*expired));
        expired[n++] = gs_slice_dup(name);
    }
    for (size_t i = 0; i < n; i++) {
        family_free(gs_hmap_remove_str(m->families, expired[i]));
        free(expired[i]);
    }
    free(expired);
}

static struct metrics_metadata view_of(struct gs_slice name, const struct family *f)
{
    return (struct metrics_metadata){.family = name,
                                     .help = gs_slice_of(f->help ? f->help : ""),
                                     .unit = gs_slice_of(f->unit ? f->unit : ""),
                                     .type = f->type,
                                     .type_name = f->type_name};
}

void scrape_metadata_each(const struct scrape_metadata *m,
                          void (*fn)(void *arg, const struct metrics_metadata *m), void *arg)
{
    size_t pos = 0;
    struct gs_slice name;
    void *value;
    while (gs_hmap_next(m->families, &pos, &name, &value)) {
        struct metrics_metadata out = view_of(name, value);
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
        const struct family *f = gs_hmap_get(m->families, name);
        if (!f || (parts[i].type && !gs_streq(parts[i].type, f->type_name)))
            continue;
        *ret = view_of(name, f);
        return true;
    }
    return false;
}
