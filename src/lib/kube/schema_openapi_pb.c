// SPDX-License-Identifier: Apache-2.0
// openapi.v2.Document (gnostic) as protobuf, with the members that gpuscale's documents use. Field
// numbers are those of gnostic's OpenAPIv2.proto.
#include "kube/schema.h"

static void add_varint(struct gs_buf *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        gs_buf_add_char(out, (char)(v | 0x80));
    gs_buf_add_char(out, (char)v);
}

static void add_bytes(struct gs_buf *out, unsigned field, struct gs_slice bytes)
{
    add_varint(out, field << 3 | 2);
    add_varint(out, bytes.len);
    gs_buf_add_slice(out, bytes);
}

static void add_text_field(struct gs_buf *out, unsigned field, const json_t *text)
{
    if (json_is_string(text))
        add_bytes(out, field, gs_slice_make(json_string_value(text), json_string_length(text)));
}

static void add_texts(struct gs_buf *out, unsigned field, const json_t *list)
{
    size_t i;
    json_t *text;
    json_array_foreach (list, i, text)
        add_text_field(out, field, text);
}

typedef void (*encoder)(const json_t *j, struct gs_buf *out);

static void add_message(struct gs_buf *out, unsigned field, encoder encode, const json_t *j)
{
    GS_AUTO_BUF struct gs_buf message = {0};
    encode(j, &message);
    add_bytes(out, field, gs_buf_slice(&message));
}

// {name = 1, value = 2}, the form of all of gnostic's map entries.
static void add_named(struct gs_buf *out, unsigned field, const char *name, encoder encode,
                      const json_t *value)
{
    GS_AUTO_BUF struct gs_buf pair = {0};
    add_bytes(&pair, 1, gs_slice_of(name));
    add_message(&pair, 2, encode, value);
    add_bytes(out, field, gs_buf_slice(&pair));
}

static void encode_any(const json_t *j, struct gs_buf *out) // Any {yaml = 2}; JSON is YAML
{
    GS_AUTO_BUF struct gs_buf yaml = {0};
    codec_json_dump(j, &yaml);
    add_bytes(out, 2, gs_buf_slice(&yaml));
}

static void add_extensions(struct gs_buf *out, unsigned field, const json_t *j)
{
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)j, key, v)
        if (gs_starts(key, "x-"))
            add_named(out, field, key, encode_any, v);
}

static void encode_schema(const json_t *j, struct gs_buf *out);

static void encode_one_schema(const json_t *j, struct gs_buf *out) // {schema = 1}
{
    add_message(out, 1, encode_schema, j);
}

static void encode_type(const json_t *j, struct gs_buf *out) // TypeItem {value = 1}
{
    add_text_field(out, 1, j);
}

static void encode_schemas(const json_t *j, struct gs_buf *out) // {additional_properties = 1}
{
    const char *name;
    json_t *schema;
    json_object_foreach ((json_t *)j, name, schema)
        add_named(out, 1, name, encode_schema, schema);
}

static void encode_schema(const json_t *j, struct gs_buf *out)
{
    const json_t *map = json_object_get(j, "additionalProperties");
    const json_t *type = json_object_get(j, "type");
    const json_t *items = json_object_get(j, "items");
    const json_t *properties = json_object_get(j, "properties");
    add_text_field(out, 1, json_object_get(j, "$ref"));
    add_text_field(out, 2, json_object_get(j, "format"));
    add_text_field(out, 4, json_object_get(j, "description"));
    add_texts(out, 19, json_object_get(j, "required"));
    if (map)
        add_message(out, 21, encode_one_schema, map);
    if (type)
        add_message(out, 22, encode_type, type);
    if (items)
        add_message(out, 23, encode_one_schema, items);
    if (properties)
        add_message(out, 25, encode_schemas, properties);
    add_extensions(out, 31, j);
}

static void encode_query_parameter(const json_t *j, struct gs_buf *out)
{
    add_text_field(out, 2, json_object_get(j, "in"));
    add_text_field(out, 4, json_object_get(j, "name"));
    add_text_field(out, 6, json_object_get(j, "type"));
}

static void encode_path_parameter(const json_t *j, struct gs_buf *out)
{
    add_varint(out, 1 << 3);
    add_varint(out, 1); // required
    add_text_field(out, 2, json_object_get(j, "in"));
    add_text_field(out, 4, json_object_get(j, "name"));
    add_text_field(out, 5, json_object_get(j, "type"));
}

static void encode_non_body(const json_t *j, struct gs_buf *out)
{
    bool path = gs_streq(json_string_value(json_object_get(j, "in")), "path");
    add_message(out, path ? 4 : 3, path ? encode_path_parameter : encode_query_parameter, j);
}

static void encode_parameter(const json_t *j, struct gs_buf *out)
{
    add_message(out, 2, encode_non_body, j);
}

static void encode_parameter_item(const json_t *j, struct gs_buf *out)
{
    add_message(out, 1, encode_parameter, j);
}

static void add_parameters(struct gs_buf *out, unsigned field, const json_t *list)
{
    size_t i;
    json_t *p;
    json_array_foreach (list, i, p)
        add_message(out, field, encode_parameter_item, p);
}

static void encode_response(const json_t *j, struct gs_buf *out)
{
    add_text_field(out, 1, json_object_get(j, "description"));
}

static void encode_response_value(const json_t *j, struct gs_buf *out)
{
    add_message(out, 1, encode_response, j);
}

static void encode_responses(const json_t *j, struct gs_buf *out)
{
    const char *code;
    json_t *response;
    json_object_foreach ((json_t *)j, code, response)
        add_named(out, 1, code, encode_response_value, response);
}

static void encode_operation(const json_t *j, struct gs_buf *out)
{
    add_text_field(out, 5, json_object_get(j, "operationId"));
    add_texts(out, 7, json_object_get(j, "consumes"));
    add_parameters(out, 8, json_object_get(j, "parameters"));
    add_message(out, 9, encode_responses, json_object_get(j, "responses"));
    add_extensions(out, 13, j);
}

static void encode_path(const json_t *j, struct gs_buf *out)
{
    static const struct {
        const char *method;
        unsigned field;
    } methods[] = {{"get", 2}, {"put", 3}, {"post", 4}, {"delete", 5}, {"patch", 8}};
    for (size_t i = 0; i < GS_ARRAY_LEN(methods); i++) {
        const json_t *operation = json_object_get(j, methods[i].method);
        if (operation)
            add_message(out, methods[i].field, encode_operation, operation);
    }
    add_parameters(out, 9, json_object_get(j, "parameters"));
}

static void encode_paths(const json_t *j, struct gs_buf *out)
{
    const char *name;
    json_t *path;
    json_object_foreach ((json_t *)j, name, path)
        add_named(out, 2, name, encode_path, path);
}

static void encode_info(const json_t *j, struct gs_buf *out)
{
    add_text_field(out, 1, json_object_get(j, "title"));
    add_text_field(out, 2, json_object_get(j, "version"));
}

void kube_openapi_v2_encode(const json_t *document, struct gs_buf *out)
{
    add_text_field(out, 1, json_object_get(document, "swagger"));
    add_message(out, 2, encode_info, json_object_get(document, "info"));
    add_message(out, 8, encode_paths, json_object_get(document, "paths"));
    add_message(out, 9, encode_schemas, json_object_get(document, "definitions"));
}
