// SPDX-License-Identifier: Apache-2.0
// Tokens of PromQL. Private to the room.
#pragma once

#include "base/arena.h"
#include "base/buf.h"

#include <stdint.h>

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
    PROMQL_T_PREPROCESSOR, // start, end
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

enum promql_keyword {
    PROMQL_K_BOOL,
    PROMQL_K_BY,
    PROMQL_K_GROUP_LEFT,
    PROMQL_K_GROUP_RIGHT,
    PROMQL_K_IGNORING,
    PROMQL_K_OFFSET,
    PROMQL_K_ON,
    PROMQL_K_WITHOUT
};

struct promql_token {
    enum promql_token_type type;
    int code; // enum promql_op, promql_agg, keyword, or 0/1 for start/end
    uint32_t start, end;
    struct gs_slice text;
};

struct promql_lexer {
    struct gs_slice input; // UTF-8
    size_t at, start;
    int paren_depth;
    bool brace_open, bracket_open, got_colon, got_duration;
    struct gs_arena *arena; // error messages
};

struct promql_token promql_lexer_next(struct promql_lexer *l);

// As Go's %q: a quoted string with escapes.
void promql_quote(struct gs_buf *out, struct gs_slice s);
