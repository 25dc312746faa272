// SPDX-License-Identifier: Apache-2.0
// The template functions of Go and of Prometheus
// (https://prometheus.io/docs/prometheus/latest/configuration/template_reference/).
#include "template/template_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/encoding.h"
#include "codec/yaml_reader.h"

#include <math.h>

#define MAX_RESULT ((size_t)256 * 1024)

struct call {
    struct template_expansion *e;
    const struct template_value *args;
    size_t n;
    struct template_value *ret;
    const char *name;
    struct template_failure why;
};

static bool fail_function(struct call *c, const char *fmt, ...) GS_PRINTF(2, 3);
static bool fail_function(struct call *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    c->why.text = gs_arena_strdup(&c->e->arena, text);
    return false;
}

static bool fail_call(struct call *c, const char *what)
{
    return fail_function(c, "error calling %s: %s", c->name, what);
}

static bool return_text(struct call *c, const struct gs_buf *text)
{
    const char *copy = gs_arena_strndup(&c->e->arena, text->data ? text->data : "", text->len);
    if (!copy || text->overflow)
        return fail_call(c, "the text is too long");
    *c->ret = template_string(gs_slice_make(copy, text->len));
    return true;
}

static bool check_argument(struct call *c, size_t i, enum template_type type)
{
    static const struct template_value kinds[] = {[VALUE_STRING] = {.type = VALUE_STRING},
                                                  [VALUE_SAMPLE] = {.type = VALUE_SAMPLE},
                                                  [VALUE_VECTOR] = {.type = VALUE_VECTOR},
                                                  [VALUE_INT] = {.type = VALUE_INT}};
    if (c->args[i].type == type)
        return true;
    c->why.wanted = template_type_name(&kinds[type]);
    c->why.arg = i;
    return fail_function(c, "wrong type for value; expected %s; got %s", c->why.wanted,
                         template_type_name(&c->args[i]));
}

static bool to_float(struct call *c, double *ret)
{
    const struct template_value *v = &c->args[0];
    if (v->type == VALUE_FLOAT || v->type == VALUE_INT) {
        *ret = v->type == VALUE_FLOAT ? v->u.f : (double)v->u.i;
        return true;
    }
    if (v->type != VALUE_STRING)
        return fail_function(c, "error calling %s: can't convert %s to float", c->name,
                             template_type_name(v));
    GS_AUTO_ERROR struct gs_error *err = gs_parse_double(v->u.s, ret);
    if (!err)
        return true;
    GS_AUTO_BUF struct gs_buf quoted = {.limit = 200};
    template_quote(v->u.s, &quoted);
    return fail_function(c, "error calling %s: strconv.ParseFloat: parsing %s: invalid syntax",
                         c->name, quoted.data ? quoted.data : "\"\"");
}

// --- Go's ---

static bool compare_arguments(struct call *c, size_t other, bool ordered, int *ret)
{
    const struct template_value *a = &c->args[0], *b = &c->args[other];
    switch (template_compare(a, b, ordered, ret)) {
    case COMPARE_OK:
        return true;
    case COMPARE_INCOMPATIBLE:
        return fail_function(c, "error calling %s: incompatible types for comparison: %s and %s",
                             c->name, template_type_name(a), template_type_name(b));
    case COMPARE_UNSUPPORTED: {
        GS_AUTO_BUF struct gs_buf shown = {.limit = 1000};
        const struct template_value *bad = a->type > VALUE_STRING ? a : b;
        template_print(bad, &shown);
        return fail_function(c, "error calling %s: non-comparable type %s: %s", c->name,
                             shown.data ? shown.data : "", template_type_name(bad));
    }
    default:
        return fail_call(c, "invalid type for comparison");
    }
}

static bool fn_eq(struct call *c)
{
    if (c->n < 2)
        return fail_call(c, "missing argument for comparison");
    for (size_t i = 1; i < c->n; i++) {
        int order = 0;
        if (!compare_arguments(c, i, false, &order))
            return false;
        if (order == 0) {
            *c->ret = template_bool(true);
            return true;
        }
    }
    *c->ret = template_bool(false);
    return true;
}

static bool fn_ne(struct call *c)
{
    int order = 0;
    if (!compare_arguments(c, 1, false, &order))
        return false;
    *c->ret = template_bool(order != 0);
    return true;
}

static bool fn_order(struct call *c)
{
    int order = 0;
    if (!compare_arguments(c, 1, true, &order))
        return false;
    bool less = c->name[0] == 'l', equal = c->name[1] == 'e';
    *c->ret = template_bool(order == (less ? -1 : 1) || (equal && order == 0));
    return true;
}

static bool fn_not(struct call *c)
{
    *c->ret = template_bool(!template_truth(&c->args[0]));
    return true;
}

static bool fn_len(struct call *c)
{
    const struct template_value *v = &c->args[0];
    switch (v->type) {
    case VALUE_STRING:
        *c->ret = template_int((int64_t)v->u.s.len);
        return true;
    case VALUE_LABELS:
        *c->ret = template_int((int64_t)v->u.labels.n);
        return true;
    case VALUE_VECTOR:
        *c->ret = template_int((int64_t)v->u.vector.n);
        return true;
    case VALUE_ARGS:
        *c->ret = template_int((int64_t)v->u.args.n);
        return true;
    case VALUE_LIST:
        *c->ret = template_int((int64_t)v->u.list.n);
        return true;
    default:
        return fail_function(c, "error calling len: len of type %s", template_type_name(v));
    }
}

static bool index_one(struct call *c, struct template_value *v, const struct template_value *key)
{
    if (v->type == VALUE_LABELS && key->type == VALUE_STRING) {
        *v = template_string(template_label(v, key->u.s));
        return true;
    }
    if (v->type == VALUE_ARGS && key->type == VALUE_STRING) {
        for (size_t i = 0; i < v->u.args.n; i++) {
            GS_AUTO_FREE char *name = gs_format("arg%zu", i);
            if (gs_slice_eq_str(key->u.s, name)) {
                *v = v->u.args.items[i];
                return true;
            }
        }
        *v = (struct template_value){0};
        return true;
    }
    if (v->type == VALUE_LABELS || v->type == VALUE_ARGS)
        return fail_function(c, "error calling index: value has type %s; should be string",
                             template_type_name(key));
    if (v->type != VALUE_VECTOR && v->type != VALUE_STRING && v->type != VALUE_LIST)
        return fail_function(c, "error calling index: can't index item of type %s",
                             template_type_name(v));
    if (key->type != VALUE_INT)
        return fail_function(c, "error calling index: cannot index slice/array with type %s",
                             template_type_name(key));
    size_t len = v->type == VALUE_VECTOR ? v->u.vector.n
                 : v->type == VALUE_LIST ? v->u.list.n
                                         : v->u.s.len;
    if (key->u.i < 0 || (uint64_t)key->u.i >= len)
        return fail_function(c, "error calling index: index out of range: %lld",
                             (long long)key->u.i);
    if (v->type == VALUE_LIST)
        *v = template_string(v->u.list.items[key->u.i]);
    else if (v->type == VALUE_VECTOR)
        *v = (struct template_value){.type = VALUE_SAMPLE, .u.sample = v->u.vector.items[key->u.i]};
    else
        *v = template_int((unsigned char)v->u.s.data[key->u.i]);
    return true;
}

static bool fn_index(struct call *c)
{
    struct template_value v = c->args[0];
    if (v.type == VALUE_NIL)
        return fail_call(c, "index of untyped nil");
    for (size_t i = 1; i < c->n; i++)
        if (!index_one(c, &v, &c->args[i]))
            return false;
    *c->ret = v;
    return true;
}

static bool fn_slice(struct call *c)
{
    struct template_value v = c->args[0];
    if (v.type != VALUE_STRING && v.type != VALUE_VECTOR)
        return fail_function(c, "error calling slice: can't slice item of type %s",
                             template_type_name(&v));
    int64_t len = (int64_t)(v.type == VALUE_STRING ? v.u.s.len : v.u.vector.n), from = 0, to = len;
    for (size_t i = 1; i < c->n; i++) {
        if (!check_argument(c, i, VALUE_INT))
            return false;
        if (c->args[i].u.i < 0 || c->args[i].u.i > len)
            return fail_function(c, "error calling slice: index out of range: %lld",
                                 (long long)c->args[i].u.i);
        *(i == 1 ? &from : &to) = c->args[i].u.i;
    }
    if (from > to)
        return fail_function(c, "error calling slice: invalid slice index: %lld > %lld",
                             (long long)from, (long long)to);
    if (v.type == VALUE_STRING) {
        v.u.s = gs_slice_make(v.u.s.data + from, (size_t)(to - from));
    } else {
        v.u.vector.items += from;
        v.u.vector.n = (size_t)(to - from);
    }
    *c->ret = v;
    return true;
}

static bool fn_print(struct call *c)
{
    GS_AUTO_BUF struct gs_buf text = {.limit = MAX_RESULT};
    bool line = gs_streq(c->name, "println");
    for (size_t i = 0; i < c->n; i++) {
        bool texts = i && (c->args[i].type == VALUE_STRING || c->args[i - 1].type == VALUE_STRING);
        if (i && (line || !texts))
            gs_buf_add_char(&text, ' ');
        if (c->args[i].type == VALUE_SAMPLE)
            gs_buf_add_char(&text, '&'); // a pointer in Go
        template_print(&c->args[i], &text);
    }
    if (line)
        gs_buf_add_char(&text, '\n');
    return return_text(c, &text);
}

static bool fn_printf(struct call *c)
{
    GS_AUTO_BUF struct gs_buf text = {.limit = MAX_RESULT};
    if (!check_argument(c, 0, VALUE_STRING))
        return false;
    template_printf(c->args[0].u.s, c->args + 1, c->n - 1, &text);
    return return_text(c, &text);
}

static bool fn_escape(struct call *c)
{
    GS_AUTO_BUF struct gs_buf plain = {.limit = MAX_RESULT}, text = {.limit = MAX_RESULT};
    for (size_t i = 0; i < c->n; i++)
        template_print(&c->args[i], &plain);
    (c->name[0] == 'h'   ? codec_html_escape
     : c->name[0] == 'j' ? template_escape_js
                         : template_escape_query)(gs_buf_slice(&plain), &text);
    return return_text(c, &text);
}

static bool fn_call(struct call *c)
{
    return fail_function(c, "error calling call: non-function of type %s",
                         template_type_name(&c->args[0]));
}

// --- Prometheus' ---

static bool fn_query(struct call *c)
{
    const struct template_data *d = c->e->data;
    struct template_sample *items = NULL;
    size_t n = 0;
    if (!check_argument(c, 0, VALUE_STRING))
        return false;
    if (!d->query)
        return fail_call(c, "queries are not possible here");
    GS_AUTO_ERROR struct gs_error *err =
        d->query(d->query_arg, c->args[0].u.s, &c->e->arena, &items, &n);
    if (err)
        return fail_call(c, gs_error_message(err));
    const struct template_sample **list =
        gs_arena_alloc(&c->e->arena, (n + 1) * sizeof(struct template_sample *));
    if (!list)
        return fail_call(c, "too much memory");
    for (size_t i = 0; i < n; i++)
        list[i] = &items[i];
    *c->ret = (struct template_value){.type = VALUE_VECTOR, .u.vector = {list, n}};
    return true;
}

static bool fn_first(struct call *c)
{
    if (!check_argument(c, 0, VALUE_VECTOR))
        return false;
    if (!c->args[0].u.vector.n)
        return fail_call(c, "first() called on vector with no elements");
    *c->ret =
        (struct template_value){.type = VALUE_SAMPLE, .u.sample = c->args[0].u.vector.items[0]};
    return true;
}

static struct gs_slice sample_label(const struct template_sample *s, struct gs_slice name)
{
    struct template_value labels = {.type = VALUE_LABELS, .u.labels = {s->labels, s->n_labels}};
    return template_label(&labels, name);
}

static bool fn_label(struct call *c)
{
    if (!check_argument(c, 0, VALUE_STRING) || !check_argument(c, 1, VALUE_SAMPLE))
        return false;
    *c->ret = template_string(sample_label(c->args[1].u.sample, c->args[0].u.s));
    return true;
}

static bool fn_value(struct call *c)
{
    if (!check_argument(c, 0, VALUE_SAMPLE))
        return false;
    *c->ret = template_float(c->args[0].u.sample->value);
    return true;
}

static bool fn_strvalue(struct call *c)
{
    if (!check_argument(c, 0, VALUE_SAMPLE))
        return false;
    *c->ret = template_string(sample_label(c->args[0].u.sample, GS_SLICE("__value__")));
    return true;
}

static bool sorts_behind(const struct template_sample *a, const struct template_sample *b,
                         struct gs_slice by)
{
    struct template_value x = template_string(sample_label(a, by)),
                          y = template_string(sample_label(b, by));
    int order = 0;
    (void)template_compare(&x, &y, true, &order);
    return order > 0;
}

static void merge_maps(const struct template_sample **items, const struct template_sample **tmp,
                       size_t n, struct gs_slice by)
{
    if (n < 2)
        return;
    size_t half = n / 2, i = 0, j = half;
    merge_maps(items, tmp, half, by);
    merge_maps(items + half, tmp, n - half, by);
    for (size_t k = 0; k < n; k++)
        tmp[k] =
            j == n || (i < half && !sorts_behind(items[i], items[j], by)) ? items[i++] : items[j++];
    memcpy(items, tmp, n * sizeof(*items));
}

static bool fn_sort_by_label(struct call *c)
{
    if (!check_argument(c, 0, VALUE_STRING) || !check_argument(c, 1, VALUE_VECTOR))
        return false;
    size_t n = c->args[1].u.vector.n;
    const struct template_sample **items =
        gs_arena_alloc(&c->e->arena, (2 * n + 1) * sizeof(struct template_sample *));
    if (!items)
        return fail_call(c, "too much memory");
    if (n)
        memcpy(items, c->args[1].u.vector.items, n * sizeof(*items));
    merge_maps(items, items + n, n, c->args[0].u.s);
    *c->ret = (struct template_value){.type = VALUE_VECTOR, .u.vector = {items, n}};
    return true;
}

static bool fn_args(struct call *c)
{
    *c->ret = (struct template_value){.type = VALUE_ARGS, .u.args = {c->args, c->n}};
    return true;
}

static bool fn_humanize(struct call *c)
{
    double v = 0;
    GS_AUTO_BUF struct gs_buf text = {0};
    if (!to_float(c, &v))
        return false;
    if (gs_streq(c->name, "humanize"))
        template_humanize(v, &text);
    else if (gs_streq(c->name, "humanize1024"))
        template_humanize_1024(v, &text);
    else if (gs_streq(c->name, "humanizeDuration"))
        template_humanize_duration(v, &text);
    else {
        template_add_general(v * 100, 4, &text);
        gs_buf_add_char(&text, '%');
    }
    return return_text(c, &text);
}

static bool to_time(struct call *c, double v, int64_t *ret_ms)
{
    if (v * 1e9 > 9223372036854775807.0 || v * 1e9 < -9223372036854775808.0) {
        GS_AUTO_BUF struct gs_buf number = {0};
        struct template_value shown = template_float(v);
        template_print(&shown, &number);
        return fail_function(
            c,
            "error calling %s: %s cannot be represented as a nanoseconds timestamp since "
            "it overflows int64",
            c->name, number.data);
    }
    *ret_ms = (int64_t)floor(v * 1e3 + 1e-6);
    return true;
}

static bool fn_humanize_timestamp(struct call *c)
{
    double v = 0;
    int64_t ms = 0;
    GS_AUTO_BUF struct gs_buf text = {0};
    if (!to_float(c, &v))
        return false;
    if (!isfinite(v))
        template_add_general(v, 4, &text);
    else if (!to_time(c, v, &ms))
        return false;
    else
        template_print_time(ms, &text);
    return return_text(c, &text);
}

static bool fn_url_query_escape(struct call *c)
{
    GS_AUTO_BUF struct gs_buf text = {.limit = MAX_RESULT};
    if (!check_argument(c, 0, VALUE_STRING))
        return false;
    template_escape_query(c->args[0].u.s, &text);
    return return_text(c, &text);
}

static bool fn_to_time(struct call *c)
{
    double v = 0;
    int64_t ms = 0;
    if (!to_float(c, &v))
        return false;
    if (!isfinite(v))
        return fail_call(c, "value is NaN or Inf");
    if (!to_time(c, v, &ms))
        return false;
    *c->ret = (struct template_value){.type = VALUE_TIME, .u.i = ms};
    return true;
}

static bool fn_to_duration(struct call *c)
{
    double v = 0;
    if (!to_float(c, &v))
        return false;
    double ns = v * 1e9;
    bool fits = ns >= -9223372036854775808.0 && ns < 9223372036854775808.0;
    *c->ret = (struct template_value){.type = VALUE_DURATION,
                                      .u.i = fits ? (int64_t)ns : INT64_MIN}; // as on amd64
    return true;
}

static bool fn_now(struct call *c)
{
    int64_t ms = c->e->data->now_ms;
    *c->ret = template_float((double)(ms ? ms : gs_unix_ms()) / 1000);
    return true;
}

static bool fn_parse_duration(struct call *c)
{
    int64_t ms;
    if (!check_argument(c, 0, VALUE_STRING))
        return false;
    GS_AUTO_FREE char *text = gs_slice_dup(c->args[0].u.s);
    bool negative = *text == '-';
    const char *amount = text + negative;
    if (!*amount)
        return fail_function(c, "error calling parseDuration: empty duration string");
    if (!codec_parse_duration(amount, &ms))
        return fail_function(c, "error calling parseDuration: not a valid duration string: \"%s\"",
                             amount);
    *c->ret = template_float((double)(negative ? -ms : ms) / 1000);
    return true;
}

// Functions with one text argument and a text result.
static bool fn_text(struct call *c)
{
    static const struct {
        const char *name;
        void (*fn)(struct gs_slice s, struct gs_buf *out);
    } table[] = {{"title", template_title},
                 {"toUpper", template_upper},
                 {"toLower", template_lower},
                 {"stripPort", template_strip_port},
                 {"graphLink", template_graph_link},
                 {"tableLink", template_table_link},
                 {"stripDomain", template_strip_domain}};
    GS_AUTO_BUF struct gs_buf text = {.limit = MAX_RESULT};
    if (!check_argument(c, 0, VALUE_STRING))
        return false;
    for (size_t i = 0; i < GS_ARRAY_LEN(table); i++)
        if (gs_streq(table[i].name, c->name))
            table[i].fn(c->args[0].u.s, &text);
    return return_text(c, &text);
}

static bool fn_safe_html(struct call *c)
{
    if (!check_argument(c, 0, VALUE_STRING))
        return false;
    *c->ret = c->args[0];
    return true;
}

// Regular expressions on long texts are slow, and a template can have many.
#define MAX_REGEX_TEXT ((size_t)4 * 1024)
#define MAX_REGEX_NS   (200 * GS_NS_PER_MS)

static bool begin_regex(struct call *c, struct gs_slice text)
{
    if (c->e->regex_ns > MAX_REGEX_NS)
        return fail_call(c, "the regular expressions of the template take too much time");
    return text.len <= MAX_REGEX_TEXT ||
           fail_call(c, "a regular expression reads at most 4096 bytes");
}

static bool fn_match(struct call *c)
{
    bool hit = false;
    if (!check_argument(c, 0, VALUE_STRING) || !check_argument(c, 1, VALUE_STRING))
        return false;
    if (!begin_regex(c, c->args[1].u.s))
        return false;
    int64_t started = gs_thread_cpu_ns();
    GS_AUTO_ERROR struct gs_error *err = template_regex_match(c->args[0].u.s, c->args[1].u.s, &hit);
    c->e->regex_ns += gs_thread_cpu_ns() - started;
    *c->ret = template_bool(hit);
    return !err || fail_call(c, gs_error_message(err));
}

static bool fn_replace(struct call *c)
{
    GS_AUTO_BUF struct gs_buf text = {.limit = MAX_RESULT};
    if (!check_argument(c, 0, VALUE_STRING) || !check_argument(c, 1, VALUE_STRING) ||
        !check_argument(c, 2, VALUE_STRING) || !begin_regex(c, c->args[2].u.s))
        return false;
    int64_t started = gs_thread_cpu_ns();
    GS_AUTO_ERROR struct gs_error *err =
        template_regex_replace(c->args[0].u.s, c->args[1].u.s, c->args[2].u.s, &text);
    c->e->regex_ns += gs_thread_cpu_ns() - started;
    return err ? fail_call(c, gs_error_message(err)) : return_text(c, &text);
}

static bool fn_external_url(struct call *c)
{
    const char *url = c->e->data->external_url ? c->e->data->external_url : "";
    if (gs_streq(c->name, "pathPrefix")) {
        const char *host = strstr(url, "://");
        const char *path = strchr(host ? host + 3 : url, '/');
        url = path ? path : "";
    }
    *c->ret = template_string(gs_slice_of(url));
    return true;
}

static const struct function {
    const char *name;
    int min, max; // number of arguments; max -1: unlimited
    bool (*fn)(struct call *c);
} functions[] = {
    {"and", 1, -1, NULL}, // the calls are evaluated in exec.c
    {"or", 1, -1, NULL},
    {"not", 1, 1, fn_not},
    {"eq", 1, -1, fn_eq},
    {"ne", 2, 2, fn_ne},
    {"lt", 2, 2, fn_order},
    {"le", 2, 2, fn_order},
    {"gt", 2, 2, fn_order},
    {"ge", 2, 2, fn_order},
    {"len", 1, 1, fn_len},
    {"index", 1, -1, fn_index},
    {"slice", 1, 3, fn_slice},
    {"print", 0, -1, fn_print},
    {"println", 0, -1, fn_print},
    {"printf", 1, -1, fn_printf},
    {"html", 0, -1, fn_escape},
    {"js", 0, -1, fn_escape},
    {"urlquery", 0, -1, fn_escape},
    {"urlQueryEscape", 1, 1, fn_url_query_escape},
    {"call", 1, -1, fn_call},
    {"query", 1, 1, fn_query},
    {"first", 1, 1, fn_first},
    {"label", 2, 2, fn_label},
    {"value", 1, 1, fn_value},
    {"strvalue", 1, 1, fn_strvalue},
    {"sortByLabel", 2, 2, fn_sort_by_label},
    {"args", 0, -1, fn_args},
    {"humanize", 1, 1, fn_humanize},
    {"humanize1024", 1, 1, fn_humanize},
    {"humanizeDuration", 1, 1, fn_humanize},
    {"humanizePercentage", 1, 1, fn_humanize},
    {"humanizeTimestamp", 1, 1, fn_humanize_timestamp},
    {"toTime", 1, 1, fn_to_time},
    {"toDuration", 1, 1, fn_to_duration},
    {"now", 0, 0, fn_now},
    {"parseDuration", 1, 1, fn_parse_duration},
    {"title", 1, 1, fn_text},
    {"toUpper", 1, 1, fn_text},
    {"toLower", 1, 1, fn_text},
    {"stripPort", 1, 1, fn_text},
    {"stripDomain", 1, 1, fn_text},
    {"graphLink", 1, 1, fn_text},
    {"tableLink", 1, 1, fn_text},
    {"safeHtml", 1, 1, fn_safe_html},
    {"match", 2, 2, fn_match},
    {"reReplaceAll", 3, 3, fn_replace},
    {"pathPrefix", 0, 0, fn_external_url},
    {"externalURL", 0, 0, fn_external_url},
};

static const struct function *find_function(struct gs_slice name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(functions); i++)
        if (gs_slice_eq_str(name, functions[i].name))
            return &functions[i];
    return NULL;
}

bool template_is_function(struct gs_slice name)
{
    return find_function(name) != NULL;
}

void template_arity(struct gs_slice name, int *ret_min, int *ret_max)
{
    const struct function *f = find_function(name);
    *ret_min = f->min;
    *ret_max = f->max;
}

bool template_call(struct template_expansion *e, struct gs_slice name,
                   const struct template_value *args, size_t n, struct template_value *ret,
                   struct template_failure *ret_failure)
{
    const struct function *f = find_function(name);
    struct call c = {.e = e, .args = args, .n = n, .ret = ret, .name = f->name};
    if (f->fn(&c))
        return true;
    *ret_failure = c.why;
    return false;
}
