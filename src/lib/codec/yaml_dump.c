// SPDX-License-Identifier: Apache-2.0
// libfyaml is not used: its emitter quotes either all strings or none ("12" becomes the number 12).
#include "codec/yaml.h"

#include <ctype.h>
#include <string.h>

// True only if it is a string in every version of YAML and every context.
static bool is_plain_text(const char *text, size_t len)
{
    if (!len || !(isalpha((unsigned char)text[0]) || text[0] == '/') || text[len - 1] == ' ')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("-_./ ", text[i]))
            return false;
    json_t *value = codec_yaml_plain_scalar(gs_slice_make(text, len));
    bool is_text = json_is_string(value);
    json_decref(value);
    return is_text && !(len == 1 && strchr("yYnN", *text)); // booleans to YAML 1.1
}

static void dump_text(const char *text, size_t len, struct gs_buf *out)
{
    if (is_plain_text(text, len)) {
        gs_buf_add(out, text, len);
        return;
    }
    json_t *quoted = json_stringn_nocheck(text, len);
    codec_json_dump(quoted, out); // a JSON string is a YAML string
    json_decref(quoted);
}

static void dump_value(const json_t *j, int indent, bool in_list, struct gs_buf *out);

static void add_indent(int indent, struct gs_buf *out)
{
    for (int i = 0; i < indent; i++)
        gs_buf_add_char(out, ' ');
}

static bool is_block(const json_t *j)
{
    return json_object_size(j) || json_array_size(j);
}

// first_inline: the first key continues the line of a "- ".
static void yaml_add_object(const json_t *j, int indent, bool first_inline, struct gs_buf *out)
{
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)j, key, v) {
        if (!first_inline)
            add_indent(indent, out);
        first_inline = false;
        dump_text(key, strlen(key), out);
        gs_buf_add_str(out, is_block(v) ? ":\n" : ": ");
        // Lists are not indented below their key.
        dump_value(v, json_is_array(v) ? indent : indent + 2, false, out);
    }
}

static void add_list(const json_t *j, int indent, bool first_inline, struct gs_buf *out)
{
    size_t i;
    json_t *v;
    json_array_foreach (j, i, v) {
        if (!first_inline)
            add_indent(indent, out);
        first_inline = false;
        gs_buf_add_str(out, "- ");
        dump_value(v, indent + 2, true, out);
    }
}

static void dump_value(const json_t *j, int indent, bool in_list, struct gs_buf *out)
{
    if (is_block(j) && json_is_object(j)) {
        yaml_add_object(j, indent, in_list, out);
    } else if (is_block(j)) {
        add_list(j, indent, in_list, out);
    } else {
        if (json_is_string(j))
            dump_text(json_string_value(j), json_string_length(j), out);
        else
            codec_json_dump(j, out);
        gs_buf_add_char(out, '\n');
    }
}

void codec_yaml_dump(const json_t *j, struct gs_buf *out)
{
    dump_value(j, 0, false, out);
}
