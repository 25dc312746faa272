// SPDX-License-Identifier: Apache-2.0
// Precedence climbing over the token stream. The first error ends the parse; its texts are
// Prometheus', which users know and tools match.
#include "promql/parser_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/encoding.h"
#include "promql/functions.h"

#include <math.h>
#include <stdarg.h>

void promql_parser_fail(struct promql_parser *p, uint32_t pos, const char *fmt, ...)
{
    if (p->err)
        return;
    size_t line = 1, line_start = 0;
    for (size_t i = 0; i < pos && i < p->expr->text.len; i++) {
        if (p->expr->text.data[i] == '\n') {
            line++;
            line_start = i + 1;
        }
    }
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    p->err = gs_error_new(GS_EINVAL, "%zu:%zu: parse error: %s", line, pos - line_start + 1, text);
}

void promql_parser_advance(struct promql_parser *p)
{
    p->last_end = p->tok.end;
    p->tok = promql_lexer_next(&p->lexer);
    if (p->tok.type == PROMQL_T_ERROR)
        promql_parser_fail(p, p->tok.start, GS_SLICE_FMT, GS_SLICE_ARG(p->tok.text));
}

bool promql_parser_accept(struct promql_parser *p, enum promql_token_type type)
{
    if (p->tok.type != type)
        return false;
    promql_parser_advance(p);
    return true;
}

bool promql_parser_is_keyword(const struct promql_parser *p, enum promql_keyword k)
{
    return p->tok.type == PROMQL_T_KEYWORD && p->tok.code == (int)k;
}

static void describe_token(const struct promql_token *t, struct gs_buf *out)
{
    switch (t->type) {
    case PROMQL_T_EOF:
        gs_buf_add_str(out, "end of input");
        return;
    case PROMQL_T_KEYWORD:
    case PROMQL_T_PREPROCESSOR:
        gs_buf_addf(out, "<" GS_SLICE_FMT ">", GS_SLICE_ARG(t->text));
        return;
    case PROMQL_T_OPERATOR:
    case PROMQL_T_EQL_REGEX:
    case PROMQL_T_NEQ_REGEX:
        gs_buf_addf(out, "<op:" GS_SLICE_FMT ">", GS_SLICE_ARG(t->text));
        return;
    case PROMQL_T_AGGREGATE:
        gs_buf_addf(out, "<aggr:" GS_SLICE_FMT ">", GS_SLICE_ARG(t->text));
        return;
    case PROMQL_T_IDENTIFIER:
        gs_buf_add_str(out, "identifier ");
        break;
    case PROMQL_T_METRIC_IDENTIFIER:
        gs_buf_add_str(out, "metric identifier ");
        break;
    case PROMQL_T_STRING:
        gs_buf_add_str(out, "string ");
        break;
    case PROMQL_T_NUMBER:
        gs_buf_add_str(out, "number ");
        break;
    case PROMQL_T_DURATION:
        gs_buf_add_str(out, "duration ");
        break;
    default:
        break;
    }
    bool name = t->type == PROMQL_T_IDENTIFIER || t->type == PROMQL_T_METRIC_IDENTIFIER;
    bool cut = !name && t->text.len > 10;
    promql_quote(out, cut ? gs_slice_make(t->text.data, 10) : t->text);
    if (cut)
        gs_buf_add_str(out, "...");
}

void promql_parser_unexpected(struct promql_parser *p, const char *context, const char *expected)
{
    if (p->err)
        return;
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_add_str(&text, "unexpected ");
    describe_token(&p->tok, &text);
    if (!context && p->aggregations)
        context = "aggregation";
    if (context)
        gs_buf_addf(&text, " in %s", context);
    if (expected)
        gs_buf_addf(&text, ", expected %s", expected);
    promql_parser_fail(p, p->tok.start, "%s", text.data);
}

static void out_of_memory(struct promql_parser *p)
{
    if (!p->err)
        p->err = gs_error_new(GS_ELIMIT, "the expression needs too much memory");
}

struct promql_node *promql_parser_node(struct promql_parser *p, enum promql_kind kind,
                                       uint32_t start)
{
    struct promql_node *n = gs_arena_alloc(&p->expr->arena, sizeof(*n));
    if (!n) {
        out_of_memory(p);
        return NULL;
    }
    n->kind = kind;
    n->start = start;
    n->end = start;
    return n;
}

struct promql_node *promql_parser_check_height(struct promql_parser *p, struct promql_node *n,
                                               const struct promql_node *below)
{
    n->height = below->height + 1;
    if (n->height <= PROMQL_MAX_HEIGHT)
        return n;
    if (!p->err)
        p->err = gs_error_new(GS_ELIMIT, "the expression has more than %d operations in a row",
                              PROMQL_MAX_HEIGHT);
    return NULL;
}

const char *promql_parser_text(struct promql_parser *p, struct gs_slice s)
{
    const char *copy = gs_arena_strndup(&p->expr->arena, s.data ? s.data : "", s.len);
    if (!copy)
        out_of_memory(p);
    return copy ? copy : "";
}

// --- literals ---

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
    return n;
}

// Decodes the escape after a backslash, which the lexer has checked. Returns the bytes used.
static size_t unescape_literal(const char *in, char *out, size_t *len)
{
    static const char letters[] = "abfnrtv", values[] = "\a\b\f\n\r\t\v";
    const char *simple = strchr(letters, *in);
    if (simple) {
        out[(*len)++] = values[simple - letters];
        return 1;
    }
    bool octal = *in >= '0' && *in <= '7';
    if (!octal && *in != 'x' && *in != 'u' && *in != 'U') {
        out[(*len)++] = *in;
        return 1;
    }
    size_t n = octal ? 3 : *in == 'x' ? 2 : *in == 'u' ? 4 : 8, skip = !octal;
    uint32_t v = 0;
    for (size_t i = 0; i < n; i++) {
        char c = in[skip + i];
        v = v * (octal ? 8 : 16) + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    if (octal || *in == 'x')
        out[(*len)++] = (char)v;
    else
        *len += put_utf8(out + *len, v);
    return skip + n;
}

struct gs_slice promql_parser_unquote(struct promql_parser *p, const struct promql_token *t)
{
    struct gs_slice in = gs_slice_make(t->text.data + 1, t->text.len - 2);
    char *out = gs_arena_alloc(&p->expr->arena, in.len + 5);
    if (!out) {
        out_of_memory(p);
        return GS_SLICE("");
    }
    size_t len = 0;
    for (size_t i = 0; i < in.len;) {
        if (in.data[i] == '\\' && t->text.data[0] != '`')
            i += 1 + unescape_literal(in.data + i + 1, out, &len);
        else
            out[len++] = in.data[i++];
    }
    out[len] = '\0';
    return gs_slice_make(out, len);
}

static struct promql_node *parse_number_literal(struct promql_parser *p)
{
    struct promql_node *n = promql_parser_node(p, PROMQL_NUMBER, p->tok.start);
    double v = 0;
    if (!n || !promql_parse_seconds(p, p->tok, &v))
        return NULL;
    n->u.number = v;
    n->is_duration = p->tok.type == PROMQL_T_DURATION;
    n->end = p->tok.end;
    promql_parser_advance(p);
    return n;
}

static struct promql_node *string(struct promql_parser *p)
{
    struct promql_node *n = promql_parser_node(p, PROMQL_STRING_LITERAL, p->tok.start);
    if (!n)
        return NULL;
    n->u.string = promql_parser_unquote(p, &p->tok);
    n->end = p->tok.end;
    promql_parser_advance(p);
    return n;
}

// --- lists ---

static struct promql_node *expression(struct promql_parser *p, int min_level);

struct node_list {
    const struct promql_node **items;
    size_t n, cap;
};

static bool append_node(struct promql_parser *p, struct node_list *l, const struct promql_node *n)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 4;
        const struct promql_node **items = gs_arena_alloc(&p->expr->arena, cap * sizeof(*items));
        if (!items) {
            out_of_memory(p);
            return false;
        }
        if (l->n)
            memcpy(items, l->items, l->n * sizeof(*items));
        l->items = items;
        l->cap = cap;
    }
    l->items[l->n++] = n;
    return true;
}

// "(a, b)". ret_end: after the parenthesis.
static bool arguments(struct promql_parser *p, struct node_list *ret, uint32_t *ret_end)
{
    if (!promql_parser_accept(p, PROMQL_T_LEFT_PAREN)) {
        promql_parser_unexpected(p, NULL, NULL);
        return false;
    }
    while (p->tok.type != PROMQL_T_RIGHT_PAREN) {
        struct promql_node *n = expression(p, 0);
        if (!n || !append_node(p, ret, n))
            return false;
        uint32_t comma = p->tok.start;
        if (promql_parser_accept(p, PROMQL_T_COMMA)) {
            if (p->tok.type == PROMQL_T_RIGHT_PAREN)
                promql_parser_fail(p, comma, "trailing commas not allowed in function call args");
        } else if (p->tok.type != PROMQL_T_RIGHT_PAREN) {
            promql_parser_unexpected(p, NULL, NULL);
        }
        if (p->err)
            return false;
    }
    *ret_end = p->tok.end;
    promql_parser_advance(p);
    return !p->err;
}

static bool is_label_token(const struct promql_token *t)
{
    return t->type == PROMQL_T_IDENTIFIER || t->type == PROMQL_T_KEYWORD ||
           t->type == PROMQL_T_AGGREGATE || t->type == PROMQL_T_PREPROCESSOR ||
           t->type == PROMQL_T_METRIC_IDENTIFIER ||
           (t->type == PROMQL_T_OPERATOR && t->text.len &&
            ((t->text.data[0] | 32) >= 'a' && (t->text.data[0] | 32) <= 'z'));
}

static bool grouping_label(struct promql_parser *p, struct gs_slice *ret)
{
    if (p->tok.type == PROMQL_T_STRING) {
        *ret = promql_parser_unquote(p, &p->tok);
    } else if (is_label_token(&p->tok)) {
        *ret = gs_slice_make(promql_parser_text(p, p->tok.text), p->tok.text.len);
    } else {
        promql_parser_unexpected(p, "grouping opts", "label");
        return false;
    }
    if (!ret->len || p->tok.type == PROMQL_T_METRIC_IDENTIFIER ||
        codec_utf8_valid_prefix(*ret) != ret->len) {
        GS_AUTO_BUF struct gs_buf quoted = {0};
        promql_quote(&quoted, *ret);
        promql_parser_fail(p, p->tok.start, "invalid label name for grouping: %s", quoted.data);
        return false;
    }
    promql_parser_advance(p);
    return !p->err;
}

static bool grouping_labels(struct promql_parser *p, struct promql_names *ret)
{
    struct gs_slice *items = NULL;
    size_t n = 0, cap = 0;
    if (!promql_parser_accept(p, PROMQL_T_LEFT_PAREN)) {
        promql_parser_unexpected(p, "grouping opts", "\"(\"");
        return false;
    }
    while (p->tok.type != PROMQL_T_RIGHT_PAREN) {
        if (n == cap) {
            cap = cap ? cap * 2 : 8;
            struct gs_slice *grown = gs_arena_alloc(&p->expr->arena, cap * sizeof(*grown));
            if (!grown) {
                out_of_memory(p);
                return false;
            }
            if (n)
                memcpy(grown, items, n * sizeof(*items));
            items = grown;
        }
        if (!grouping_label(p, &items[n++]))
            return false;
        if (!promql_parser_accept(p, PROMQL_T_COMMA) && p->tok.type != PROMQL_T_RIGHT_PAREN) {
            promql_parser_unexpected(p, "grouping opts", "\",\" or \")\"");
            return false;
        }
    }
    promql_parser_advance(p);
    *ret = (struct promql_names){items, n};
    return !p->err;
}

// --- aggregations and calls ---

static bool is_grouping(const struct promql_parser *p)
{
    return promql_parser_is_keyword(p, PROMQL_K_BY) ||
           promql_parser_is_keyword(p, PROMQL_K_WITHOUT);
}

static bool aggregate_modifier(struct promql_parser *p, struct promql_node *n)
{
    n->u.aggregate.without = promql_parser_is_keyword(p, PROMQL_K_WITHOUT);
    promql_parser_advance(p);
    return grouping_labels(p, &n->u.aggregate.grouping);
}

static bool takes_param(enum promql_agg op)
{
    return op == PROMQL_TOPK || op == PROMQL_BOTTOMK || op == PROMQL_COUNT_VALUES ||
           op == PROMQL_QUANTILE || op == PROMQL_LIMITK || op == PROMQL_LIMIT_RATIO;
}

static struct promql_node *parse_aggregate(struct promql_parser *p, const struct promql_token *op)
{
    struct promql_node *n = promql_parser_node(p, PROMQL_AGGREGATE, op->start);
    struct node_list args = {0};
    if (!n)
        return NULL;
    n->u.aggregate.op = (enum promql_agg)op->code;
    p->aggregations++;
    bool before = is_grouping(p);
    if (before && !aggregate_modifier(p, n))
        return NULL;
    if (!arguments(p, &args, &n->end))
        return NULL;
    if (!before && is_grouping(p) && !aggregate_modifier(p, n))
        return NULL;
    p->aggregations--;
    if (!args.n) {
        promql_parser_fail(p, op->start, "no arguments for aggregate expression provided");
        return NULL;
    }
    bool experimental = op->code == PROMQL_LIMITK || op->code == PROMQL_LIMIT_RATIO;
    if (experimental && !(promql_features() & PROMQL_EXPERIMENTAL_FUNCTIONS)) {
        promql_parser_fail(p, op->start,
                           "%s() is experimental and must be enabled with "
                           "--enable-feature=promql-experimental-functions",
                           promql_agg_name(n->u.aggregate.op));
        return NULL;
    }
    size_t wanted = takes_param(n->u.aggregate.op) ? 2 : 1;
    if (args.n != wanted) {
        promql_parser_fail(
            p, op->start,
            "wrong number of arguments for aggregate expression provided, expected %zu, "
            "got %zu",
            wanted, args.n);
        return NULL;
    }
    n->u.aggregate.param = wanted == 2 ? args.items[0] : NULL;
    n->u.aggregate.expr = args.items[wanted - 1];
    return n;
}

static struct promql_node *parse_call(struct promql_parser *p, const struct promql_token *name)
{
    struct promql_node *n = promql_parser_node(p, PROMQL_CALL, name->start);
    struct node_list args = {0};
    if (!n || !arguments(p, &args, &n->end))
        return NULL;
    n->u.call.fn = promql_function_find(name->text);
    n->u.call.args = args.items;
    n->u.call.n_args = args.n;
    GS_AUTO_BUF struct gs_buf quoted = {0};
    promql_quote(&quoted, name->text);
    if (!n->u.call.fn)
        promql_parser_fail(p, name->start, "unknown function with name %s", quoted.data);
    else if (n->u.call.fn->experimental && !(promql_features() & PROMQL_EXPERIMENTAL_FUNCTIONS))
        promql_parser_fail(p, name->start, "function %s is not enabled", quoted.data);
    return p->err ? NULL : n;
}

// --- expressions ---

static struct promql_node *parenthesised(struct promql_parser *p)
{
    struct promql_node *n = promql_parser_node(p, PROMQL_PAREN, p->tok.start);
    promql_parser_advance(p);
    if (!n || p->err)
        return NULL;
    n->u.unary.expr = expression(p, 0);
    if (!n->u.unary.expr)
        return NULL;
    n->end = p->tok.end;
    if (!promql_parser_accept(p, PROMQL_T_RIGHT_PAREN))
        promql_parser_unexpected(p, NULL, NULL);
    return p->err ? NULL : n;
}

// A name that starts a call, an aggregation or a selector, depending on the next token.
static struct promql_node *named_function(struct promql_parser *p)
{
    struct promql_lexer saved = p->lexer;
    struct promql_token name = p->tok, next = promql_lexer_next(&saved);
    bool grouping = next.type == PROMQL_T_KEYWORD &&
                    (next.code == PROMQL_K_BY || next.code == PROMQL_K_WITHOUT);
    if (name.type == PROMQL_T_AGGREGATE && (next.type == PROMQL_T_LEFT_PAREN || grouping)) {
        promql_parser_advance(p);
        return p->err ? NULL : parse_aggregate(p, &name);
    }
    bool callable = name.type == PROMQL_T_IDENTIFIER || name.type == PROMQL_T_PREPROCESSOR;
    if (callable && next.type == PROMQL_T_LEFT_PAREN) {
        promql_parser_advance(p);
        return p->err ? NULL : parse_call(p, &name);
    }
    return promql_parser_selector(p);
}

static bool is_metric_word(const struct promql_token *t)
{
    switch (t->type) {
    case PROMQL_T_IDENTIFIER:
    case PROMQL_T_METRIC_IDENTIFIER:
    case PROMQL_T_AGGREGATE:
    case PROMQL_T_PREPROCESSOR:
        return true;
    case PROMQL_T_KEYWORD:
        return t->code == PROMQL_K_BY || t->code == PROMQL_K_OFFSET ||
               t->code == PROMQL_K_WITHOUT || t->code == PROMQL_K_ANCHORED ||
               t->code == PROMQL_K_SMOOTHED ||
               (t->code >= PROMQL_K_FILL && t->code <= PROMQL_K_FILL_RIGHT);
    case PROMQL_T_OPERATOR:
        return t->code == PROMQL_AND || t->code == PROMQL_OR || t->code == PROMQL_UNLESS;
    default:
        return false;
    }
}

static struct promql_node *primary(struct promql_parser *p)
{
    switch (p->tok.type) {
    case PROMQL_T_NUMBER:
    case PROMQL_T_DURATION:
        return parse_number_literal(p);
    case PROMQL_T_STRING:
        return string(p);
    case PROMQL_T_LEFT_PAREN:
        return parenthesised(p);
    case PROMQL_T_LEFT_BRACE:
        return promql_parser_selector(p);
    default:
        if (is_metric_word(&p->tok))
            return named_function(p);
        promql_parser_unexpected(p, NULL, NULL);
        return NULL;
    }
}

static int level_of(const struct promql_token *t)
{
    if (t->type != PROMQL_T_OPERATOR)
        return 0;
    switch ((enum promql_op)t->code) {
    case PROMQL_OR:
        return 1;
    case PROMQL_AND:
    case PROMQL_UNLESS:
        return 2;
    case PROMQL_TRIM_UPPER:
    case PROMQL_TRIM_LOWER:
    case PROMQL_EQL:
    case PROMQL_NEQ:
    case PROMQL_LSS:
    case PROMQL_GTR:
    case PROMQL_LTE:
    case PROMQL_GTE:
        return 3;
    case PROMQL_ADD:
    case PROMQL_SUB:
        return 4;
    case PROMQL_MUL:
    case PROMQL_DIV:
    case PROMQL_MOD:
    case PROMQL_ATAN2:
        return 5;
    case PROMQL_POW:
        return 6;
    }
    return 0;
}

static struct promql_node *unary(struct promql_parser *p)
{
    bool sign = p->tok.type == PROMQL_T_OPERATOR &&
                (p->tok.code == PROMQL_ADD || p->tok.code == PROMQL_SUB);
    if (!sign) {
        struct promql_node *n = primary(p);
        return n ? promql_parse_postfix(p, n) : NULL;
    }
    uint32_t start = p->tok.start;
    bool negative = p->tok.code == PROMQL_SUB;
    promql_parser_advance(p);
    // Binds as multiplication does: only powers belong to the operand.
    struct promql_node *operand = p->err ? NULL : expression(p, 6);
    if (!operand)
        return NULL;
    if (operand->kind == PROMQL_NUMBER) {
        operand->u.number = negative ? -operand->u.number : operand->u.number;
        operand->start = start;
        return operand;
    }
    struct promql_node *n = promql_parser_node(p, PROMQL_UNARY, start);
    if (!n)
        return NULL;
    n->u.unary.expr = operand;
    n->u.unary.negative = negative;
    n->end = operand->end;
    return n;
}

// (1), (-5m)
static bool fill_value(struct promql_parser *p, double *ret)
{
    promql_parser_advance(p);
    if (p->err || !promql_parser_accept(p, PROMQL_T_LEFT_PAREN)) {
        promql_parser_unexpected(p, NULL, NULL);
        return false;
    }
    bool sign = p->tok.type == PROMQL_T_OPERATOR &&
                (p->tok.code == PROMQL_ADD || p->tok.code == PROMQL_SUB);
    bool negative = sign && p->tok.code == PROMQL_SUB;
    if (sign)
        promql_parser_advance(p);
    if (p->tok.type != PROMQL_T_NUMBER && p->tok.type != PROMQL_T_DURATION) {
        promql_parser_unexpected(p, NULL, NULL);
        return false;
    }
    if (!promql_parse_seconds(p, p->tok, ret))
        return false;
    *ret = negative ? -*ret : *ret;
    promql_parser_advance(p);
    if (!promql_parser_accept(p, PROMQL_T_RIGHT_PAREN))
        promql_parser_unexpected(p, NULL, NULL);
    return !p->err;
}

static bool is_fill(struct promql_parser *p, enum promql_keyword k)
{
    // Otherwise it is the name of a metric.
    struct promql_lexer ahead = p->lexer;
    return promql_parser_is_keyword(p, k) && promql_lexer_next(&ahead).type == PROMQL_T_LEFT_PAREN;
}

static bool fill_modifiers(struct promql_parser *p, struct promql_node *n)
{
    if (is_fill(p, PROMQL_K_FILL)) {
        n->u.binary.has_fill_left = n->u.binary.has_fill_right = true;
        if (!fill_value(p, &n->u.binary.fill_left))
            return false;
        n->u.binary.fill_right = n->u.binary.fill_left;
    }
    for (int i = 0; i < 2 && !(n->u.binary.has_fill_left && n->u.binary.has_fill_right); i++) {
        bool left = !n->u.binary.has_fill_left && is_fill(p, PROMQL_K_FILL_LEFT);
        if (!left && (n->u.binary.has_fill_right || !is_fill(p, PROMQL_K_FILL_RIGHT)))
            break;
        if (!fill_value(p, left ? &n->u.binary.fill_left : &n->u.binary.fill_right))
            return false;
        n->u.binary.has_fill_left |= left;
        n->u.binary.has_fill_right |= !left;
    }
    return !p->err;
}

static bool matching_modifiers(struct promql_parser *p, struct promql_node *n)
{
    n->u.binary.card = PROMQL_ONE_TO_ONE;
    if (promql_parser_is_keyword(p, PROMQL_K_BOOL)) {
        n->u.binary.return_bool = true;
        promql_parser_advance(p);
    }
    if (!promql_parser_is_keyword(p, PROMQL_K_ON) &&
        !promql_parser_is_keyword(p, PROMQL_K_IGNORING))
        return !p->err;
    n->u.binary.on = promql_parser_is_keyword(p, PROMQL_K_ON);
    promql_parser_advance(p);
    if (!grouping_labels(p, &n->u.binary.labels))
        return false;
    bool left = promql_parser_is_keyword(p, PROMQL_K_GROUP_LEFT);
    if (!left && !promql_parser_is_keyword(p, PROMQL_K_GROUP_RIGHT))
        return true;
    n->u.binary.card = left ? PROMQL_MANY_TO_ONE : PROMQL_ONE_TO_MANY;
    promql_parser_advance(p);
    return p->tok.type != PROMQL_T_LEFT_PAREN || grouping_labels(p, &n->u.binary.include);
}

static struct promql_node *parse_binary(struct promql_parser *p, struct promql_node *lhs, int level)
{
    struct promql_node *n = promql_parser_node(p, PROMQL_BINARY, lhs->start);
    if (!n)
        return NULL;
    n->u.binary.op = (enum promql_op)p->tok.code;
    n->u.binary.lhs = lhs;
    promql_parser_advance(p);
    if (p->err || !matching_modifiers(p, n) || !fill_modifiers(p, n))
        return NULL;
    // Equal levels group to the left, powers to the right.
    struct promql_node *rhs = expression(p, level == 6 ? 6 : level + 1);
    if (!rhs)
        return NULL;
    n->u.binary.rhs = rhs;
    n->end = rhs->end;
    bool fills = n->u.binary.has_fill_left || n->u.binary.has_fill_right;
    if (fills && !(promql_features() & PROMQL_FILL))
        promql_parser_fail(p, n->start, "binop fill modifiers are experimental and not enabled");
    return promql_parser_check_height(p, n, lhs);
}

static struct promql_node *expression(struct promql_parser *p, int min_level)
{
    if (++p->depth > PROMQL_MAX_DEPTH) {
        if (!p->err)
            p->err = gs_error_new(GS_ELIMIT, "the expression is nested deeper than %d levels",
                                  PROMQL_MAX_DEPTH);
        return NULL;
    }
    struct promql_node *n = unary(p);
    int level;
    while (n && !p->err && (level = level_of(&p->tok)) && level >= min_level)
        n = parse_binary(p, n, level);
    p->depth--;
    return p->err ? NULL : n;
}

// --- the whole ---

typedef struct promql_node *(*start_rule)(struct promql_parser *p);

static struct promql_node *whole_expression(struct promql_parser *p)
{
    if (p->tok.type == PROMQL_T_EOF) {
        if (!p->err) // an empty text has no position
            p->err = gs_error_new(GS_EINVAL, "%s: parse error: no expression found in input",
                                  p->lexer.input.len ? "1:1" : "unknown position");
        return NULL;
    }
    return expression(p, 0);
}

static struct promql_node *whole_selector(struct promql_parser *p)
{
    if (is_metric_word(&p->tok) || p->tok.type == PROMQL_T_LEFT_BRACE)
        return promql_parser_selector(p);
    if (!p->err && !p->lexer.input.len) // as above
        p->err = gs_error_new(GS_EINVAL, "unknown position: parse error: unexpected end of input");
    promql_parser_unexpected(p, NULL, NULL);
    return NULL;
}

static struct gs_error *parse_text(struct gs_slice text, start_rule rule, bool check,
                                   struct promql_expr **ret)
{
    if (text.len > PROMQL_MAX_TEXT)
        return gs_error_new(GS_ELIMIT, "the expression is longer than %zu bytes", PROMQL_MAX_TEXT);
    if (codec_utf8_valid_prefix(text) != text.len)
        return gs_error_new(GS_EINVAL, "1:1: parse error: the expression is not valid UTF-8");
    struct promql_expr *e = gs_alloc(sizeof(*e));
    e->text =
        gs_slice_make(gs_arena_strndup(&e->arena, text.data ? text.data : "", text.len), text.len);
    struct promql_parser p = {.expr = e, .lexer = {.input = e->text, .arena = &e->arena}};
    promql_parser_advance(&p);
    e->root = p.err ? NULL : rule(&p);
    if (!p.err && p.tok.type != PROMQL_T_EOF)
        promql_parser_unexpected(&p, NULL, NULL);
    if (!p.err && check)
        promql_check(&p, e->root);
    if (p.err) {
        promql_expr_free(e);
        return p.err;
    }
    *ret = e;
    return NULL;
}

struct gs_error *promql_parse(struct gs_slice text, struct promql_expr **ret)
{
    return parse_text(text, whole_expression, true, ret);
}

struct gs_error *promql_parse_selector(struct gs_slice text, struct promql_expr **ret)
{
    // Selecting everything is refused in expressions, not here: /federate takes it.
    return parse_text(text, whole_selector, false, ret);
}

struct gs_error *promql_parse_metric(struct gs_slice text, struct promql_expr **ret)
{
    struct promql_expr *e;
    struct gs_error *err = parse_text(text, whole_selector, false, &e);
    if (err)
        return err;
    for (size_t i = 0; i < e->root->u.selector.n_matchers; i++) {
        if (e->root->u.selector.matchers[i].op != TSDB_EQ) {
            promql_expr_free(e);
            return gs_error_new(GS_EINVAL, "1:1: parse error: a metric has only = between its "
                                           "label names and values");
        }
    }
    *ret = e;
    return NULL;
}
