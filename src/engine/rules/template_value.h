// SPDX-License-Identifier: Apache-2.0
// What a template computes with, and how Go prints and compares it. Private to the template files.
#pragma once

#include "base/buf.h"
#include "engine/rules/template.h"
#include "engine/rules/template_ast.h"

enum template_type {
    TEMPLATE_TV_NIL,
    TEMPLATE_TV_BOOL,
    TEMPLATE_TV_INT,
    TEMPLATE_TV_FLOAT,
    TEMPLATE_TV_STRING,
    TEMPLATE_TV_LABELS, // map[string]string
    TEMPLATE_TV_SAMPLE,
    TEMPLATE_TV_VECTOR,
    TEMPLATE_TV_ARGS, // what `args` makes: arg0, arg1, …
    TEMPLATE_TV_LIST, // []string
    TEMPLATE_TV_TIME, // unix milliseconds
    TEMPLATE_TV_DATA, // the root
};

struct template_value {
    enum template_type type;
    union {
        bool b;
        int64_t i; // TEMPLATE_TV_INT, TEMPLATE_TV_TIME
        double f;
        struct gs_slice s;
        struct {
            const struct metrics_label *items;
            size_t n;
        } labels;
        const struct template_sample *sample;
        struct {
            const struct template_sample *const *items;
            size_t n;
        } vector;
        struct {
            const struct template_value *items;
            size_t n;
        } args;
        struct {
            const struct gs_slice *items;
            size_t n;
        } list;
        const struct template_data *data;
    } u;
};

static inline struct template_value template_string(struct gs_slice s)
{
    return (struct template_value){.type = TEMPLATE_TV_STRING, .u.s = s};
}
static inline struct template_value template_bool(bool b)
{
    return (struct template_value){.type = TEMPLATE_TV_BOOL, .u.b = b};
}
static inline struct template_value template_int(int64_t i)
{
    return (struct template_value){.type = TEMPLATE_TV_INT, .u.i = i};
}
static inline struct template_value template_float(double f)
{
    return (struct template_value){.type = TEMPLATE_TV_FLOAT, .u.f = f};
}

const char *template_type_name(const struct template_value *v); // Go's
bool template_truth(const struct template_value *v);
void template_print(const struct template_value *v, struct gs_buf *out); // fmt.Print
void template_printf(struct gs_slice fmt, const struct template_value *args, size_t n,
                     struct gs_buf *out);
void template_print_time(int64_t unix_ms, struct gs_buf *out);
void template_quote(struct gs_slice s, struct gs_buf *out);             // strconv.Quote
void template_add_general(double v, int precision, struct gs_buf *out); // "%.4g" as Go prints it
enum template_comparable {
    TEMPLATE_COMPARABLE,
    TEMPLATE_BAD_TYPE,
    TEMPLATE_INCOMPATIBLE,
    TEMPLATE_NOT_COMPARABLE
};
// -1, 0, 1 in *ret; 2: unordered. ordered: for lt and the like.
enum template_comparable template_compare(const struct template_value *a,
                                          const struct template_value *b, bool ordered, int *ret);
struct gs_slice template_label(const struct template_value *labels, struct gs_slice name);

// --- an expansion ---

struct template_exec {
    const struct template *t;
    const struct template_data *data;
    struct gs_arena arena;
    struct gs_buf *out;
    struct gs_slice in; // the template being executed
    struct {
        struct gs_slice name;
        struct template_value value;
    } vars[500];
    size_t n_vars;
    size_t steps;
    int depth;
    enum { TEMPLATE_GO_ON, TEMPLATE_BREAKING, TEMPLATE_CONTINUING } flow;
    struct gs_error *err;
};

bool template_fail_at(struct template_exec *e, uint32_t start, uint32_t end, const char *fmt, ...)
    GS_PRINTF(4, 5);
struct template_failure {
    const char *text;   // in the expansion's arena
    const char *wanted; // an argument has the wrong type: the right one, and which argument
    size_t arg;
};
// A function with its evaluated arguments.
bool template_call(struct template_exec *e, struct gs_slice name, const struct template_value *args,
                   size_t n, struct template_value *ret, struct template_failure *ret_failure);
// How many arguments a function takes: at least *ret_min; -1: any number more.
void template_arity(struct gs_slice name, int *ret_min, int *ret_max);
