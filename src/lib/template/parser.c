// SPDX-License-Identifier: Apache-2.0
// Parses the text of a template to a tree: recursive descent with one token of lookahead.
#include "base/mem.h"
#include "template/template.h"
#include "template/template_private.h"

#define MAX_TEXT   ((size_t)64 * 1024)
#define MAX_VARS   1000
#define MAX_MEMORY ((size_t)16 * 1024 * 1024)

// The variables that Prometheus prepends to alert templates. As in Prometheus, they count in the
// columns of errors.
#define PRELUDE                                                                                    \
    "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}"                                 \
    "{{$externalURL := .ExternalURL}}{{$value := .Value}}"

struct parser {
    struct template_program *t;
    struct template_lexer lx;
    struct template_token tok; // the current token
    struct gs_slice vars[MAX_VARS];
    size_t n_vars;
    int depth, range_depth, parens;
    struct gs_error *err;
};

enum stop { STOP_EOF, STOP_END, STOP_ELSE };

static bool parse_node_list(struct parser *p, struct template_node **ret, enum stop *ret_stop);
static bool parse_pipe(struct parser *p, struct template_pipeline **ret, const char *context,
                       enum template_token_kind end);

void template_position(struct gs_slice text, uint32_t pos, size_t *ret_line, size_t *ret_column)
{
    size_t line = 1, start = 0;
    for (size_t i = 0; i < pos && i < text.len; i++)
        if (text.data[i] == '\n') {
            line++;
            start = i + 1;
        }
    *ret_line = line;
    *ret_column = pos - start;
}

static bool fail_parser(struct parser *p, const char *fmt, ...) GS_PRINTF(2, 3);
static bool fail_parser(struct parser *p, const char *fmt, ...)
{
    if (p->err)
        return false;
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    size_t line, column;
    template_position(p->lx.text, p->lx.pos, &line, &column);
    p->err = gs_error_new(GS_EINVAL, "template: %s:%zu: %s", p->t->name, line, text);
    return false;
}

static void *make_node(struct parser *p, size_t size)
{
    void *v = gs_arena_alloc(&p->t->arena, size);
    if (!v)
        fail_parser(p, "the template is too large");
    return v;
}

static bool next(struct parser *p)
{
    return template_next_token(&p->lx, &p->tok) || fail_parser(p, "%s", p->lx.wrong);
}

static bool next_solid(struct parser *p)
{
    do {
        if (!next(p))
            return false;
    } while (p->tok.kind == TOKEN_SPACE);
    return true;
}

static bool skip_space(struct parser *p)
{
    return p->tok.kind != TOKEN_SPACE || next_solid(p);
}

static struct gs_slice token_text(const struct parser *p)
{
    return gs_slice_make(p->lx.text.data + p->tok.start, p->tok.end - p->tok.start);
}

static bool fail_unexpected(struct parser *p, const char *context)
{
    if (p->tok.kind == TOKEN_END)
        return fail_parser(p, "unclosed action");
    if (p->tok.kind == TOKEN_CLOSE && p->parens)
        return fail_parser(p, "unclosed left paren");
    if (p->tok.kind == TOKEN_RPAREN && !p->parens)
        return fail_parser(p, "unexpected right paren");
    struct gs_slice s = token_text(p);
    bool keyword = p->tok.kind == TOKEN_WORD && !template_is_function(p->tok.s);
    return fail_parser(p,
                       keyword ? "unexpected <" GS_SLICE_FMT "> in %s"
                               : "unexpected \"" GS_SLICE_FMT "\" in %s",
                       GS_SLICE_ARG(s), context);
}

static bool is_keyword(const struct parser *p, const char *word)
{
    return p->tok.kind == TOKEN_WORD && gs_slice_eq_str(p->tok.s, word);
}

// --- operands ---

static bool add_variable_name(struct parser *p, struct template_argument *a, struct gs_slice name)
{
    if ((a->n_names & (a->n_names - 1)) == 0) { // the capacity is reached at 0, 1, 2, 4, 8 …
        struct gs_slice *more = make_node(p, (a->n_names ? a->n_names * 2 : 1) * sizeof(*more));
        if (!more)
            return false;
        if (a->n_names)
            memcpy(more, a->names, a->n_names * sizeof(*more));
        a->names = more;
    }
    a->names[a->n_names++] = name;
    return true;
}

static bool is_defined_variable(const struct parser *p, struct gs_slice name)
{
    for (size_t i = 0; i < p->n_vars; i++)
        if (gs_slice_eq(p->vars[i], name))
            return true;
    return false;
}

static bool parse_word(struct parser *p, struct template_argument *a)
{
    struct gs_slice s = p->tok.s;
    if (gs_slice_eq_str(s, "true") || gs_slice_eq_str(s, "false")) {
        a->kind = ARG_BOOL;
        a->b = gs_slice_eq_str(s, "true");
        return true;
    }
    if (gs_slice_eq_str(s, "nil")) {
        a->kind = ARG_NIL;
        return true;
    }
    static const char *const keywords[] = {"if",    "else",     "end",   "range",  "with",
                                           "block", "template", "break", "define", "continue"};
    for (size_t i = 0; i < GS_ARRAY_LEN(keywords); i++)
        if (gs_slice_eq_str(s, keywords[i]))
            return fail_unexpected(p, "operand");
    a->kind = ARG_FUNCTION;
    a->s = s;
    return template_is_function(s) ||
           fail_parser(p, "function \"" GS_SLICE_FMT "\" not defined", GS_SLICE_ARG(s));
}

static bool parse_term(struct parser *p, struct template_argument *a)
{
    switch (p->tok.kind) {
    case TOKEN_WORD:
        return parse_word(p, a);
    case TOKEN_DOT:
        a->kind = ARG_DOT;
        return true;
    case TOKEN_FIELD:
        a->kind = ARG_FIELD;
        return add_variable_name(p, a, p->tok.s);
    case TOKEN_VARIABLE:
        a->kind = ARG_VARIABLE;
        if (!is_defined_variable(p, p->tok.s))
            return fail_parser(p, "undefined variable \"" GS_SLICE_FMT "\"",
                               GS_SLICE_ARG(p->tok.s));
        return add_variable_name(p, a, p->tok.s);
    case TOKEN_INT:
        a->kind = ARG_INT;
        a->i = p->tok.i;
        return true;
    case TOKEN_FLOAT:
        a->kind = ARG_FLOAT;
        a->f = p->tok.f;
        return true;
    case TOKEN_STRING:
        a->kind = ARG_STRING;
        a->s = p->tok.s;
        return true;
    case TOKEN_LPAREN:
        a->kind = ARG_PAREN;
        p->parens++;
        if (!next_solid(p) || !parse_pipe(p, &a->pipe, "parenthesized pipeline", TOKEN_RPAREN))
            return false;
        p->parens--;
        return true;
    default:
        return fail_unexpected(p, "operand");
    }
}

// An operand and the fields chained to it. The current token is then the one after it.
static bool parse_operand(struct parser *p, struct template_argument **ret)
{
    struct template_argument *a = make_node(p, sizeof(*a));
    if (!a)
        return false;
    a->start = p->tok.start;
    if (!parse_term(p, a))
        return false;
    a->end = p->tok.end;
    if (!next(p))
        return false;
    while (p->tok.kind == TOKEN_FIELD) {
        if (a->kind != ARG_FIELD && a->kind != ARG_VARIABLE && a->kind != ARG_PAREN)
            return fail_parser(p, "unexpected . after term \"" GS_SLICE_FMT "\"",
                               (int)(a->end - a->start), p->lx.text.data + a->start);
        a->end = p->tok.end;
        if (!add_variable_name(p, a, p->tok.s) || !next(p))
            return false;
    }
    *ret = a;
    return true;
}

static bool parse_command(struct parser *p, struct template_command **ret,
                          enum template_token_kind end)
{
    struct template_command *c = make_node(p, sizeof(*c));
    if (!c)
        return false;
    struct template_argument **tail = &c->args;
    c->start = p->tok.start;
    for (;;) {
        if (!skip_space(p))
            return false;
        if (p->tok.kind == end || p->tok.kind == TOKEN_PIPE)
            break;
        if (!parse_operand(p, tail))
            return false;
        c->end = (*tail)->end;
        tail = &(*tail)->next;
        c->n_args++;
        if (p->tok.kind != TOKEN_SPACE && p->tok.kind != end && p->tok.kind != TOKEN_PIPE)
            return fail_unexpected(p, "operand");
    }
    *ret = c;
    return c->n_args || fail_parser(p, "empty command");
}

static bool define_vars(struct parser *p, const struct template_pipeline *pipe)
{
    for (size_t i = 0; i < pipe->n_vars; i++) {
        if (pipe->assign) {
            if (!is_defined_variable(p, pipe->vars[i]))
                return fail_parser(p, "undefined variable \"" GS_SLICE_FMT "\"",
                                   GS_SLICE_ARG(pipe->vars[i]));
            continue;
        }
        if (p->n_vars == MAX_VARS)
            return fail_parser(p, "too many variables");
        p->vars[p->n_vars++] = pipe->vars[i];
    }
    return true;
}

// Parses "$x := ", "$x = " or "$i, $x := " before the commands, which is found by lookahead.
static bool parse_declaration(struct parser *p, struct template_pipeline *pipe, const char *context)
{
    if (p->tok.kind != TOKEN_VARIABLE)
        return true;
    struct template_lexer saved_lx = p->lx;
    struct template_token saved = p->tok;
    struct gs_slice first = p->tok.s;
    if (!next_solid(p))
        return false;
    if (p->tok.kind == TOKEN_COMMA && gs_streq(context, "range")) {
        if (!next_solid(p))
            return false;
        if (p->tok.kind != TOKEN_VARIABLE)
            return fail_parser(p, "range can only initialize variables");
        struct gs_slice second = p->tok.s;
        if (!next_solid(p))
            return false;
        if (p->tok.kind == TOKEN_COMMA)
            return fail_parser(p, "too many declarations in range");
        if (p->tok.kind != TOKEN_DECLARE && p->tok.kind != TOKEN_ASSIGN)
            return fail_parser(p, "range can only initialize variables");
        pipe->assign = p->tok.kind == TOKEN_ASSIGN;
        pipe->vars[0] = first;
        pipe->vars[1] = second;
        pipe->n_vars = 2;
        return next_solid(p);
    }
    if (p->tok.kind == TOKEN_DECLARE || p->tok.kind == TOKEN_ASSIGN) {
        pipe->assign = p->tok.kind == TOKEN_ASSIGN;
        pipe->vars[pipe->n_vars++] = first;
        return next_solid(p);
    }
    p->lx = saved_lx;
    p->tok = saved;
    return true;
}

// Only the first command of a pipeline may be any operand. The others must be callable.
static bool check_pipe(struct parser *p, const struct template_pipeline *pipe, const char *context)
{
    if (!pipe->cmds)
        return fail_parser(p, "missing value for %s", context);
    int stage = 2;
    for (const struct template_command *c = pipe->cmds->next; c; c = c->next, stage++) {
        enum template_argument_kind k = c->args->kind;
        if (k == ARG_BOOL || k == ARG_DOT || k == ARG_NIL || k == ARG_INT || k == ARG_FLOAT ||
            k == ARG_STRING)
            return fail_parser(p, "non executable command in pipeline stage %d", stage);
    }
    return true;
}

static bool parse_pipe_body(struct parser *p, struct template_pipeline *pipe, const char *context,
                            enum template_token_kind end)
{
    if (!skip_space(p) || !parse_declaration(p, pipe, context))
        return false;
    struct template_command **tail = &pipe->cmds;
    while (p->tok.kind != end) {
        if (p->tok.kind == TOKEN_PIPE || p->tok.kind == TOKEN_COMMA ||
            p->tok.kind == TOKEN_DECLARE || p->tok.kind == TOKEN_ASSIGN)
            return fail_unexpected(p, context);
        if (!parse_command(p, tail, end))
            return false;
        tail = &(*tail)->next;
        if (p->tok.kind == TOKEN_PIPE) {
            if (!next_solid(p))
                return false;
        }
    }
    pipe->end = p->tok.start;
    return check_pipe(p, pipe, context) && define_vars(p, pipe);
}

// The current token is the first one of the pipeline; on return, it is the one that ended the
// pipeline.
static bool parse_pipe(struct parser *p, struct template_pipeline **ret, const char *context,
                       enum template_token_kind end)
{
    struct template_pipeline *pipe = make_node(p, sizeof(*pipe));
    if (!pipe)
        return false;
    if (++p->depth > TEMPLATE_MAX_DEPTH)
        return fail_parser(p, "nested too deeply");
    pipe->start = p->tok.start;
    bool ok = parse_pipe_body(p, pipe, context, end);
    p->depth--;
    *ret = pipe;
    return ok;
}

// --- actions ---

static bool expect_close(struct parser *p, const char *context)
{
    return skip_space(p) && (p->tok.kind == TOKEN_CLOSE || fail_unexpected(p, context));
}

static bool parse_control(struct parser *p, struct template_node *n, const char *name);

// After {{else: the rest of the node, which can be another node: {{else if …}}.
static bool parse_else(struct parser *p, struct template_node *n, const char *name)
{
    if (!skip_space(p))
        return false;
    if (n->kind != NODE_RANGE && is_keyword(p, name)) {
        struct template_node *chained = make_node(p, sizeof(*chained));
        if (!chained)
            return false;
        *chained = (struct template_node){.kind = n->kind, .start = p->tok.start};
        n->otherwise = chained;
        return next_solid(p) && parse_control(p, chained, name);
    }
    enum stop stop;
    if (!expect_close(p, "else") || !parse_node_list(p, &n->otherwise, &stop))
        return false;
    return stop == STOP_END ||
           fail_parser(p, stop == STOP_EOF ? "unexpected EOF" : "expected end; found {{else}}");
}

static bool parse_control_body(struct parser *p, struct template_node *n, const char *name)
{
    enum stop stop;
    p->range_depth += n->kind == NODE_RANGE;
    bool ok = parse_pipe(p, &n->pipe, name, TOKEN_CLOSE) && parse_node_list(p, &n->body, &stop);
    p->range_depth -= n->kind == NODE_RANGE;
    if (!ok)
        return false;
    if (stop == STOP_EOF)
        return fail_parser(p, "unexpected EOF");
    return stop == STOP_END || parse_else(p, n, name);
}

// After {{if: from the pipeline to {{end}}.
static bool parse_control(struct parser *p, struct template_node *n, const char *name)
{
    size_t n_vars = p->n_vars;
    if (++p->depth > TEMPLATE_MAX_DEPTH)
        return fail_parser(p, "nested too deeply");
    bool ok = parse_control_body(p, n, name);
    p->depth--;
    p->n_vars = n_vars;
    n->end = p->lx.pos;
    return ok;
}

static bool parse_include(struct parser *p, struct template_node *n, const char *context)
{
    if (!skip_space(p))
        return false;
    if (p->tok.kind != TOKEN_STRING)
        return fail_unexpected(p, context);
    n->text = p->tok.s;
    n->start = p->tok.start;
    if (!next_solid(p))
        return false;
    return p->tok.kind == TOKEN_CLOSE || parse_pipe(p, &n->pipe, context, TOKEN_CLOSE);
}

static bool add_define(struct parser *p, struct gs_slice name, struct template_node *body)
{
    struct template_definition *d = make_node(p, sizeof(*d));
    if (!d)
        return false;
    *d = (struct template_definition){name, body, p->t->defines};
    p->t->defines = d;
    return true;
}

// In the body of a define or block, only $ is defined.
static bool parse_define_body(struct parser *p, struct gs_slice name)
{
    // Hides the outer variables except the first one, $.
    size_t n_vars = p->n_vars;
    int range_depth = p->range_depth;
    GS_AUTO_FREE struct gs_slice *hidden = gs_alloc_array(n_vars, sizeof(*hidden));
    memcpy(hidden, p->vars, n_vars * sizeof(*hidden));
    p->n_vars = 1;
    p->range_depth = 0;
    struct template_node *body = NULL;
    enum stop stop;
    bool ok = ++p->depth <= TEMPLATE_MAX_DEPTH || fail_parser(p, "nested too deeply");
    ok = ok && parse_node_list(p, &body, &stop);
    if (ok && stop != STOP_END)
        ok = fail_parser(p, stop == STOP_EOF ? "unexpected EOF"
                                             : "unexpected {{else}} in define clause");
    p->depth--;
    memcpy(p->vars, hidden, n_vars * sizeof(*p->vars));
    p->n_vars = n_vars;
    p->range_depth = range_depth;
    return ok && add_define(p, name, body);
}

static bool parse_define(struct parser *p)
{
    if (p->depth)
        return fail_parser(p, "unexpected <define> in command");
    if (!next_solid(p))
        return false;
    if (p->tok.kind != TOKEN_STRING)
        return fail_unexpected(p, "define clause");
    struct gs_slice name = p->tok.s;
    return next_solid(p) && expect_close(p, "define clause") && parse_define_body(p, name);
}

static bool parse_keyword(struct parser *p, struct template_node *n, bool *ret_known)
{
    static const struct {
        const char *name;
        enum template_node_kind kind;
    } controls[] = {{"if", NODE_IF}, {"with", NODE_WITH}, {"range", NODE_RANGE}};
    for (size_t i = 0; i < GS_ARRAY_LEN(controls); i++)
        if (is_keyword(p, controls[i].name)) {
            n->kind = controls[i].kind;
            return next_solid(p) && parse_control(p, n, controls[i].name);
        }
    if (is_keyword(p, "template") || is_keyword(p, "block")) {
        bool block = is_keyword(p, "block");
        n->kind = NODE_INCLUDE;
        if (!next_solid(p) || !parse_include(p, n, block ? "block clause" : "template clause"))
            return false;
        if (block && !n->pipe)
            return fail_parser(p, "missing value for block clause");
        return !block || parse_define_body(p, n->text);
    }
    if (is_keyword(p, "break") || is_keyword(p, "continue")) {
        bool stop = is_keyword(p, "break");
        n->kind = stop ? NODE_BREAK : NODE_CONTINUE;
        if (!p->range_depth)
            return fail_parser(p, "{{%s}} outside {{range}}", stop ? "break" : "continue");
        return next_solid(p) && expect_close(p, stop ? "{{break}}" : "{{continue}}");
    }
    *ret_known = false;
    return true;
}

// Parses one action. NULL node: the action has no node (define).
static bool parse_action(struct parser *p, struct template_node **ret)
{
    if (is_keyword(p, "define"))
        return parse_define(p);
    struct template_node *n = make_node(p, sizeof(*n));
    if (!n)
        return false;
    *n = (struct template_node){.kind = NODE_ACTION, .start = p->tok.start};
    bool known = true;
    if (!parse_keyword(p, n, &known))
        return false;
    if (!known && !parse_pipe(p, &n->pipe, "command", TOKEN_CLOSE))
        return false;
    n->end = p->lx.pos;
    *ret = n;
    return true;
}

static bool add_text_node(struct parser *p, struct gs_slice text, struct template_node ***tail)
{
    if (!text.len)
        return true;
    struct template_node *n = make_node(p, sizeof(*n));
    if (!n)
        return false;
    *n = (struct template_node){.kind = NODE_TEXT, .text = text};
    **tail = n;
    *tail = &n->next;
    return true;
}

static bool at_comment(const struct parser *p)
{
    return p->lx.text.len - p->lx.pos >= 2 && memcmp(p->lx.text.data + p->lx.pos, "/*", 2) == 0;
}

// Parses until {{end}}, {{else or the end of the text. After STOP_ELSE, the current token is the
// one after else.
static bool parse_node_list(struct parser *p, struct template_node **ret, enum stop *ret_stop)
{
    struct template_node **tail = ret;
    for (;;) {
        struct gs_slice text;
        bool end;
        template_next_text(&p->lx, &text, &end);
        if (!add_text_node(p, text, &tail))
            return false;
        *ret_stop = STOP_EOF;
        if (end)
            return true;
        if (at_comment(p)) {
            if (!template_skip_comment(&p->lx))
                return fail_parser(p, "%s", p->lx.wrong);
            continue;
        }
        if (!next_solid(p))
            return false;
        if (is_keyword(p, "end")) {
            *ret_stop = STOP_END;
            return next_solid(p) && expect_close(p, "end");
        }
        if (is_keyword(p, "else")) {
            *ret_stop = STOP_ELSE;
            return next(p);
        }
        if (!parse_action(p, tail))
            return false;
        if (*tail)
            tail = &(*tail)->next;
    }
}

static bool parse_all(struct parser *p)
{
    enum stop stop;
    if (!parse_node_list(p, &p->t->body, &stop))
        return false;
    return stop == STOP_EOF ||
           fail_parser(p, stop == STOP_END ? "unexpected {{end}}" : "unexpected {{else}}");
}

struct gs_error *template_parse(struct gs_slice text, const char *name,
                                struct template_program **ret)
{
    return template_parse_with(text, name, &(struct template_syntax){"{{", "}}", PRELUDE}, ret);
}

struct gs_error *template_parse_with(struct gs_slice text, const char *name,
                                     const struct template_syntax *form,
                                     struct template_program **ret)
{
    if (text.len > MAX_TEXT)
        return gs_error_new(GS_ELIMIT, "template: %s: longer than %zu bytes", name, MAX_TEXT);
    struct template_program *t = gs_alloc(sizeof(*t));
    t->plain = !text.len || !memmem(text.data, text.len, form->open, 2);
    t->arena.limit = MAX_MEMORY;
    GS_AUTO_BUF struct gs_buf all = {0};
    if (!t->plain)
        gs_buf_add_str(&all, form->prelude);
    gs_buf_add_slice(&all, text);
    t->name = gs_arena_strdup(&t->arena, name);
    const char *copy = gs_arena_strndup(&t->arena, all.data, all.len);
    t->text = gs_slice_make(copy, copy ? all.len : 0);
    if (!t->name || !copy) {
        template_free(t);
        return gs_error_new(GS_ELIMIT, "template: %s: too large", name);
    }
    GS_AUTO_FREE struct parser *p = gs_alloc(sizeof(*p));
    *p = (struct parser){
        .t = t,
        .lx = {.text = t->text, .open = form->open, .close = form->close, .arena = &t->arena}};
    p->vars[p->n_vars++] = GS_SLICE("$");
    if (!t->plain && !parse_all(p)) {
        template_free(t);
        return p->err;
    }
    *ret = t;
    return NULL;
}

void template_free(struct template_program *t)
{
    if (!t)
        return;
    gs_arena_finish(&t->arena);
    free(t);
}
