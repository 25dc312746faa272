// SPDX-License-Identifier: Apache-2.0
// The schema of OTLP messages: the check of protobuf, and the conversion from JSON to protobuf.
// https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
#include "codec/protobuf.h"
#include "engine/remote/remote_private.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/encoding.h"
#include "codec/json.h"

#define STEPS_A_CALL 256 // of go_on

enum kind {
    MESSAGE,
    TEXT,
    BYTES,    // base64 in JSON
    ID,       // hexadecimal in JSON
    UNSIGNED, // varint
    SIGNED,   // varint
    BOOL,
    TEMPORALITY,
    FIXED64,
    SFIXED64,
    DOUBLE,
};

struct field {
    const char *name; // in JSON; there, snake_case is accepted, too
    unsigned number;
    enum kind kind;
    bool repeated;
    const struct field *message;
};

static const struct field any_value[], key_value[];
static const struct field list_of_values[] = {{"values", OTLP_ITEMS, MESSAGE, true, any_value},
                                              {0}};
static const struct field list_of_pairs[] = {{"values", OTLP_ITEMS, MESSAGE, true, key_value}, {0}};
static const struct field any_value[] = {{"stringValue", OTLP_STRING, TEXT, 0, 0},
                                         {"boolValue", OTLP_BOOL, BOOL, 0, 0},
                                         {"intValue", OTLP_INT, SIGNED, 0, 0},
                                         {"doubleValue", OTLP_DOUBLE, DOUBLE, 0, 0},
                                         {"bytesValue", OTLP_BYTES, BYTES, 0, 0},
                                         {"arrayValue", OTLP_ARRAY, MESSAGE, 0, list_of_values},
                                         {"kvlistValue", OTLP_MAP, MESSAGE, 0, list_of_pairs},
                                         {0}};
static const struct field key_value[] = {
    {"key", OTLP_KEY, TEXT, 0, 0}, {"value", OTLP_VALUE, MESSAGE, 0, any_value}, {0}};
static const struct field exemplar[] = {
    {"timeUnixNano", OTLP_EXEMPLAR_TIME, FIXED64, 0, 0},
    {"asDouble", OTLP_EXEMPLAR_DOUBLE, DOUBLE, 0, 0},
    {"asInt", OTLP_EXEMPLAR_INT, SFIXED64, 0, 0},
    {"spanId", OTLP_EXEMPLAR_SPAN, ID, 0, 0},
    {"traceId", OTLP_EXEMPLAR_TRACE, ID, 0, 0},
    {"filteredAttributes", OTLP_EXEMPLAR_ATTRIBUTES, MESSAGE, true, key_value},
    {0}};

static const struct field number_point[] = {
    {"attributes", OTLP_NUMBER_ATTRIBUTES, MESSAGE, true, key_value},
    {"timeUnixNano", OTLP_POINT_TIME, FIXED64, 0, 0},
    {"asDouble", OTLP_NUMBER_DOUBLE, DOUBLE, 0, 0},
    {"asInt", OTLP_NUMBER_INT, SFIXED64, 0, 0},
    {"exemplars", OTLP_NUMBER_EXEMPLARS, MESSAGE, true, exemplar},
    {"flags", OTLP_NUMBER_FLAGS, UNSIGNED, 0, 0},
    {0}};
static const struct field histogram_point[] = {
    {"attributes", OTLP_HISTOGRAM_ATTRIBUTES, MESSAGE, true, key_value},
    {"timeUnixNano", OTLP_POINT_TIME, FIXED64, 0, 0},
    {"count", OTLP_HISTOGRAM_COUNT, FIXED64, 0, 0},
    {"sum", OTLP_HISTOGRAM_SUM, DOUBLE, 0, 0},
    {"bucketCounts", OTLP_HISTOGRAM_COUNTS, FIXED64, true, 0},
    {"explicitBounds", OTLP_HISTOGRAM_BOUNDS, DOUBLE, true, 0},
    {"exemplars", OTLP_HISTOGRAM_EXEMPLARS, MESSAGE, true, exemplar},
    {"flags", OTLP_HISTOGRAM_FLAGS, UNSIGNED, 0, 0},
    {0}};
static const struct field exponential_point[] = {{"timeUnixNano", OTLP_POINT_TIME, FIXED64, 0, 0},
                                                 {0}};
static const struct field quantile[] = {
    {"quantile", OTLP_QUANTILE, DOUBLE, 0, 0}, {"value", OTLP_QUANTILE_VALUE, DOUBLE, 0, 0}, {0}};
static const struct field summary_point[] = {
    {"attributes", OTLP_SUMMARY_ATTRIBUTES, MESSAGE, true, key_value},
    {"timeUnixNano", OTLP_POINT_TIME, FIXED64, 0, 0},
    {"count", OTLP_SUMMARY_COUNT, FIXED64, 0, 0},
    {"sum", OTLP_SUMMARY_SUM, DOUBLE, 0, 0},
    {"quantileValues", OTLP_SUMMARY_QUANTILES, MESSAGE, true, quantile},
    {"flags", OTLP_SUMMARY_FLAGS, UNSIGNED, 0, 0},
    {0}};

#define TEMPORALITY_FIELD                                                                          \
    {                                                                                              \
        "aggregationTemporality", OTLP_TEMPORALITY, TEMPORALITY, 0, 0                              \
    }
static const struct field gauge[] = {{"dataPoints", OTLP_POINTS, MESSAGE, true, number_point}, {0}};
static const struct field sum[] = {{"dataPoints", OTLP_POINTS, MESSAGE, true, number_point},
                                   TEMPORALITY_FIELD,
                                   {"isMonotonic", OTLP_MONOTONIC, BOOL, 0, 0},
                                   {0}};
static const struct field histogram[] = {
    {"dataPoints", OTLP_POINTS, MESSAGE, true, histogram_point}, TEMPORALITY_FIELD, {0}};
static const struct field exponential[] = {
    {"dataPoints", OTLP_POINTS, MESSAGE, true, exponential_point}, TEMPORALITY_FIELD, {0}};
static const struct field summary[] = {{"dataPoints", OTLP_POINTS, MESSAGE, true, summary_point},
                                       {0}};
static const struct field metric[] = {
    {"name", OTLP_METRIC_NAME, TEXT, 0, 0},
    {"unit", OTLP_METRIC_UNIT, TEXT, 0, 0},
    {"gauge", OTLP_GAUGE, MESSAGE, 0, gauge},
    {"sum", OTLP_SUM, MESSAGE, 0, sum},
    {"histogram", OTLP_HISTOGRAM, MESSAGE, 0, histogram},
    {"exponentialHistogram", OTLP_EXPONENTIAL, MESSAGE, 0, exponential},
    {"summary", OTLP_SUMMARY, MESSAGE, 0, summary},
    {0}};
static const struct field scope[] = {
    {"name", OTLP_SCOPE_NAME, TEXT, 0, 0},
    {"version", OTLP_SCOPE_VERSION, TEXT, 0, 0},
    {"attributes", OTLP_SCOPE_ATTRIBUTES, MESSAGE, true, key_value},
    {0}};
static const struct field scope_metrics[] = {{"scope", OTLP_SCOPE, MESSAGE, 0, scope},
                                             {"metrics", OTLP_METRICS, MESSAGE, true, metric},
                                             {"schemaUrl", OTLP_SCHEMA_URL, TEXT, 0, 0},
                                             {0}};
static const struct field resource[] = {
    {"attributes", OTLP_RESOURCE_ATTRIBUTES, MESSAGE, true, key_value}, {0}};
static const struct field resource_metrics[] = {
    {"resource", OTLP_RESOURCE, MESSAGE, 0, resource},
    {"scopeMetrics", OTLP_SCOPE_METRICS, MESSAGE, true, scope_metrics},
    {0}};
static const struct field request[] = {
    {"resourceMetrics", OTLP_RESOURCE_METRICS, MESSAGE, true, resource_metrics}, {0}};

// --- the check of protobuf ---

struct walk {
    bool (*go_on)(void *arg);
    void *arg;
    size_t steps;
};

static bool step(struct walk *w)
{
    return ++w->steps % STEPS_A_CALL || !w->go_on || w->go_on(w->arg);
}

static struct gs_error *stopped(void)
{
    return gs_error_new(GS_ECONFLICT, "stopped");
}

static enum codec_proto_wire wire_of(enum kind kind)
{
    switch (kind) {
    case MESSAGE:
    case TEXT:
    case BYTES:
    case ID:
        return CODEC_PROTO_BYTES;
    case UNSIGNED:
    case SIGNED:
    case BOOL:
    case TEMPORALITY:
        return CODEC_PROTO_VARINT;
    default:
        return CODEC_PROTO_64;
    }
}

static struct gs_error *check_message(struct walk *w, struct gs_slice message,
                                      const struct field *fields, unsigned depth)
{
    if (depth > REMOTE_OTLP_MAX_DEPTH)
        return gs_error_new(GS_EPROTO, "the message is nested too deeply");
    while (message.len) {
        struct codec_proto_token t;
        struct gs_error *err = codec_proto_next(&message, &t);
        if (err)
            return err;
        if (!step(w))
            return stopped();
        const struct field *f = fields;
        while (f->name && f->number != t.number)
            f++;
        if (!f->name)
            continue;
        enum codec_proto_wire wire = wire_of(f->kind);
        bool packed = f->repeated && wire == CODEC_PROTO_64 && t.wire == CODEC_PROTO_BYTES;
        if (packed && t.bytes.len % sizeof(uint64_t))
            return gs_error_new(GS_EPROTO, "proto: wrong length of the packed field %s", f->name);
        if (!packed && t.wire != wire)
            return gs_error_new(GS_EPROTO, "proto: wrong wireType = %d for field %s", (int)t.wire,
                                f->name);
        if (f->kind == MESSAGE)
            err = check_message(w, t.bytes, f->message, depth + 1);
        if (err)
            return err;
    }
    return NULL;
}

struct gs_error *remote_otlp_check(struct gs_slice message, bool (*go_on)(void *arg), void *arg)
{
    struct walk w = {.go_on = go_on, .arg = arg};
    return check_message(&w, message, request, 0);
}

// --- JSON ---

struct conversion {
    struct codec_json_pull j;
    struct gs_arena arena; // of unescaped strings
    struct gs_buf *out;
    size_t max;
    struct walk walk;
    struct gs_error *err; // other than of the syntax
};

// Whether key is the camelCase name or the same in snake_case.
static bool is_named(struct gs_slice key, const char *name)
{
    size_t i = 0;
    if (gs_slice_eq_str(key, name))
        return true;
    for (; *name && i < key.len; name++, i++) {
        bool upper = *name >= 'A' && *name <= 'Z';
        if (upper && (key.data[i++] != '_' || i == key.len))
            return false;
        if (key.data[i] != (upper ? *name | 0x20 : *name))
            return false;
    }
    return !*name && i == key.len;
}

static bool fail(struct conversion *c, const char *name, const char *why)
{
    if (!c->err)
        c->err = gs_error_new(GS_EPROTO, "%s: %s", name, why);
    return false;
}

static void add_64(struct gs_buf *out, unsigned number, uint64_t bits)
{
    gs_buf_add_char(out, (char)(number << 3 | CODEC_PROTO_64));
    for (unsigned shift = 0; shift < 64; shift += 8)
        gs_buf_add_char(out, (char)(bits >> shift & 0xff));
}

// The text of a number, which may be in a string.
static bool pull_number(struct conversion *c, struct gs_slice *ret)
{
    char first = codec_json_pull_peek(&c->j);
    if (first == '"')
        return codec_json_pull_string(&c->j, &c->arena, ret);
    if (first != '-' && (first < '0' || first > '9'))
        return false;
    return codec_json_pull_skip(&c->j, ret);
}

static bool convert_number(struct conversion *c, const struct field *f)
{
    struct gs_slice text;
    uint64_t bits = 0;
    int64_t value = 0;
    double v = 0;
    GS_AUTO_ERROR struct gs_error *err = NULL;
    if (!pull_number(c, &text))
        return fail(c, f->name, "unsupported value type");
    if (f->kind == DOUBLE) {
        err = gs_parse_double(text, &v);
        memcpy(&bits, &v, sizeof(bits));
    } else if (f->kind == FIXED64 || f->kind == UNSIGNED) {
        err = gs_parse_u64(text, f->kind == UNSIGNED ? UINT32_MAX : UINT64_MAX, &bits);
    } else {
        err = gs_parse_i64(text, INT64_MIN, INT64_MAX, &value);
        bits = (uint64_t)value;
    }
    if (err)
        return fail(c, f->name, "not a number of this type");
    if (wire_of(f->kind) == CODEC_PROTO_64)
        add_64(c->out, f->number, bits);
    else
        codec_proto_add_varint(c->out, f->number, bits);
    return true;
}

static bool convert_temporality(struct conversion *c, const struct field *f)
{
    static const char *const names[] = {"UNSPECIFIED", "DELTA", "CUMULATIVE"};
    static const char prefix[] = "AGGREGATION_TEMPORALITY_";
    struct gs_slice text;
    uint64_t value;
    if (codec_json_pull_peek(&c->j) != '"') {
        if (!pull_number(c, &text))
            return fail(c, f->name, "unsupported value type");
        GS_AUTO_ERROR struct gs_error *err = gs_parse_u64(text, INT32_MAX, &value);
        if (err)
            return fail(c, f->name, "not a number of this type");
        codec_proto_add_varint(c->out, f->number, value);
        return true;
    }
    if (!codec_json_pull_string(&c->j, &c->arena, &text))
        return false;
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (gs_slice_starts(text, prefix) && text.len == strlen(prefix) + strlen(names[i]) &&
            gs_slice_ends(text, names[i])) {
            codec_proto_add_varint(c->out, f->number, i);
            return true;
        }
    return fail(c, f->name, "unknown string value");
}

static bool decode_hex(struct gs_slice text, struct gs_buf *out)
{
    for (size_t i = 0; i + 1 < text.len; i += 2) {
        int high = gs_hex_digit(text.data[i]), low = gs_hex_digit(text.data[i + 1]);
        if (high < 0 || low < 0)
            return false;
        gs_buf_add_char(out, (char)(high << 4 | low));
    }
    return text.len % 2 == 0;
}

static bool convert_text(struct conversion *c, const struct field *f)
{
    struct gs_slice text;
    if (!codec_json_pull_string(&c->j, &c->arena, &text))
        return false;
    if (f->kind == TEXT) {
        codec_proto_add_bytes(c->out, f->number, text);
        return true;
    }
    GS_AUTO_BUF struct gs_buf bytes = {0};
    GS_AUTO_ERROR struct gs_error *err = NULL;
    if (f->kind == ID && !decode_hex(text, &bytes))
        return fail(c, f->name, "not hexadecimal");
    if (f->kind == BYTES)
        err = codec_base64_decode(text, &bytes);
    if (err)
        return fail(c, f->name, "not base64");
    codec_proto_add_bytes(c->out, f->number, gs_buf_slice(&bytes));
    return true;
}

static bool convert_bool(struct conversion *c, const struct field *f)
{
    struct gs_slice raw;
    if (!codec_json_pull_skip(&c->j, &raw))
        return false;
    bool on = gs_slice_eq_str(raw, "true");
    if (!on && !gs_slice_eq_str(raw, "false"))
        return fail(c, f->name, "expected true or false");
    codec_proto_add_varint(c->out, f->number, on);
    return true;
}

static bool convert_fields(struct conversion *c, const struct field *fields);

// The length is written with five bytes, when it is known.
static bool convert_message(struct conversion *c, const struct field *f)
{
    enum { LENGTH = 5 };
    gs_buf_add_char(c->out, (char)(f->number << 3 | CODEC_PROTO_BYTES));
    size_t at = c->out->len;
    gs_buf_add(c->out, "\0\0\0\0", LENGTH);
    if (!convert_fields(c, f->message))
        return false;
    size_t len = c->out->len - at - LENGTH;
    for (unsigned i = 0; i < LENGTH; i++)
        c->out->data[at + i] = (char)((len >> 7 * i & 0x7f) | (i < LENGTH - 1 ? 0x80 : 0));
    return true;
}

static bool convert_value(struct conversion *c, const struct field *f)
{
    if (c->out->len > c->max) {
        if (!c->err)
            c->err = gs_error_new(GS_ELIMIT, "more than %zu bytes", c->max);
        return false;
    }
    if (!step(&c->walk)) {
        if (!c->err)
            c->err = stopped();
        return false;
    }
    switch (f->kind) {
    case MESSAGE:
        return convert_message(c, f);
    case TEXT:
    case BYTES:
    case ID:
        return convert_text(c, f);
    case BOOL:
        return convert_bool(c, f);
    case TEMPORALITY:
        return convert_temporality(c, f);
    default:
        return convert_number(c, f);
    }
}

static bool convert_field(struct conversion *c, const struct field *f)
{
    if (codec_json_pull_null(&c->j))
        return true;
    if (!f->repeated)
        return convert_value(c, f);
    if (!codec_json_pull_array(&c->j))
        return false;
    while (codec_json_pull_item(&c->j))
        if (!convert_value(c, f))
            return false;
    return !c->j.bad;
}

// null: an empty message.
static bool convert_fields(struct conversion *c, const struct field *fields)
{
    struct gs_slice key;
    if (codec_json_pull_null(&c->j))
        return true;
    if (!codec_json_pull_object(&c->j))
        return false;
    for (;;) {
        gs_arena_recycle(&c->arena);
        if (!codec_json_pull_member(&c->j, &c->arena, &key))
            return !c->j.bad;
        const struct field *f = fields;
        while (f->name && !is_named(key, f->name))
            f++;
        if (f->name ? !convert_field(c, f) : !codec_json_pull_skip(&c->j, NULL))
            return false;
    }
}

struct gs_error *remote_otlp_of_json(struct gs_slice json, size_t max, bool (*go_on)(void *arg),
                                     void *arg, struct gs_buf *ret)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    struct conversion c = {.j = codec_json_pull_of(json),
                           .arena = {.limit = max},
                           .out = &out,
                           .max = max,
                           .walk = {.go_on = go_on, .arg = arg}};
    bool ok = convert_fields(&c, request) && codec_json_pull_end(&c.j);
    gs_arena_finish(&c.arena);
    if (!ok)
        return c.err ? c.err
                     : gs_error_new(GS_EPROTO, "JSON, byte %zu: %s", (size_t)(c.j.p - json.data),
                                    c.j.bad ? c.j.bad : "malformed");
    *ret = out;
    out = (struct gs_buf){0};
    return NULL;
}
