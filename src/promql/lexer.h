// SPDX-License-Identifier: Apache-2.0
// Tokens of PromQL. Private to the room.
#pragma once

#include "base/arena.h"
#include "base/buf.h"

#include <stdint.h>

enum token_type {
    T_EOF,
    T_ERROR, // text: the message
    T_IDENTIFIER,
    T_METRIC_IDENTIFIER, // has a colon
    T_STRING,            // text: with its quotes
    T_NUMBER,
    T_DURATION,
    T_KEYWORD,      // by, offset … (any case)
    T_AGGREGATE,    // sum …
    T_PREPROCESSOR, // start, end
    T_OPERATOR,     // binary operators, with the words and, or, unless, atan2
    T_COMMA,
    T_COLON,
    T_AT,
    T_EQL, // =
    T_EQL_REGEX,
    T_NEQ_REGEX,
    T_LEFT_PAREN,
    T_RIGHT_PAREN,
    T_LEFT_BRACE,
    T_RIGHT_BRACE,
    T_LEFT_BRACKET,
    T_RIGHT_BRACKET,
};

enum keyword { K_BOOL, K_BY, K_GROUP_LEFT, K_GROUP_RIGHT, K_IGNORING, K_OFFSET, K_ON, K_WITHOUT };

struct token {
    enum token_type type;
    int code; // enum promql_op, promql_agg, keyword, or 0/1 for start/end
    uint32_t start, end;
    struct gs_slice text;
};

struct lexer {
    struct gs_slice input; // UTF-8
    size_t at, start;
    int paren_depth;
    bool brace_open, bracket_open, got_colon, got_duration;
    struct gs_arena *arena; // error messages
};

struct token lexer_next(struct lexer *l);

// As Go's %q: a quoted string with escapes.
void promql_quote(struct gs_buf *out, struct gs_slice s);
