// SPDX-License-Identifier: Apache-2.0
// What a template computes with, and how Go prints and compares it. Private to the template files.
#pragma once

#include "base/buf.h"
#include "engine/rules/template.h"
#include "engine/rules/template_ast.h"

enum tmpl_type {
    TV_NIL,
    TV_BOOL,
    TV_INT,
    TV_FLOAT,
    TV_STRING,
    TV_LABELS, // map[string]string
    TV_SAMPLE,
    TV_VECTOR,
    TV_ARGS, // what `args` makes: arg0, arg1, …
    TV_LIST, // []string
    TV_TIME, // unix milliseconds
    TV_DATA, // the root
};

struct tmpl_value {
    enum tmpl_type type;
    union {
        bool b;
        int64_t i; // TV_INT, TV_TIME
        double f;
        struct gs_slice s;
        struct {
            const struct metrics_label *items;
            size_t n;
        } labels;
        const struct rule_template_sample *sample;
        struct {
            const struct rule_template_sample *const *items;
            size_t n;
        } vector;
        struct {
            const struct tmpl_value *items;
            size_t n;
        } args;
        struct {
            const struct gs_slice *items;
            size_t n;
        } list;
        const struct rule_template_data *data;
    } u;
};

static inline struct tmpl_value tmpl_string(struct gs_slice s)
{
    return (struct tmpl_value){.type = TV_STRING, .u.s = s};
}
static inline struct tmpl_value tmpl_bool(bool b)
{
    return (struct tmpl_value){.type = TV_BOOL, .u.b = b};
}
static inline struct tmpl_value tmpl_int(int64_t i)
{
    return (struct tmpl_value){.type = TV_INT, .u.i = i};
}
static inline struct tmpl_value tmpl_float(double f)
{
    return (struct tmpl_value){.type = TV_FLOAT, .u.f = f};
}

const char *tmpl_type_name(const struct tmpl_value *v); // Go's
bool tmpl_truth(const struct tmpl_value *v);
void tmpl_print(const struct tmpl_value *v, struct gs_buf *out); // fmt.Print
void tmpl_printf(struct gs_slice fmt, const struct tmpl_value *args, size_t n, struct gs_buf *out);
void tmpl_print_time(int64_t unix_ms, struct gs_buf *out);
void tmpl_quote(struct gs_slice s, struct gs_buf *out);             // strconv.Quote
void tmpl_add_general(double v, int precision, struct gs_buf *out); // "%.4g" as Go prints it
enum tmpl_comparable { TMPL_COMPARABLE, TMPL_BAD_TYPE, TMPL_INCOMPATIBLE, TMPL_NOT_COMPARABLE };
// -1, 0, 1 in *ret; 2: unordered. ordered: for lt and the like.
enum tmpl_comparable tmpl_compare(const struct tmpl_value *a, const struct tmpl_value *b,
                                  bool ordered, int *ret);
struct gs_slice tmpl_label(const struct tmpl_value *labels, struct gs_slice name);

// --- an expansion ---

struct tmpl_exec {
    const struct rule_template *t;
    const struct rule_template_data *data;
    struct gs_arena arena;
    struct gs_buf *out;
    struct gs_slice in; // the template being executed
    struct {
        struct gs_slice name;
        struct tmpl_value value;
    } vars[500];
    size_t n_vars;
    size_t steps;
    int depth;
    enum { TMPL_GO_ON, TMPL_BREAKING, TMPL_CONTINUING } flow;
    struct gs_error *err;
};

bool tmpl_fail_at(struct tmpl_exec *e, uint32_t start, uint32_t end, const char *fmt, ...)
    GS_PRINTF(4, 5);
struct tmpl_failure {
    const char *text;   // in the expansion's arena
    const char *wanted; // an argument has the wrong type: the right one, and which argument
    size_t arg;
};
// A function with its evaluated arguments.
bool tmpl_call(struct tmpl_exec *e, struct gs_slice name, const struct tmpl_value *args, size_t n,
               struct tmpl_value *ret, struct tmpl_failure *ret_failure);
// How many arguments a function takes: at least *ret_min; -1: any number more.
void tmpl_arity(struct gs_slice name, int *ret_min, int *ret_max);
