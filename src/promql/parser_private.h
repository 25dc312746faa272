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

struct parser {
    struct promql_expr *expr;
    struct lexer lexer;
    struct token tok;  // the next token
    uint32_t last_end; // of the token before it
    int depth;
    int aggregations;     // that are open: an unexpected token is then told "in aggregation"
    struct gs_error *err; // the first one
};

// The first error stays. pos: byte in the text.
void parser_fail(struct parser *p, uint32_t pos, const char *fmt, ...) GS_PRINTF(3, 4);
void parser_unexpected(struct parser *p, const char *context, const char *expected);
void parser_advance(struct parser *p);
bool parser_accept(struct parser *p, enum token_type type);
bool parser_is_keyword(const struct parser *p, enum keyword k);
struct promql_node *parser_node(struct parser *p, enum promql_kind kind, uint32_t start);
// n stands on below. NULL, with the error set, when the tree gets too high.
struct promql_node *parser_check_height(struct parser *p, struct promql_node *n,
                                        const struct promql_node *below);
// "…" with its escapes undone; NUL-terminated, in the arena.
struct gs_slice parser_unquote(struct parser *p, const struct token *t);
const char *parser_text(struct parser *p, struct gs_slice s);

// parse_selector.c
struct promql_node *parse_selector(struct parser *p);
// [5m], [5m:1m], offset, @ behind a node
struct promql_node *parse_postfix(struct parser *p, struct promql_node *n);
bool parse_seconds(struct parser *p, struct token t, double *ret);
bool promql_parse_number(struct gs_slice text, double *ret); // of a number's token

// check.c: types and what else the grammar does not say. Fills node types.
void promql_check(struct parser *p, struct promql_node *n);
