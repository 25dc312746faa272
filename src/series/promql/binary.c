// SPDX-License-Identifier: Apache-2.0
// Binary operators with at least one scalar. Operators on two vectors are in match.c.
#include "promql/grouping.h"

#include "promql/eval_private.h"

#include <math.h>

double promql_apply(enum promql_op op, double a, double b, bool *ret_keep)
{
    *ret_keep = true;
    switch (op) {
    case PROMQL_ADD:
        return a + b;
    case PROMQL_SUB:
        return a - b;
    case PROMQL_MUL:
        return a * b;
    case PROMQL_DIV:
        return a / b;
    case PROMQL_MOD:
        return fmod(a, b);
    case PROMQL_POW:
        return pow(a, b);
    case PROMQL_ATAN2:
        return atan2(a, b);
    case PROMQL_EQL:
        *ret_keep = a == b;
        break;
    case PROMQL_NEQ:
        *ret_keep = a != b;
        break;
    case PROMQL_LSS:
        *ret_keep = a < b;
        break;
    case PROMQL_GTR:
        *ret_keep = a > b;
        break;
    case PROMQL_LTE:
        *ret_keep = a <= b;
        break;
    case PROMQL_GTE:
        *ret_keep = a >= b;
        break;
    case PROMQL_TRIM_UPPER: // of native histograms: floats have no result
    case PROMQL_TRIM_LOWER:
        *ret_keep = false;
        break;
    case PROMQL_AND:
    case PROMQL_OR:
    case PROMQL_UNLESS:
        break;
    }
    return a;
}

static void scalar_scalar(const struct promql_node *n, const double *a, const double *b,
                          size_t n_steps, double *out)
{
    enum promql_op op = n->u.binary.op;
    for (size_t i = 0; i < n_steps; i++) {
        bool keep;
        double v = promql_apply(op, a[i], b[i], &keep);
        out[i] = promql_op_is_comparison(op) ? keep : v;
    }
}

// Changes the values of the vector in place. swapped: the scalar is on the left.
static struct gs_error *vector_scalar(struct promql_eval *ev, const struct promql_node *n,
                                      struct promql_matrix *m, const double *scalar, bool swapped)
{
    enum promql_op op = n->u.binary.op;
    bool comparison = promql_op_is_comparison(op), to_bool = n->u.binary.return_bool;
    for (size_t s = 0; s < m->n; s++) {
        double *v = m->series[s].v;
        for (size_t i = 0; i < m->n_steps; i++) {
            if (promql_absent(v[i]))
                continue;
            bool keep;
            double r =
                promql_apply(op, swapped ? scalar[i] : v[i], swapped ? v[i] : scalar[i], &keep);
            if (to_bool)
                v[i] = keep;
            else if (!comparison)
                v[i] = r;
            else if (!keep)
                v[i] = promql_absent_value();
        }
    }
    if (comparison)
        promql_eval_compact(m);
    return comparison && !to_bool ? NULL : promql_eval_drop_names(ev, m);
}

// Floats have no result.
static void note_trim(struct promql_eval *ev, const struct promql_node *n)
{
    const char *op = promql_op_text(n->u.binary.op);
    promql_annotate_info(&ev->notes, n->start,
                         "incompatible sample types encountered for binary operator \"%s\": float "
                         "%s float",
                         op, op);
}

static bool is_trim(const struct promql_node *n)
{
    return n->u.binary.op == PROMQL_TRIM_UPPER || n->u.binary.op == PROMQL_TRIM_LOWER;
}

struct gs_error *promql_eval_binary(struct promql_eval *ev, const struct promql_node *n,
                                    struct promql_matrix *ret)
{
    struct promql_matrix lhs = {0}, rhs = {0};
    struct gs_error *err = promql_eval_dispatch(ev, n->u.binary.lhs, &lhs);
    if (!err)
        err = promql_eval_dispatch(ev, n->u.binary.rhs, &rhs);
    if (err)
        return err;
    bool left = n->u.binary.lhs->type == PROMQL_VECTOR,
         right = n->u.binary.rhs->type == PROMQL_VECTOR;
    lhs.n_steps = rhs.n_steps = ev->steps.n;
    if (is_trim(n) && !left && !right)
        return gs_error_new(GS_ECONFLICT, "operator \"%s\" not allowed for Scalar operations",
                            promql_op_text(n->u.binary.op));
    if (is_trim(n) && lhs.n && rhs.n)
        note_trim(ev, n);
    if (is_trim(n) && !(left && right)) {
        *ret = (struct promql_matrix){.n_steps = ev->steps.n};
        return NULL;
    }
    if (left && right)
        return n->u.binary.card == PROMQL_MANY_TO_MANY
                   ? promql_eval_sets(ev, n, &lhs, &rhs, ret)
                   : promql_eval_vectors(ev, n, &lhs, &rhs, ret);
    *ret = right ? rhs : lhs;
    if (left || right)
        return vector_scalar(ev, n, ret, left ? rhs.series[0].v : lhs.series[0].v, right);
    scalar_scalar(n, lhs.series[0].v, rhs.series[0].v, ev->steps.n, lhs.series[0].v);
    return NULL;
}
