// SPDX-License-Identifier: Apache-2.0
// Relabeling rules, applied to a sorted set of labels. They follow Prometheus' relabel package;
// hashmod uses the last eight bytes of MD5, so shards agree with other Prometheus servers.
#include "engine/config/config.h"

#include "base/log.h"
#include "base/mem.h"
#include "codec/encoding.h"

#include <gnutls/crypto.h>

// --- label builder ---

// The position of the label, or the position at which it would be inserted.
static size_t label_position(const struct engine_config_label_builder *b, struct gs_slice name,
                             bool *ret_found)
{
    size_t low = 0, high = b->len;
    *ret_found = false;
    while (low < high) {
        size_t mid = (low + high) / 2;
        struct gs_slice at = b->items[mid].name;
        int order = memcmp(at.data, name.data, at.len < name.len ? at.len : name.len);
        if (!order)
            order = (at.len > name.len) - (at.len < name.len);
        if (!order)
            *ret_found = true;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct gs_slice relabel_keeps(struct engine_config_label_builder *b, struct gs_slice s)
{
    return gs_slice_make(gs_arena_strndup(&b->arena, s.data, s.len), s.len);
}

static void remove_at(struct engine_config_label_builder *b, size_t i)
{
    memmove(&b->items[i], &b->items[i + 1], (b->len - i - 1) * sizeof(*b->items));
    b->len--;
}

void engine_config_labels_set(struct engine_config_label_builder *b, struct gs_slice name,
                              struct gs_slice value)
{
    bool found;
    size_t i = label_position(b, name, &found);
    if (!value.len) {
        if (found)
            remove_at(b, i);
        return;
    }
    struct gs_slice kept = relabel_keeps(b, value);
    if (found) {
        b->items[i].value = kept;
        return;
    }
    struct metrics_label l = {relabel_keeps(b, name), kept};
    gs_grow(&b->items, &b->cap, b->len, sizeof(*b->items));
    memmove(&b->items[i + 1], &b->items[i], (b->len - i) * sizeof(*b->items));
    b->items[i] = l;
    b->len++;
}

struct gs_slice engine_config_labels_get(const struct engine_config_label_builder *b,
                                         struct gs_slice name)
{
    bool found;
    size_t i = label_position(b, name, &found);
    return found ? b->items[i].value : gs_slice_make("", 0);
}

void engine_config_labels_clear(struct engine_config_label_builder *b)
{
    gs_arena_clear(&b->arena);
    b->len = 0;
    b->made = 0;
    b->too_long = false;
}

void engine_config_labels_finish(struct engine_config_label_builder *b)
{
    gs_arena_finish(&b->arena);
    free(b->items);
    *b = (struct engine_config_label_builder){0};
}

// --- rules ---
// A rule can double a text, and the next one can double it again. So the texts that rules make have
// limits: of each, unless a source label is as long, and of all.

enum { MADE_TEXTS = 64 }; // of the longest length

// Returns the longest length of a text that is made from the source labels.
static size_t join_sources(const struct engine_config_relabel *r,
                           const struct engine_config_label_builder *b, struct gs_buf *ret)
{
    size_t longest = METRICS_MAX_MADE_VALUE;
    for (size_t i = 0; i < r->n_source_labels; i++) {
        struct gs_slice value = engine_config_labels_get(b, gs_slice_of(r->source_labels[i]));
        if (i)
            gs_buf_add_str(ret, r->separator);
        gs_buf_add_slice(ret, value);
        longest = value.len > longest ? value.len : longest;
    }
    return longest;
}

static void set_made(struct engine_config_label_builder *b, struct gs_slice name,
                     struct gs_slice value)
{
    b->made += name.len + value.len;
    b->too_long = b->too_long || b->made > MADE_TEXTS * METRICS_MAX_MADE_VALUE;
    if (!b->too_long)
        engine_config_labels_set(b, name, value);
}

// As in Prometheus 3, any UTF-8 text is valid.
static bool is_label_name(struct gs_slice s)
{
    return s.len && codec_utf8_valid_prefix(s) == s.len;
}

static void replace(const struct engine_config_relabel *r, struct engine_config_label_builder *b,
                    struct gs_slice value, size_t longest)
{
    GS_AUTO_BUF struct gs_buf target = {.limit = METRICS_MAX_MADE_VALUE}, text = {.limit = longest};
    if (!tsdb_regex_expand(r->regex, value, gs_slice_of(r->target_label), &target) ||
        !is_label_name(gs_buf_slice(&target)))
        return;
    tsdb_regex_expand(r->regex, value, gs_slice_of(r->replacement), &text);
    b->too_long = b->too_long || target.overflow || text.overflow;
    set_made(b, gs_buf_slice(&target), gs_buf_slice(&text));
}

// The last 8 bytes of the MD5, as a big-endian number.
static void hashmod(const struct engine_config_relabel *r, struct engine_config_label_builder *b,
                    struct gs_slice value)
{
    unsigned char digest[16] = {0};
    gnutls_hash_fast(GNUTLS_DIG_MD5, value.data, value.len, digest);
    uint64_t n = 0;
    for (int i = 8; i < 16; i++)
        n = n << 8 | digest[i];
    GS_AUTO_FREE char *text =
        gs_format("%llu", (unsigned long long)(r->modulus ? n % r->modulus : 0));
    engine_config_labels_set(b, gs_slice_of(r->target_label), gs_slice_of(text));
}

static void change_case(const struct engine_config_relabel *r,
                        struct engine_config_label_builder *b, struct gs_slice value)
{
    bool upper = r->action == ENGINE_CONFIG_RELABEL_UPPERCASE;
    GS_AUTO_FREE char *text = gs_strndup(value.data, value.len);
    for (size_t i = 0; i < value.len; i++) {
        char c = text[i];
        if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z')
            text[i] = (char)(c ^ 0x20);
    }
    set_made(b, gs_slice_of(r->target_label), gs_slice_make(text, value.len));
}

static void map_names(const struct engine_config_relabel *r, struct engine_config_label_builder *b)
{
    size_t n = b->len;
    GS_AUTO_FREE struct metrics_label *before = gs_alloc_array(n + 1, sizeof(*before));
    if (n)
        memcpy(before, b->items, n * sizeof(*before));
    for (size_t i = 0; i < n; i++) {
        GS_AUTO_BUF struct gs_buf name = {.limit = METRICS_MAX_MADE_VALUE};
        if (!tsdb_regex_expand(r->regex, before[i].name, gs_slice_of(r->replacement), &name))
            continue;
        b->too_long = b->too_long || name.overflow;
        if (name.len)
            set_made(b, gs_buf_slice(&name), before[i].value);
    }
}

static void drop_names(const struct engine_config_relabel *r, struct engine_config_label_builder *b)
{
    bool dropped = r->action == ENGINE_CONFIG_RELABEL_LABELDROP;
    for (size_t i = b->len; i-- > 0;)
        if (tsdb_regex_matches(r->regex, b->items[i].name) == dropped)
            remove_at(b, i);
}

static bool apply_rule(const struct engine_config_relabel *r, struct engine_config_label_builder *b)
{
    GS_AUTO_BUF struct gs_buf source = {.limit = MADE_TEXTS * METRICS_MAX_MADE_VALUE};
    size_t longest = join_sources(r, b, &source);
    b->too_long = source.overflow;
    struct gs_slice value = source.data ? gs_buf_slice(&source) : gs_slice_make("", 0);
    switch (r->action) {
    case ENGINE_CONFIG_RELABEL_REPLACE:
        replace(r, b, value, longest);
        break;
    case ENGINE_CONFIG_RELABEL_KEEP:
        return tsdb_regex_matches(r->regex, value);
    case ENGINE_CONFIG_RELABEL_DROP:
        return !tsdb_regex_matches(r->regex, value);
    case ENGINE_CONFIG_RELABEL_KEEPEQUAL:
        return gs_slice_eq(engine_config_labels_get(b, gs_slice_of(r->target_label)), value);
    case ENGINE_CONFIG_RELABEL_DROPEQUAL:
        return !gs_slice_eq(engine_config_labels_get(b, gs_slice_of(r->target_label)), value);
    case ENGINE_CONFIG_RELABEL_HASHMOD:
        hashmod(r, b, value);
        break;
    case ENGINE_CONFIG_RELABEL_LABELMAP:
        map_names(r, b);
        break;
    case ENGINE_CONFIG_RELABEL_LABELDROP:
    case ENGINE_CONFIG_RELABEL_LABELKEEP:
        drop_names(r, b);
        break;
    case ENGINE_CONFIG_RELABEL_LOWERCASE:
    case ENGINE_CONFIG_RELABEL_UPPERCASE:
        change_case(r, b, value);
        break;
    }
    return true;
}

bool engine_config_relabel(const struct engine_config_relabels *r,
                           struct engine_config_label_builder *b)
{
    for (size_t i = 0; i < r->n; i++) {
        bool kept = apply_rule(&r->items[i], b);
        if (b->too_long)
            gs_warn("engine", ENGINE_CONFIG_TOO_LONG ": what it applies to is dropped",
                    METRICS_MAX_MADE_VALUE);
        if (!kept || b->too_long)
            return false;
    }
    return true;
}

static struct gs_slice copy_text(struct gs_arena *arena, struct gs_slice s)
{
    return gs_slice_make(gs_arena_strndup(arena, s.data ? s.data : "", s.len), s.len);
}

struct metrics_label *engine_config_labels_copy(struct gs_arena *arena,
                                                const struct metrics_label *l, size_t n)
{
    struct metrics_label *out = gs_arena_alloc(arena, (n + 1) * sizeof(*out));
    for (size_t i = 0; i < n; i++)
        out[i] = (struct metrics_label){copy_text(arena, l[i].name), copy_text(arena, l[i].value)};
    return out;
}
