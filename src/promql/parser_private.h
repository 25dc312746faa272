// SPDX-License-Identifier: Apache-2.0
// Between the files of the parser.
#pragma once

#include "promql/ast.h"
#include "promql/lexer.h"

#define PROMQL_MAX_TEXT   ((size_t)64 * 1024)
#define PROMQL_MAX_DEPTH  200
#define PROMQL_MAX_HEIGHT 2000 // of chains that nest without brackets: 1 + 1 + 1 …

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
    int aggregations;     // that are open: an unexpected token is then told "in aggregation"
    struct gs_error *err; // the first one
};

// The first error stays. pos: byte in the text.
void promql_parser_fail(struct promql_parser *p, uint32_t pos, const char *fmt, ...)
    GS_PRINTF(3, 4);
void promql_parser_unexpected(struct promql_parser *p, const char *context, const char *expected);
void promql_parser_advance(struct promql_parser *p);
bool promql_parser_accept(struct promql_parser *p, enum promql_token_type type);
bool promql_parser_is_keyword(const struct promql_parser *p, enum promql_keyword k);
struct promql_node *promql_parser_node(struct promql_parser *p, enum promql_kind kind,
                                       uint32_t start);
// n stands on below. NULL, with the error set, when the tree gets too high.
struct promql_node *promql_parser_check_height(struct promql_parser *p, struct promql_node *n,
                                               const struct promql_node *below);
// "…" with its escapes undone; NUL-terminated, in the arena.
struct gs_slice promql_parser_unquote(struct promql_parser *p, const struct promql_token *t);
const char *promql_parser_text(struct promql_parser *p, struct gs_slice s);

// promql_parser_selector.c
struct promql_node *promql_parser_selector(struct promql_parser *p);
// [5m], [5m:1m], offset, @ behind a node
struct promql_node *promql_parse_postfix(struct promql_parser *p, struct promql_node *n);
bool promql_parse_seconds(struct promql_parser *p, struct promql_token t, double *ret);
bool promql_parse_number(struct gs_slice text, double *ret); // of a number's token

// check.c: types and what else the grammar does not say. Fills node types.
void promql_check(struct promql_parser *p, struct promql_node *n);
