// SPDX-License-Identifier: Apache-2.0
// Names of metrics and labels from those of OpenTelemetry.
// https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
#include "engine/remote/remote_private.h"

#include "base/mem.h"
#include "codec/encoding.h"

#define UNIT_SIZE 256 // longer units are cut

struct unit {
    const char *otel, *name;
};

static const struct unit units[] = {
    {"d", "days"},
    {"h", "hours"},
    {"min", "minutes"},
    {"s", "seconds"},
    {"ms", "milliseconds"},
    {"us", "microseconds"},
    {"ns", "nanoseconds"},
    {"By", "bytes"},
    {"KiBy", "kibibytes"},
    {"MiBy", "mebibytes"},
    {"GiBy", "gibibytes"},
    {"TiBy", "tibibytes"},
    {"KBy", "kilobytes"},
    {"MBy", "megabytes"},
    {"GBy", "gigabytes"},
    {"TBy", "terabytes"},
    {"m", "meters"},
    {"V", "volts"},
    {"A", "amperes"},
    {"J", "joules"},
    {"W", "watts"},
    {"g", "grams"},
    {"Cel", "celsius"},
    {"Hz", "hertz"},
    {"1", ""},
    {"%", "percent"},
    {0},
};
static const struct unit per_units[] = {
    {"s", "second"}, {"m", "minute"}, {"h", "hour"}, {"d", "day"},
    {"w", "week"},   {"mo", "month"}, {"y", "year"}, {0},
};

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_name_char(char c)
{
    return is_letter_or_digit(c) || c == ':';
}

// Bytes of the character at the start of s, which is not empty. Wrong UTF-8: 1.
static size_t char_len(struct gs_slice s)
{
    unsigned char c = (unsigned char)*s.data;
    size_t n = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (n > s.len || (n > 1 && codec_utf8_valid_prefix(gs_slice_make(s.data, n)) != n))
        return 1;
    return n;
}

// --- units ---

static struct gs_slice name_of_unit(const struct unit *table, struct gs_slice unit)
{
    bool braces =
        unit.len && (memchr(unit.data, '{', unit.len) || memchr(unit.data, '}', unit.len));
    if (!unit.len || braces)
        return GS_SLICE("");
    for (; table->otel; table++)
        if (gs_slice_eq_str(unit, table->otel))
            return gs_slice_of(table->name);
    return unit;
}

// "By/s": "bytes" and "per_second".
static void split_unit(struct gs_slice unit, struct gs_slice *ret_main, struct gs_slice *ret_per)
{
    struct gs_slice rest = unit;
    struct gs_slice first = gs_slice_trim(gs_slice_cut(&rest, '/'));
    *ret_main = name_of_unit(units, first);
    *ret_per = rest.data ? name_of_unit(per_units, gs_slice_trim(rest)) : GS_SLICE("");
}

// Appends the unit with other characters as single underscores, and none at the start.
static void add_clean(struct gs_buf *out, struct gs_slice unit)
{
    size_t from = out->len;
    bool underscore = false;
    while (unit.len) {
        size_t n = char_len(unit);
        bool ok = is_name_char(*unit.data);
        if (ok)
            gs_buf_add_char(out, *unit.data);
        else if (!underscore && out->len > from)
            gs_buf_add_char(out, '_');
        underscore = !ok;
        unit.data += n;
        unit.len -= n;
    }
}

// --- names of metrics ---

// Whether the name, whose tokens are separated by single underscores, has this token.
static bool has_token(struct gs_slice name, struct gs_slice token)
{
    while (name.data)
        if (gs_slice_eq(gs_slice_cut(&name, '_'), token))
            return true;
    return false;
}

static void add_token(struct gs_buf *name, struct gs_slice token)
{
    if (!token.len)
        return;
    if (name->len)
        gs_buf_add_char(name, '_');
    gs_buf_add_slice(name, token);
}

// Moves the token to the end of the name.
static void end_with(struct gs_buf *name, const char *token)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    struct gs_slice rest = gs_buf_slice(name);
    while (rest.data) {
        struct gs_slice part = gs_slice_cut(&rest, '_');
        if (!gs_slice_eq_str(part, token))
            add_token(&out, part);
    }
    add_token(&out, gs_slice_of(token));
    gs_buf_clear(name);
    gs_buf_add_slice(name, gs_buf_slice(&out));
}

static struct gs_slice without_last_underscore(struct gs_slice s)
{
    if (s.len && s.data[s.len - 1] == '_')
        s.len--;
    return s;
}

// A unit token can have underscores within. The search for it finds it only as one token.
static void add_units(struct gs_buf *name, struct gs_slice unit)
{
    struct gs_slice main_unit, per_unit;
    GS_AUTO_BUF struct gs_buf first = {0}, per = {0}, raw = {0};
    split_unit(unit, &main_unit, &per_unit);
    add_clean(&first, main_unit);
    if (per_unit.len) {
        gs_buf_add_str(&raw, "per_");
        gs_buf_add_slice(&raw, per_unit);
        add_clean(&per, gs_buf_slice(&raw));
    }
    struct gs_slice a = gs_buf_slice(&first), b = gs_buf_slice(&per);
    if (a.len && has_token(gs_buf_slice(name), a))
        a.len = 0;
    if (gs_slice_eq_str(b, "per_"))
        b.len = 0;
    b = without_last_underscore(b);
    if (b.len && has_token(gs_buf_slice(name), b))
        b.len = 0;
    add_token(name, b.len ? without_last_underscore(a) : a);
    add_token(name, b);
}

static void add_tokens(struct gs_buf *out, struct gs_slice name)
{
    while (name.len) {
        size_t n = 0;
        while (n < name.len && is_name_char(name.data[n]))
            n++;
        add_token(out, gs_slice_make(name.data, n));
        name.data += n;
        name.len -= n;
        if (name.len) {
            n = char_len(name);
            name.data += n;
            name.len -= n;
        }
    }
}

// Without suffixes: underscores of the name are kept.
static void add_escaped(struct gs_buf *out, struct gs_slice name)
{
    bool pending = false, any = false;
    while (name.len) {
        size_t n = char_len(name);
        if (is_name_char(*name.data) || *name.data == '_') {
            if (pending && any)
                gs_buf_add_char(out, '_');
            gs_buf_add_char(out, *name.data);
            pending = false;
            any = true;
        } else {
            pending = true;
        }
        name.data += n;
        name.len -= n;
    }
}

static void cut_suffix(struct gs_buf *name, const char *suffix)
{
    size_t len = strlen(suffix);
    if (gs_slice_ends(gs_buf_slice(name), suffix) && name->len > len + 1)
        name->len -= len + 1;
}

// UTF-8 names keep their characters.
static void add_plain(const struct engine_config_otlp *o, struct gs_slice name,
                      struct gs_slice unit, enum remote_otlp_kind kind, struct gs_buf *out)
{
    struct gs_slice main_unit, per_unit;
    GS_AUTO_BUF struct gs_buf per = {0};
    gs_buf_add_slice(out, name);
    if (!o->suffixes)
        return;
    bool ratio = kind == REMOTE_OTLP_GAUGE && gs_slice_eq_str(unit, "1");
    if (ratio)
        cut_suffix(out, "ratio");
    if (kind == REMOTE_OTLP_COUNTER)
        cut_suffix(out, "total");
    split_unit(unit, &main_unit, &per_unit);
    if (per_unit.len) {
        gs_buf_add_str(&per, "per_");
        gs_buf_add_slice(&per, per_unit);
        cut_suffix(out, per.data);
    }
    GS_AUTO_FREE char *first = gs_slice_dup(main_unit);
    if (*first && !gs_slice_ends(gs_buf_slice(out), first))
        gs_buf_addf(out, "_%s", first);
    if (per.len)
        gs_buf_addf(out, "_%s", per.data);
    gs_buf_add_str(out, kind == REMOTE_OTLP_COUNTER ? "_total" : ratio ? "_ratio" : "");
}

static bool only_underscores(struct gs_slice s)
{
    size_t i = 0;
    while (i < s.len && s.data[i] == '_')
        i++;
    return i == s.len;
}

struct gs_error *remote_otlp_metric_name(const struct engine_config_otlp *o, struct gs_slice name,
                                         struct gs_slice unit, enum remote_otlp_kind kind,
                                         struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf made = {0};
    if (unit.len > UNIT_SIZE)
        unit.len = UNIT_SIZE;
    if (!o->escape) {
        add_plain(o, name, unit, kind, out);
        return NULL;
    }
    if (o->suffixes) {
        add_tokens(&made, name);
        add_units(&made, unit);
        if (kind == REMOTE_OTLP_COUNTER)
            end_with(&made, "total");
        if (kind == REMOTE_OTLP_GAUGE && gs_slice_eq_str(unit, "1"))
            end_with(&made, "ratio");
    } else {
        add_escaped(&made, name);
    }
    struct gs_slice m = gs_buf_slice(&made);
    if (!m.len)
        return gs_error_new(GS_EINVAL,
                            "normalization for metric \"" GS_SLICE_FMT "\" resulted in empty name",
                            GS_SLICE_ARG(name));
    if (only_underscores(m) && !gs_slice_eq(m, name))
        return gs_error_new(GS_EINVAL,
                            "normalization for metric \"" GS_SLICE_FMT
                            "\" resulted in invalid name \"" GS_SLICE_FMT "\"",
                            GS_SLICE_ARG(name), GS_SLICE_ARG(m));
    if (*m.data >= '0' && *m.data <= '9')
        gs_buf_add_char(out, '_');
    gs_buf_add_slice(out, m);
    return NULL;
}

// --- names of labels ---

// Other characters become underscores. merge: neighbouring ones become one.
static void add_label_chars(struct gs_buf *out, struct gs_slice name, bool merge)
{
    bool underscore = false;
    while (name.len) {
        size_t n = char_len(name);
        bool ok = is_letter_or_digit(*name.data);
        if (ok || !merge || !underscore)
            gs_buf_add_char(out, (char)(ok ? *name.data : '_'));
        underscore = !ok;
        name.data += n;
        name.len -= n;
    }
}

struct gs_error *remote_otlp_label_name(const struct engine_config_otlp *o, struct gs_slice name,
                                        struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf made = {0};
    if (!name.len)
        return gs_error_new(GS_EINVAL, "label name is empty");
    if (!o->escape) {
        if (only_underscores(name))
            return gs_error_new(GS_EINVAL,
                                "label name \"" GS_SLICE_FMT "\" contains only underscores",
                                GS_SLICE_ARG(name));
        gs_buf_add_slice(out, name);
        return NULL;
    }
    bool reserved = !o->preserve_underscores && name.len >= 4 && gs_slice_starts(name, "__") &&
                    gs_slice_ends(name, "__");
    if (reserved) {
        gs_buf_add_str(&made, "__");
        add_label_chars(&made, gs_slice_make(name.data + 2, name.len - 4), true);
        gs_buf_add_str(&made, "__");
    } else {
        add_label_chars(&made, name, !o->preserve_underscores);
    }
    struct gs_slice m = gs_buf_slice(&made);
    if (*m.data >= '0' && *m.data <= '9')
        gs_buf_add_str(out, "key_");
    else if (o->sanitize_underscores && *m.data == '_' && !gs_slice_starts(m, "__"))
        gs_buf_add_str(out, "key");
    else if (only_underscores(m))
        return gs_error_new(GS_EINVAL,
                            "normalization for label name \"" GS_SLICE_FMT
                            "\" resulted in invalid name \"" GS_SLICE_FMT "\"",
                            GS_SLICE_ARG(name), GS_SLICE_ARG(m));
    gs_buf_add_slice(out, m);
    return NULL;
}
