// SPDX-License-Identifier: Apache-2.0
// Tokens inside {{ }}. Private to the template files.
#pragma once

#include "engine/rules/template_ast.h"

enum template_token_kind {
    TEMPLATE_TT_SPACE,
    TEMPLATE_TT_WORD, // identifier or keyword
    TEMPLATE_TT_FIELD,
    TEMPLATE_TT_VARIABLE,
    TEMPLATE_TT_INT,
    TEMPLATE_TT_FLOAT,
    TEMPLATE_TT_STRING,
    TEMPLATE_TT_LPAREN,
    TEMPLATE_TT_RPAREN,
    TEMPLATE_TT_PIPE,
    TEMPLATE_TT_COMMA,
    TEMPLATE_TT_ASSIGN,
    TEMPLATE_TT_DECLARE,
    TEMPLATE_TT_DOT,
    TEMPLATE_TT_CLOSE, // }}, with the text behind it trimmed when asked
    TEMPLATE_TT_END,   // of the text
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
    const char *wrong; // static reason after a failure
};

// False: lx->wrong says why.
bool template_lex(struct template_lexer *lx, struct template_token *ret);
// The text up to the next {{ (or the end), trimmed when the action asks; pos is then behind the {{.
// *ret_end: no action follows.
bool template_lex_text(struct template_lexer *lx, struct gs_slice *ret, bool *ret_end);
// pos is behind {{ (and its trim marker), in front of a slash and star: skips to behind the }}.
bool template_lex_comment(struct template_lexer *lx);
