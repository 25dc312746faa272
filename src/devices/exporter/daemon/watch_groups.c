// SPDX-License-Identifier: Apache-2.0
// Watch groups: fields with their own sampling interval (collections in version 2 of the file).
// Patterns are those of Go's path.Match; a field that two groups match is an error. The sampler
// runs at the shortest interval.
#include "exporter/daemon/daemon_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "dcgm/fields.h"

enum { MAX_GROUPS = 256, MAX_PATTERNS = 1024, MAX_PATTERN = 256 };

// --- patterns ---

// Reads a character of a set, literal or after a backslash. False: end of the pattern.
static bool set_char(const char **p, char *ret)
{
    if (**p == '\\')
        (*p)++;
    else if (**p == '-' || **p == ']')
        return false;
    if (!**p)
        return false;
    *ret = *(*p)++;
    return true;
}

// *p is after the "["; set to after the "]". False: malformed.
static bool match_set(const char **p, char c, bool *ret)
{
    bool negated = **p == '^', found = false;
    *p += negated;
    for (bool any = false; !any || **p != ']'; any = true) {
        char low, high;
        if (!set_char(p, &low))
            return false;
        high = low;
        if (**p == '-') {
            (*p)++;
            if (!set_char(p, &high))
                return false;
        }
        found |= low <= c && c <= high;
    }
    (*p)++;
    *ret = found != negated;
    return true;
}

// Compares one character of the text with one element of the pattern, and moves *p after it.
static bool match_one(const char **p, char c, bool *ret)
{
    char first = *(*p)++;
    *ret = c != '\0';
    if (first == '[') {
        bool in = false;
        bool ok = match_set(p, c, &in);
        *ret = *ret && in;
        return ok;
    }
    if (first == '?')
        return true;
    if (first == '\\' && !(first = *(*p)++))
        return false;
    *ret = first == c;
    return true;
}

static bool is_pattern(const char *p)
{
    bool ignored;
    while (*p) {
        if (*p == '*')
            p++;
        else if (!match_one(&p, 'x', &ignored))
            return false;
    }
    return true;
}

// The pattern is valid. On a mismatch, the last star consumes one more character.
static bool pattern_matches(const char *p, const char *text)
{
    const char *star = NULL, *star_text = NULL;
    for (;;) {
        bool fits = false;
        if (*p == '*') {
            star = ++p;
            star_text = text;
            continue;
        }
        if (!*p && !*text)
            return true;
        if (*p && match_one(&p, *text, &fits) && fits) {
            text++;
            continue;
        }
        if (!star || !*star_text)
            return false;
        p = star;
        text = ++star_text;
    }
}

// --- parsing ---

static void group_finish(struct daemon_watch_group *g)
{
    for (size_t k = 0; k < g->n_patterns; k++)
        free(g->patterns[k]);
    free(g->patterns);
    free(g->name);
}

void daemon_watch_groups_finish(struct daemon_watch_groups *g)
{
    for (size_t i = 0; i < g->len; i++)
        group_finish(&g->items[i]);
    free(g->items);
    *g = (struct daemon_watch_groups){0};
}

// The keys of a group in one version of the file.
struct group_form {
    const char *list, *interval, *patterns;
    const char *keys[5];
    bool nested; // the patterns are in the mapping "metrics"
};

static const struct group_form watch_group_form = {
    "collection.watchGroups", "interval", "fields", {"name", "interval", "fields"}, false};
static const struct group_form collection_form = {
    "collections", "every", "include", {"name", "every", "sources", "metrics"}, true};

static struct gs_error *read_patterns(const json_t *list, const char *where, const char *key,
                                      struct daemon_watch_group *g)
{
    size_t n = json_array_size(list);
    if (n == 0)
        return gs_error_new(GS_EINVAL, "%s.%s must not be empty", where, key);
    if (n > MAX_PATTERNS)
        return gs_error_new(GS_ELIMIT, "%s.%s: more than %d", where, key, MAX_PATTERNS);
    g->patterns = gs_alloc_array(n, sizeof(*g->patterns));
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        char *pattern = gs_slice_dup(gs_slice_trim(gs_slice_of(text ? text : "")));
        g->patterns[g->n_patterns++] = pattern;
        if (!*pattern)
            return gs_error_new(GS_EINVAL, "%s.%s[%zu] is required", where, key, i);
        if (strlen(pattern) > MAX_PATTERN || !is_pattern(pattern))
            return gs_error_new(GS_EINVAL,
                                "watch group \"%s\" has invalid field pattern \"%.64s\": syntax "
                                "error in pattern",
                                g->name, pattern);
    }
    return NULL;
}

// The patterns of a collection: metrics.include.
static struct gs_error *read_include(const json_t *obj, const char *where,
                                     struct daemon_watch_group *g)
{
    static const char *const keys[] = {"include", NULL};
    const json_t *metrics = json_object_get(obj, "metrics");
    GS_AUTO_FREE char *in = gs_format("%s.metrics", where);
    struct gs_error *err = daemon_file_check_keys(metrics, keys, in);
    return err ? err : read_patterns(json_object_get(metrics, "include"), in, "include", g);
}

static struct gs_error *read_group(const json_t *obj, size_t i, const struct group_form *form,
                                   struct daemon_watch_groups *all)
{
    GS_AUTO_FREE char *where = gs_format("%s[%zu]", form->list, i);
    struct gs_error *err = daemon_file_check_keys(obj, form->keys, where);
    if (err)
        return err;
    struct daemon_watch_group *g = &all->items[all->len++];
    g->name = daemon_file_text(obj, "name");
    if (!*g->name)
        return gs_error_new(GS_EINVAL, "%s.name is required", where);
    for (size_t k = 0; k < i; k++)
        if (gs_streq(all->items[k].name, g->name))
            return gs_error_new(GS_EINVAL, "%s.name \"%s\" is duplicated", where, g->name);
    err = daemon_file_interval(obj, where, form->interval, &g->interval_ms);
    if (err)
        return err;
    return form->nested
               ? read_include(obj, where, g)
               : read_patterns(json_object_get(obj, form->patterns), where, form->patterns, g);
}

static struct gs_error *read_groups(const json_t *groups, const struct group_form *form,
                                    struct daemon_watch_groups *ret)
{
    struct daemon_watch_groups g = {0};
    struct gs_error *err = NULL;
    if (groups && !json_is_null(groups) && !json_is_array(groups))
        return gs_error_new(GS_EINVAL, "%s: want a list", form->list);
    size_t n = json_array_size(groups);
    if (n > MAX_GROUPS)
        return gs_error_new(GS_ELIMIT, "%s: more than %d", form->list, MAX_GROUPS);
    g.items = gs_alloc_array(n ? n : 1, sizeof(*g.items));
    for (size_t i = 0; i < n && !err; i++)
        err = read_group(json_array_get(groups, i), i, form, &g);
    if (err) {
        daemon_watch_groups_finish(&g);
        return err;
    }
    *ret = g;
    return NULL;
}

struct gs_error *daemon_watch_groups_read(const json_t *groups, struct daemon_watch_groups *ret)
{
    return read_groups(groups, &watch_group_form, ret);
}

static bool is_of_all_fields(const struct daemon_watch_group *g)
{
    return g->n_patterns == 1 && gs_streq(g->patterns[0], "*");
}

// The collection of all fields is no group: its interval is that of the fields without a group.
struct gs_error *daemon_collections_read(const json_t *collections, int64_t *ret_ms,
                                         struct daemon_watch_groups *ret)
{
    const char *base = NULL;
    struct gs_error *err = read_groups(collections, &collection_form, ret);
    for (size_t i = 0; !err && i < ret->len; i++) {
        if (!is_of_all_fields(&ret->items[i]))
            continue;
        if (base)
            err = gs_error_new(GS_EINVAL, "collections: \"%s\" and \"%s\" both include all fields",
                               base, ret->items[i].name);
        base = ret->items[i].name;
        *ret_ms = ret->items[i].interval_ms;
    }
    if (err) {
        daemon_watch_groups_finish(ret);
        return err;
    }
    size_t n = 0;
    for (size_t i = 0; i < ret->len; i++) {
        if (is_of_all_fields(&ret->items[i]))
            group_finish(&ret->items[i]);
        else
            ret->items[n++] = ret->items[i];
    }
    ret->len = n;
    return NULL;
}

// --- effect ---

int64_t daemon_watch_groups_shortest_ms(const struct daemon_watch_groups *g)
{
    int64_t ms = 0;
    for (size_t i = 0; i < g->len; i++)
        if (!ms || g->items[i].interval_ms < ms)
            ms = g->items[i].interval_ms;
    return ms;
}

static bool group_selects(const struct daemon_watch_group *g, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < g->n_patterns && !found; i++)
        found = pattern_matches(g->patterns[i], name);
    return found;
}

// A metric that dcgm-exporter computes belongs to the group of its field's name.
static const char *watched_name(const struct exporter_counter *row)
{
    switch (row->kind) {
    case EXPORTER_COUNTER_EXP_XIDS:
    case EXPORTER_COUNTER_EXP_CLOCK_EVENTS:
    case EXPORTER_COUNTER_EXP_XIDS_TOTAL:
    case EXPORTER_COUNTER_EXP_CLOCK_EVENTS_TOTAL:
        return gpu_field_name(row->field);
    case EXPORTER_COUNTER_EXP_HEALTH:
    case EXPORTER_COUNTER_EXP_P2P:
        return "";
    default:
        return row->name;
    }
}

// Sets *ret to the group of a name, or to NULL.
static struct gs_error *find_group(const struct daemon_watch_groups *g, const char *name,
                                   const struct daemon_watch_group **ret)
{
    *ret = NULL;
    for (size_t i = 0; i < g->len; i++) {
        if (!group_selects(&g->items[i], name))
            continue;
        if (*ret)
            return gs_error_new(GS_EINVAL, "field %s matches multiple watch groups: %s and %s",
                                name, (*ret)->name, g->items[i].name);
        *ret = &g->items[i];
    }
    return NULL;
}

// A metric whose name no group has is in the group of the name that it has in the other release of
// dcgm-exporter.
static struct gs_error *find_group_of_row(const struct daemon_watch_groups *g,
                                          const struct exporter_counter *row,
                                          const struct daemon_watch_group **ret)
{
    const char *name = watched_name(row);
    struct gs_error *err = find_group(g, name, ret);
    struct dcgm_rename r;
    if (err || *ret || !dcgm_rename_of(name, &r))
        return err;
    return find_group(g, gs_streq(name, r.old_name) ? r.new_name : r.old_name, ret);
}

struct gs_error *daemon_watch_groups_apply(const struct daemon_watch_groups *g, int64_t base_ms,
                                           struct exporter_counters *c)
{
    GS_AUTO_FREE bool *used = gs_alloc_array(g->len ? g->len : 1, sizeof(*used));
    for (size_t i = 0; i < c->len; i++) {
        const struct daemon_watch_group *of;
        struct gs_error *err = find_group_of_row(g, &c->rows[i], &of);
        if (err)
            return err;
        if (of)
            used[of - g->items] = true;
        c->rows[i].every_ns = (of ? of->interval_ms : base_ms) * GS_NS_PER_MS;
    }
    // Rows that are not available here are skipped with a warning; so are groups without rows.
    for (size_t k = 0; k < g->len; k++)
        if (!used[k])
            gs_warn("exporter", "watch group \"%s\" matched no configured fields",
                    g->items[k].name);
    return NULL;
}
