// SPDX-License-Identifier: Apache-2.0
// Internals of this module: tokens, syntax tree, values and functions.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "template/template.h"

#include <stdint.h>

// --- the parsed form ---

struct template_pipeline;

enum template_argument_kind {
    ARG_DOT,
    ARG_NIL,
    ARG_BOOL,
    ARG_INT,
    ARG_FLOAT,
    ARG_STRING,
    ARG_FIELD,    // .A.B
    ARG_VARIABLE, // $x.A.B: names[0] is "$x"
    ARG_FUNCTION,
    ARG_PAREN, // (pipe).A.B
};

struct template_argument {
    enum template_argument_kind kind;
    uint32_t start, end; // bytes in the text
    bool b;
    int64_t i;
    double f;
    struct gs_slice s; // text, function name
    struct gs_slice *names;
    size_t n_names;
    struct template_pipeline *pipe;
    struct template_argument *next;
};

struct template_command {
    uint32_t start, end;
    struct template_argument *args;
    size_t n_args;
    struct template_command *next;
};

struct template_pipeline {
    uint32_t start, end;
    struct gs_slice vars[2]; // "$x"; declared, or set when `assign`
    size_t n_vars;
    bool assign;
    struct template_command *cmds;
};

enum template_node_kind {
    NODE_TEXT,
    NODE_ACTION,
    NODE_IF,
    NODE_WITH,
    NODE_RANGE,
    NODE_INCLUDE, // {{template}}
    NODE_BREAK,
    NODE_CONTINUE,
};

struct template_node {
    enum template_node_kind kind;
    uint32_t start, end;
    struct gs_slice text; // of NODE_TEXT; the name of NODE_INCLUDE
    struct template_pipeline *pipe;
    struct template_node *body, *otherwise; // lists
    struct template_node *next;
};

struct template_definition {
    struct gs_slice name;
    struct template_node *body;
    struct template_definition *next;
};

struct template_program {
    struct gs_arena arena;
    struct gs_slice text; // starts with the definitions of the convenience variables
    const char *name;
    struct template_node *body;
    struct template_definition *defines;
    bool plain; // no action: the text is the result
};

#define TEMPLATE_MAX_DEPTH 100

bool template_is_function(struct gs_slice name);
// Returns the position of a byte for `template: NAME:LINE:COLUMN`. As in Go, the column counts
// bytes.
void template_position(struct gs_slice text, uint32_t at, size_t *ret_line, size_t *ret_column);

// --- tokens inside the delimiters ---

enum template_token_kind {
    TOKEN_SPACE,
    TOKEN_WORD, // identifier or keyword
    TOKEN_FIELD,
    TOKEN_VARIABLE,
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_STRING,
    TOKEN_LPAREN,
    TOKEN_RPAREN,
    TOKEN_PIPE,
    TOKEN_COMMA,
    TOKEN_ASSIGN,
    TOKEN_DECLARE,
    TOKEN_DOT,
    TOKEN_CLOSE, // }}, with the text after it trimmed if requested
    TOKEN_END,   // of the text
};

struct template_token {
    enum template_token_kind kind;
    uint32_t start, end;
    struct gs_slice s; // word, ".field" without the dot, "$var", the content of a string
    int64_t i;
    double f;
};

struct template_lexer {
    struct gs_slice text;
    const char *open, *close; // of actions, two bytes each: "{{", "}}"
    uint32_t pos;
    struct gs_arena *arena;
    const char *wrong; // static reason of the error
};

// Returns false on an error; lx->wrong has the reason.
bool template_next_token(struct template_lexer *lx, struct template_token *ret);
// Returns the text up to the next {{ or the end, trimmed if the action requests it, and moves pos
// after the {{. *ret_end: no action follows.
bool template_next_text(struct template_lexer *lx, struct gs_slice *ret, bool *ret_end);
// Skips a comment and its }}. pos is after the {{ and its trim marker, at the slash and star.
bool template_skip_comment(struct template_lexer *lx);

// --- values, and how Go prints and compares them ---

enum template_type {
    VALUE_NIL,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_STRING,
    VALUE_LABELS, // map[string]string
    VALUE_SAMPLE,
    VALUE_VECTOR,
    VALUE_ARGS,     // result of `args`: arg0, arg1, …
    VALUE_LIST,     // []string
    VALUE_TIME,     // unix milliseconds
    VALUE_DURATION, // nanoseconds
    VALUE_DATA,     // the root
};

struct template_value {
    enum template_type type;
    union {
        bool b;
        int64_t i; // VALUE_INT, VALUE_TIME, VALUE_DURATION
        double f;
        struct gs_slice s;
        struct {
            const struct metrics_label *items;
            size_t n;
        } labels;
        const struct template_sample *sample;
        struct {
            const struct template_sample *const *items;
            size_t n;
        } vector;
        struct {
            const struct template_value *items;
            size_t n;
        } args;
        struct {
            const struct gs_slice *items;
            size_t n;
        } list;
        const struct template_data *data;
    } u;
};

static inline struct template_value template_string(struct gs_slice s)
{
    return (struct template_value){.type = VALUE_STRING, .u.s = s};
}
static inline struct template_value template_bool(bool b)
{
    return (struct template_value){.type = VALUE_BOOL, .u.b = b};
}
static inline struct template_value template_int(int64_t i)
{
    return (struct template_value){.type = VALUE_INT, .u.i = i};
}
static inline struct template_value template_float(double f)
{
    return (struct template_value){.type = VALUE_FLOAT, .u.f = f};
}

const char *template_type_name(const struct template_value *v); // Go's
bool template_truth(const struct template_value *v);
void template_print(const struct template_value *v, struct gs_buf *out); // fmt.Print
void template_printf(struct gs_slice fmt, const struct template_value *args, size_t n,
                     struct gs_buf *out);
void template_print_time(int64_t unix_ms, struct gs_buf *out);
void template_print_duration(int64_t ns, struct gs_buf *out);
void template_quote(struct gs_slice s, struct gs_buf *out);             // strconv.Quote
void template_add_general(double v, int precision, struct gs_buf *out); // "%.4g" as Go prints it
enum template_comparison {
    COMPARE_OK,
    COMPARE_BAD_TYPE,
    COMPARE_INCOMPATIBLE,
    COMPARE_UNSUPPORTED
};
// -1, 0, 1 in *ret; 2: unordered. ordered: for lt and the like.
enum template_comparison template_compare(const struct template_value *a,
                                          const struct template_value *b, bool ordered, int *ret);
struct gs_slice template_label(const struct template_value *labels, struct gs_slice name);

// --- an expansion ---

struct template_expansion {
    const struct template_program *t;
    const struct template_data *data;
    struct gs_arena arena;
    struct gs_buf *out;
    struct gs_slice in; // the template being executed
    struct {
        struct gs_slice name;
        struct template_value value;
    } vars[500];
    size_t n_vars;
    size_t steps;
    int64_t regex_ns; // processor time of all regular expressions
    int depth;
    enum { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;
    struct gs_error *err;
};

bool template_fail_at(struct template_expansion *e, uint32_t start, uint32_t end, const char *fmt,
                      ...) GS_PRINTF(4, 5);
struct template_failure {
    const char *text;   // in the expansion's arena
    const char *wanted; // the expected type, if an argument has the wrong one
    size_t arg;
};
// Calls a function with evaluated arguments.
bool template_call(struct template_expansion *e, struct gs_slice name,
                   const struct template_value *args, size_t n, struct template_value *ret,
                   struct template_failure *ret_failure);
// Returns the minimum and maximum number of arguments; maximum -1: unlimited.
void template_arity(struct gs_slice name, int *ret_min, int *ret_max);

// --- functions that make texts of texts and numbers ---

void template_escape_js(struct gs_slice s, struct gs_buf *out);
void template_escape_query(struct gs_slice s, struct gs_buf *out);
void template_title(struct gs_slice s, struct gs_buf *out);
void template_upper(struct gs_slice s, struct gs_buf *out);
void template_lower(struct gs_slice s, struct gs_buf *out);
void template_strip_port(struct gs_slice s, struct gs_buf *out);
void template_strip_domain(struct gs_slice s, struct gs_buf *out);
void template_graph_link(struct gs_slice s, struct gs_buf *out);
void template_humanize(double v, struct gs_buf *out);
void template_humanize_1024(double v, struct gs_buf *out);
void template_humanize_duration(double seconds, struct gs_buf *out);
// Regular expressions, not anchored, under PCRE2's match limits.
struct gs_error *template_regex_match(struct gs_slice pattern, struct gs_slice text, bool *ret);
struct gs_error *template_regex_replace(struct gs_slice pattern, struct gs_slice replacement,
                                        struct gs_slice text, struct gs_buf *out);
