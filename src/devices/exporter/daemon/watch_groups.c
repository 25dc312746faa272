// SPDX-License-Identifier: Apache-2.0
// Watch groups: fields with their own sampling interval. Patterns are those of Go's path.Match; a
// field that two groups match is an error. The sampler runs at the shortest interval.
#include "exporter/daemon/daemon_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

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

static struct gs_error *read_patterns(const json_t *list, const char *where,
                                      struct daemon_watch_group *g)
{
    size_t n = json_array_size(list);
    if (n == 0)
        return gs_error_new(GS_EINVAL, "%s.fields must not be empty", where);
    if (n > MAX_PATTERNS)
        return gs_error_new(GS_ELIMIT, "%s.fields: more than %d", where, MAX_PATTERNS);
    g->patterns = gs_alloc_array(n, sizeof(*g->patterns));
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        char *pattern = gs_slice_dup(gs_slice_trim(gs_slice_of(text ? text : "")));
        g->patterns[g->n_patterns++] = pattern;
        if (!*pattern)
            return gs_error_new(GS_EINVAL, "%s.fields[%zu] is required", where, i);
        if (strlen(pattern) > MAX_PATTERN || !is_pattern(pattern))
            return gs_error_new(GS_EINVAL,
                                "watch group \"%s\" has invalid field pattern \"%.64s\": syntax "
                                "error in pattern",
                                g->name, pattern);
    }
    return NULL;
}

static struct gs_error *read_group(const json_t *obj, size_t i, struct daemon_watch_groups *all)
{
    static const char *const keys[] = {"name", "interval", "fields", NULL};
    GS_AUTO_FREE char *where = gs_format("collection.watchGroups[%zu]", i);
    struct gs_error *err = daemon_file_check_keys(obj, keys, where);
    if (err)
        return err;
    struct daemon_watch_group *g = &all->items[all->len++];
    g->name = daemon_file_text(obj, "name");
    if (!*g->name)
        return gs_error_new(GS_EINVAL, "%s.name is required", where);
    for (size_t k = 0; k < i; k++)
        if (gs_streq(all->items[k].name, g->name))
            return gs_error_new(GS_EINVAL, "%s.name \"%s\" is duplicated", where, g->name);
    err = daemon_file_interval(obj, where, &g->interval_ms);
    return err ? err : read_patterns(json_object_get(obj, "fields"), where, g);
}

struct gs_error *daemon_watch_groups_read(const json_t *groups, struct daemon_watch_groups *ret)
{
    struct daemon_watch_groups g = {0};
    struct gs_error *err = NULL;
    if (groups && !json_is_null(groups) && !json_is_array(groups))
        return gs_error_new(GS_EINVAL, "collection.watchGroups: want a list");
    size_t n = json_array_size(groups);
    if (n > MAX_GROUPS)
        return gs_error_new(GS_ELIMIT, "collection.watchGroups: more than %d", MAX_GROUPS);
    g.items = gs_alloc_array(n ? n : 1, sizeof(*g.items));
    for (size_t i = 0; i < n && !err; i++)
        err = read_group(json_array_get(groups, i), i, &g);
    if (err) {
        daemon_watch_groups_finish(&g);
        return err;
    }
    *ret = g;
    return NULL;
}

void daemon_watch_groups_finish(struct daemon_watch_groups *g)
{
    for (size_t i = 0; i < g->len; i++) {
        for (size_t k = 0; k < g->items[i].n_patterns; k++)
            free(g->items[i].patterns[k]);
        free(g->items[i].patterns);
        free(g->items[i].name);
    }
    free(g->items);
    *g = (struct daemon_watch_groups){0};
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

struct gs_error *daemon_watch_groups_apply(const struct daemon_watch_groups *g, int64_t base_ms,
                                           struct exporter_counters *c)
{
    GS_AUTO_FREE bool *used = gs_alloc_array(g->len ? g->len : 1, sizeof(*used));
    for (size_t i = 0; i < c->len; i++) {
        const struct daemon_watch_group *of = NULL;
        const char *name = watched_name(&c->rows[i]);
        for (size_t k = 0; k < g->len; k++) {
            if (!group_selects(&g->items[k], name))
                continue;
            if (of)
                return gs_error_new(GS_EINVAL, "field %s matches multiple watch groups: %s and %s",
                                    name, of->name, g->items[k].name);
            of = &g->items[k];
            used[k] = true;
        }
        c->rows[i].every_ns = (of ? of->interval_ms : base_ms) * GS_NS_PER_MS;
    }
    // Rows that are not available here are skipped with a warning; so are groups without rows.
    for (size_t k = 0; k < g->len; k++)
        if (!used[k])
            gs_warn("exporter", "watch group \"%s\" matched no configured fields",
                    g->items[k].name);
    return NULL;
}
