// SPDX-License-Identifier: Apache-2.0
// series, labels, label/<name>/values.
#include "engine/api/api_private.h"

#include "base/mem.h"
#include "base/num.h"

#include "codec/encoding.h"

// --- series ---

static int by_ref(const void *a, const void *b, void *unused)
{
    tsdb_ref x = *(const tsdb_ref *)a, y = *(const tsdb_ref *)b;
    return x < y ? -1 : x > y;
}

static void sort_unique(struct engine_api_request *r, struct tsdb_refs *all)
{
    size_t n = 0;
    engine_api_sort(all->items, all->len, sizeof(*all->items), by_ref, NULL, engine_api_go_on, r);
    for (size_t i = 0; i < all->len; i++)
        if (n == 0 || all->items[n - 1] != all->items[i])
            all->items[n++] = all->items[i];
    all->len = n;
}

static struct gs_error *find_all(struct engine_api_request *r, const struct engine_api_matches *m,
                                 int64_t start, int64_t end, struct tsdb_refs *ret)
{
    struct gs_error *err = NULL;
    for (size_t i = 0; i < m->len && !err; i++) {
        GS_CLEANUP(tsdb_refs_finish) struct tsdb_refs some = {0};
        GS_CLEANUP(tsdb_answers_finish) struct tsdb_answers answers;
        err = engine_api_prepare_search(r->api, m->items[i], &answers);
        if (!err)
            err = tsdb_find(r->api->cfg.db, answers.matchers, answers.n, start, end, 0, &some);
        if (!err && m->len == 1) {
            *ret = some;
            some = (struct tsdb_refs){0};
        }
        for (size_t k = 0; !err && k < some.len; k++) {
            gs_grow(&ret->items, &ret->cap, ret->len, sizeof(*ret->items));
            ret->items[ret->len++] = some.items[k];
        }
    }
    if (!err && m->len > 1 && ret->len)
        sort_unique(r, ret);
    return err;
}

// shown: the name in place of the series' own; NULL: its own.
static void add_series_json(struct gs_buf *out, const struct tsdb *db, tsdb_ref ref,
                            const char *shown)
{
    const struct tsdb_symbols *symbols = tsdb_symbols(db);
    struct tsdb_labels l = tsdb_series_labels(db, ref);
    for (size_t i = 0; i < tsdb_labels_len(l); i++) {
        struct metrics_label label = tsdb_labels_text_at(symbols, l, i);
        gs_buf_add_char(out, i ? ',' : '{');
        codec_json_add_string(out, label.name, CODEC_JSON_PLAIN);
        gs_buf_add_char(out, ':');
        bool is_name = shown && gs_slice_eq_str(label.name, "__name__");
        codec_json_add_string(out, is_name ? gs_slice_of(shown) : label.value, CODEC_JSON_PLAIN);
    }
    gs_buf_add_str(out, tsdb_labels_len(l) ? "}" : "{}");
}

// Returns the number of series that the response has then.
static size_t add_series_list(struct engine_api_request *r, const struct tsdb_refs *refs,
                              const char *shown, size_t limit, size_t n, struct gs_buf *out)
{
    for (size_t i = 0; i < refs->len && engine_api_go_on(r); i++) {
        if (limit && n == limit) {
            r->truncated = true;
            break;
        }
        if (n++)
            gs_buf_add_char(out, ',');
        add_series_json(out, r->api->cfg.db, refs->items[i], shown);
    }
    return n;
}

// lists: the series of the match[] parameters, then those of each alias.
static void reply_series(struct engine_api_request *r, const struct tsdb_refs *lists,
                         const struct engine_api_aliases *a, size_t limit)
{
    struct gs_buf *out = engine_api_begin(r);
    gs_buf_add_char(out, '[');
    size_t n = add_series_list(r, &lists[0], NULL, limit, 0, out);
    for (size_t i = 0; i < a->len; i++)
        n = add_series_list(r, &lists[i + 1], a->items[i].shown, limit, n, out);
    gs_buf_add_char(out, ']');
    engine_api_end(r);
}

static struct gs_error *find_lists(struct engine_api_request *r, const struct engine_api_matches *m,
                                   const struct engine_api_aliases *a, int64_t start, int64_t end,
                                   struct tsdb_refs *lists)
{
    struct gs_error *err = find_all(r, m, start, end, &lists[0]);
    for (size_t i = 0; i < a->len && !err; i++)
        err = engine_api_find_aliased(r, &a->items[i], start, end, &lists[i + 1]);
    return err;
}

void engine_api_series(struct engine_api_request *r)
{
    GS_CLEANUP(engine_api_matches_finish) struct engine_api_matches m = {0};
    GS_CLEANUP(engine_api_aliases_finish) struct engine_api_aliases aliases = {0};
    size_t limit;
    int64_t start, end;
    if (!http_query(r->x, "match[]")) {
        engine_api_fail(r, ENGINE_API_BAD_DATA, "no match[] parameter provided");
        return;
    }
    if (!engine_api_limit(r, &limit) || !engine_api_range(r, &start, &end))
        return;
    struct gs_error *err = engine_api_parse_strict_matches(r, &m);
    if (err) {
        engine_api_fail_param(r, "match[]", err);
        return;
    }
    struct tsdb_isolation hold;
    tsdb_isolation_begin(r->api->cfg.db, &hold);
    engine_api_find_aliases(r->api, &m, &aliases);
    struct tsdb_refs *lists = gs_alloc_array(aliases.len + 1, sizeof(*lists));
    err = find_lists(r, &m, &aliases, start, end, lists);
    if (err)
        engine_api_fail_query(r, err);
    else
        reply_series(r, lists, &aliases, limit);
    for (size_t i = 0; i <= aliases.len; i++)
        tsdb_refs_finish(&lists[i]);
    free(lists);
    tsdb_isolation_end(r->api->cfg.db, &hold);
}

// --- distinct texts ---

struct texts {
    struct gs_slice *items; // points to symbols of the store
    size_t len, cap;
};

static void texts_finish(struct texts *t)
{
    free(t->items);
}

static void collect_text(void *arg, struct gs_slice text)
{
    struct texts *t = arg;
    gs_grow(&t->items, &t->cap, t->len, sizeof(*t->items));
    t->items[t->len++] = text;
}

static int compare_texts_by_bytes(const void *a, const void *b, void *unused)
{
    const struct gs_slice *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = n ? memcmp(x->data, y->data, n) : 0;
    return c ? c : x->len < y->len ? -1 : x->len > y->len;
}

static void reply_texts(struct engine_api_request *r, struct texts *t, size_t limit)
{
    struct gs_buf *out = engine_api_begin(r);
    size_t n = 0;
    if (t->len)
        engine_api_sort(t->items, t->len, sizeof(*t->items), compare_texts_by_bytes, NULL,
                        engine_api_go_on, r);
    gs_buf_add_char(out, '[');
    for (size_t i = 0; i < t->len && engine_api_go_on(r); i++) {
        if (i && gs_slice_eq(t->items[i - 1], t->items[i]))
            continue;
        if (limit && n == limit) {
            r->truncated = true;
            break;
        }
        if (n++)
            gs_buf_add_char(out, ',');
        codec_json_add_string(out, t->items[i], CODEC_JSON_PLAIN);
    }
    gs_buf_add_char(out, ']');
    engine_api_end(r);
}

static struct gs_error *collect_texts(struct engine_api_request *r, struct promql_expr *selector,
                                      struct gs_slice label, int64_t start, int64_t end,
                                      struct texts *found)
{
    GS_CLEANUP(tsdb_answers_finish) struct tsdb_answers answers = {0}; // of all series
    struct gs_error *err = selector ? engine_api_prepare_search(r->api, selector, &answers) : NULL;
    return err ? err
               : tsdb_label_values(r->api->cfg.db, label, answers.matchers, answers.n, start, end,
                                   collect_text, found);
}

static struct gs_error *collect_aliased_texts(struct engine_api_request *r,
                                              const struct engine_api_alias *a,
                                              struct gs_slice label, int64_t start, int64_t end,
                                              struct texts *found)
{
    if (!gs_slice_eq_str(label, "__name__"))
        return collect_texts(r, a->selector, label, start, end, found);
    GS_CLEANUP(tsdb_refs_finish) struct tsdb_refs refs = {0};
    struct gs_error *err = engine_api_find_aliased(r, a, start, end, &refs);
    if (!err && refs.len)
        collect_text(found, gs_slice_of(a->shown));
    return err;
}

// Writes the values of the label, or the label names if the label is empty.
static void reply_distinct(struct engine_api_request *r, struct gs_slice label)
{
    GS_CLEANUP(engine_api_matches_finish) struct engine_api_matches m = {0};
    GS_CLEANUP(engine_api_aliases_finish) struct engine_api_aliases aliases = {0};
    GS_CLEANUP(texts_finish) struct texts found = {0};
    size_t limit;
    int64_t start, end;
    if (!engine_api_limit(r, &limit) || !engine_api_range(r, &start, &end))
        return;
    struct gs_error *err = engine_api_parse_strict_matches(r, &m);
    if (err) {
        engine_api_fail(r, ENGINE_API_BAD_DATA, "%s", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    struct tsdb_isolation hold;
    size_t passes = m.len ? m.len : 1;
    tsdb_isolation_begin(r->api->cfg.db, &hold);
    engine_api_find_aliases(r->api, &m, &aliases);
    for (size_t i = 0; i < passes && !err; i++)
        err = collect_texts(r, m.len ? m.items[i] : NULL, label, start, end, &found);
    for (size_t i = 0; i < aliases.len && !err; i++)
        err = collect_aliased_texts(r, &aliases.items[i], label, start, end, &found);
    if (err)
        engine_api_fail_query(r, err);
    else
        reply_texts(r, &found, limit);
    tsdb_isolation_end(r->api->cfg.db, &hold);
}

void engine_api_labels(struct engine_api_request *r)
{
    reply_distinct(r, GS_SLICE(""));
}

// --- label names in a path ---

static void add_utf8(struct gs_buf *out, uint32_t c)
{
    if (c < 0x80) {
        gs_buf_add_char(out, (char)c);
        return;
    }
    if (c < 0x800) {
        gs_buf_add_char(out, (char)(0xc0 | c >> 6));
    } else if (c < 0x10000) {
        gs_buf_add_char(out, (char)(0xe0 | c >> 12));
        gs_buf_add_char(out, (char)(0x80 | (c >> 6 & 0x3f)));
    } else {
        gs_buf_add_char(out, (char)(0xf0 | c >> 18));
        gs_buf_add_char(out, (char)(0x80 | (c >> 12 & 0x3f)));
        gs_buf_add_char(out, (char)(0x80 | (c >> 6 & 0x3f)));
    }
    gs_buf_add_char(out, (char)(0x80 | (c & 0x3f)));
}

// Decodes "2e_" of "_2e_": *s is after the first underscore, and after the last one on return.
static bool take_code(struct gs_slice *s, uint32_t *ret)
{
    uint32_t c = 0;
    size_t i = 0;
    for (; i < s->len && i < 6 && gs_hex_digit(s->data[i]) >= 0; i++)
        c = c * 16 + (uint32_t)gs_hex_digit(s->data[i]);
    if (i == 0 || i >= s->len || s->data[i] != '_' || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return false;
    *s = gs_slice_make(s->data + i + 1, s->len - i - 1);
    *ret = c;
    return true;
}

// Decodes the value encoding of names ("U__gpu_2e_util"). Returns false if the name is not encoded.
// It is then used unchanged.
static bool unescape_name(struct gs_slice s, struct gs_buf *out)
{
    if (!s.data || !gs_slice_starts(s, "U__"))
        return false;
    s = gs_slice_make(s.data + 3, s.len - 3);
    while (s.len) {
        char c = s.data[0];
        uint32_t code;
        s = gs_slice_make(s.data + 1, s.len - 1);
        if (c != '_') {
            gs_buf_add_char(out, c);
        } else if (s.len && s.data[0] == '_') {
            gs_buf_add_char(out, '_');
            s = gs_slice_make(s.data + 1, s.len - 1);
        } else if (take_code(&s, &code) && code) {
            add_utf8(out, code);
        } else {
            return false;
        }
    }
    return true;
}

// Quotes bytes that are not valid UTF-8, as Go does.
static void quote_bytes(struct gs_slice s, struct gs_buf *out)
{
    gs_buf_add_str(out, "");
    while (s.len) {
        size_t valid = codec_utf8_valid_prefix(s);
        gs_buf_add(out, s.data, valid);
        if (valid < s.len)
            gs_buf_addf(out, "\\x%02x", (unsigned char)s.data[valid++]);
        s = gs_slice_make(s.data + valid, s.len - valid);
    }
}

void engine_api_label_values(struct engine_api_request *r)
{
    GS_AUTO_FREE char *name = NULL;
    GS_AUTO_BUF struct gs_buf plain = {0};
    struct gs_slice raw = r->path;
    raw = gs_slice_make(raw.data + strlen("/api/v1/label/"),
                        raw.len - strlen("/api/v1/label/") - strlen("/values"));
    struct gs_error *err = http_decode_segment(raw, &name);
    if (err) {
        engine_api_fail(r, ENGINE_API_BAD_DATA, "%s", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    struct gs_slice label = gs_slice_of(name);
    if (unescape_name(label, &plain))
        label = gs_buf_slice(&plain);
    if (label.len == 0 || codec_utf8_valid_prefix(label) < label.len) {
        GS_AUTO_BUF struct gs_buf shown = {0};
        quote_bytes(label, &shown);
        engine_api_fail(r, ENGINE_API_BAD_DATA, "invalid label name: \"%s\"", shown.data);
        return;
    }
    reply_distinct(r, label);
}
