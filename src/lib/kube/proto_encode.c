// SPDX-License-Identifier: Apache-2.0
// JSON of Kubernetes objects to protobuf, the reverse of proto_decode.c. Fields are written in the
// order of their numbers. A kind without field numbers cannot be encoded.
#include "base/clock.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "kube/kube_private.h"

// --- values ---

static struct gs_error *encode_message(const struct kube_type *type, struct gs_slice numbers_type,
                                       const json_t *obj, unsigned depth, struct gs_buf *out);

static struct gs_error *wrong_type(const char *field)
{
    return gs_error_new(GS_EINVAL, "field %s has a value of the wrong type", field);
}

static struct gs_slice text_of(const json_t *v)
{
    return gs_slice_make(json_string_value(v), json_string_length(v));
}

static struct gs_error *encode_bytes(uint64_t number, const json_t *v, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf plain = {0};
    struct gs_error *err = codec_base64_decode(text_of(v), &plain);
    if (!err)
        codec_proto_add_bytes(out, number, gs_buf_slice(&plain));
    return err;
}

static void encode_quantity(uint64_t number, const json_t *v, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf message = {0};
    GS_AUTO_FREE char *text = json_is_string(v) ? NULL : json_dumps(v, JSON_ENCODE_ANY);
    codec_proto_add_bytes(&message, 1, text ? gs_slice_of(text) : text_of(v));
    codec_proto_add_bytes(out, number, gs_buf_slice(&message));
}

static void encode_int_or_string(uint64_t number, const json_t *v, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf message = {0};
    codec_proto_add_varint(&message, 1, json_is_string(v));
    codec_proto_add_varint(&message, 2, (uint64_t)json_integer_value(v));
    codec_proto_add_bytes(&message, 3, text_of(v));
    codec_proto_add_bytes(out, number, gs_buf_slice(&message));
}

static struct gs_error *encode_time(uint64_t number, const json_t *v, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf message = {0};
    int64_t ms = 0;
    struct gs_error *err = gs_parse_rfc3339(text_of(v), &ms);
    if (err)
        return err;
    int64_t rest = ms % 1000 < 0 ? ms % 1000 + 1000 : ms % 1000;
    codec_proto_add_varint(&message, 1, (uint64_t)((ms - rest) / 1000));
    codec_proto_add_varint(&message, 2, (uint64_t)(rest * GS_NS_PER_MS));
    codec_proto_add_bytes(out, number, gs_buf_slice(&message));
    return NULL;
}

static struct gs_error *encode_object(const struct kube_type *type, uint64_t number,
                                      const json_t *v, unsigned depth, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf message = {0};
    struct gs_error *err = encode_message(type, gs_slice_of(type->name), v, depth + 1, &message);
    if (!err)
        codec_proto_add_bytes(out, number, gs_buf_slice(&message));
    return err;
}

static bool has_type(enum kube_field_kind kind, const json_t *v)
{
    switch (kind) {
    case KUBE_F_INT:
    case KUBE_F_INT64:
        return json_is_integer(v);
    case KUBE_F_NUMBER:
        return json_is_number(v);
    case KUBE_F_BOOL:
        return json_is_boolean(v);
    case KUBE_F_QUANTITY:
        return json_is_string(v) || json_is_number(v);
    case KUBE_F_INTORSTR:
        return json_is_string(v) || json_is_integer(v);
    case KUBE_F_OBJECT:
        return json_is_object(v);
    default:
        return json_is_string(v);
    }
}

static struct gs_error *encode_value(enum kube_field_kind kind, const struct kube_type *type,
                                     const char *field, uint64_t number, const json_t *v,
                                     unsigned depth, struct gs_buf *out)
{
    if (kind == KUBE_F_ANY)
        return NULL;
    if (!has_type(kind, v))
        return wrong_type(field);
    switch (kind) {
    case KUBE_F_INT:
    case KUBE_F_INT64:
        codec_proto_add_varint(out, number, (uint64_t)json_integer_value(v));
        return NULL;
    case KUBE_F_NUMBER:
        codec_proto_add_double(out, number, json_number_value(v));
        return NULL;
    case KUBE_F_BOOL:
        codec_proto_add_varint(out, number, json_is_true(v));
        return NULL;
    case KUBE_F_BYTES:
        return encode_bytes(number, v, out);
    case KUBE_F_QUANTITY:
        encode_quantity(number, v, out);
        return NULL;
    case KUBE_F_INTORSTR:
        encode_int_or_string(number, v, out);
        return NULL;
    case KUBE_F_TIME:
        return encode_time(number, v, out);
    case KUBE_F_OBJECT:
        return encode_object(type, number, v, depth, out);
    default:
        codec_proto_add_bytes(out, number, text_of(v));
        return NULL;
    }
}

// --- lists, maps, messages ---

static enum kube_field_kind item_kind(const struct kube_field *f)
{
    return f->type ? KUBE_F_OBJECT : f->item;
}

static struct gs_error *encode_list(const struct kube_field *f, uint64_t number, const json_t *list,
                                    unsigned depth, struct gs_buf *out)
{
    struct gs_error *err = json_is_array(list) ? NULL : wrong_type(f->name);
    for (size_t i = 0; !err && i < json_array_size(list); i++)
        err = encode_value(item_kind(f), f->type, f->name, number, json_array_get(list, i), depth,
                           out);
    return err;
}

static struct gs_error *encode_map(const struct kube_field *f, uint64_t number, const json_t *map,
                                   unsigned depth, struct gs_buf *out)
{
    const char *key;
    json_t *value;
    if (!json_is_object(map))
        return wrong_type(f->name);
    json_object_foreach ((json_t *)(uintptr_t)map, key, value) {
        GS_AUTO_BUF struct gs_buf entry = {0};
        codec_proto_add_bytes(&entry, 1, gs_slice_of(key));
        struct gs_error *err =
            encode_value(item_kind(f), f->type, f->name, 2, value, depth, &entry);
        if (err)
            return err;
        codec_proto_add_bytes(out, number, gs_buf_slice(&entry));
    }
    return NULL;
}

// A message whose fields JSON shows one level up. Left out if it has none of them.
static struct gs_error *encode_embedded(const struct kube_type *type,
                                        const struct kube_proto_field *n, const json_t *obj,
                                        unsigned depth, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf message = {0};
    struct gs_error *err = encode_message(type, n->name, obj, depth + 1, &message);
    if (!err && message.len)
        codec_proto_add_bytes(out, n->number, gs_buf_slice(&message));
    return err;
}

static struct gs_error *encode_field(const struct kube_type *type, const struct kube_proto_field *n,
                                     const json_t *obj, unsigned depth, struct gs_buf *out)
{
    if (n->embedded)
        return encode_embedded(type, n, obj, depth, out);
    GS_AUTO_FREE char *name = gs_slice_dup(n->name);
    const struct kube_field *f = kube_schema_field(type, name);
    const json_t *v = json_object_get(obj, name);
    if (!f || !v || json_is_null(v))
        return NULL;
    if (f->kind == KUBE_F_LIST)
        return encode_list(f, n->number, v, depth, out);
    if (f->kind == KUBE_F_MAP)
        return encode_map(f, n->number, v, depth, out);
    return encode_value(f->kind, f->type, f->name, n->number, v, depth, out);
}

static struct gs_error *encode_message(const struct kube_type *type, struct gs_slice numbers_type,
                                       const json_t *obj, unsigned depth, struct gs_buf *out)
{
    const char *numbers = kube_proto_numbers(numbers_type);
    struct gs_slice rest = gs_slice_of(numbers);
    struct kube_proto_field n;
    struct gs_error *err = NULL;
    if (!numbers)
        return gs_error_new(GS_ENOTSUP, "%.*s is not known in protobuf form here",
                            GS_SLICE_ARG(numbers_type));
    if (depth > KUBE_PROTO_MAX_DEPTH)
        return gs_error_new(GS_ELIMIT, "the object is nested too deeply");
    while (!err && kube_proto_next_field(&rest, &n))
        err = encode_field(type, &n, obj, depth, out);
    return err;
}

struct gs_error *kube_proto_encode(const struct kube_type *type, const json_t *obj,
                                   struct gs_buf *out)
{
    return encode_message(type, gs_slice_of(type->name), obj, 0, out);
}
