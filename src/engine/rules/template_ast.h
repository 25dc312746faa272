// SPDX-License-Identifier: Apache-2.0
// The parsed form of a template. Private to the template files.
#pragma once

#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>

struct tmpl_pipe;

enum tmpl_arg_kind {
    TMPL_DOT,
    TMPL_NIL,
    TMPL_BOOL,
    TMPL_INT,
    TMPL_FLOAT,
    TMPL_STRING,
    TMPL_FIELD,    // .A.B
    TMPL_VARIABLE, // $x.A.B: names[0] is "$x"
    TMPL_FUNCTION,
    TMPL_PAREN, // (pipe).A.B
};

struct tmpl_arg {
    enum tmpl_arg_kind kind;
    uint32_t start, end; // bytes in the text
    bool b;
    int64_t i;
    double f;
    struct gs_slice s; // text, function name
    struct gs_slice *names;
    size_t n_names;
    struct tmpl_pipe *pipe;
    struct tmpl_arg *next;
};

struct tmpl_cmd {
    uint32_t start, end;
    struct tmpl_arg *args;
    size_t n_args;
    struct tmpl_cmd *next;
};

struct tmpl_pipe {
    uint32_t start, end;
    struct gs_slice vars[2]; // "$x"; declared, or set when `assign`
    size_t n_vars;
    bool assign;
    struct tmpl_cmd *cmds;
};

enum tmpl_kind {
    TMPL_TEXT,
    TMPL_ACTION,
    TMPL_IF,
    TMPL_WITH,
    TMPL_RANGE,
    TMPL_INCLUDE, // {{template}}
    TMPL_BREAK,
    TMPL_CONTINUE,
};

struct tmpl_node {
    enum tmpl_kind kind;
    uint32_t start, end;
    struct gs_slice text; // of TMPL_TEXT; the name of TMPL_INCLUDE
    struct tmpl_pipe *pipe;
    struct tmpl_node *body, *otherwise; // lists
    struct tmpl_node *next;
};

struct tmpl_define {
    struct gs_slice name;
    struct tmpl_node *body;
    struct tmpl_define *next;
};

struct rule_template {
    struct gs_arena arena;
    struct gs_slice text; // with the definitions of the convenience variables in front
    const char *name;
    struct tmpl_node *body;
    struct tmpl_define *defines;
    bool plain; // no action: the text is the result
};

#define TMPL_MAX_DEPTH 100

bool tmpl_is_function(struct gs_slice name);
// `template: NAME:LINE:COLUMN` of a byte. column: as Go counts, bytes from the line's start.
void tmpl_position(struct gs_slice text, uint32_t at, size_t *ret_line, size_t *ret_column);
