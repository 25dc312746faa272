// SPDX-License-Identifier: Apache-2.0
// Internals of the parser and the printers.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "promql/ast.h"

#include <stdint.h>

// --- tokens ---
// Tokens of PromQL. They refer to the input text.

enum promql_token_type {
    PROMQL_T_EOF,
    PROMQL_T_ERROR, // text: the message
    PROMQL_T_IDENTIFIER,
    PROMQL_T_METRIC_IDENTIFIER, // has a colon
    PROMQL_T_STRING,            // text: with its quotes
    PROMQL_T_NUMBER,
    PROMQL_T_DURATION,
    PROMQL_T_KEYWORD,      // by, offset … (any case)
    PROMQL_T_AGGREGATE,    // sum …
    PROMQL_T_PREPROCESSOR, // start, end, step, range, max_of, min_of
    PROMQL_T_OPERATOR,     // binary operators, with the words and, or, unless, atan2
    PROMQL_T_COMMA,
    PROMQL_T_COLON,
    PROMQL_T_AT,
    PROMQL_T_EQL, // =
    PROMQL_T_EQL_REGEX,
    PROMQL_T_NEQ_REGEX,
    PROMQL_T_LEFT_PAREN,
    PROMQL_T_RIGHT_PAREN,
    PROMQL_T_LEFT_BRACE,
    PROMQL_T_RIGHT_BRACE,
    PROMQL_T_LEFT_BRACKET,
    PROMQL_T_RIGHT_BRACKET,
};

enum promql_preprocessor {
    PROMQL_P_START,
    PROMQL_P_END,
    PROMQL_P_STEP,
    PROMQL_P_RANGE,
    PROMQL_P_MAX_OF,
    PROMQL_P_MIN_OF,
};

enum promql_keyword {
    PROMQL_K_ANCHORED,
    PROMQL_K_BOOL,
    PROMQL_K_BY,
    PROMQL_K_FILL,
    PROMQL_K_FILL_LEFT,
    PROMQL_K_FILL_RIGHT,
    PROMQL_K_GROUP_LEFT,
    PROMQL_K_GROUP_RIGHT,
    PROMQL_K_IGNORING,
    PROMQL_K_OFFSET,
    PROMQL_K_ON,
    PROMQL_K_SMOOTHED,
    PROMQL_K_WITHOUT
};

struct promql_token {
    enum promql_token_type type;
    int code; // enum promql_op, promql_agg, promql_keyword, promql_preprocessor
    uint32_t start, end;
    struct gs_slice text;
};

struct promql_lexer {
    struct gs_slice input; // UTF-8
    size_t at, start;
    int paren_depth;
    bool brace_open, bracket_open, got_colon, got_duration;
    bool got_number;        // in the brackets: what follows is read as outside of them
    struct gs_arena *arena; // error messages
};

struct promql_token promql_lexer_next(struct promql_lexer *l);

// True for names that need no quotes inside of braces.
bool promql_is_plain_label(struct gs_slice name);
// The length of the UTF-8 letter (category L) at the start of text. 0: there is none.
size_t promql_letter(struct gs_slice text);

// Appends a quoted string with escapes, as Go's %q.
void promql_quote(struct gs_buf *out, struct gs_slice s);

// --- parser ---
// State and helpers of the parser.

#define PROMQL_MAX_TEXT   ((size_t)64 * 1024)
#define PROMQL_MAX_DEPTH  200
#define PROMQL_MAX_HEIGHT 2000 // of chains without parentheses: 1 + 1 + 1 …

struct promql_expr {
    struct gs_arena arena;
    struct gs_slice text;
    struct promql_node *root;
    struct tsdb_regex **regexes; // of its matchers
    size_t n_regexes, regexes_cap;
};

struct promql_parser {
    struct promql_expr *expr;
    struct promql_lexer lexer;
    struct promql_token tok; // the next token
    uint32_t last_end;       // of the token before it
    int depth;
    // open aggregations: errors about unexpected tokens then say "in aggregation"
    int aggregations;
    struct gs_error *err; // the first one
};

// Only the first error is kept. pos: byte offset in the text.
void promql_parser_fail(struct promql_parser *p, uint32_t pos, const char *fmt, ...)
    GS_PRINTF(3, 4);
void promql_parser_unexpected(struct promql_parser *p, const char *context, const char *expected);
void promql_parser_advance(struct promql_parser *p);
bool promql_parser_accept(struct promql_parser *p, enum promql_token_type type);
bool promql_parser_is_keyword(const struct promql_parser *p, enum promql_keyword k);
struct promql_node *promql_parser_node(struct promql_parser *p, enum promql_kind kind,
                                       uint32_t start);
// Sets the height of n above `below`. Returns NULL with the error set if the tree is too high.
struct promql_node *promql_parser_check_height(struct promql_parser *p, struct promql_node *n,
                                               const struct promql_node *below);
// Unquotes a string and its escapes; NUL-terminated, in the arena.
struct gs_slice promql_parser_unquote(struct promql_parser *p, const struct promql_token *t);
const char *promql_parser_text(struct promql_parser *p, struct gs_slice s);

// parse_selector.c
struct promql_node *promql_parser_selector(struct promql_parser *p);
// Parses [5m], [5m:1m], offset and @ after a node.
struct promql_node *promql_parse_postfix(struct promql_parser *p, struct promql_node *n);
// parse_duration.c: number, duration or arithmetic expression. `offset`: only as much as an offset
// takes, with a sign. Returns NULL with the error set.
struct promql_duration *promql_parse_duration(struct promql_parser *p, bool offset,
                                              const char *context, const char *expected);
// Sets a duration to the milliseconds of a number, or to the expression.
void promql_set_duration(const struct promql_duration *d, int64_t *ret_ms, int64_t unknown_ms,
                         const struct promql_duration **ret_expr);
bool promql_parse_seconds(struct promql_parser *p, struct promql_token t, double *ret);
bool promql_parse_number(struct gs_slice text, double *ret); // of a number's token

// check.c: sets the node types and checks the rules that are not part of the grammar.
void promql_check(struct promql_parser *p, struct promql_node *n);

// --- printers ---
// Shared by both printers.

void promql_print_selector(const struct promql_node *n, struct gs_buf *out);
void promql_print_subquery_suffix(const struct promql_node *n, struct gs_buf *out); // [5m:1m] …
void promql_print_operator(const struct promql_node *n, struct gs_buf *out); // == bool on (a) …
void promql_print_aggregate_head(const struct promql_node *n, struct gs_buf *out); // sum by (a)
void promql_print_seconds(double seconds, bool duration, struct gs_buf *out);
const char *promql_function_name(const struct promql_node *call);
