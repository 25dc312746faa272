// SPDX-License-Identifier: Apache-2.0
// The place of a text in a YAML or JSON file, and how another text is written there: plain, quoted,
// or as a block. https://yaml.org/spec/1.2.2/#chapter-7-flow-style-productions
#include "aliases/documents_private.h"

#include <string.h>

// The offset of a line and a column in characters; text.len if it is not in the text.
static size_t offset_of(struct gs_slice text, struct codec_yaml_mark m)
{
    size_t at = 0;
    for (int line = 1; line < m.line; line++) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        if (!end)
            return text.len;
        at = (size_t)(end - text.data) + 1;
    }
    for (int column = 1; column < m.column && at < text.len; column++)
        do
            at++;
        while (at < text.len && ((unsigned char)text.data[at] & 0xc0) == 0x80);
    return at;
}

static size_t end_of_quoted(struct gs_slice text, size_t start)
{
    char quote = text.data[start];
    for (size_t i = start + 1; i < text.len; i++) {
        bool twice =
            quote == '\'' && text.data[i] == quote && i + 1 < text.len && text.data[i + 1] == quote;
        if (twice || (quote == '"' && text.data[i] == '\\'))
            i++;
        else if (text.data[i] == quote)
            return i + 1;
    }
    return text.len;
}

// Blanks of the value are any blanks of the file.
static size_t end_of_plain(struct gs_slice text, size_t start, struct gs_slice value)
{
    size_t at = start, i = 0;
    while (i < value.len && at < text.len) {
        if (gs_is_blank(value.data[i]) && gs_is_blank(text.data[at])) {
            while (i < value.len && gs_is_blank(value.data[i]))
                i++;
            while (at < text.len && gs_is_blank(text.data[at]))
                at++;
        } else if (value.data[i++] != text.data[at++]) {
            return text.len;
        }
    }
    return at;
}

static size_t line_end(struct gs_slice text, size_t at)
{
    const char *end = memchr(text.data + at, '\n', text.len - at);
    return end ? (size_t)(end - text.data) : text.len;
}

static size_t indent_of(struct gs_slice text, size_t at)
{
    size_t n = 0;
    while (at + n < text.len && text.data[at + n] == ' ')
        n++;
    return n;
}

// The lines of a block: those that are indented as its first one, and blank ones between.
static size_t end_of_block(struct gs_slice text, size_t start, size_t indent)
{
    size_t end = start;
    for (size_t at = start; at < text.len; at = line_end(text, at) + 1) {
        size_t n = indent_of(text, at);
        bool blank = at + n >= text.len || text.data[at + n] == '\n' || text.data[at + n] == '\r';
        if (!blank && n < indent)
            break;
        if (!blank)
            end = line_end(text, at);
    }
    return end;
}

// The | or > of a block that begins at this line; text.len: none.
static size_t header_of_block(struct gs_slice text, size_t start)
{
    if (!start)
        return text.len;
    size_t at = start - 1; // the line break before
    while (at > 0 && (gs_is_blank(text.data[at - 1]) || strchr("+-0123456789", text.data[at - 1])))
        at--;
    return at > 0 && (text.data[at - 1] == '|' || text.data[at - 1] == '>') ? at - 1 : text.len;
}

static void add_block(struct gs_slice value, size_t indent, struct gs_buf *out)
{
    bool first = true;
    while (value.len) {
        struct gs_slice line = gs_slice_cut(&value, '\n');
        gs_buf_add_str(out, first ? "" : "\n");
        for (size_t i = 0; i < indent && line.len; i++)
            gs_buf_add_char(out, ' ');
        gs_buf_add_slice(out, line);
        first = false;
    }
}

static void add_single_quoted(struct gs_slice value, struct gs_buf *out)
{
    gs_buf_add_char(out, '\'');
    for (size_t i = 0; i < value.len; i++)
        gs_buf_addf(out, value.data[i] == '\'' ? "''" : "%c", value.data[i]);
    gs_buf_add_char(out, '\'');
}

// Characters that the old value has without quotes do not end a plain text here.
static bool stays_plain(struct gs_slice value, struct gs_slice old)
{
    bool ok = value.len && !strchr("-?:,[]{}#&*!|>'\"%@` ", value.data[0]);
    for (size_t i = 0; ok && i < value.len; i++) {
        char c = value.data[i];
        bool special = strchr("{}[],'\"", c) && !memchr(old.data, c, old.len);
        bool blank_next = i + 1 == value.len || value.data[i + 1] == ' ';
        ok = !special && c != '\n' && c != '\r' && c != '\t' && c != '#' &&
             !(c == ':' && blank_next);
    }
    return ok;
}

static bool place_block(struct gs_slice text, size_t start, struct gs_slice new_value,
                        struct aliases_place *ret)
{
    size_t header = header_of_block(text, start), first = start;
    if (header == text.len)
        return false;
    while (first < text.len && text.data[first + indent_of(text, first)] == '\n')
        first = line_end(text, first) + 1;
    size_t indent = indent_of(text, first);
    ret->start = header;
    ret->end = end_of_block(text, start, indent);
    gs_buf_add_char(&ret->text, '|');
    gs_buf_add(&ret->text, text.data + header + 1, start - header - 1);
    add_block(new_value, indent, &ret->text);
    return ret->end > start;
}

bool aliases_place_scalar(struct gs_slice text, struct codec_yaml_mark mark, struct gs_slice value,
                          struct gs_slice new_value, struct aliases_place *ret)
{
    size_t start = mark.line ? offset_of(text, mark) : text.len;
    *ret = (struct aliases_place){.start = start};
    if (start >= text.len)
        return false;
    if (mark.column == 1 && place_block(text, start, new_value, ret))
        return true;
    gs_buf_clear(&ret->text);
    ret->start = start;
    if (text.data[start] == '"' || text.data[start] == '\'') {
        ret->end = end_of_quoted(text, start);
        if (text.data[start] == '\'' && !memchr(new_value.data, '\n', new_value.len))
            add_single_quoted(new_value, &ret->text);
        else
            codec_json_add_string(&ret->text, new_value, CODEC_JSON_PLAIN);
        return ret->end > start + 1;
    }
    ret->end = end_of_plain(text, start, value);
    if (stays_plain(new_value, value))
        gs_buf_add_slice(&ret->text, new_value);
    else if (!memchr(new_value.data, '\n', new_value.len))
        add_single_quoted(new_value, &ret->text);
    else
        codec_json_add_string(&ret->text, new_value, CODEC_JSON_PLAIN);
    return ret->end < text.len || ret->end == start + value.len;
}
