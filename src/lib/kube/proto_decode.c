// SPDX-License-Identifier: Apache-2.0
// Protobuf of Kubernetes objects to JSON, guided by the schemas and by the field numbers of the
// generated.proto files. Messages come from peers: depth and the number of values are limited,
// since a small message can request many values.
#include "base/clock.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "kube/kube_private.h"

#include <inttypes.h>

struct decoder {
    const struct kube_proto_options *options;
    size_t values, max; // read so far, and at most
};

// --- small messages with a JSON form of their own ---

static json_t *string_of(struct gs_slice s)
{
    return json_stringn(s.data ? s.data : "", s.len);
}

// Calls for each field of a message until one is malformed.
static struct gs_error *each(struct gs_slice message,
                             void (*fn)(void *arg, const struct codec_proto_token *t), void *arg)
{
    while (message.len > 0) {
        struct codec_proto_token t;
        struct gs_error *err = codec_proto_next(&message, &t);
        if (err)
            return err;
        fn(arg, &t);
    }
    return NULL;
}

static void on_quantity(void *arg, const struct codec_proto_token *t)
{
    if (t->number == 1 && t->wire == CODEC_PROTO_BYTES)
        *(struct gs_slice *)arg = t->bytes;
}

static struct gs_error *decode_quantity(struct gs_slice message, json_t **ret)
{
    struct gs_slice text = {0};
    struct gs_error *err = each(message, on_quantity, &text);

    if (!err)
        *ret = string_of(text);
    return err;
}

struct int_or_string {
    uint64_t type, number;
    struct gs_slice text;
};

static void on_int_or_string(void *arg, const struct codec_proto_token *t)
{
    struct int_or_string *v = arg;

    if (t->number == 1)
        v->type = t->varint;
    else if (t->number == 2)
        v->number = t->varint;
    else if (t->number == 3)
        v->text = t->bytes;
}

static struct gs_error *decode_int_or_string(struct gs_slice message, json_t **ret)
{
    struct int_or_string v = {0};
    struct gs_error *err = each(message, on_int_or_string, &v);

    if (!err)
        *ret = v.type == 1 ? string_of(v.text) : json_integer((json_int_t)(int32_t)v.number);
    return err;
}

struct timestamp {
    int64_t seconds, nanos;
};

static void on_time(void *arg, const struct codec_proto_token *t)
{
    struct timestamp *v = arg;

    if (t->number == 1)
        v->seconds = (int64_t)t->varint;
    else if (t->number == 2)
        v->nanos = (int64_t)t->varint;
}

// Go's zero time is an empty message: left out.
static struct gs_error *decode_time(struct gs_slice message, json_t **ret)
{
    const int64_t year_9999 = INT64_C(253402300799);
    struct timestamp v = {0};
    char buf[GS_RFC3339_SIZE];
    struct gs_error *err = each(message, on_time, &v);

    if (err || message.len == 0 || v.seconds < 0 || v.seconds > year_9999 || v.nanos < 0 ||
        v.nanos >= GS_NS_PER_SEC)
        return err;
    *ret = json_string(v.nanos ? gs_format_rfc3339_micro(v.seconds * 1000000 + v.nanos / 1000, buf)
                               : gs_format_rfc3339(v.seconds * 1000, buf));
    return NULL;
}

// --- field numbers ---

const char *kube_proto_numbers(struct gs_slice type_name)
{
    size_t lo = 0, hi = kube_n_proto_types;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = gs_slice_compare(gs_slice_of(kube_proto_types[mid].name), type_name);
        if (c == 0)
            return kube_proto_types[mid].fields;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

bool kube_proto_next_field(struct gs_slice *rest, struct kube_proto_field *ret)
{
    struct kube_proto_field f = {0};
    struct gs_slice word = gs_slice_cut(rest, ' ');

    while (word.len > 0 && word.data[0] >= '0' && word.data[0] <= '9') {
        f.number = f.number * 10 + (uint64_t)(word.data[0] - '0');
        word.data++;
        word.len--;
    }
    if (word.len == 0)
        return false;
    f.embedded = word.data[0] == '+';
    f.pointer = !f.embedded && word.data[word.len - 1] == '*';
    f.name = gs_slice_make(word.data + f.embedded, word.len - f.embedded - f.pointer);
    *ret = f;
    return true;
}

static bool find_number(const char *numbers, uint64_t number, struct kube_proto_field *ret)
{
    struct gs_slice rest = gs_slice_of(numbers);

    while (kube_proto_next_field(&rest, ret))
        if (ret->number == number)
            return true;
    return false;
}

// --- values ---

static struct gs_error *decode_message(struct decoder *d, const struct kube_type *type,
                                       struct gs_slice numbers_type, struct gs_slice message,
                                       unsigned depth, json_t *out);

static struct gs_error *decode_object(struct decoder *d, const struct kube_type *type,
                                      struct gs_slice message, unsigned depth, json_t **ret)
{
    CODEC_AUTO_JSON json_t *obj = json_object();

    if (depth > KUBE_PROTO_MAX_DEPTH)
        return gs_error_new(GS_ELIMIT, "the protobuf message is nested too deeply");
    struct gs_error *err = decode_message(d, type, gs_slice_of(type->name), message, depth, obj);
    if (!err)
        *ret = GS_TAKE(obj);
    return err;
}

static struct gs_error *decode_text(const struct codec_proto_token *t, json_t **ret)
{
    *ret = string_of(t->bytes);
    return *ret ? NULL : gs_error_new(GS_EPROTO, "a protobuf string is not UTF-8");
}

static json_t *base64_of(struct gs_slice bytes)
{
    GS_AUTO_BUF struct gs_buf encoded = {0};

    codec_base64_encode(bytes, &encoded);
    return json_string(encoded.data ? encoded.data : "");
}

static struct gs_error *wrong_wire(struct gs_slice field)
{
    return gs_error_new(GS_EPROTO, "protobuf field %.*s has the wrong wire type",
                        GS_SLICE_ARG(field));
}

// One value of a kind (an item of a list, too). *ret stays NULL for what JSON leaves out.
static struct gs_error *decode_value(struct decoder *d, enum kube_field_kind kind,
                                     const struct kube_type *type, const char *field,
                                     const struct codec_proto_token *t, unsigned depth,
                                     json_t **ret)
{
    double number;

    if (kind == KUBE_F_INT || kind == KUBE_F_INT64 || kind == KUBE_F_BOOL) {
        if (t->wire != CODEC_PROTO_VARINT)
            return wrong_wire(gs_slice_of(field));
        *ret = kind == KUBE_F_BOOL ? json_boolean(t->varint != 0)
                                   : json_integer((json_int_t)t->varint);
        return NULL;
    }
    if (kind == KUBE_F_NUMBER && t->wire == CODEC_PROTO_64) {
        memcpy(&number, t->bytes.data, sizeof number);
        *ret = json_real(number); // NULL for NaN and infinities
        return NULL;
    }
    if (t->wire != CODEC_PROTO_BYTES)
        return wrong_wire(gs_slice_of(field));
    switch (kind) {
    case KUBE_F_STRING:
        return decode_text(t, ret);
    case KUBE_F_BYTES:
        *ret = base64_of(t->bytes);
        return NULL;
    case KUBE_F_QUANTITY:
        return decode_quantity(t->bytes, ret);
    case KUBE_F_INTORSTR:
        return decode_int_or_string(t->bytes, ret);
    case KUBE_F_TIME:
        return decode_time(t->bytes, ret);
    case KUBE_F_OBJECT:
        return decode_object(d, type, t->bytes, depth + 1, ret);
    default:
        return NULL; // free-form parts (managed fields) are not kept
    }
}

struct map_entry {
    struct gs_slice key;
    struct codec_proto_token value;
};

static void on_entry(void *arg, const struct codec_proto_token *t)
{
    struct map_entry *e = arg;

    if (t->number == 1)
        e->key = t->bytes;
    else if (t->number == 2)
        e->value = *t;
}

static enum codec_proto_wire zero_wire(const struct kube_field *f)
{
    bool number =
        !f->type && (f->item == KUBE_F_INT || f->item == KUBE_F_INT64 || f->item == KUBE_F_BOOL);
    return number ? CODEC_PROTO_VARINT : CODEC_PROTO_BYTES;
}

static struct gs_error *add_entry(struct decoder *d, const struct kube_field *f,
                                  const struct codec_proto_token *t, unsigned depth, json_t *out)
{
    // An entry without a value has the zero value.
    struct map_entry e = {.value = {.wire = zero_wire(f)}};
    json_t *map = json_object_get(out, f->name);
    json_t *value = NULL;

    struct gs_error *err = t->wire == CODEC_PROTO_BYTES ? each(t->bytes, on_entry, &e)
                                                        : wrong_wire(gs_slice_of(f->name));
    if (!err)
        err = decode_value(d, f->type ? KUBE_F_OBJECT : f->item, f->type, f->name, &e.value, depth,
                           &value);
    if (err)
        return err;
    if (!map) {
        map = json_object();
        json_object_set_new(out, f->name, map);
    }
    GS_AUTO_FREE char *key = gs_slice_dup(e.key);
    if (value && json_object_set_new(map, key, value) != 0)
        return gs_error_new(GS_EPROTO, "a protobuf map key is not UTF-8");
    return NULL;
}

static struct gs_error *add_item(struct decoder *d, const struct kube_field *f,
                                 const struct codec_proto_token *t, unsigned depth, json_t *out)
{
    json_t *list = json_object_get(out, f->name);
    json_t *value = NULL;

    struct gs_error *err =
        decode_value(d, f->type ? KUBE_F_OBJECT : f->item, f->type, f->name, t, depth, &value);
    if (err)
        return err;
    if (!list) {
        list = json_array();
        json_object_set_new(out, f->name, list);
    }
    json_array_append_new(list, value ? value : json_object());
    return NULL;
}

static bool is_zero(const json_t *v)
{
    return (json_is_string(v) && json_string_length(v) == 0) ||
           (json_is_integer(v) && json_integer_value(v) == 0) || json_is_false(v) ||
           (json_is_object(v) && json_object_size(v) == 0);
}

static struct gs_error *add_field(struct decoder *d, const struct kube_field *f,
                                  const struct kube_proto_field *n,
                                  const struct codec_proto_token *t, unsigned depth, json_t *out)
{
    json_t *value = NULL;

    if (f->kind == KUBE_F_MAP)
        return add_entry(d, f, t, depth, out);
    if (f->kind == KUBE_F_LIST)
        return add_item(d, f, t, depth, out);
    struct gs_error *err = decode_value(d, f->kind, f->type, f->name, t, depth, &value);
    if (err || !value)
        return err;
    if (!n->pointer && is_zero(value))
        json_decref(value);
    else
        json_object_set_new(out, f->name, value);
    return NULL;
}

static bool is_omitted(const struct decoder *d, struct gs_slice name)
{
    const char *const *omit = d->options->omit;
    while (omit && *omit && !gs_slice_eq_str(name, *omit))
        omit++;
    return omit && *omit;
}

static const struct kube_field *find_field(const struct kube_type *type, struct gs_slice name)
{
    const struct kube_field *f = type->fields;
    while (f->name && !gs_slice_eq_str(name, f->name))
        f++;
    return f->name ? f : NULL;
}

static struct gs_error *add_token(struct decoder *d, const struct kube_type *type,
                                  const char *numbers, const struct codec_proto_token *t,
                                  unsigned depth, json_t *out)
{
    struct kube_proto_field n;

    if (++d->values > d->max)
        return gs_error_new(GS_ELIMIT, "the protobuf message has more than %zu values", d->max);
    if (!find_number(numbers, t->number, &n)) {
        if (d->options->skip_unknown)
            return NULL;
        return gs_error_new(GS_ENOTSUP,
                            "field %" PRIu64 " of %s is not known in protobuf form here: send JSON",
                            t->number, type->name);
    }
    if (n.embedded) {
        if (t->wire != CODEC_PROTO_BYTES || depth > KUBE_PROTO_MAX_DEPTH)
            return wrong_wire(n.name);
        return decode_message(d, type, n.name, t->bytes, depth + 1, out);
    }
    const struct kube_field *f = is_omitted(d, n.name) ? NULL : find_field(type, n.name);
    return f ? add_field(d, f, &n, t, depth, out) : NULL;
}

// numbers_type: whose numbers count; for an embedded message another than `type`.
static struct gs_error *decode_message(struct decoder *d, const struct kube_type *type,
                                       struct gs_slice numbers_type, struct gs_slice message,
                                       unsigned depth, json_t *out)
{
    const char *numbers = kube_proto_numbers(numbers_type);

    if (!numbers && d->options->skip_unknown)
        return NULL;
    if (!numbers)
        return gs_error_new(GS_ENOTSUP, "%.*s is not known in protobuf form here: send JSON",
                            GS_SLICE_ARG(numbers_type));
    while (message.len > 0) {
        struct codec_proto_token t;
        struct gs_error *err = codec_proto_next(&message, &t);
        if (!err)
            err = add_token(d, type, numbers, &t, depth, out);
        if (err)
            return err;
    }
    return NULL;
}

struct gs_error *kube_proto_decode(const struct kube_type *type, struct gs_slice message,
                                   const struct kube_proto_options *o, json_t *obj)
{
    struct decoder d = {.options = o, .max = KUBE_PROTO_MAX_VALUES};
    if (o->budget && *o->budget < d.max)
        d.max = *o->budget;
    struct gs_error *err = decode_message(&d, type, gs_slice_of(type->name), message, 0, obj);
    if (o->budget)
        *o->budget -= d.values < d.max ? d.values : d.max;
    return err;
}
