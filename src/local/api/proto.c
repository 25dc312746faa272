// SPDX-License-Identifier: Apache-2.0
// Go's encoder writes every field that is not a pointer, also when it is zero, and JSON would leave
// such a field out: so zeros count as given only where Go has a pointer.
#include "local/api/proto.h"

#include "base/clock.h"
#include "base/mem.h"
#include "codec/encoding.h"

#include <inttypes.h>

#define MAX_DEPTH 64

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct token {
    uint64_t number;
    enum wire wire;
    uint64_t varint;       // WIRE_VARINT, WIRE_64
    struct gs_slice bytes; // WIRE_BYTES
};

// --- wire format ---

static struct gs_error *truncated(void)
{
    return gs_error_new(GS_EPROTO, "the protobuf message ends in the middle of a field");
}

static struct gs_error *read_varint(struct gs_slice *s, uint64_t *ret)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (s->len == 0)
            return truncated();
        unsigned char c = (unsigned char)s->data[0];
        s->data++;
        s->len--;
        value |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80)) {
            *ret = value;
            return NULL;
        }
    }
    return gs_error_new(GS_EPROTO, "a protobuf number is longer than 64 bits");
}

static struct gs_error *take(struct gs_slice *s, uint64_t n, struct gs_slice *ret)
{
    if (n > s->len)
        return truncated();
    *ret = gs_slice_make(s->data, (size_t)n);
    s->data += n;
    s->len -= (size_t)n;
    return NULL;
}

static struct gs_error *read_token(struct gs_slice *s, struct token *ret)
{
    struct token t = {0};
    uint64_t key = 0, len = 0;

    struct gs_error *err = read_varint(s, &key);
    if (err)
        return err;
    t.number = key >> 3;
    t.wire = (enum wire)(key & 7);
    switch (t.wire) {
    case WIRE_VARINT:
        err = read_varint(s, &t.varint);
        break;
    case WIRE_BYTES:
        err = read_varint(s, &len);
        if (!err)
            err = take(s, len, &t.bytes);
        break;
    case WIRE_64:
        err = take(s, sizeof(uint64_t), &t.bytes);
        break;
    case WIRE_32:
        err = take(s, sizeof(uint32_t), &t.bytes);
        break;
    default:
        err = gs_error_new(GS_EPROTO, "protobuf wire type %d is not known", (int)t.wire);
    }
    if (!err)
        *ret = t;
    return err;
}

// --- small messages with a JSON form of their own ---

static json_t *string_of(struct gs_slice s)
{
    return json_stringn(s.data ? s.data : "", s.len);
}

// Calls for each field of a message until one is malformed.
static struct gs_error *each(struct gs_slice message, void (*fn)(void *arg, const struct token *t),
                             void *arg)
{
    while (message.len > 0) {
        struct token t;
        struct gs_error *err = read_token(&message, &t);
        if (err)
            return err;
        fn(arg, &t);
    }
    return NULL;
}

static void on_quantity(void *arg, const struct token *t)
{
    if (t->number == 1 && t->wire == WIRE_BYTES)
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

static void on_int_or_string(void *arg, const struct token *t)
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

static void on_time(void *arg, const struct token *t)
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

struct field_number {
    struct gs_slice name; // of the field, or of the type of an embedded message
    bool embedded, pointer;
};

static const char *numbers_of(const char *type_name)
{
    size_t lo = 0, hi = local_api_n_proto_types;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = strcmp(local_api_proto_types[mid].name, type_name);
        if (c == 0)
            return local_api_proto_types[mid].fields;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static bool find_number(const char *numbers, uint64_t number, struct field_number *ret)
{
    struct gs_slice rest = gs_slice_of(numbers);

    while (rest.data) {
        struct gs_slice word = gs_slice_cut(&rest, ' ');
        uint64_t n = 0;
        while (word.len > 0 && word.data[0] >= '0' && word.data[0] <= '9') {
            n = n * 10 + (uint64_t)(word.data[0] - '0');
            word.data++;
            word.len--;
        }
        if (n != number || word.len == 0)
            continue;
        char last = word.data[word.len - 1];
        *ret = (struct field_number){word, word.data[0] == '+', last == '*'};
        if (ret->embedded) {
            ret->name.data++;
            ret->name.len--;
        } else if (ret->pointer) {
            ret->name.len--;
        }
        return true;
    }
    return false;
}

// --- values ---

static struct gs_error *decode_message(const struct kube_type *type, const char *numbers_type,
                                       struct gs_slice message, unsigned depth, json_t *out);

static struct gs_error *decode_object(const struct kube_type *type, struct gs_slice message,
                                      unsigned depth, json_t **ret)
{
    CODEC_AUTO_JSON json_t *obj = json_object();

    if (depth > MAX_DEPTH)
        return gs_error_new(GS_ELIMIT, "the protobuf message is nested too deeply");
    struct gs_error *err = decode_message(type, type->name, message, depth, obj);
    if (!err)
        *ret = GS_TAKE(obj);
    return err;
}

static struct gs_error *decode_text(const struct token *t, json_t **ret)
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

static struct gs_error *wrong_wire(const char *field)
{
    return gs_error_new(GS_EPROTO, "protobuf field %s has the wrong wire type", field);
}

// One value of a kind (an item of a list, too). *ret stays NULL for what JSON leaves out.
static struct gs_error *decode_value(enum kube_field_kind kind, const struct kube_type *type,
                                     const char *field, const struct token *t, unsigned depth,
                                     json_t **ret)
{
    double number;

    if (kind == KUBE_F_INT || kind == KUBE_F_INT64 || kind == KUBE_F_BOOL) {
        if (t->wire != WIRE_VARINT)
            return wrong_wire(field);
        *ret = kind == KUBE_F_BOOL ? json_boolean(t->varint != 0)
                                   : json_integer((json_int_t)t->varint);
        return NULL;
    }
    if (kind == KUBE_F_NUMBER && t->wire == WIRE_64) {
        memcpy(&number, t->bytes.data, sizeof number);
        *ret = json_real(number); // NULL for NaN and infinities
        return NULL;
    }
    if (t->wire != WIRE_BYTES)
        return wrong_wire(field);
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
        return decode_object(type, t->bytes, depth + 1, ret);
    default:
        return NULL; // free-form parts (managed fields) are not kept
    }
}

struct map_entry {
    struct gs_slice key;
    struct token value;
};

static void on_entry(void *arg, const struct token *t)
{
    struct map_entry *e = arg;

    if (t->number == 1)
        e->key = t->bytes;
    else if (t->number == 2)
        e->value = *t;
}

static enum wire zero_wire(const struct kube_field *f)
{
    bool number =
        !f->type && (f->item == KUBE_F_INT || f->item == KUBE_F_INT64 || f->item == KUBE_F_BOOL);
    return number ? WIRE_VARINT : WIRE_BYTES;
}

static struct gs_error *add_entry(const struct kube_field *f, const struct token *t, unsigned depth,
                                  json_t *out)
{
    // An entry without a value has the zero value.
    struct map_entry e = {.value = {.wire = zero_wire(f)}};
    json_t *map = json_object_get(out, f->name);
    json_t *value = NULL;

    struct gs_error *err =
        t->wire == WIRE_BYTES ? each(t->bytes, on_entry, &e) : wrong_wire(f->name);
    if (!err)
        err = decode_value(f->type ? KUBE_F_OBJECT : f->item, f->type, f->name, &e.value, depth,
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

static struct gs_error *add_item(const struct kube_field *f, const struct token *t, unsigned depth,
                                 json_t *out)
{
    json_t *list = json_object_get(out, f->name);
    json_t *value = NULL;

    struct gs_error *err =
        decode_value(f->type ? KUBE_F_OBJECT : f->item, f->type, f->name, t, depth, &value);
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

static struct gs_error *add_field(const struct kube_field *f, const struct field_number *n,
                                  const struct token *t, unsigned depth, json_t *out)
{
    json_t *value = NULL;

    if (f->kind == KUBE_F_MAP)
        return add_entry(f, t, depth, out);
    if (f->kind == KUBE_F_LIST)
        return add_item(f, t, depth, out);
    struct gs_error *err = decode_value(f->kind, f->type, f->name, t, depth, &value);
    if (err || !value)
        return err;
    if (!n->pointer && is_zero(value))
        json_decref(value);
    else
        json_object_set_new(out, f->name, value);
    return NULL;
}

static struct gs_error *add_token(const struct kube_type *type, const char *numbers,
                                  const struct token *t, unsigned depth, json_t *out)
{
    struct field_number n;

    if (!find_number(numbers, t->number, &n))
        return gs_error_new(GS_ENOTSUP,
                            "field %" PRIu64 " of %s is not known in protobuf form here: send JSON",
                            t->number, type->name);
    GS_AUTO_FREE char *name = gs_slice_dup(n.name);
    if (n.embedded) {
        if (t->wire != WIRE_BYTES || depth > MAX_DEPTH)
            return wrong_wire(name);
        return decode_message(type, name, t->bytes, depth + 1, out);
    }
    const struct kube_field *f = kube_schema_field(type, name);
    return f ? add_field(f, &n, t, depth, out) : NULL;
}

// numbers_type: whose numbers count; for an embedded message another than `type`.
static struct gs_error *decode_message(const struct kube_type *type, const char *numbers_type,
                                       struct gs_slice message, unsigned depth, json_t *out)
{
    const char *numbers = numbers_of(numbers_type);

    if (!numbers)
        return gs_error_new(GS_ENOTSUP, "%s is not known in protobuf form here: send JSON",
                            numbers_type);
    while (message.len > 0) {
        struct token t;
        struct gs_error *err = read_token(&message, &t);
        if (!err)
            err = add_token(type, numbers, &t, depth, out);
        if (err)
            return err;
    }
    return NULL;
}

// --- envelope ---

struct envelope {
    struct gs_slice type_meta, raw;
};

static void on_envelope(void *arg, const struct token *t)
{
    struct envelope *e = arg;

    if (t->number == 1)
        e->type_meta = t->bytes;
    else if (t->number == 2)
        e->raw = t->bytes;
}

struct type_meta {
    struct gs_slice api_version, kind;
};

static void on_type_meta(void *arg, const struct token *t)
{
    struct type_meta *m = arg;

    if (t->number == 1)
        m->api_version = t->bytes;
    else if (t->number == 2)
        m->kind = t->bytes;
}

struct gs_error *local_api_proto_decode(struct gs_slice body, json_t **ret)
{
    static const char magic[] = {'k', '8', 's', 0};
    struct envelope e = {0};
    struct type_meta m = {0};

    if (body.len < sizeof magic || memcmp(body.data, magic, sizeof magic) != 0)
        return gs_error_new(GS_EPROTO, "the body does not start as Kubernetes' protobuf form does");
    struct gs_slice rest = gs_slice_make(body.data + sizeof magic, body.len - sizeof magic);
    struct gs_error *err = each(rest, on_envelope, &e);
    if (!err)
        err = each(e.type_meta, on_type_meta, &m);
    if (err)
        return err;
    GS_AUTO_FREE char *api_version = gs_slice_dup(m.api_version);
    GS_AUTO_FREE char *kind = gs_slice_dup(m.kind);
    const struct kube_type *type = local_api_proto_request_type(api_version, kind);
    if (!type)
        type = kube_schema_find(api_version, kind);
    if (!type)
        return gs_error_new(GS_ENOTSUP, "%s of %s is not known in protobuf form here: send JSON",
                            kind, api_version);
    CODEC_AUTO_JSON json_t *obj = json_object();
    if (json_object_set_new(obj, "kind", string_of(m.kind)) != 0 ||
        json_object_set_new(obj, "apiVersion", string_of(m.api_version)) != 0)
        return gs_error_new(GS_EPROTO, "kind and apiVersion must be UTF-8");
    err = decode_message(type, type->name, e.raw, 0, obj);
    if (!err)
        *ret = GS_TAKE(obj);
    return err;
}
