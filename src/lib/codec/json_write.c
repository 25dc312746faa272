// SPDX-License-Identifier: Apache-2.0
// Prints jansson's values as JSON. jansson itself prints numbers with 17 digits: 0.7 becomes
// 0.69999999999999996. This printer uses the shortest form that parses to the same number.
#include "base/num.h"
#include "codec/json.h"

#include <string.h>

#define INDENT "  "

struct writer {
    struct gs_buf *out;
    bool pretty;
    bool (*go_on)(void *arg); // NULL: always
    void *arg;
};

static void add_string(struct gs_buf *out, const char *s, size_t len)
{
    size_t done = 0;
    gs_buf_add_char(out, '"');
    for (size_t i = 0; i < len; i++) {
        char escape = codec_json_escape((unsigned char)s[i]);
        if (!escape)
            continue;
        gs_buf_add(out, s + done, i - done);
        done = i + 1;
        if (escape == 'u')
            gs_buf_addf(out, "\\u%04x", (unsigned)(unsigned char)s[i]);
        else
            gs_buf_addf(out, "\\%c", escape);
    }
    gs_buf_add(out, s + done, len - done);
    gs_buf_add_char(out, '"');
}

static void add_integer(struct gs_buf *out, json_int_t v)
{
    if (v < 0)
        gs_buf_add_char(out, '-');
    gs_buf_add_u64(out, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

// Whole numbers keep a ".0", so that they are parsed as reals again.
static void add_real(struct gs_buf *out, double v)
{
    char text[GS_DOUBLE_SIZE];
    *gs_put_double(text, v, -6) = '\0';
    gs_buf_add_str(out, text);
    if (!strpbrk(text, ".e"))
        gs_buf_add_str(out, ".0");
}

static void begin_item(const struct writer *w, bool first, unsigned depth)
{
    if (!first)
        gs_buf_add_char(w->out, ',');
    if (!w->pretty)
        return;
    gs_buf_add_char(w->out, '\n');
    for (unsigned i = 0; i < depth; i++)
        gs_buf_add_str(w->out, INDENT);
}

static void write_value(const struct writer *w, const json_t *j, unsigned depth);

static void add_array(const struct writer *w, const json_t *j, unsigned depth)
{
    size_t n = json_array_size(j);
    gs_buf_add_char(w->out, '[');
    for (size_t i = 0; i < n && !(w->go_on && !w->go_on(w->arg)); i++) {
        begin_item(w, i == 0, depth + 1);
        write_value(w, json_array_get(j, i), depth + 1);
    }
    if (n && w->pretty)
        begin_item(w, true, depth);
    gs_buf_add_char(w->out, ']');
}

static void json_add_object(const struct writer *w, const json_t *j, unsigned depth)
{
    bool first = true;
    gs_buf_add_char(w->out, '{');
    for (void *at = json_object_iter((json_t *)j); at;
         at = json_object_iter_next((json_t *)j, at)) {
        const char *key = json_object_iter_key(at);
        begin_item(w, first, depth + 1);
        first = false;
        add_string(w->out, key, strlen(key));
        gs_buf_add_str(w->out, w->pretty ? ": " : ":");
        write_value(w, json_object_iter_value(at), depth + 1);
    }
    if (!first && w->pretty)
        begin_item(w, true, depth);
    gs_buf_add_char(w->out, '}');
}

static void write_value(const struct writer *w, const json_t *j, unsigned depth)
{
    if (json_is_object(j))
        json_add_object(w, j, depth);
    else if (json_is_array(j))
        add_array(w, j, depth);
    else if (json_is_string(j))
        add_string(w->out, json_string_value(j), json_string_length(j));
    else if (json_is_integer(j))
        add_integer(w->out, json_integer_value(j));
    else if (json_is_real(j))
        add_real(w->out, json_real_value(j));
    else
        gs_buf_add_str(w->out, json_is_true(j) ? "true" : json_is_false(j) ? "false" : "null");
}

void codec_json_dump(const json_t *j, struct gs_buf *out)
{
    const struct writer w = {.out = out};
    if (j)
        write_value(&w, j, 0);
}

void codec_json_dump_slowly(const json_t *j, struct gs_buf *out, bool (*go_on)(void *arg),
                            void *arg)
{
    const struct writer w = {.out = out, .go_on = go_on, .arg = arg};
    if (j)
        write_value(&w, j, 0);
}

void codec_json_dump_pretty(const json_t *j, struct gs_buf *out)
{
    const struct writer w = {.out = out, .pretty = true};
    if (j)
        write_value(&w, j, 0);
}

char *codec_json_text(const json_t *j)
{
    struct gs_buf out = {0};
    codec_json_dump(j, &out);
    return gs_buf_take(&out);
}
