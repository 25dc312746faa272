// SPDX-License-Identifier: Apache-2.0
// The parsed form of a template. Private to the template files.
#pragma once

#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>

struct template_pipe;

enum template_arg_kind {
    TEMPLATE_DOT,
    TEMPLATE_NIL,
    TEMPLATE_BOOL,
    TEMPLATE_INT,
    TEMPLATE_FLOAT,
    TEMPLATE_STRING,
    TEMPLATE_FIELD,    // .A.B
    TEMPLATE_VARIABLE, // $x.A.B: names[0] is "$x"
    TEMPLATE_FUNCTION,
    TEMPLATE_PAREN, // (pipe).A.B
};

struct template_arg {
    enum template_arg_kind kind;
    uint32_t start, end; // bytes in the text
    bool b;
    int64_t i;
    double f;
    struct gs_slice s; // text, function name
    struct gs_slice *names;
    size_t n_names;
    struct template_pipe *pipe;
    struct template_arg *next;
};

struct template_cmd {
    uint32_t start, end;
    struct template_arg *args;
    size_t n_args;
    struct template_cmd *next;
};

struct template_pipe {
    uint32_t start, end;
    struct gs_slice vars[2]; // "$x"; declared, or set when `assign`
    size_t n_vars;
    bool assign;
    struct template_cmd *cmds;
};

enum template_kind {
    TEMPLATE_TEXT,
    TEMPLATE_ACTION,
    TEMPLATE_IF,
    TEMPLATE_WITH,
    TEMPLATE_RANGE,
    TEMPLATE_INCLUDE, // {{template}}
    TEMPLATE_BREAK,
    TEMPLATE_CONTINUE,
};

struct template_node {
    enum template_kind kind;
    uint32_t start, end;
    struct gs_slice text; // of TEMPLATE_TEXT; the name of TEMPLATE_INCLUDE
    struct template_pipe *pipe;
    struct template_node *body, *otherwise; // lists
    struct template_node *next;
};

struct template_define {
    struct gs_slice name;
    struct template_node *body;
    struct template_define *next;
};

struct template
{
    struct gs_arena arena;
    struct gs_slice text; // with the definitions of the convenience variables in front
    const char *name;
    struct template_node *body;
    struct template_define *defines;
    bool plain; // no action: the text is the result
};

#define TEMPLATE_MAX_DEPTH 100

bool template_is_function(struct gs_slice name);
// `template: NAME:LINE:COLUMN` of a byte. column: as Go counts, bytes from the line's start.
void template_position(struct gs_slice text, uint32_t at, size_t *ret_line, size_t *ret_column);
