// SPDX-License-Identifier: Apache-2.0
// Reads the table of inference engines. It is data, because engines rename their metrics with
// almost each release.
#include "engine/signals/signals_private.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/option.h"
#include "codec/yaml_reader.h"

#include <math.h>

#define MAX_TABLE   ((size_t)1 << 20)
#define MAX_ENGINES 64

static const struct {
    const char *name;
    enum metrics_type type;
    enum signals_over_ranks over_ranks;
} quantities[SIGNALS_N_QUANTITIES] = {
    [SIGNALS_WAITING] = {"waiting", METRICS_GAUGE, SIGNALS_SUM},
    [SIGNALS_RUNNING] = {"running", METRICS_GAUGE, SIGNALS_SUM},
    [SIGNALS_KV_USED_RATIO] = {"kv_used_ratio", METRICS_GAUGE, SIGNALS_MAX},
    [SIGNALS_KV_CAPACITY_TOKENS] = {"kv_capacity_tokens", METRICS_GAUGE, SIGNALS_SUM},
    [SIGNALS_SLEEPING] = {"sleeping", METRICS_GAUGE, SIGNALS_MIN},
    [SIGNALS_PROMPT_TOKENS_TOTAL] = {"prompt_tokens_total", METRICS_COUNTER, SIGNALS_SUM},
    [SIGNALS_GENERATION_TOKENS_TOTAL] = {"generation_tokens_total", METRICS_COUNTER, SIGNALS_SUM},
    [SIGNALS_PREEMPTIONS_TOTAL] = {"preemptions_total", METRICS_COUNTER, SIGNALS_SUM},
    [SIGNALS_REJECTIONS_TOTAL] = {"rejections_total", METRICS_COUNTER, SIGNALS_SUM},
    [SIGNALS_TTFT_SECONDS] = {"ttft_seconds", METRICS_HISTOGRAM, SIGNALS_SUM},
    [SIGNALS_ITL_SECONDS] = {"itl_seconds", METRICS_HISTOGRAM, SIGNALS_SUM},
    [SIGNALS_E2E_SECONDS] = {"e2e_seconds", METRICS_HISTOGRAM, SIGNALS_SUM},
    [SIGNALS_QUEUE_SECONDS] = {"queue_seconds", METRICS_HISTOGRAM, SIGNALS_SUM},
    [SIGNALS_TTFT_P90_SECONDS] = {"ttft_p90_seconds", METRICS_GAUGE, SIGNALS_MAX},
    [SIGNALS_ITL_P90_SECONDS] = {"itl_p90_seconds", METRICS_GAUGE, SIGNALS_MAX},
    [SIGNALS_E2E_P90_SECONDS] = {"e2e_p90_seconds", METRICS_GAUGE, SIGNALS_MAX},
    [SIGNALS_QUEUE_P90_SECONDS] = {"queue_p90_seconds", METRICS_GAUGE, SIGNALS_MAX},
};
// In the table: how many tokens a block of the KV cache has. It is a factor, not a signal.
#define BLOCK_TOKENS "block_tokens"

const char *signals_quantity_name(enum signals_quantity q)
{
    return quantities[q].name;
}

enum metrics_type signals_quantity_type(enum signals_quantity q)
{
    return quantities[q].type;
}

// --- reading ---

static void read_texts(struct codec_reader *r, const json_t *value, void *out)
{
    struct signals_texts *t = out;
    codec_read_texts(r, value, &t->items, &t->n);
}

static void read_scale(struct codec_reader *r, const json_t *value, void *out)
{
    const char *text = codec_read_text(r, value);
    GS_AUTO_ERROR struct gs_error *err = gs_parse_double(gs_slice_of(text), out);
    if (err)
        codec_reader_fail(r, value, "\"%s\" is not a number", text);
    else if (!(*(double *)out > 0) || isinf(*(double *)out))
        codec_reader_fail(r, value, "scale must be a number above 0");
}

static void read_over_ranks(struct codec_reader *r, const json_t *value, void *out)
{
    static const char *const names[] = {
        [SIGNALS_SUM] = "sum", [SIGNALS_MAX] = "max", [SIGNALS_MIN] = "min"};
    const char *text = codec_read_text(r, value);
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (gs_streq(text, names[i])) {
            *(enum signals_over_ranks *)out = (enum signals_over_ranks)i;
            return;
        }
    codec_reader_fail(r, value, "ranks: \"%s\" is not sum, max or min", text);
}

static void read_match(struct codec_reader *r, const json_t *value, void *out)
{
    struct signals_source *s = (struct signals_source *)out;
    const char *key;
    json_t *text;
    if (!codec_reader_is_mapping(r, value, "match"))
        return;
    if (json_object_size(value) != 1)
        codec_reader_fail(r, value, "match must have one label");
    json_object_foreach ((json_t *)(uintptr_t)value, key, text) {
        s->match_label = gs_arena_strdup(r->arena, key);
        s->match_value = codec_read_text(r, text);
    }
}

static void read_times(struct codec_reader *r, const json_t *value, void *out)
{
    struct signals_source *s = (struct signals_source *)out;
    struct signals_texts labels;
    codec_read_texts(r, value, &labels.items, &labels.n);
    if (labels.n < 1 || labels.n > 2) {
        codec_reader_fail(r, value, "product_of_labels must have one or two labels");
        return;
    }
    for (size_t i = 0; i < labels.n; i++)
        s->times_label[i] = labels.items[i];
}

static void read_source(struct codec_reader *r, const json_t *value, void *out)
{
#define AT(member) offsetof(struct signals_source, member)
    static const struct codec_field fields[] = {
        {"name", CODEC_FIELD_TEXT, AT(name), NULL},
        {"match", CODEC_FIELD_CUSTOM, 0, read_match},
        {"without", CODEC_FIELD_TEXT, AT(without), NULL},
        {"product_of_labels", CODEC_FIELD_CUSTOM, 0, read_times},
        {"scale", CODEC_FIELD_CUSTOM, AT(scale), read_scale},
        {"invert", CODEC_FIELD_BOOL, AT(invert), NULL},
        {"in_blocks", CODEC_FIELD_BOOL, AT(of_blocks), NULL},
        {"ranks", CODEC_FIELD_CUSTOM, AT(over_ranks), read_over_ranks},
        {"releases", CODEC_FIELD_TEXT, AT(releases), NULL},
        {0},
    };
#undef AT
    struct signals_source *s = out;
    const enum signals_quantity *q = r->user;
    s->scale = 1;
    s->over_ranks = *q < SIGNALS_N_QUANTITIES && *q != SIGNALS_N_SOURCES ? quantities[*q].over_ranks
                                                                         : SIGNALS_MAX;
    codec_read_mapping(r, value, fields, "a source", s);
    if (!s->name || !*s->name)
        codec_reader_fail(r, value, "a source has no name");
}

// SIGNALS_N_SOURCES: the tokens of a block. False: unknown.
static bool find_quantity(const char *name, enum signals_quantity *ret)
{
    for (size_t q = 0; q < SIGNALS_N_SOURCES; q++)
        if (gs_streq(name, quantities[q].name)) {
            *ret = (enum signals_quantity)q;
            return true;
        }
    *ret = SIGNALS_N_SOURCES;
    return gs_streq(name, BLOCK_TOKENS);
}

static void fail_quantity(struct codec_reader *r, const char *key, const json_t *value)
{
    const char *names[SIGNALS_N_SOURCES];
    for (size_t q = 0; q < SIGNALS_N_SOURCES; q++)
        names[q] = quantities[q].name;
    const char *near = gs_suggest(key, names, SIGNALS_N_SOURCES);
    codec_reader_fail(r, value,
                      near ? "unknown quantity \"%s\", did you mean \"%s\"?"
                           : "unknown quantity \"%s\"",
                      key, near);
}

static void read_quantities(struct codec_reader *r, const json_t *value, void *out)
{
    struct signals_engine *e = (struct signals_engine *)out;
    const char *key;
    json_t *list;
    if (!codec_reader_is_mapping(r, value, "quantities"))
        return;
    json_object_foreach ((json_t *)(uintptr_t)value, key, list) {
        enum signals_quantity q;
        if (!find_quantity(key, &q)) {
            fail_quantity(r, key, list);
            return;
        }
        r->user = &q;
        codec_read_list(r, list, sizeof(struct signals_source), read_source, &e->sources[q].items,
                        &e->sources[q].n);
        r->user = NULL;
    }
}

static void read_absent(struct codec_reader *r, const json_t *value, void *out)
{
    struct signals_engine *e = (struct signals_engine *)out;
    const char *key;
    json_t *text;
    if (!codec_reader_is_mapping(r, value, "absent"))
        return;
    json_object_foreach ((json_t *)(uintptr_t)value, key, text) {
        enum signals_quantity q;
        if (find_quantity(key, &q) && q < SIGNALS_N_SOURCES)
            e->absent[q] = codec_read_text(r, text);
        else
            fail_quantity(r, key, text);
    }
}

static void read_recognize(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"prefix", CODEC_FIELD_TEXT, offsetof(struct signals_recognize, prefix), NULL},
        {"name", CODEC_FIELD_TEXT, offsetof(struct signals_recognize, name), NULL},
        {"label", CODEC_FIELD_TEXT, offsetof(struct signals_recognize, label), NULL},
        {0},
    };
    struct signals_recognize *x = out;
    codec_read_mapping(r, value, fields, "recognize", x);
    const char *text = x->prefix ? x->prefix : x->name;
    if (!text || !*text || (x->prefix && x->name))
        codec_reader_fail(r, value, "recognize needs either a prefix or a name");
}

static void read_all_recognize(struct codec_reader *r, const json_t *value, void *out)
{
    struct signals_engine *e = (struct signals_engine *)out;
    codec_read_list(r, value, sizeof(*e->recognize), read_recognize, &e->recognize,
                    &e->n_recognize);
}

static void read_retired(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"name", CODEC_FIELD_TEXT, offsetof(struct signals_retired, name), NULL},
        {"since", CODEC_FIELD_TEXT, offsetof(struct signals_retired, since), NULL},
        {"use", CODEC_FIELD_TEXT, offsetof(struct signals_retired, use), NULL},
        {"note", CODEC_FIELD_TEXT, offsetof(struct signals_retired, note), NULL},
        {0},
    };
    struct signals_retired *x = out;
    codec_read_mapping(r, value, fields, "retired", x);
    if (!x->name || !*x->name || !x->since || !*x->since)
        codec_reader_fail(r, value, "a retired name needs name and since");
}

static void read_all_retired(struct codec_reader *r, const json_t *value, void *out)
{
    struct signals_engine *e = (struct signals_engine *)out;
    codec_read_list(r, value, sizeof(*e->retired), read_retired, &e->retired, &e->n_retired);
}

static void check_ports(struct codec_reader *r, const json_t *value, const struct signals_texts *t)
{
    for (size_t i = 0; i < t->n; i++) {
        uint64_t port;
        GS_AUTO_ERROR struct gs_error *err = gs_parse_u64(gs_slice_of(t->items[i]), 65535, &port);
        if (err || !port)
            codec_reader_fail(r, value, "\"%s\" is not a port", t->items[i]);
    }
}

static void read_engine(struct codec_reader *r, const json_t *value, void *out)
{
#define AT(member) offsetof(struct signals_engine, member)
    static const struct codec_field fields[] = {
        {"engine", CODEC_FIELD_TEXT, AT(name), NULL},
        {"releases", CODEC_FIELD_TEXT, AT(releases), NULL},
        {"source", CODEC_FIELD_TEXT, AT(source), NULL},
        {"recognize", CODEC_FIELD_CUSTOM, 0, read_all_recognize},
        {"model", CODEC_FIELD_CUSTOM, AT(model), read_texts},
        {"role", CODEC_FIELD_CUSTOM, AT(role), read_texts},
        {"repeated_over", CODEC_FIELD_CUSTOM, AT(repeat), read_texts},
        {"paths", CODEC_FIELD_CUSTOM, AT(paths), read_texts},
        {"ports", CODEC_FIELD_CUSTOM, AT(ports), read_texts},
        {"quantities", CODEC_FIELD_CUSTOM, 0, read_quantities},
        {"absent", CODEC_FIELD_CUSTOM, 0, read_absent},
        {"retired", CODEC_FIELD_CUSTOM, 0, read_all_retired},
        {0},
    };
#undef AT
    struct signals_engine *e = out;
    codec_read_mapping(r, value, fields, "an engine", e);
    check_ports(r, value, &e->ports);
    if (!e->name || !*e->name || !e->n_recognize)
        codec_reader_fail(r, value, "an engine needs engine and recognize");
}

static void read_engines(struct codec_reader *r, const json_t *value, void *out)
{
    struct signals_table *t = out;
    codec_read_list(r, value, sizeof(*t->engines), read_engine, &t->engines, &t->n_engines);
    if (!r->err && t->n_engines > MAX_ENGINES)
        codec_reader_fail(r, value, "more than %d engines", MAX_ENGINES);
}

// --- the index by name ---

static void index_source(struct signals_table *t, struct signals_source *s)
{
    struct signals_source *other = gs_hmap_get_str(t->names, s->name);
    if (!other) {
        gs_hmap_put_str(t->names, s->name, s);
        return;
    }
    while (other->next)
        other = other->next;
    other->next = s;
}

static void index_sources(struct signals_table *t)
{
    t->names = gs_hmap_new(NULL);
    for (size_t i = 0; i < t->n_engines; i++)
        for (size_t q = 0; q <= SIGNALS_N_SOURCES; q++)
            for (size_t k = 0; k < t->engines[i].sources[q].n; k++) {
                struct signals_source *s = &t->engines[i].sources[q].items[k];
                s->engine = i;
                s->quantity = (enum signals_quantity)q;
                s->order = k;
                index_source(t, s);
            }
    for (size_t i = 0; i < t->n_engines; i++)
        for (size_t k = 0; k < t->engines[i].n_retired; k++)
            t->engines[i].retired[k].engine = t->engines[i].name;
}

static bool is_histogram(const struct signals_source *s)
{
    return s->quantity < SIGNALS_N_SOURCES && quantities[s->quantity].type == METRICS_HISTOGRAM;
}

const struct signals_source *signals_table_find(const struct signals_table *t, struct gs_slice name,
                                                enum signals_part *ret_part)
{
    static const struct {
        const char *suffix;
        enum signals_part part;
    } parts[] = {
        {"_bucket", SIGNALS_BUCKET}, {"_sum", SIGNALS_SUM_PART}, {"_count", SIGNALS_COUNT_PART}};
    const struct signals_source *s = gs_hmap_get(t->names, name);
    *ret_part = SIGNALS_VALUE;
    if (s)
        return is_histogram(s) ? NULL : s;
    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++) {
        if (!gs_slice_ends(name, parts[i].suffix))
            continue;
        *ret_part = parts[i].part;
        s = gs_hmap_get(t->names, gs_slice_make(name.data, name.len - strlen(parts[i].suffix)));
        return s && is_histogram(s) ? s : NULL;
    }
    return NULL;
}

static bool has_label(const struct metrics_label *labels, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (gs_slice_eq_str(labels[i].name, name))
            return true;
    return false;
}

size_t signals_table_engine_of(const struct signals_table *t, struct gs_slice name,
                               const struct metrics_label *labels, size_t n_labels)
{
    for (size_t i = 0; i < t->n_engines; i++)
        for (size_t k = 0; k < t->engines[i].n_recognize; k++) {
            const struct signals_recognize *x = &t->engines[i].recognize[k];
            bool same =
                x->prefix ? gs_slice_starts(name, x->prefix) : gs_slice_eq_str(name, x->name);
            if (same && (!x->label || has_label(labels, n_labels, x->label)))
                return i;
        }
    return t->n_engines;
}

// --- life ---

static struct gs_error *read_document(struct signals_table *t, const struct codec_yaml_docs *docs,
                                      const struct codec_yaml_marks *marks, const char *name)
{
    static const struct codec_field fields[] = {
        {"engines", CODEC_FIELD_CUSTOM, 0, read_engines},
        {0},
    };
    struct codec_reader r = {.name = name, .marks = marks, .arena = &t->arena};
    if (docs->len != 1)
        return gs_error_new(GS_EINVAL, "%s: %zu documents, expected one with \"engines\"", name,
                            docs->len);
    codec_read_mapping(&r, docs->items[0].value, fields, "the table of engines", t);
    free(r.ignored);
    if (!r.err && !t->n_engines)
        return gs_error_new(GS_EINVAL, "%s: no engines", name);
    return r.err;
}

struct gs_error *signals_table_parse(struct gs_slice text, const char *name,
                                     struct signals_table **ret)
{
    struct codec_yaml_docs docs = {0};
    GS_CLEANUP(codec_yaml_marks_freep) struct codec_yaml_marks *marks = NULL;
    struct gs_error *err = codec_yaml_parse_texts(text, name, &docs, &marks);
    GS_CLEANUP(signals_table_freep) struct signals_table *t = gs_alloc(sizeof(*t));
    if (!err)
        err = read_document(t, &docs, marks, name);
    codec_yaml_docs_finish(&docs);
    if (err)
        return err;
    index_sources(t);
    *ret = GS_TAKE(t);
    return NULL;
}

extern const char signals_default_table[]; // written at build time from share/
extern const size_t signals_default_table_len;

struct gs_error *signals_table_load(const char *path, struct signals_table **ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (!path)
        return signals_table_parse(gs_slice_make(signals_default_table, signals_default_table_len),
                                   "the default table of inference engines", ret);
    struct gs_error *err = gs_file_read(path, MAX_TABLE, &text);
    return err ? err : signals_table_parse(gs_buf_slice(&text), path, ret);
}

void signals_table_free(struct signals_table *t)
{
    if (!t)
        return;
    gs_hmap_free(t->names);
    gs_arena_finish(&t->arena);
    free(t);
}

// --- what is tried, and what is kept ---

static void add_escaped(struct gs_buf *out, const char *name)
{
    for (; *name; name++) {
        if (strchr(".\\+*?()[]{}^$|", *name))
            gs_buf_add_char(out, '\\');
        gs_buf_add_char(out, *name);
    }
}

char *signals_table_names(const struct signals_table *t)
{
    struct gs_buf out = {0};
    for (size_t i = 0; i < t->n_engines; i++)
        for (size_t q = 0; q <= SIGNALS_N_SOURCES; q++)
            for (size_t k = 0; k < t->engines[i].sources[q].n; k++) {
                const struct signals_source *s = &t->engines[i].sources[q].items[k];
                if (gs_hmap_get_str(t->names, s->name) != s)
                    continue; // named before
                if (out.len)
                    gs_buf_add_char(&out, '|');
                add_escaped(&out, s->name);
                if (is_histogram(s))
                    gs_buf_add_str(&out, "_(bucket|sum|count)");
            }
    return gs_buf_take(&out);
}

// The i-th different text of the lists of all engines.
static const char *nth_of(const struct signals_table *t, size_t offset, size_t i)
{
    const char *seen[256];
    size_t n = 0;
    for (size_t e = 0; e < t->n_engines; e++) {
        const struct signals_texts *list =
            (const struct signals_texts *)(const void *)((const char *)&t->engines[e] + offset);
        for (size_t k = 0; k < list->n && n < GS_ARRAY_LEN(seen); k++) {
            bool known = false;
            for (size_t s = 0; s < n; s++)
                known = known || gs_streq(seen[s], list->items[k]);
            if (known)
                continue;
            if (n == i)
                return list->items[k];
            seen[n++] = list->items[k];
        }
    }
    return NULL;
}

const char *signals_table_path(const struct signals_table *t, size_t i)
{
    return nth_of(t, offsetof(struct signals_engine, paths), i);
}

unsigned signals_table_port(const struct signals_table *t, size_t i)
{
    const char *text = nth_of(t, offsetof(struct signals_engine, ports), i);
    return text ? (unsigned)strtoul(text, NULL, 10) : 0; // checked when it was read
}

static struct gs_slice base_name(struct gs_slice name)
{
    static const char *const suffixes[] = {"_total", "_bucket", "_sum", "_count"};
    for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++)
        if (gs_slice_ends(name, suffixes[i]))
            return gs_slice_make(name.data, name.len - strlen(suffixes[i]));
    return name;
}

bool signals_table_retired(const struct signals_table *t, const char *name,
                           struct signals_retired *ret)
{
    struct gs_slice wanted = base_name(gs_slice_of(name));
    for (size_t i = 0; i < t->n_engines; i++)
        for (size_t k = 0; k < t->engines[i].n_retired; k++) {
            const struct signals_retired *x = &t->engines[i].retired[k];
            if (!gs_slice_eq(base_name(gs_slice_of(x->name)), wanted))
                continue;
            *ret = *x;
            return true;
        }
    return false;
}

bool signals_table_quantity(const struct signals_table *t, const char *name,
                            enum signals_quantity *ret)
{
    enum signals_part part;
    for (size_t q = 0; gs_starts(name, SIGNALS_PREFIX) && q < SIGNALS_N_QUANTITIES; q++)
        if (gs_streq(name + strlen(SIGNALS_PREFIX), quantities[q].name)) {
            *ret = (enum signals_quantity)q;
            return true;
        }
    const struct signals_source *s = gs_hmap_get_str(t->names, name);
    if (!s)
        s = signals_table_find(t, gs_slice_of(name), &part); // a part of a histogram
    if (!s || s->quantity == SIGNALS_N_SOURCES)
        return false;
    *ret = s->quantity;
    return true;
}
