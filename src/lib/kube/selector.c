// SPDX-License-Identifier: Apache-2.0
// Label and field selectors: the grammar, the errors and the canonical text of apimachinery's
// labels package. Requirements are sorted by key, as there; the text of a Scale's selector depends
// on it.
#include "kube/selector.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/slice.h"
#include "kube/names.h"

enum token {
    TOK_ERROR,
    TOK_END,
    TOK_CLOSE,
    TOK_COMMA,
    TOK_NOT,
    TOK_EQ2,
    TOK_EQ,
    TOK_GT,
    TOK_LT,
    TOK_NEQ,
    TOK_OPEN,
    TOK_IN,
    TOK_NOTIN,
    TOK_WORD,
};

struct lexer {
    struct gs_slice rest;
    enum token tok; // the next one to be read
    struct gs_slice lit;
};

static bool is_special(char c)
{
    return c && strchr("=!(),><", c);
}

static enum token special_token(struct gs_slice s, size_t *ret_len)
{
    *ret_len = 2;
    if (gs_slice_starts(s, "!="))
        return TOK_NEQ;
    if (gs_slice_starts(s, "=="))
        return TOK_EQ2;
    *ret_len = 1;
    switch (s.data[0]) {
    case '=':
        return TOK_EQ;
    case '!':
        return TOK_NOT;
    case '(':
        return TOK_OPEN;
    case ')':
        return TOK_CLOSE;
    case ',':
        return TOK_COMMA;
    case '>':
        return TOK_GT;
    case '<':
        return TOK_LT;
    default:
        return TOK_ERROR;
    }
}

static void advance_lexer(struct lexer *l)
{
    while (l->rest.len && gs_is_blank(l->rest.data[0])) {
        l->rest.data++;
        l->rest.len--;
    }
    size_t n = 0;
    if (l->rest.len == 0) {
        l->tok = TOK_END;
    } else if (is_special(l->rest.data[0])) {
        l->tok = special_token(l->rest, &n);
    } else {
        while (n < l->rest.len && !is_special(l->rest.data[n]) && !gs_is_blank(l->rest.data[n]))
            n++;
        struct gs_slice word = gs_slice_make(l->rest.data, n);
        l->tok = gs_slice_eq_str(word, "in")      ? TOK_IN
                 : gs_slice_eq_str(word, "notin") ? TOK_NOTIN
                                                  : TOK_WORD;
    }
    l->lit = gs_slice_make(l->rest.data, n);
    l->rest.data += n;
    l->rest.len -= n;
}

// Reads the next token where a key or value is expected. "in" and "notin" are plain words here.
static enum token peek_value(const struct lexer *l)
{
    return l->tok == TOK_IN || l->tok == TOK_NOTIN ? TOK_WORD : l->tok;
}

static struct gs_error *unexpected_token(const struct lexer *l, const char *expected)
{
    return gs_error_new(GS_EINVAL, "found '" GS_SLICE_FMT "'%s", GS_SLICE_ARG(l->lit), expected);
}

static void requirement_finish(struct kube_requirement *r)
{
    for (size_t i = 0; i < r->n_values; i++)
        free(r->values[i]);
    free(r->values);
    free(r->key);
    *r = (struct kube_requirement){0};
}

struct gs_error *kube_selector_of(const json_t *owner, struct kube_selector *ret)
{
    const json_t *selector = codec_json_get(owner, "spec", "selector", NULL);
    const char *kind = codec_json_str(owner, "kind", NULL);

    if (!gs_streq(kind, "ReplicationController") && !gs_streq(kind, "Service"))
        return kube_selector_from_json(selector, ret);
    kube_selector_from_map(selector, ret);
    return NULL;
}

void kube_selector_finish(struct kube_selector *s)
{
    for (size_t i = 0; i < s->len; i++)
        requirement_finish(&s->items[i]);
    free(s->items);
    *s = (struct kube_selector){0};
}

// Inserts a value; values are sorted and unique.
static void add_selector_value(struct kube_requirement *r, struct gs_slice value)
{
    GS_AUTO_FREE char *text = gs_slice_dup(value);
    size_t at = 0;
    for (; at < r->n_values; at++) {
        int order = strcmp(r->values[at], text);
        if (order == 0)
            return;
        if (order > 0)
            break;
    }
    r->values = gs_realloc_array(r->values, r->n_values + 1, sizeof(*r->values));
    memmove(r->values + at + 1, r->values + at, (r->n_values - at) * sizeof(*r->values));
    r->values[at] = GS_TAKE(text);
    r->n_values++;
}

// Takes r. Requirements are sorted by key; those of one key keep their order.
static void add_selector_requirement(struct kube_selector *s, struct kube_requirement r)
{
    gs_grow(&s->items, &s->cap, s->len, sizeof(*s->items));
    size_t at = s->len;
    while (at > 0 && strcmp(s->items[at - 1].key, r.key) > 0)
        at--;
    memmove(s->items + at + 1, s->items + at, (s->len - at) * sizeof(*s->items));
    s->items[at] = r;
    s->len++;
}

static void add_selector_problem(struct gs_buf *all, size_t *n, const char *fmt, ...)
    GS_PRINTF(3, 4);
static void add_selector_problem(struct gs_buf *all, size_t *n, const char *fmt, ...)
{
    if ((*n)++)
        gs_buf_add_str(all, ", ");
    va_list ap;
    va_start(ap, fmt);
    gs_buf_vaddf(all, fmt, ap);
    va_end(ap);
}

static void add_invalid(struct gs_buf *all, size_t *n, const char *path, const char *value,
                        const char *why)
{
    GS_AUTO_BUF struct gs_buf quoted = {0};
    kube_quote(gs_slice_of(value), &quoted);
    add_selector_problem(all, n, "%s: Invalid value: %s: %s", path, quoted.data, why);
}

static void check_values(const struct kube_requirement *r, struct gs_buf *all, size_t *n)
{
    for (size_t i = 0; i < r->n_values; i++) {
        int64_t number;
        if (r->op == KUBE_SEL_GT || r->op == KUBE_SEL_LT) {
            struct gs_error *err =
                gs_parse_i64(gs_slice_of(r->values[i]), INT64_MIN, INT64_MAX, &number);
            GS_AUTO_FREE char *path = gs_format("values[%zu]", i);
            if (err)
                add_invalid(all, n, path, r->values[i],
                            "for 'Gt', 'Lt' operators, the value must be an integer");
            gs_error_free(err);
        }
        GS_AUTO_BUF struct gs_buf why = {0};
        if (!kube_check_label_value(gs_slice_of(r->values[i]), &why)) {
            GS_AUTO_FREE char *path = gs_format("values[%zu][%s]", i, r->key);
            add_invalid(all, n, path, r->values[i], why.data);
        }
    }
}

static struct gs_error *check_requirement(const struct kube_requirement *r)
{
    GS_AUTO_BUF struct gs_buf all = {0};
    GS_AUTO_BUF struct gs_buf why = {0};
    size_t n = 0;
    if (!kube_check_label_key(gs_slice_of(r->key), &why))
        add_invalid(&all, &n, "key", r->key, why.data);
    bool set = r->op == KUBE_SEL_IN || r->op == KUBE_SEL_NOTIN;
    bool presence = r->op == KUBE_SEL_EXISTS || r->op == KUBE_SEL_NOT_EXISTS;
    if (set && r->n_values == 0)
        add_selector_problem(
            &all, &n,
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be "
            "empty");
    if (presence && r->n_values) {
        CODEC_AUTO_JSON json_t *values = json_array();
        for (size_t i = 0; i < r->n_values; i++)
            json_array_append_new(values, json_string(r->values[i]));
        GS_AUTO_BUF struct gs_buf text = {0};
        codec_json_dump(values, &text);
        add_selector_problem(
            &all, &n,
            "values: Invalid value: %s: values set must be empty for exists and does not "
            "exist",
            text.data ? text.data : "[]");
    }
    check_values(r, &all, &n);
    if (n == 0)
        return NULL;
    return gs_error_new(GS_EINVAL, n > 1 ? "[%s]" : "%s", all.data);
}

static struct gs_error *parse_list(struct lexer *l, struct kube_requirement *r)
{
    for (;;) {
        enum token tok = peek_value(l);
        if (tok == TOK_WORD) {
            add_selector_value(r, l->lit);
            advance_lexer(l);
            if (l->tok == TOK_CLOSE)
                return NULL;
            if (l->tok != TOK_COMMA)
                return unexpected_token(l, ", expected: ',' or ')'");
        } else if (tok == TOK_COMMA) {
            if (r->n_values == 0)
                add_selector_value(r, GS_SLICE(""));
            advance_lexer(l);
            if (l->tok == TOK_COMMA || l->tok == TOK_CLOSE)
                add_selector_value(r, GS_SLICE(""));
            if (l->tok == TOK_CLOSE)
                return NULL;
        } else {
            return unexpected_token(l, ", expected: ',', or identifier");
        }
    }
}

static struct gs_error *parse_set(struct lexer *l, struct kube_requirement *r)
{
    if (l->tok != TOK_OPEN)
        return unexpected_token(l, " expected: '('");
    advance_lexer(l);
    enum token tok = peek_value(l);
    if (tok == TOK_CLOSE) {
        add_selector_value(r, GS_SLICE(""));
    } else if (tok == TOK_WORD || tok == TOK_COMMA) {
        struct gs_error *err = parse_list(l, r);
        if (err)
            return err;
    } else {
        return unexpected_token(l, ", expected: ',', ')' or identifier");
    }
    advance_lexer(l); // the ')'
    return NULL;
}

static struct gs_error *parse_exact(struct lexer *l, struct kube_requirement *r)
{
    enum token tok = peek_value(l);
    if (tok == TOK_END || tok == TOK_COMMA) {
        add_selector_value(r, GS_SLICE(""));
        return NULL;
    }
    if (tok != TOK_WORD)
        return unexpected_token(l, ", expected: identifier");
    add_selector_value(r, l->lit);
    advance_lexer(l);
    return NULL;
}

static struct gs_error *parse_operation(struct lexer *l, struct kube_requirement *r)
{
    switch (l->tok) {
    case TOK_IN:
        r->op = KUBE_SEL_IN;
        break;
    case TOK_NOTIN:
        r->op = KUBE_SEL_NOTIN;
        break;
    case TOK_EQ:
    case TOK_EQ2:
        r->op = KUBE_SEL_EQ;
        break;
    case TOK_NEQ:
        r->op = KUBE_SEL_NEQ;
        break;
    case TOK_GT:
        r->op = KUBE_SEL_GT;
        break;
    case TOK_LT:
        r->op = KUBE_SEL_LT;
        break;
    default:
        return unexpected_token(l, ", expected: in, notin, =, ==, !=, gt, lt");
    }
    advance_lexer(l);
    return r->op == KUBE_SEL_IN || r->op == KUBE_SEL_NOTIN ? parse_set(l, r) : parse_exact(l, r);
}

static struct gs_error *parse_requirement(struct lexer *l, struct kube_requirement *r)
{
    bool negated = l->tok == TOK_NOT;
    if (negated)
        advance_lexer(l);
    if (peek_value(l) != TOK_WORD)
        return unexpected_token(l, ", expected: identifier");
    r->key = gs_slice_dup(l->lit);
    GS_AUTO_BUF struct gs_buf why = {0};
    if (!kube_check_label_key(l->lit, &why)) {
        GS_AUTO_BUF struct gs_buf text = {0};
        size_t n = 0;
        add_invalid(&text, &n, "<nil>", r->key, why.data);
        return gs_error_new(GS_EINVAL, "%s", text.data);
    }
    advance_lexer(l);
    struct gs_error *err = NULL;
    if (negated)
        r->op = KUBE_SEL_NOT_EXISTS; // the end or a comma must follow
    else if (l->tok == TOK_END || l->tok == TOK_COMMA)
        r->op = KUBE_SEL_EXISTS;
    else
        err = parse_operation(l, r);
    return err ? err : check_requirement(r);
}

static struct gs_error *parse_requirements(struct lexer *l, struct kube_selector *s)
{
    advance_lexer(l);
    if (l->tok == TOK_END)
        return NULL;
    for (;;) {
        enum token tok = peek_value(l);
        if (tok != TOK_WORD && tok != TOK_NOT)
            return unexpected_token(l, s->len ? ", expected: identifier after ','"
                                              : ", expected: !, identifier, or 'end of string'");
        struct kube_requirement r = {0};
        struct gs_error *err = parse_requirement(l, &r);
        if (err) {
            requirement_finish(&r);
            return gs_error_wrap(err, "unable to parse requirement");
        }
        add_selector_requirement(s, r);
        if (l->tok == TOK_END)
            return NULL;
        if (l->tok != TOK_COMMA)
            return unexpected_token(l, ", expected: ',' or 'end of string'");
        advance_lexer(l);
    }
}

struct gs_error *kube_selector_parse(const char *text, struct kube_selector *ret)
{
    struct lexer l = {.rest = gs_slice_of(text ? text : "")};
    struct kube_selector s = {0};
    struct gs_error *err = parse_requirements(&l, &s);
    if (err) {
        kube_selector_finish(&s);
        return err;
    }
    *ret = s;
    return NULL;
}

static bool operator_of(const char *name, enum kube_selector_op *ret)
{
    static const struct {
        const char *name;
        enum kube_selector_op op;
    } operators[] = {
        {"In", KUBE_SEL_IN},
        {"NotIn", KUBE_SEL_NOTIN},
        {"Exists", KUBE_SEL_EXISTS},
        {"DoesNotExist", KUBE_SEL_NOT_EXISTS},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(operators); i++) {
        if (gs_streq(name, operators[i].name)) {
            *ret = operators[i].op;
            return true;
        }
    }
    return false;
}

static struct gs_error *add_checked(struct kube_selector *s, struct kube_requirement r)
{
    struct gs_error *err = check_requirement(&r);
    if (err)
        requirement_finish(&r);
    else
        add_selector_requirement(s, r);
    return err;
}

static struct kube_requirement requirement_equals(const char *key, const char *value)
{
    struct kube_requirement r = {.key = gs_strdup(key), .op = KUBE_SEL_EQ};
    add_selector_value(&r, gs_slice_of(value));
    return r;
}

static struct gs_error *add_expression(struct kube_selector *s, const json_t *expression)
{
    const char *name = json_string_value(json_object_get(expression, "operator"));
    const char *key = json_string_value(json_object_get(expression, "key"));
    struct kube_requirement r = {0};
    if (!operator_of(name, &r.op))
        return gs_error_new(GS_EINVAL, "\"%s\" is not a valid label selector operator",
                            name ? name : "");
    r.key = gs_strdup(key ? key : "");
    size_t i;
    json_t *value;
    json_array_foreach (json_object_get(expression, "values"), i, value)
        if (json_is_string(value))
            add_selector_value(&r,
                               gs_slice_make(json_string_value(value), json_string_length(value)));
    return add_checked(s, r);
}

struct gs_error *kube_selector_from_json(const json_t *label_selector, struct kube_selector *ret)
{
    struct kube_selector s = {.nothing = !label_selector || json_is_null(label_selector)};
    struct gs_error *err = NULL;
    const char *key;
    json_t *value;
    json_object_foreach (json_object_get(label_selector, "matchLabels"), key, value) {
        const char *text = json_string_value(value);
        err = add_checked(&s, requirement_equals(key, text ? text : ""));
        if (err)
            break;
    }
    size_t i;
    json_t *expression;
    json_array_foreach (json_object_get(label_selector, "matchExpressions"), i, expression) {
        if (err)
            break;
        err = add_expression(&s, expression);
    }
    if (err) {
        kube_selector_finish(&s);
        return err;
    }
    *ret = s;
    return NULL;
}

void kube_selector_from_map(const json_t *map, struct kube_selector *ret)
{
    struct kube_selector s = {0};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)map, key, value) {
        const char *text = json_string_value(value);
        add_selector_requirement(&s, requirement_equals(key, text ? text : ""));
    }
    *ret = s;
}

static bool has_value(const struct kube_requirement *r, const char *value)
{
    for (size_t i = 0; i < r->n_values; i++)
        if (strcmp(r->values[i], value) == 0)
            return true;
    return false;
}

static bool compare_numbers(const struct kube_requirement *r, const char *value)
{
    int64_t have, want;
    GS_AUTO_ERROR struct gs_error *bad_have =
        gs_parse_i64(gs_slice_of(value), INT64_MIN, INT64_MAX, &have);
    if (bad_have || r->n_values != 1)
        return false;
    GS_AUTO_ERROR struct gs_error *bad_want =
        gs_parse_i64(gs_slice_of(r->values[0]), INT64_MIN, INT64_MAX, &want);
    if (bad_want)
        return false;
    return r->op == KUBE_SEL_GT ? have > want : have < want;
}

// value NULL: the label is absent.
static bool requirement_matches(const struct kube_requirement *r, const char *value)
{
    switch (r->op) {
    case KUBE_SEL_EQ:
    case KUBE_SEL_IN:
        return value && has_value(r, value);
    case KUBE_SEL_NEQ:
    case KUBE_SEL_NOTIN:
        return !value || !has_value(r, value);
    case KUBE_SEL_EXISTS:
        return value != NULL;
    case KUBE_SEL_NOT_EXISTS:
        return value == NULL;
    case KUBE_SEL_GT:
    case KUBE_SEL_LT:
        return value && compare_numbers(r, value);
    }
    return false;
}

bool kube_selector_matches(const struct kube_selector *s, const json_t *labels)
{
    if (s->nothing)
        return false;
    for (size_t i = 0; i < s->len; i++) {
        const json_t *label = json_object_get(labels, s->items[i].key);
        if (!requirement_matches(&s->items[i], json_string_value(label)))
            return false;
    }
    return true;
}

static void format_values(const struct kube_requirement *r, struct gs_buf *out)
{
    for (size_t i = 0; i < r->n_values; i++) {
        if (i)
            gs_buf_add_char(out, ',');
        gs_buf_add_str(out, r->values[i]);
    }
}

void kube_selector_format(const struct kube_selector *s, struct gs_buf *out)
{
    static const char *const signs[] = {
        [KUBE_SEL_EQ] = "=",           [KUBE_SEL_NEQ] = "!=",  [KUBE_SEL_IN] = " in (",
        [KUBE_SEL_NOTIN] = " notin (", [KUBE_SEL_EXISTS] = "", [KUBE_SEL_NOT_EXISTS] = "",
        [KUBE_SEL_GT] = ">",           [KUBE_SEL_LT] = "<",
    };
    for (size_t i = 0; i < s->len; i++) {
        const struct kube_requirement *r = &s->items[i];
        gs_buf_add_str(out, i ? "," : "");
        gs_buf_add_str(out, r->op == KUBE_SEL_NOT_EXISTS ? "!" : "");
        gs_buf_add_str(out, r->key);
        gs_buf_add_str(out, signs[r->op]);
        format_values(r, out);
        gs_buf_add_str(out, r->op == KUBE_SEL_IN || r->op == KUBE_SEL_NOTIN ? ")" : "");
    }
}

// Reads a field value up to an unescaped comma, moving *s past it.
static struct gs_error *unescape_field_value(struct gs_slice *s, struct gs_buf *out)
{
    while (s->len) {
        char c = s->data[0];
        s->data++;
        s->len--;
        if (c == ',')
            return NULL;
        if (c == '=')
            return gs_error_new(GS_EINVAL,
                                "invalid field selector: unescaped character in value: %d", c);
        if (c == '\\') {
            if (s->len == 0)
                return gs_error_new(GS_EINVAL,
                                    "invalid field selector: invalid escape sequence: \\");
            c = s->data[0];
            s->data++;
            s->len--;
            if (c != '\\' && c != ',' && c != '=')
                return gs_error_new(GS_EINVAL,
                                    "invalid field selector: invalid escape sequence: \\%c", c);
        }
        gs_buf_add_char(out, c);
    }
    return NULL;
}

static struct gs_error *field_term(const char *text, struct gs_slice *rest,
                                   struct kube_requirement *r)
{
    size_t n = 0;
    while (n < rest->len && rest->data[n] != '=' && rest->data[n] != ',' &&
           !(rest->data[n] == '!' && n + 1 < rest->len && rest->data[n + 1] == '='))
        n++;
    if (n == rest->len || rest->data[n] == ',')
        return gs_error_new(GS_EINVAL,
                            "invalid selector: '%s'; can't understand '" GS_SLICE_FMT "'", text,
                            (int)n, rest->data);
    r->key = gs_strndup(rest->data, n);
    r->op = rest->data[n] == '!' ? KUBE_SEL_NEQ : KUBE_SEL_EQ;
    size_t width = 1 + (n + 1 < rest->len && rest->data[n + 1] == '=');
    rest->data += n + width;
    rest->len -= n + width;
    GS_AUTO_BUF struct gs_buf value = {0};
    struct gs_error *err = unescape_field_value(rest, &value);
    if (!err)
        add_selector_value(r, gs_buf_slice(&value));
    return err;
}

struct gs_error *kube_field_selector_parse(const char *text, struct kube_selector *ret)
{
    struct kube_selector s = {0};
    struct gs_slice rest = gs_slice_of(text);
    while (rest.len) {
        if (rest.data[0] == ',') { // empty terms are skipped
            rest.data++;
            rest.len--;
            continue;
        }
        struct kube_requirement r = {0};
        struct gs_error *err = field_term(text, &rest, &r);
        if (err) {
            requirement_finish(&r);
            kube_selector_finish(&s);
            return err;
        }
        add_selector_requirement(&s, r);
    }
    *ret = s;
    return NULL;
}

static void field_text(const json_t *obj, const char *path, struct gs_buf *out)
{
    struct gs_slice rest = gs_slice_of(path);
    while (rest.data && obj) {
        struct gs_slice step = gs_slice_cut(&rest, '.');
        obj = json_object_getn(obj, step.data, step.len);
    }
    if (json_is_string(obj))
        gs_buf_add(out, json_string_value(obj), json_string_length(obj));
    else if (json_is_integer(obj))
        gs_buf_addf(out, "%lld", (long long)json_integer_value(obj));
    else if (json_is_boolean(obj))
        gs_buf_add_str(out, json_is_true(obj) ? "true" : "false");
}

bool kube_field_selector_matches(const struct kube_selector *s, const json_t *obj)
{
    for (size_t i = 0; i < s->len; i++) {
        GS_AUTO_BUF struct gs_buf value = {0};
        field_text(obj, s->items[i].key, &value);
        // An absent field has the value "", as in Kubernetes.
        if (!requirement_matches(&s->items[i], value.data ? value.data : ""))
            return false;
    }
    return true;
}
