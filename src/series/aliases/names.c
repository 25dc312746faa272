// SPDX-License-Identifier: Apache-2.0
// The other names of a metric, from the table of DCGM's fields.
#include "aliases/aliases_private.h"

#include "dcgm/fields.h"

#include <math.h>

enum { MAX_NAME = 128 };

// Factors are powers of ten and of two or their reciprocals. Whole numbers are exact.
static void set_factor(struct aliases_name *a, double factor)
{
    a->multiplier = factor >= 1 ? factor : 1;
    a->divisor = factor >= 1 ? 1 : round(1 / factor);
}

// factor: a value of the queried name is a value of this name times the factor.
static size_t add_name(struct gs_slice metric, const char *name, enum aliases_release release,
                       double factor, struct aliases_name ret[ALIASES_MAX], size_t n)
{
    if (!name || n == ALIASES_MAX || gs_slice_eq_str(metric, name))
        return n;
    ret[n] = (struct aliases_name){.name = name, .release = release};
    set_factor(&ret[n], factor);
    return n + 1;
}

size_t aliases_of(struct gs_slice metric, struct aliases_name ret[ALIASES_MAX])
{
    char name[MAX_NAME];
    struct dcgm_rename r;
    if (!gs_slice_starts(metric, DCGM_FIELD_PREFIX) || metric.len >= sizeof(name))
        return 0;
    memcpy(name, metric.data, metric.len);
    name[metric.len] = '\0';
    if (!dcgm_rename_of(name, &r))
        return 0;
    bool is_new = gs_streq(name, r.new_name);
    double to_old = is_new ? r.factor : 1;
    size_t n = is_new ? 0 : add_name(metric, r.new_name, ALIASES_4_9, 1 / r.factor, ret, 0);
    n = add_name(metric, r.old_name, ALIASES_4_8, to_old, ret, n);
    return add_name(metric, r.middle_name, ALIASES_DCGM_4_6, to_old, ret, n);
}

void aliases_add_factor(const struct aliases_name *a, struct gs_buf *out)
{
    if (a->multiplier > 1)
        gs_buf_addf(out, " * %.15g", a->multiplier);
    else if (a->divisor > 1)
        gs_buf_addf(out, " / %.15g", a->divisor);
}

void aliases_each_name(void (*fn)(void *arg, const char *name), void *arg)
{
    const struct dcgm_field *f;
    for (size_t i = 0; (f = dcgm_field_at(i)); i++) {
        struct dcgm_rename r;
        if (dcgm_rename_of(f->name, &r))
            fn(arg, f->name);
        if (f->renamed && dcgm_rename_of(f->renamed, &r))
            fn(arg, f->renamed);
    }
}

void aliases_add_line(struct gs_buf *lines, struct gs_slice line)
{
    struct gs_slice rest = gs_buf_slice(lines);
    while (rest.len)
        if (gs_slice_eq(gs_slice_cut(&rest, '\n'), line))
            return;
    gs_buf_add_slice(lines, line);
    gs_buf_add_char(lines, '\n');
}

void aliases_note(const char *from, const struct aliases_name *to, struct gs_buf *lines)
{
    GS_AUTO_BUF struct gs_buf line = {0};
    gs_buf_addf(&line, "%s: %s", from, to->name);
    aliases_add_factor(to, &line);
    aliases_add_line(lines, gs_buf_slice(&line));
}
