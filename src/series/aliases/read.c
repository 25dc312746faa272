// SPDX-License-Identifier: Apache-2.0
// Rewrites expressions so that they read both names of a metric. A GPU that has series with the
// queried name is read from them alone: in a fleet with old and new exporters, or if two exporters
// serve the same GPU, it counts once.
#include "aliases/aliases_private.h"

#include "base/mem.h"

#include <string.h>

#define DEVICE "on (UUID, GPU_I_ID)"

struct reading {
    const struct aliases_source *source;
    const struct promql_expr *expr;
    const struct promql_node *root;
    const char *driver_label; // that the expression uses; NULL: neither
    struct aliases_edits edits;
    struct gs_buf *notes; // NULL: not wanted
};

// --- what the expression contains ---

struct mention {
    struct gs_slice name;
    bool found;
};

static bool find_mention(void *arg, const struct promql_node *n)
{
    struct mention *m = arg;
    if (n->kind == PROMQL_SELECTOR && gs_slice_eq(aliases_selected_name(n), m->name))
        m->found = true;
    return !m->found;
}

static bool selects_name(const struct promql_node *root, const char *name)
{
    struct mention m = {.name = gs_slice_of(name)};
    promql_walk(root, find_mention, &m);
    return m.found;
}

static const char *driver_label_of(struct gs_slice text)
{
    if (memmem(text.data, text.len, ALIASES_OLD_DRIVER_LABEL, strlen(ALIASES_OLD_DRIVER_LABEL)))
        return ALIASES_OLD_DRIVER_LABEL;
    if (memmem(text.data, text.len, ALIASES_NEW_DRIVER_LABEL, strlen(ALIASES_NEW_DRIVER_LABEL)))
        return ALIASES_NEW_DRIVER_LABEL;
    return NULL;
}

static const char *other_driver_label(const char *label)
{
    return gs_streq(label, ALIASES_OLD_DRIVER_LABEL) ? ALIASES_NEW_DRIVER_LABEL
                                                     : ALIASES_OLD_DRIVER_LABEL;
}

// --- one selector with another name ---

// The selector with this name; identified: only series with a UUID. driver_label: NULL, or the
// label that is replaced by the one that exporters with this name use.
void aliases_add_selector(const struct promql_node *selector, const char *name,
                          const char *driver_label, bool identified, struct gs_buf *out)
{
    size_t n = 0, len = selector->u.selector.n_matchers;
    GS_AUTO_FREE struct tsdb_matcher *m = gs_alloc_array(len + 2, sizeof(*m));
    m[n++] = (struct tsdb_matcher){GS_SLICE("__name__"), gs_slice_of(name), TSDB_EQ, NULL};
    for (size_t i = 0; i < len; i++) {
        if (gs_slice_eq_str(selector->u.selector.matchers[i].name, "__name__"))
            continue;
        m[n] = selector->u.selector.matchers[i];
        if (driver_label && gs_slice_eq_str(m[n].name, driver_label))
            m[n].name = gs_slice_of(other_driver_label(driver_label));
        n++;
    }
    if (identified)
        m[n++] = (struct tsdb_matcher){GS_SLICE("UUID"), GS_SLICE(""), TSDB_NEQ, NULL};
    struct promql_node copy = *selector;
    copy.u.selector.name = gs_slice_of(name);
    copy.u.selector.matchers = m;
    copy.u.selector.n_matchers = n;
    promql_print(&copy, out);
}

// The unit as written, with the selector replaced.
static void add_unit(const struct reading *r, const struct aliases_unit *u, const char *name,
                     const char *driver_label, bool identified, struct gs_buf *out)
{
    const char *text = promql_expr_text(r->expr).data;
    gs_buf_add(out, text + u->whole->start, u->selector->start - u->whole->start);
    aliases_add_selector(u->selector, name, driver_label, identified, out);
    gs_buf_add(out, text + u->selector->end, u->whole->end - u->selector->end);
}

// The unit read by another name, in the unit, and with the labels, of the queried name.
static void add_other(const struct reading *r, const struct aliases_unit *u, const char *queried,
                      const struct aliases_name *a, struct gs_buf *out)
{
    const char *label = r->driver_label;
    const struct aliases_name s = aliases_scaled(a, u->scale);
    bool relabel = label && u->scale != ALIASES_RAW && u->scale != ALIASES_ABSENCE;
    gs_buf_add_str(out, u->named ? "label_replace(" : "");
    gs_buf_add_str(out, relabel ? "label_replace(" : "");
    add_unit(r, u, a->name, label, false, out);
    aliases_add_factor(&s, out);
    if (relabel)
        gs_buf_addf(out, ", \"%s\", \"$1\", \"%s\", \"(.+)\")", label, other_driver_label(label));
    if (u->named)
        gs_buf_addf(out, ", \"__name__\", \"%s\", \"\", \"\")", queried);
}

// --- one unit ---

struct names {
    const char *queried;
    bool queried_exists; // or may exist
    struct aliases_name others[ALIASES_MAX];
    size_t n;
};

static bool find_names(const struct reading *r, const struct promql_node *selector,
                       struct names *ret)
{
    struct gs_slice name = aliases_selected_name(selector);
    struct aliases_name all[ALIASES_MAX];
    size_t n = aliases_of(name, all);
    *ret = (struct names){0};
    for (size_t i = 0; i < n; i++)
        if (r->source->has(r->source->arg, gs_slice_of(all[i].name)) &&
            !selects_name(r->root, all[i].name))
            ret->others[ret->n++] = all[i];
    if (!ret->n)
        return false;
    ret->queried = name.data; // NUL-terminated, as the values of matchers are copied
    ret->queried_exists = !r->source->complete || r->source->has(r->source->arg, name);
    return true;
}

static void add_absence(const struct reading *r, const struct aliases_unit *u,
                        const struct names *names, struct gs_buf *out)
{
    if (names->queried_exists)
        add_unit(r, u, names->queried, NULL, false, out);
    for (size_t i = 0; i < names->n; i++) {
        gs_buf_add_str(out, i || names->queried_exists ? " and on () " : "");
        add_other(r, u, names->queried, &names->others[i], out);
    }
}

// The GPUs that have series under one of the first n names are left out.
static void add_exceptions(const struct reading *r, const struct aliases_unit *u,
                           const struct names *names, size_t n, struct gs_buf *out)
{
    if (names->queried_exists) {
        gs_buf_add_str(out, " unless " DEVICE " ");
        add_unit(r, u, names->queried, NULL, true, out);
    }
    for (size_t i = 0; i < n; i++) {
        gs_buf_add_str(out, " unless " DEVICE " ");
        add_unit(r, u, names->others[i].name, r->driver_label, true, out);
    }
}

static void add_values(const struct reading *r, const struct aliases_unit *u,
                       const struct names *names, struct gs_buf *out)
{
    if (names->queried_exists)
        add_unit(r, u, names->queried, NULL, false, out);
    for (size_t i = 0; i < names->n; i++) {
        bool several = names->queried_exists || i;
        gs_buf_add_str(out, several ? " or (" : "");
        add_other(r, u, names->queried, &names->others[i], out);
        add_exceptions(r, u, names, i, out);
        gs_buf_add_str(out, several ? ")" : "");
    }
}

// A range without a function can only be read under one name, in the same unit.
static bool fits_raw(const struct names *names)
{
    return !names->queried_exists && names->n == 1 && names->others[0].multiplier == 1 &&
           names->others[0].divisor == 1;
}

static void rewrite_unit(struct reading *r, const struct aliases_unit *u, const struct names *names)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (u->scale == ALIASES_RAW && !fits_raw(names))
        return;
    if (u->scale == ALIASES_RAW) {
        add_unit(r, u, names->others[0].name, r->driver_label, false, &text);
    } else {
        aliases_open_paren(promql_expr_text(r->expr), u->whole->start, &text);
        if (u->scale == ALIASES_ABSENCE)
            add_absence(r, u, names, &text);
        else
            add_values(r, u, names, &text);
        gs_buf_add_char(&text, ')');
    }
    for (size_t i = 0; r->notes && i < names->n; i++)
        aliases_note(names->queried, &names->others[i], r->notes);
    aliases_edits_add(&r->edits, u->whole->start, u->whole->end, &text);
}

// --- selectors with a pattern for the name ---

struct pattern {
    const struct reading *reading; // NULL: for match[]
    const struct aliases_source *source;
    const struct promql_node *selector;
    void (*fn)(void *arg, const char *shown, const struct aliases_name *a);
    void *arg;
};

// Names that the pattern fits, and that exist only under names that it does not fit.
static void check_name(void *arg, const char *name)
{
    const struct pattern *p = arg;
    struct aliases_name all[ALIASES_MAX];
    if (!aliases_pattern_fits(p->selector, name))
        return;
    size_t n = aliases_of(gs_slice_of(name), all);
    for (size_t i = 0; i < n; i++)
        if (!aliases_pattern_fits(p->selector, all[i].name) &&
            p->source->has(p->source->arg, gs_slice_of(all[i].name)) &&
            !(p->reading && selects_name(p->reading->root, all[i].name)))
            p->fn(p->arg, name, &all[i]);
}

void aliases_each_in_pattern(const struct promql_node *selector,
                             const struct aliases_source *source,
                             void (*fn)(void *arg, const char *shown, const struct aliases_name *a),
                             void *arg)
{
    struct pattern p = {NULL, source, selector, fn, arg};
    aliases_each_name(check_name, &p);
}

struct pattern_text {
    const struct reading *reading;
    const struct promql_node *selector;
    struct gs_buf text;
};

static void add_name_of_pattern(void *arg, const char *shown, const struct aliases_name *a)
{
    struct pattern_text *p = arg;
    const struct reading *r = p->reading;
    const struct aliases_unit u = {p->selector, p->selector, NULL, ALIASES_LINEAR, true};
    gs_buf_add_str(&p->text, " or on (__name__, UUID, GPU_I_ID) ");
    add_other(r, &u, shown, a, &p->text);
    if (r->notes)
        aliases_note(shown, a, r->notes);
}

static void rewrite_pattern(struct reading *r, const struct aliases_unit *u)
{
    struct pattern_text t = {r, u->selector, {0}};
    struct pattern p = {r, r->source, u->selector, add_name_of_pattern, &t};
    struct gs_slice all = promql_expr_text(r->expr);
    if (u->whole != u->selector || u->scale != ALIASES_LINEAR)
        return;
    aliases_open_paren(all, u->whole->start, &t.text);
    gs_buf_add(&t.text, all.data + u->whole->start, u->whole->end - u->whole->start);
    size_t len = t.text.len;
    aliases_each_name(check_name, &p);
    bool changed = t.text.len > len;
    gs_buf_add_char(&t.text, ')');
    if (changed)
        aliases_edits_add(&r->edits, u->whole->start, u->whole->end, &t.text);
    gs_buf_finish(&t.text);
}

// --- expressions ---

static void read_unit(void *arg, const struct aliases_unit *u)
{
    struct reading *r = arg;
    struct names names;
    if (find_names(r, u->selector, &names))
        rewrite_unit(r, u, &names);
    else if (aliases_has_pattern(u->selector))
        rewrite_pattern(r, u);
}

void aliases_read(const struct promql_expr *x, const struct aliases_source *s,
                  struct gs_buf *ret_text, struct gs_buf *ret_notes)
{
    struct gs_slice text = promql_expr_text(x);
    if (!memmem(text.data, text.len, "DCGM_", strlen("DCGM_")))
        return;
    struct reading r = {.source = s,
                        .expr = x,
                        .root = promql_expr_root(x),
                        .driver_label = driver_label_of(text),
                        .notes = ret_notes};
    aliases_each_unit(r.root, read_unit, &r);
    if (r.edits.len)
        aliases_edits_apply(&r.edits, text, ret_text);
    aliases_edits_finish(&r.edits);
}
