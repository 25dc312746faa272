// SPDX-License-Identifier: Apache-2.0
// From discovered labels to a target: defaults, relabel_configs, the URL.
#include "engine/scrape/target.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"

static void set_text(struct engine_label_builder *b, const char *name, const char *value)
{
    engine_labels_set(b, gs_slice_of(name), gs_slice_of(value));
}

static struct gs_slice get(const struct engine_label_builder *b, const char *name)
{
    return engine_labels_get(b, gs_slice_of(name));
}

static void set_defaults(struct engine_label_builder *b, const struct engine_scrape_config *cfg)
{
    char text[GS_RFC3339_SIZE];
    set_text(b, "job", cfg->job_name);
    set_text(b, "__metrics_path__", cfg->metrics_path);
    set_text(b, "__scheme__", cfg->scheme);
    set_text(b, "__scrape_interval__", gs_format_duration(cfg->interval_ms * GS_NS_PER_MS, text));
    set_text(b, "__scrape_timeout__", gs_format_duration(cfg->timeout_ms * GS_NS_PER_MS, text));
    for (size_t i = cfg->n_params; i-- > 0;) { // the first value of each name
        GS_AUTO_FREE char *name =
            gs_format("__param_" GS_SLICE_FMT, GS_SLICE_ARG(cfg->params[i].name));
        engine_labels_set(b, gs_slice_of(name), cfg->params[i].value);
    }
}

static void set_all(struct engine_label_builder *b, const struct metrics_label *l, size_t n)
{
    for (size_t i = 0; i < n; i++)
        engine_labels_set(b, l[i].name, l[i].value);
}

static struct gs_slice copy(struct gs_arena *arena, struct gs_slice s)
{
    return gs_slice_make(gs_arena_strndup(arena, s.data ? s.data : "", s.len), s.len);
}

// only_own: without the names that begin with "__".
static struct metrics_label *copy_labels(struct gs_arena *arena,
                                         const struct engine_label_builder *b, bool only_own,
                                         size_t *ret_n)
{
    struct metrics_label *l = gs_arena_alloc(arena, (b->len + 1) * sizeof(*l));
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++)
        if (!only_own || !gs_slice_starts(b->items[i].name, "__"))
            l[n++] = (struct metrics_label){copy(arena, b->items[i].name),
                                            copy(arena, b->items[i].value)};
    *ret_n = n;
    return l;
}

// As in forms, and in Prometheus' requests: '+' for a blank.
static void add_encoded(struct gs_buf *out, struct gs_slice text)
{
    for (;;) {
        struct gs_slice word = gs_slice_cut(&text, ' ');
        http_encode(word, out);
        if (!text.data)
            return;
        gs_buf_add_char(out, '+');
    }
}

static void add_query(struct gs_buf *out, struct gs_slice name, struct gs_slice value, bool *first)
{
    gs_buf_add_char(out, *first ? '?' : '&');
    *first = false;
    add_encoded(out, name);
    gs_buf_add_char(out, '=');
    add_encoded(out, value);
}

static void add_params(struct gs_buf *out, const struct engine_scrape_config *cfg,
                       const struct engine_label_builder *b)
{
    bool first = !memchr(out->data, '?', out->len);
    const size_t prefix = strlen("__param_");
    for (size_t i = 0; i < b->len; i++) {
        if (!gs_slice_starts(b->items[i].name, "__param_"))
            continue;
        struct gs_slice name = b->items[i].name;
        name = gs_slice_make(name.data + prefix, name.len - prefix);
        add_query(out, name, b->items[i].value, &first);
        bool skipped = false; // the first value is the label's
        for (size_t k = 0; k < cfg->n_params; k++) {
            if (!gs_slice_eq(cfg->params[k].name, name))
                continue;
            if (skipped)
                add_query(out, name, cfg->params[k].value, &first);
            skipped = true;
        }
    }
}

static const char *make_url(const struct engine_scrape_config *cfg,
                            const struct engine_label_builder *b, struct gs_arena *arena)
{
    GS_AUTO_BUF struct gs_buf url = {0};
    struct gs_slice path = get(b, "__metrics_path__");
    gs_buf_add_slice(&url, get(b, "__scheme__"));
    gs_buf_add_str(&url, "://");
    gs_buf_add_slice(&url, get(b, "__address__"));
    if (!path.len || path.data[0] != '/')
        gs_buf_add_char(&url, '/');
    gs_buf_add_slice(&url, path);
    add_params(&url, cfg, b);
    return gs_arena_strndup(arena, url.data, url.len);
}

static const char *read_ms(const struct engine_label_builder *b, const char *name, int64_t *ret_ms)
{
    int64_t ns = 0;
    struct gs_error *err = gs_parse_duration(get(b, name), &ns);
    gs_error_free(err);
    *ret_ms = ns / GS_NS_PER_MS;
    return err || ns <= 0 ? "scrape interval or timeout is not a positive duration" : NULL;
}

static const char *check(const struct engine_label_builder *b, struct target_spec *s)
{
    struct gs_slice address = get(b, "__address__"), scheme = get(b, "__scheme__");
    if (!address.len)
        return "no address";
    if (memchr(address.data, '/', address.len))
        return "the address is not a host and port";
    if (!gs_slice_eq_str(scheme, "http") && !gs_slice_eq_str(scheme, "https"))
        return "the scheme is neither http nor https";
    const char *wrong = read_ms(b, "__scrape_interval__", &s->interval_ms);
    if (!wrong)
        wrong = read_ms(b, "__scrape_timeout__", &s->timeout_ms);
    if (!wrong && s->timeout_ms > s->interval_ms)
        wrong = "scrape timeout is greater than the scrape interval";
    return wrong;
}

static uint64_t key_of(const struct target_spec *s)
{
    uint64_t h = gs_hash(s->url, strlen(s->url));
    for (size_t i = 0; i < s->n_labels; i++) {
        uint64_t part[3] = {h, gs_hash(s->labels[i].name.data, s->labels[i].name.len),
                            gs_hash(s->labels[i].value.data, s->labels[i].value.len)};
        h = gs_hash(part, sizeof(part));
    }
    int64_t times[3] = {(int64_t)h, s->interval_ms, s->timeout_ms};
    return gs_hash(times, sizeof(times));
}

void target_resolve(const struct engine_scrape_config *cfg, const struct metrics_label *group,
                    size_t n_group, const struct metrics_label *target, size_t n_target,
                    struct gs_arena *arena, struct target_spec *ret)
{
    GS_CLEANUP(engine_labels_finish) struct engine_label_builder b = {0};
    struct target_spec s = {.interval_ms = cfg->interval_ms, .timeout_ms = cfg->timeout_ms};
    set_defaults(&b, cfg);
    set_all(&b, group, n_group);
    set_all(&b, target, n_target);
    s.discovered = copy_labels(arena, &b, false, &s.n_discovered);
    s.dropped = !engine_relabel(&cfg->relabel, &b);
    if (!s.dropped) {
        s.error = check(&b, &s);
        if (!get(&b, "instance").len)
            engine_labels_set(&b, GS_SLICE("instance"), get(&b, "__address__"));
        s.url = make_url(cfg, &b, arena);
        s.labels = copy_labels(arena, &b, true, &s.n_labels);
        s.key = key_of(&s);
    }
    *ret = s;
}
