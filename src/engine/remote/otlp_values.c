// SPDX-License-Identifier: Apache-2.0
// Values of attributes as texts, as pcommon.Value.AsString() of OpenTelemetry.
#include "codec/protobuf.h"
#include "engine/remote/remote_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/shortest.h"
#include "codec/encoding.h"
#include "codec/json.h"

#include <math.h>

#define DIGITS 400 // of the longest number without an exponent

// The next field of a message that has been checked. False: there is none.
static bool next(struct gs_slice *message, struct codec_proto_token *ret)
{
    if (!message->len)
        return false;
    GS_AUTO_ERROR struct gs_error *err = codec_proto_next(message, ret);
    return !err;
}

void remote_otlp_add_number(struct gs_buf *out, double v)
{
    char text[DIGITS];
    double abs = fabs(v);
    if (isfinite(v) && abs >= 1e21) {
        struct gs_decimal d = gs_shortest_decimal(abs);
        gs_buf_addf(out, "%s%llu", v < 0 ? "-" : "", (unsigned long long)d.digits);
        for (int i = 0; i < d.exponent; i++)
            gs_buf_add_char(out, '0');
        return;
    }
    gs_buf_add(out, text, (size_t)(gs_put_double(text, v, -DIGITS) - text));
}

// JSON has no infinity and no NaN: *ok is false then.
static void add_double(struct gs_buf *out, uint64_t bits, bool in_json, bool *ok)
{
    char text[GS_DOUBLE_SIZE];
    double v;
    memcpy(&v, &bits, sizeof(v));
    if (!isfinite(v)) {
        *ok = *ok && !in_json;
        gs_buf_add_str(out, "json: unsupported value: ");
    }
    size_t n = (size_t)(gs_put_double(text, v, -6) - text);
    if (n > 4 && memcmp(text + n - 4, "e-0", 3) == 0) { // one digit of the exponent is enough
        text[n - 2] = text[n - 1];
        n--;
    }
    gs_buf_add(out, text, n);
}

static void add_json(struct gs_buf *out, struct gs_slice value, bool *ok);

static void add_array(struct gs_buf *out, struct gs_slice list, bool *ok)
{
    struct codec_proto_token t;
    bool first = true;
    gs_buf_add_char(out, '[');
    while (next(&list, &t)) {
        if (t.number != OTLP_ITEMS)
            continue;
        if (!first)
            gs_buf_add_char(out, ',');
        first = false;
        add_json(out, t.bytes, ok);
    }
    gs_buf_add_char(out, ']');
}

struct pair {
    struct gs_slice key, value;
    size_t place;
};

static int compare_pairs(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    int order = gs_slice_compare(x->key, y->key);
    return order ? order : (x->place > y->place) - (x->place < y->place);
}

// Sorted by key. Of equal keys the last counts.
static void add_map(struct gs_buf *out, struct gs_slice list, bool *ok)
{
    struct pair *pairs = NULL;
    size_t n = 0, cap = 0, written = 0;
    struct codec_proto_token t, u;
    while (next(&list, &t)) {
        if (t.number != OTLP_ITEMS)
            continue;
        struct pair p = {GS_SLICE(""), GS_SLICE(""), n};
        while (next(&t.bytes, &u)) {
            if (u.number == OTLP_KEY)
                p.key = u.bytes;
            else if (u.number == OTLP_VALUE)
                p.value = u.bytes;
        }
        gs_grow(&pairs, &cap, n, sizeof(*pairs));
        pairs[n++] = p;
    }
    if (n)
        qsort(pairs, n, sizeof(*pairs), compare_pairs);
    gs_buf_add_char(out, '{');
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && gs_slice_eq(pairs[i].key, pairs[i + 1].key))
            continue;
        if (written++)
            gs_buf_add_char(out, ',');
        codec_json_add_string(out, pairs[i].key, CODEC_JSON_SHORT);
        gs_buf_add_char(out, ':');
        add_json(out, pairs[i].value, ok);
    }
    gs_buf_add_char(out, '}');
    free(pairs);
}

static uint64_t bits_of(struct gs_slice bytes)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof(bits); i++)
        bits |= (uint64_t)(unsigned char)bytes.data[i] << 8 * i;
    return bits;
}

// The field that counts: the last. False: the value is empty.
static bool last_field(struct gs_slice value, struct codec_proto_token *ret)
{
    struct codec_proto_token t;
    bool found = false;
    while (next(&value, &t)) {
        if (t.number < OTLP_STRING || t.number > OTLP_BYTES)
            continue;
        *ret = t;
        found = true;
    }
    return found;
}

static void add_field(struct gs_buf *out, const struct codec_proto_token *t, bool in_json, bool *ok)
{
    switch (t->number) {
    case OTLP_STRING:
        if (in_json)
            codec_json_add_string(out, t->bytes, CODEC_JSON_SHORT);
        else
            gs_buf_add_slice(out, t->bytes);
        break;
    case OTLP_BOOL:
        gs_buf_add_str(out, t->varint ? "true" : "false");
        break;
    case OTLP_INT:
        gs_buf_addf(out, "%lld", (long long)t->varint);
        break;
    case OTLP_DOUBLE:
        add_double(out, bits_of(t->bytes), in_json, ok);
        break;
    case OTLP_ARRAY:
        add_array(out, t->bytes, ok);
        break;
    case OTLP_MAP:
        add_map(out, t->bytes, ok);
        break;
    default:
        if (in_json)
            gs_buf_add_char(out, '"');
        codec_base64_encode(t->bytes, out);
        if (in_json)
            gs_buf_add_char(out, '"');
    }
}

// The depth is bounded by remote_otlp_check().
static void add_json(struct gs_buf *out, struct gs_slice value, bool *ok)
{
    struct codec_proto_token t;
    if (last_field(value, &t))
        add_field(out, &t, true, ok);
    else
        gs_buf_add_str(out, "null");
}

void remote_otlp_add_value(struct gs_buf *out, struct gs_slice value)
{
    struct codec_proto_token t;
    size_t from = out->len;
    bool ok = true;
    if (last_field(value, &t))
        add_field(out, &t, false, &ok);
    if (!ok)
        out->len = from; // as Go's encoder, which fails
}
