// SPDX-License-Identifier: Apache-2.0
// Executes templates: walks the tree with a stack of variables.
#include "template/template.h"
#include "template/template_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/option.h"

#include <time.h>

#define MAX_OUTPUT ((size_t)256 * 1024)
#define MAX_MEMORY ((size_t)16 * 1024 * 1024)
#define MAX_STEPS  100000
#define MAX_SHOWN  100 // bytes of the source in an error text
#define MAX_DEPTH  300

static bool exec_list(struct template_expansion *e, const struct template_node *n,
                      struct template_value dot);
static bool eval_pipe(struct template_expansion *e, const struct template_pipeline *p,
                      struct template_value dot, struct template_value *ret);

// Formats errors like Go: template: NAME:LINE:COLUMN: executing "NAME" at <SOURCE>: message
static bool fail_text(struct template_expansion *e, uint32_t at, struct gs_slice src,
                      const char *text)
{
    size_t line, column;
    bool cut = src.len > MAX_SHOWN;
    if (e->err)
        return false;
    template_position(e->t->text, at, &line, &column);
    e->err = gs_error_new(GS_EINVAL,
                          "template: %s:%zu:%zu: executing \"" GS_SLICE_FMT "\" at <" GS_SLICE_FMT
                          "%s>: %s",
                          e->t->name, line, column, GS_SLICE_ARG(e->in),
                          cut ? MAX_SHOWN : (int)src.len, src.data, cut ? "..." : "", text);
    return false;
}

static struct gs_slice source(const struct template_expansion *e, uint32_t start, uint32_t end)
{
    return gs_slice_trim(gs_slice_make(e->t->text.data + start, end - start));
}

bool template_fail_at(struct template_expansion *e, uint32_t start, uint32_t end, const char *fmt,
                      ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    return fail_text(e, start, source(e, start, end), text);
}

// --- operands ---

static bool own_field(const struct template_data *d, struct gs_slice name,
                      struct template_value *ret)
{
    for (size_t i = 0; i < d->n_fields; i++) {
        const struct template_field *f = &d->fields[i];
        if (!gs_slice_eq_str(name, f->name))
            continue;
        if (f->kind == TEMPLATE_FIELD_MAP)
            *ret = (struct template_value){.type = VALUE_LABELS, .u.labels = {f->map, f->n}};
        else if (f->kind == TEMPLATE_FIELD_LIST)
            *ret = (struct template_value){.type = VALUE_LIST, .u.list = {f->list, f->n}};
        else
            *ret = template_string(f->text);
        return true;
    }
    return false;
}

static bool data_field(const struct template_data *d, struct gs_slice name,
                       struct template_value *ret)
{
    if (d->fields)
        return own_field(d, name, ret);
    if (gs_slice_eq_str(name, "Labels"))
        *ret = (struct template_value){.type = VALUE_LABELS, .u.labels = {d->labels, d->n_labels}};
    else if (gs_slice_eq_str(name, "ExternalLabels"))
        *ret = (struct template_value){.type = VALUE_LABELS,
                                       .u.labels = {d->external_labels, d->n_external_labels}};
    else if (gs_slice_eq_str(name, "ExternalURL"))
        *ret = template_string(gs_slice_of(d->external_url ? d->external_url : ""));
    else if (gs_slice_eq_str(name, "Value"))
        *ret = template_float(d->value);
    else
        return false;
    return true;
}

static bool sample_field(const struct template_sample *s, struct gs_slice name,
                         struct template_value *ret)
{
    if (gs_slice_eq_str(name, "Labels"))
        *ret = (struct template_value){.type = VALUE_LABELS, .u.labels = {s->labels, s->n_labels}};
    else if (gs_slice_eq_str(name, "Value"))
        *ret = template_float(s->value);
    else
        return false;
    return true;
}

static struct template_value args_get(const struct template_value *v, struct gs_slice name)
{
    size_t i = 0, digits = 3;
    if (!gs_slice_starts(name, "arg") || name.len == 3 || name.len > 6)
        return (struct template_value){0};
    for (; digits < name.len; digits++) {
        if (name.data[digits] < '0' || name.data[digits] > '9')
            return (struct template_value){0};
        i = i * 10 + (size_t)(name.data[digits] - '0');
    }
    return i < v->u.args.n ? v->u.args.items[i] : (struct template_value){0};
}

// --- methods without arguments ---

static bool text_result(struct template_expansion *e, const char *text, struct template_value *v)
{
    *v = template_string(gs_slice_of(gs_arena_strdup(&e->arena, text)));
    return true;
}

// Methods of time.Time, in UTC. Returns false if there is none of this name.
static bool time_method(struct template_expansion *e, struct gs_slice name,
                        struct template_value *v)
{
    int64_t ms = v->u.i, seconds = ms / 1000 - (ms % 1000 < 0);
    time_t t = (time_t)seconds;
    struct tm tm = {0};
    char text[GS_RFC3339_SIZE];
    (void)gmtime_r(&t, &tm);
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"Unix", seconds},
                   {"UnixMilli", ms},
                   {"UnixMicro", ms * 1000},
                   {"Year", tm.tm_year + INT64_C(1900)},
                   {"Day", tm.tm_mday},
                   {"Hour", tm.tm_hour},
                   {"Minute", tm.tm_min},
                   {"Second", tm.tm_sec},
                   {"Nanosecond", (ms - seconds * 1000) * 1000000},
                   {"YearDay", tm.tm_yday + INT64_C(1)},
                   {"UnixNano", (int64_t)((uint64_t)ms * 1000000)}}; // as in Go, it can overflow
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++)
        if (gs_slice_eq_str(name, numbers[i].name)) {
            *v = template_int(numbers[i].value);
            return true;
        }
    if (gs_slice_eq_str(name, "UTC"))
        return true;
    if (gs_slice_eq_str(name, "IsZero")) {
        *v = template_bool(false);
        return true;
    }
    // The names of the locale C, which the program keeps.
    bool month = gs_slice_eq_str(name, "Month");
    if (month || gs_slice_eq_str(name, "Weekday")) {
        (void)strftime(text, sizeof(text), month ? "%B" : "%A", &tm);
        return text_result(e, text, v);
    }
    if (!gs_slice_eq_str(name, "String"))
        return false;
    GS_AUTO_BUF struct gs_buf shown = {0};
    template_print_time(ms, &shown);
    return text_result(e, shown.data, v);
}

// Methods of time.Duration.
static bool duration_method(struct template_expansion *e, struct gs_slice name,
                            struct template_value *v)
{
    int64_t ns = v->u.i;
    const struct {
        const char *name;
        double unit; // of a float; 0: divisor is that of an int
        int64_t divisor;
    } methods[] = {{"Hours", 3.6e12, 1},         {"Minutes", 6e10, 1},      {"Seconds", 1e9, 1},
                   {"Milliseconds", 0, 1000000}, {"Microseconds", 0, 1000}, {"Nanoseconds", 0, 1}};
    for (size_t i = 0; i < GS_ARRAY_LEN(methods); i++)
        if (gs_slice_eq_str(name, methods[i].name)) {
            *v = methods[i].unit > 0 ? template_float((double)ns / methods[i].unit)
                                     : template_int(ns / methods[i].divisor);
            return true;
        }
    if (gs_slice_eq_str(name, "Abs")) {
        v->u.i = ns == INT64_MIN ? INT64_MAX : ns < 0 ? -ns : ns;
        return true;
    }
    if (!gs_slice_eq_str(name, "String"))
        return false;
    GS_AUTO_BUF struct gs_buf shown = {0};
    template_print_duration(ns, &shown);
    return text_result(e, shown.data, v);
}

// The data of other programs than alerts have fields of their own, and no Go type.
static char *unknown_field(const struct template_data *d, struct gs_slice name)
{
    struct gs_buf text = {0};
    const char *names[16];
    GS_AUTO_FREE char *word = gs_slice_dup(name);
    size_t n = d->n_fields < GS_ARRAY_LEN(names) ? d->n_fields : GS_ARRAY_LEN(names);
    for (size_t i = 0; i < n; i++)
        names[i] = d->fields[i].name;
    const char *near = gs_suggest(word, names, n);
    gs_buf_addf(&text, "unknown field .%s", word);
    if (near)
        gs_buf_addf(&text, ", did you mean .%s?", near);
    gs_buf_add_str(&text, near ? " The fields are" : "; the fields are");
    for (size_t i = 0; i < n; i++)
        gs_buf_addf(&text, "%s .%s", i ? "," : "", names[i]);
    return gs_buf_take(&text);
}

static bool get_field(struct template_expansion *e, const struct template_argument *a,
                      struct gs_slice name, struct template_value *v)
{
    switch (v->type) {
    case VALUE_NIL:
        return template_fail_at(e, a->start, a->end,
                                "nil data; no entry for key \"" GS_SLICE_FMT "\"",
                                GS_SLICE_ARG(name));
    case VALUE_LABELS: // missingkey=zero
        *v = template_string(template_label(v, name));
        return true;
    case VALUE_ARGS:
        *v = args_get(v, name);
        return true;
    case VALUE_DATA:
        if (data_field(v->u.data, name, v))
            return true;
        break;
    case VALUE_SAMPLE:
        if (sample_field(v->u.sample, name, v))
            return true;
        break;
    case VALUE_TIME:
        if (time_method(e, name, v))
            return true;
        break;
    case VALUE_DURATION:
        if (duration_method(e, name, v))
            return true;
        break;
    default:
        break;
    }
    // For variables with fields, Go reports the column of the first dot.
    uint32_t at = a->start + (a->kind == ARG_VARIABLE ? (uint32_t)a->names[0].len : 0);
    GS_AUTO_FREE char *text = v->type == VALUE_DATA && v->u.data->fields
                                  ? unknown_field(v->u.data, name)
                                  : gs_format("can't evaluate field " GS_SLICE_FMT " in type %s",
                                              GS_SLICE_ARG(name), template_type_name(v));
    return fail_text(e, at, source(e, a->start, a->end), text);
}

static bool get_variable(struct template_expansion *e, const struct template_argument *a,
                         struct template_value *ret)
{
    for (size_t i = e->n_vars; i-- > 0;)
        if (gs_slice_eq(e->vars[i].name, a->names[0])) {
            *ret = e->vars[i].value;
            return true;
        }
    return template_fail_at(e, a->start, a->end, "undefined variable: " GS_SLICE_FMT,
                            GS_SLICE_ARG(a->names[0]));
}

static bool eval_function(struct template_expansion *e, const struct template_command *c,
                          const struct template_argument *fn, const struct template_argument *args,
                          struct template_value dot, const struct template_value *final,
                          struct template_value *ret);

static bool eval_arg(struct template_expansion *e, const struct template_argument *a,
                     struct template_value dot, struct template_value *ret)
{
    struct template_value v = dot;
    size_t first = 0;
    if (++e->steps > MAX_STEPS)
        return template_fail_at(e, a->start, a->end, "too many steps");
    switch (a->kind) {
    case ARG_DOT:
    case ARG_FIELD:
        break;
    case ARG_NIL:
        v = (struct template_value){0};
        break;
    case ARG_BOOL:
        v = template_bool(a->b);
        break;
    case ARG_INT:
        v = template_int(a->i);
        break;
    case ARG_FLOAT:
        v = template_float(a->f);
        break;
    case ARG_STRING:
        v = template_string(a->s);
        break;
    case ARG_VARIABLE:
        if (!get_variable(e, a, &v))
            return false;
        first = 1;
        break;
    case ARG_FUNCTION: {
        const struct template_command alone = {.start = a->start, .end = a->end};
        if (!eval_function(e, &alone, a, NULL, dot, NULL, &v))
            return false;
        break;
    }
    case ARG_PAREN:
        if (!eval_pipe(e, a->pipe, dot, &v))
            return false;
        break;
    }
    for (size_t i = first; i < a->n_names; i++)
        if (!get_field(e, a, a->names[i], &v))
            return false;
    *ret = v;
    return true;
}

// and, or: arguments are evaluated until the result is determined.
static bool eval_logic(struct template_expansion *e, const struct template_command *c, bool is_or,
                       const struct template_argument *args, struct template_value dot,
                       const struct template_value *final, struct template_value *ret)
{
    struct template_value v = {0};
    if (!args && !final)
        return template_fail_at(e, c->start, c->end,
                                "wrong number of args for %s: want at least 1 got 0",
                                is_or ? "or" : "and");
    for (const struct template_argument *a = args; a; a = a->next) {
        if (!eval_arg(e, a, dot, &v))
            return false;
        if (template_truth(&v) == is_or) {
            *ret = v;
            return true;
        }
    }
    *ret = final ? *final : v;
    return true;
}

// The error for an argument of the wrong type, with Go's text.
static bool fail_argument(struct template_expansion *e, const struct template_argument *a,
                          const char *wanted, const struct template_value *got)
{
    bool constant =
        a->kind == ARG_INT || a->kind == ARG_FLOAT || a->kind == ARG_BOOL || a->kind == ARG_STRING;
    struct gs_slice src = source(e, a->start, a->end);
    if (constant && (gs_streq(wanted, "string") || gs_streq(wanted, "int")))
        return template_fail_at(e, a->start, a->end, "expected %s; found " GS_SLICE_FMT,
                                gs_streq(wanted, "int") ? "integer" : wanted, GS_SLICE_ARG(src));
    if (constant)
        return template_fail_at(e, a->start, a->end,
                                "can't handle " GS_SLICE_FMT " for arg of type %s",
                                GS_SLICE_ARG(src), wanted);
    if (got->type == VALUE_NIL)
        return template_fail_at(e, a->start, a->end, "invalid value; expected %s", wanted);
    return template_fail_at(e, a->start, a->end, "wrong type for value; expected %s; got %s",
                            wanted, template_type_name(got));
}

static bool check_argument_count(struct template_expansion *e, const struct template_argument *fn,
                                 size_t n)
{
    int min, max;
    struct gs_slice name = fn->s;
    template_arity(name, &min, &max);
    if (n >= (size_t)min && (max < 0 || n <= (size_t)max))
        return true;
    return template_fail_at(e, fn->start, fn->end,
                            "wrong number of args for " GS_SLICE_FMT ": want %s%d got %zu",
                            GS_SLICE_ARG(name), max < 0 ? "at least " : "", min, n);
}

static bool eval_function(struct template_expansion *e, const struct template_command *c,
                          const struct template_argument *fn, const struct template_argument *args,
                          struct template_value dot, const struct template_value *final,
                          struct template_value *ret)
{
    bool is_or = gs_slice_eq_str(fn->s, "or");
    if (is_or || gs_slice_eq_str(fn->s, "and"))
        return eval_logic(e, c, is_or, args, dot, final, ret);
    size_t n = 0, i = 0;
    for (const struct template_argument *a = args; a; a = a->next)
        n++;
    n += final != NULL;
    if (!check_argument_count(e, fn, n))
        return false;
    struct template_value *values = gs_arena_alloc(&e->arena, (n + 1) * sizeof(*values));
    if (!values)
        return template_fail_at(e, c->start, c->end, "too much memory");
    for (const struct template_argument *a = args; a; a = a->next)
        if (!eval_arg(e, a, dot, &values[i++]))
            return false;
    if (final)
        values[i] = *final;
    struct template_failure why = {0};
    if (template_call(e, fn->s, values, n, ret, &why))
        return true;
    const struct template_argument *bad = args;
    for (i = 0; why.wanted && bad && i < why.arg; i++)
        bad = bad->next;
    if (why.wanted && bad)
        return fail_argument(e, bad, why.wanted, &values[why.arg]);
    return template_fail_at(e, c->start, c->end, "%s", why.text ? why.text : "too much memory");
}

static bool eval_command(struct template_expansion *e, const struct template_command *c,
                         struct template_value dot, const struct template_value *final,
                         struct template_value *ret)
{
    const struct template_argument *first = c->args;
    if (first->kind == ARG_FUNCTION)
        return eval_function(e, c, first, first->next, dot, final, ret);
    if (first->kind == ARG_NIL)
        return template_fail_at(e, first->start, first->end, "nil is not a command");
    if (c->n_args > 1 || final)
        return template_fail_at(e, first->start, first->end,
                                "can't give argument to non-function " GS_SLICE_FMT,
                                (int)(first->end - first->start), e->t->text.data + first->start);
    return eval_arg(e, first, dot, ret);
}

static bool push_var(struct template_expansion *e, const struct template_pipeline *p,
                     struct gs_slice name, struct template_value v)
{
    if (e->n_vars == GS_ARRAY_LEN(e->vars))
        return template_fail_at(e, p->start, p->end, "too many variables");
    e->vars[e->n_vars].name = name;
    e->vars[e->n_vars++].value = v;
    return true;
}

static bool set_var(struct template_expansion *e, const struct template_pipeline *p,
                    struct gs_slice name, struct template_value v)
{
    for (size_t i = e->n_vars; i-- > 0;)
        if (gs_slice_eq(e->vars[i].name, name)) {
            e->vars[i].value = v;
            return true;
        }
    return template_fail_at(e, p->start, p->end, "undefined variable: " GS_SLICE_FMT,
                            GS_SLICE_ARG(name));
}

static bool eval_commands(struct template_expansion *e, const struct template_pipeline *p,
                          struct template_value dot, struct template_value *ret)
{
    struct template_value v = {0}, final;
    if (++e->depth > MAX_DEPTH)
        return template_fail_at(e, p->start, p->end, "nested too deeply");
    for (const struct template_command *c = p->cmds; c; c = c->next) {
        final = v;
        if (!eval_command(e, c, dot, c == p->cmds ? NULL : &final, &v))
            return false;
    }
    e->depth--;
    *ret = v;
    return true;
}

static bool eval_pipe(struct template_expansion *e, const struct template_pipeline *p,
                      struct template_value dot, struct template_value *ret)
{
    struct template_value v;
    if (!eval_commands(e, p, dot, &v))
        return false;
    for (size_t i = 0; i < p->n_vars; i++)
        if (!(p->assign ? set_var : push_var)(e, p, p->vars[i], v))
            return false;
    *ret = v;
    return true;
}

// --- nodes ---

static bool exec_branch(struct template_expansion *e, const struct template_node *n,
                        struct template_value dot)
{
    struct template_value v;
    size_t n_vars = e->n_vars;
    if (!eval_pipe(e, n->pipe, dot, &v))
        return false;
    bool yes = template_truth(&v);
    bool ok = exec_list(e, yes ? n->body : n->otherwise, yes && n->kind == NODE_WITH ? v : dot);
    e->n_vars = n_vars;
    return ok;
}

// One iteration of a range. Returns false to stop (break or error).
static bool range_turn(struct template_expansion *e, const struct template_node *n,
                       struct template_value key, struct template_value item)
{
    size_t n_vars = e->n_vars;
    const struct template_pipeline *p = n->pipe;
    struct template_value values[2] = {p->n_vars == 2 ? key : item, item};
    if (++e->steps > MAX_STEPS)
        return template_fail_at(e, p->start, p->end, "too many steps");
    for (size_t i = 0; i < p->n_vars; i++)
        if (!(p->assign ? set_var : push_var)(e, p, p->vars[i], values[i]))
            return false;
    bool ok = exec_list(e, n->body, item);
    e->n_vars = n_vars;
    if (e->flow == FLOW_CONTINUE)
        e->flow = FLOW_NEXT;
    return ok && e->flow == FLOW_NEXT;
}

static size_t range_len(const struct template_value *v)
{
    switch (v->type) {
    case VALUE_INT:
        return v->u.i > 0 ? (size_t)v->u.i : 0;
    case VALUE_LABELS:
        return v->u.labels.n;
    case VALUE_VECTOR:
        return v->u.vector.n;
    case VALUE_ARGS:
        return v->u.args.n;
    case VALUE_LIST:
        return v->u.list.n;
    default:
        return 0;
    }
}

static void range_item(struct template_expansion *e, const struct template_value *v, size_t i,
                       struct template_value *key, struct template_value *item)
{
    *key = template_int((int64_t)i);
    switch (v->type) {
    case VALUE_LABELS:
        *key = template_string(v->u.labels.items[i].name);
        *item = template_string(v->u.labels.items[i].value);
        return;
    case VALUE_LIST:
        *item = template_string(v->u.list.items[i]);
        return;
    case VALUE_VECTOR:
        *item = (struct template_value){.type = VALUE_SAMPLE, .u.sample = v->u.vector.items[i]};
        return;
    case VALUE_ARGS: {
        GS_AUTO_FREE char *name = gs_format("arg%zu", i);
        const char *copy = gs_arena_strdup(&e->arena, name);
        *key = template_string(gs_slice_of(copy));
        *item = v->u.args.items[i];
        return;
    }
    default:
        *item = *key;
        return;
    }
}

static bool exec_range(struct template_expansion *e, const struct template_node *n,
                       struct template_value dot)
{
    struct template_value v = {0}, key, item;
    if (!eval_commands(e, n->pipe, dot, &v))
        return false;
    if (v.type != VALUE_NIL && v.type != VALUE_INT && v.type != VALUE_LABELS &&
        v.type != VALUE_VECTOR && v.type != VALUE_ARGS && v.type != VALUE_LIST) {
        GS_AUTO_BUF struct gs_buf text = {0};
        template_print(&v, &text);
        return template_fail_at(e, n->pipe->start, n->pipe->end, "range can't iterate over %s",
                                text.len ? text.data : "");
    }
    size_t len = range_len(&v);
    for (size_t i = 0; i < len; i++) {
        range_item(e, &v, i, &key, &item);
        if (!range_turn(e, n, key, item))
            break;
    }
    if (e->flow == FLOW_BREAK)
        e->flow = FLOW_NEXT;
    return !e->err && (len || exec_list(e, n->otherwise, dot));
}

static bool fail_include(struct template_expansion *e, const struct template_node *n)
{
    struct gs_slice pipe = n->pipe ? source(e, n->pipe->start, n->pipe->end) : (struct gs_slice){0};
    GS_AUTO_FREE char *shown =
        gs_format("{{template \"" GS_SLICE_FMT "\"%s" GS_SLICE_FMT "}}", GS_SLICE_ARG(n->text),
                  pipe.len ? " " : "", (int)pipe.len, pipe.len ? pipe.data : "");
    GS_AUTO_FREE char *text =
        gs_format("template \"" GS_SLICE_FMT "\" not defined", GS_SLICE_ARG(n->text));
    return fail_text(e, n->start, gs_slice_of(shown), text);
}

static bool exec_include(struct template_expansion *e, const struct template_node *n,
                         struct template_value dot)
{
    const struct template_definition *d = e->t->defines;
    while (d && !gs_slice_eq(d->name, n->text))
        d = d->next;
    if (!d)
        return fail_include(e, n);
    struct template_value v = {0};
    if (n->pipe && !eval_pipe(e, n->pipe, dot, &v))
        return false;
    // Variables of the caller are not visible: a lookup from the top finds $ first, and the parser
    // rejects all others.
    size_t n_vars = e->n_vars;
    struct gs_slice in = e->in;
    struct template_pipeline at = {.start = n->start, .end = n->end};
    bool ok = push_var(e, &at, GS_SLICE("$"), v);
    e->in = n->text;
    ok = ok && exec_list(e, d->body, v);
    e->in = in;
    e->n_vars = n_vars;
    return ok;
}

static bool exec_action(struct template_expansion *e, const struct template_node *n,
                        struct template_value dot)
{
    struct template_value v;
    if (!eval_pipe(e, n->pipe, dot, &v))
        return false;
    if (n->pipe->n_vars)
        return true;
    if (v.type == VALUE_NIL)
        gs_buf_add_str(e->out, "<no value>");
    else
        template_print(&v, e->out);
    return true;
}

static bool exec_node(struct template_expansion *e, const struct template_node *n,
                      struct template_value dot)
{
    if (++e->steps > MAX_STEPS)
        return template_fail_at(e, n->start, n->end, "too many steps");
    switch (n->kind) {
    case NODE_TEXT:
        gs_buf_add_slice(e->out, n->text);
        return true;
    case NODE_ACTION:
        return exec_action(e, n, dot);
    case NODE_IF:
    case NODE_WITH:
        return exec_branch(e, n, dot);
    case NODE_RANGE: {
        size_t n_vars = e->n_vars;
        bool ok = exec_range(e, n, dot);
        e->n_vars = n_vars;
        return ok;
    }
    case NODE_INCLUDE:
        return exec_include(e, n, dot);
    case NODE_BREAK:
        e->flow = FLOW_BREAK;
        return true;
    case NODE_CONTINUE:
        e->flow = FLOW_CONTINUE;
        return true;
    }
    return true;
}

static bool exec_list(struct template_expansion *e, const struct template_node *n,
                      struct template_value dot)
{
    if (++e->depth > MAX_DEPTH)
        return template_fail_at(e, 0, 0, "exceeded maximum template depth (%d)", MAX_DEPTH);
    for (; n && e->flow == FLOW_NEXT; n = n->next) {
        if (!exec_node(e, n, dot))
            return false;
        if (e->out->overflow)
            return template_fail_at(e, n->start, n->end, "the text is longer than %zu bytes",
                                    e->out->limit);
    }
    e->depth--;
    return true;
}

struct gs_error *template_expand(const struct template_program *t, const struct template_data *data,
                                 struct gs_buf *out)
{
    if (t->plain) {
        gs_buf_add_slice(out, t->text);
        return NULL;
    }
    GS_AUTO_BUF struct gs_buf text = {.limit = data->max_output ? data->max_output : MAX_OUTPUT};
    GS_AUTO_FREE struct template_expansion *e = gs_alloc(sizeof(*e));
    e->t = t;
    e->data = data;
    e->arena.limit = MAX_MEMORY;
    e->out = &text;
    e->in = gs_slice_of(t->name);
    struct template_value root = {.type = VALUE_DATA, .u.data = data};
    e->vars[e->n_vars].name = GS_SLICE("$");
    e->vars[e->n_vars++].value = root;
    (void)exec_list(e, t->body, root);
    gs_buf_add_slice(out, gs_buf_slice(&text));
    gs_arena_finish(&e->arena);
    return e->err;
}
