// SPDX-License-Identifier: Apache-2.0
// Tokens inside {{ }}. Private to the template files.
#pragma once

#include "engine/rules/template_ast.h"

enum tmpl_token_kind {
    TT_SPACE,
    TT_WORD, // identifier or keyword
    TT_FIELD,
    TT_VARIABLE,
    TT_INT,
    TT_FLOAT,
    TT_STRING,
    TT_LPAREN,
    TT_RPAREN,
    TT_PIPE,
    TT_COMMA,
    TT_ASSIGN,
    TT_DECLARE,
    TT_DOT,
    TT_CLOSE, // }}, with the text behind it trimmed when asked
    TT_END,   // of the text
};

struct tmpl_token {
    enum tmpl_token_kind kind;
    uint32_t start, end;
    struct gs_slice s; // word, ".field" without the dot, "$var", the content of a string
    int64_t i;
    double f;
};

struct tmpl_lexer {
    struct gs_slice text;
    const char *open, *close; // of actions, two bytes each: "{{", "}}"
    uint32_t pos;
    struct gs_arena *arena;
    const char *wrong; // static reason after a failure
};

// False: lx->wrong says why.
bool tmpl_lex(struct tmpl_lexer *lx, struct tmpl_token *ret);
// The text up to the next {{ (or the end), trimmed when the action asks; pos is then behind the {{.
// *ret_end: no action follows.
bool tmpl_lex_text(struct tmpl_lexer *lx, struct gs_slice *ret, bool *ret_end);
// pos is behind {{ (and its trim marker), in front of a slash and star: skips to behind the }}.
bool tmpl_lex_comment(struct tmpl_lexer *lx);
