// SPDX-License-Identifier: Apache-2.0
// Creates a target from discovered labels: defaults, relabel_configs, the URL.
#include "engine/scrape/scrape_private.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "codec/yaml_reader.h"

// Of a target. Its series have further ones.
#define MAX_LABELS      ((size_t)TSDB_MAX_LABELS - 56)
#define MAX_LABEL_BYTES (TSDB_MAX_LABEL_BYTES / 2)

static void set_text(struct engine_config_label_builder *b, const char *name, const char *value)
{
    engine_config_labels_set(b, gs_slice_of(name), gs_slice_of(value));
}

static struct gs_slice get(const struct engine_config_label_builder *b, const char *name)
{
    return engine_config_labels_get(b, gs_slice_of(name));
}

static void set_switch(struct engine_config_label_builder *b, const char *name, bool on)
{
    set_text(b, name, on ? "true" : "false");
}

static void set_default_labels(struct engine_config_label_builder *b,
                               const struct engine_config_scrape_config *cfg)
{
    char text[GS_RFC3339_SIZE];
    set_text(b, "job", cfg->job_name);
    set_text(b, "__metrics_path__", cfg->metrics_path);
    set_text(b, "__scheme__", cfg->scheme);
    set_text(b, "__scrape_interval__", gs_format_units(cfg->interval_ms * GS_NS_PER_MS, text));
    set_text(b, "__scrape_timeout__", gs_format_units(cfg->timeout_ms * GS_NS_PER_MS, text));
    set_switch(b, "__scrape_native_histograms__", cfg->native_histograms);
    set_switch(b, "__always_scrape_classic_histograms__", cfg->classic_histograms);
    set_switch(b, "__convert_classic_histograms_to_nhcb__", cfg->convert_histograms);
    for (size_t i = cfg->n_params; i-- > 0;) { // the first value of each parameter
        GS_AUTO_FREE char *name =
            gs_format("__param_" GS_SLICE_FMT, GS_SLICE_ARG(cfg->params[i].name));
        engine_config_labels_set(b, gs_slice_of(name), cfg->params[i].value);
    }
}

static void set_all(struct engine_config_label_builder *b, const struct metrics_label *l, size_t n)
{
    for (size_t i = 0; i < n; i++)
        engine_config_labels_set(b, l[i].name, l[i].value);
}

static struct gs_slice copy_label(struct gs_arena *arena, struct gs_slice s)
{
    return gs_slice_make(gs_arena_strndup(arena, s.data ? s.data : "", s.len), s.len);
}

// only_own: omits names that begin with "__".
static struct metrics_label *copy_labels(struct gs_arena *arena,
                                         const struct engine_config_label_builder *b, bool only_own,
                                         size_t *ret_n)
{
    struct metrics_label *l = gs_arena_alloc(arena, (b->len + 1) * sizeof(*l));
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++)
        if (!only_own || !gs_slice_starts(b->items[i].name, "__"))
            l[n++] = (struct metrics_label){copy_label(arena, b->items[i].name),
                                            copy_label(arena, b->items[i].value)};
    *ret_n = n;
    return l;
}

// Form encoding, as in Prometheus' requests: a space becomes '+'.
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

static void add_params(struct gs_buf *out, const struct engine_config_scrape_config *cfg,
                       const struct engine_config_label_builder *b)
{
    bool first = true;
    const size_t prefix = strlen("__param_");
    for (size_t i = 0; i < b->len; i++) {
        if (!gs_slice_starts(b->items[i].name, "__param_"))
            continue;
        struct gs_slice name = b->items[i].name;
        name = gs_slice_make(name.data + prefix, name.len - prefix);
        add_query(out, name, b->items[i].value, &first);
        bool skipped = false; // the label has the first value
        for (size_t k = 0; k < cfg->n_params; k++) {
            if (!gs_slice_eq(cfg->params[k].name, name))
                continue;
            if (skipped)
                add_query(out, name, cfg->params[k].value, &first);
            skipped = true;
        }
    }
}

// Encodes the path like Go's URLs. A label sets the path only: "?", spaces and newlines in it must
// not change the rest of the request.
static void add_path(struct gs_buf *out, struct gs_slice path)
{
    static const char as_is[] = "-_.~$&+,/:;=@";
    if (!path.len || path.data[0] != '/')
        gs_buf_add_char(out, '/');
    for (size_t i = 0; i < path.len; i++) {
        unsigned char c = (unsigned char)path.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (letter || (c && strchr(as_is, c)))
            gs_buf_add_char(out, (char)c);
        else
            gs_buf_addf(out, "%%%02X", c);
    }
}

static const char *make_url(const struct engine_config_scrape_config *cfg,
                            const struct engine_config_label_builder *b, struct gs_arena *arena)
{
    GS_AUTO_BUF struct gs_buf url = {0};
    gs_buf_add_slice(&url, get(b, "__scheme__"));
    gs_buf_add_str(&url, "://");
    gs_buf_add_slice(&url, get(b, "__address__"));
    add_path(&url, get(b, "__metrics_path__"));
    add_params(&url, cfg, b);
    return gs_arena_strndup(arena, url.data, url.len);
}

// what: "interval". Returns an error, or NULL if the value is valid.
static char *read_ms(const struct engine_config_label_builder *b, const char *name,
                     const char *what, int64_t *ret_ms)
{
    GS_AUTO_FREE char *text = gs_slice_dup(get(b, name));
    if (!*text)
        return gs_format("error parsing scrape %s: empty duration string", what);
    if (!codec_parse_duration(text, ret_ms))
        return gs_format("error parsing scrape %s: not a valid duration string: \"%s\"", what,
                         text);
    return *ret_ms ? NULL : gs_format("scrape %s cannot be 0", what);
}

// Returns why the target is invalid, with Prometheus' text. NULL: it is valid.
static char *check_target(const struct engine_config_label_builder *b, struct scrape_target_spec *s)
{
    struct gs_slice address = get(b, "__address__");
    if (!address.len)
        return gs_strdup("no address");
    if (memchr(address.data, '/', address.len))
        return gs_format("\"" GS_SLICE_FMT "\" is not a valid hostname", GS_SLICE_ARG(address));
    char *wrong = read_ms(b, "__scrape_interval__", "interval", &s->interval_ms);
    if (!wrong)
        wrong = read_ms(b, "__scrape_timeout__", "timeout", &s->timeout_ms);
    if (!wrong && s->timeout_ms > engine_config_max_timeout(s->interval_ms))
        wrong = gs_format("scrape timeout cannot be greater than scrape interval (\"" GS_SLICE_FMT
                          "\" > \"" GS_SLICE_FMT "\")",
                          GS_SLICE_ARG(get(b, "__scrape_timeout__")),
                          GS_SLICE_ARG(get(b, "__scrape_interval__")));
    return wrong;
}

// True if the address in a URL would not be a host and port.
static bool is_odd_host(struct gs_slice address)
{
    for (size_t i = 0; i < address.len; i++) {
        unsigned char c = (unsigned char)address.data[i];
        if (c <= ' ' || c == 0x7f || strchr("<>\"\\^`{|}?#@%", c))
            return true;
    }
    return false;
}

// Returns why each scrape of the target fails. NULL: the URL is valid.
static const char *check_url(const struct engine_config_label_builder *b, const char *url,
                             struct gs_arena *arena)
{
    struct gs_slice scheme = get(b, "__scheme__");
    if (is_odd_host(get(b, "__address__")))
        return "invalid character in host name";
    if (gs_slice_eq_str(scheme, "http") || gs_slice_eq_str(scheme, "https"))
        return NULL;
    GS_AUTO_FREE char *text = gs_format(
        "Get \"%s\": unsupported protocol scheme \"" GS_SLICE_FMT "\"", url, GS_SLICE_ARG(scheme));
    return gs_arena_strdup(arena, text);
}

// Returns why the store takes no series of the target, such as up. NULL: it does.
static const char *check_labels(const struct scrape_target_spec *s, struct gs_arena *arena)
{
    size_t bytes = 0;
    for (size_t i = 0; i < s->n_labels; i++)
        bytes += s->labels[i].name.len + s->labels[i].value.len;
    if (s->n_labels <= MAX_LABELS && bytes <= MAX_LABEL_BYTES)
        return NULL;
    GS_AUTO_FREE char *text =
        gs_format("\"%s\" has more than %zu labels, or more than %zu bytes of them", s->url,
                  MAX_LABELS, MAX_LABEL_BYTES);
    return gs_arena_strdup(arena, text);
}

static uint64_t hash_target_key(const struct scrape_target_spec *s)
{
    uint64_t h = gs_hash(s->url, strlen(s->url));
    if (s->unix_socket)
        h ^= gs_hash(s->unix_socket, strlen(s->unix_socket));
    for (size_t i = 0; i < s->n_labels; i++) {
        uint64_t part[3] = {h, gs_hash(s->labels[i].name.data, s->labels[i].name.len),
                            gs_hash(s->labels[i].value.data, s->labels[i].value.len)};
        h = gs_hash(part, sizeof(part));
    }
    int64_t times[3] = {(int64_t)h, s->interval_ms, s->timeout_ms};
    return gs_hash(times, sizeof(times));
}

// Sets dropped, interval and timeout. Returns what is wrong with the target; NULL: nothing.
static char *relabel_target(const struct engine_config_scrape_config *cfg,
                            struct engine_config_label_builder *b, struct scrape_target_spec *s)
{
    bool kept = engine_config_relabel(&cfg->relabel, b);
    if (b->too_long)
        return gs_format(ENGINE_CONFIG_TOO_LONG, METRICS_MAX_MADE_VALUE);
    s->dropped = !kept;
    return kept ? check_target(b, s) : NULL;
}

void scrape_target_resolve(const struct engine_config_scrape_config *cfg,
                           const struct metrics_label *group, size_t n_group,
                           const struct metrics_label *target, size_t n_target,
                           struct gs_arena *arena, struct scrape_target_spec *ret)
{
    GS_CLEANUP(engine_config_labels_finish) struct engine_config_label_builder b = {0};
    struct scrape_target_spec s = {.interval_ms = cfg->interval_ms, .timeout_ms = cfg->timeout_ms};
    set_default_labels(&b, cfg);
    set_all(&b, group, n_group);
    set_all(&b, target, n_target);
    s.discovered = copy_labels(arena, &b, false, &s.n_discovered);
    GS_AUTO_FREE char *invalid = relabel_target(cfg, &b, &s);
    if (invalid) {
        s.invalid = gs_arena_strdup(arena, invalid);
    } else if (!s.dropped) {
        if (!get(&b, "instance").len)
            engine_config_labels_set(&b, GS_SLICE("instance"), get(&b, "__address__"));
        s.url = make_url(cfg, &b, arena);
        struct gs_slice socket = get(&b, "__unix_socket__");
        if (socket.len)
            s.unix_socket = gs_arena_strndup(arena, socket.data, socket.len);
        s.error = check_url(&b, s.url, arena);
        s.labels = copy_labels(arena, &b, true, &s.n_labels);
        s.key = hash_target_key(&s);
        s.invalid = check_labels(&s, arena);
    }
    *ret = s;
}

// --- check ---

static json_t *labels_as_json(const struct engine_config_label_builder *b, const char *without)
{
    json_t *obj = json_object();
    for (size_t i = 0; i < b->len; i++) {
        if (gs_slice_starts(b->items[i].name, without) || !b->items[i].value.len)
            continue;
        GS_AUTO_FREE char *name = gs_slice_dup(b->items[i].name);
        json_object_set_new(obj, name, json_stringn(b->items[i].value.data, b->items[i].value.len));
    }
    return obj;
}

json_t *scrape_target_check(const struct engine_config_scrape_config *cfg,
                            const struct metrics_label *group, size_t n_group,
                            const struct metrics_label *target, size_t n_target)
{
    GS_CLEANUP(engine_config_labels_finish) struct engine_config_label_builder b = {0};
    struct scrape_target_spec s = {0};
    json_t *result = json_object();
    set_default_labels(&b, cfg);
    set_all(&b, group, n_group);
    set_all(&b, target, n_target);
    json_object_set_new(result, "discoveredLabels", labels_as_json(&b, "\n"));
    GS_AUTO_FREE char *invalid = relabel_target(cfg, &b, &s);
    if (!s.dropped && !invalid && !get(&b, "instance").len)
        engine_config_labels_set(&b, GS_SLICE("instance"), get(&b, "__address__"));
    json_object_set_new(result, "labels",
                        s.dropped || invalid ? json_object() : labels_as_json(&b, "__meta_"));
    if (invalid)
        json_object_set_new(result, "error", json_string(invalid));
    return result;
}
