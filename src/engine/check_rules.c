// SPDX-License-Identifier: Apache-2.0
// `check rules` and promtool's `check rules`: all mistakes of a file, and duplicate rules. Texts
// for promtool are those of promtool, since scripts compare them.
#include "engine/check_private.h"

#include "base/file.h"
#include "base/mem.h"
#include "engine/rules/rules.h"
#include "recognize/recognize.h"

#define MAX_FILE ((size_t)16 * 1024 * 1024)

static size_t count_rules(const struct rules_set *set)
{
    size_t n = 0;
    for (size_t i = 0; i < set->n_groups; i++)
        n += set->groups[i].n_rules;
    return n;
}

// --- lint ---

static bool lint_has_none(const char *list)
{
    struct gs_slice rest = gs_slice_of(list);
    while (rest.len)
        if (gs_slice_eq_str(gs_slice_cut(&rest, ','), "none"))
            return true;
    return false;
}

struct engine_lint engine_lint_of(const struct engine_check_options *o, bool config)
{
    struct engine_lint lint = {.duplicate_rules = !o->lint};
    struct gs_slice rest = gs_slice_of(o->lint ? o->lint : "");
    // As in promtool, "all,none" still checks rule files.
    if (config && o->lint && lint_has_none(o->lint))
        return lint;
    while (rest.len) {
        struct gs_slice name = gs_slice_cut(&rest, ',');
        if (gs_slice_eq_str(name, "all"))
            lint.duplicate_rules = lint.too_long_scrape_interval = true;
        else if (gs_slice_eq_str(name, "duplicate-rules"))
            lint.duplicate_rules = true;
        else if (config && gs_slice_eq_str(name, "too-long-scrape-interval"))
            lint.too_long_scrape_interval = true;
        else if (!gs_slice_eq_str(name, "none"))
            printf("WARNING: unknown lint option: \"" GS_SLICE_FMT "\"\n", GS_SLICE_ARG(name));
    }
    return lint;
}

int engine_check_exit(const struct engine_check_options *o, const struct engine_check_outcome *out)
{
    if (out->wrong || (o->strict && out->doubted))
        return 1;
    return o->lint_fatal && out->doubted ? ENGINE_CHECK_EXIT_LINT : 0;
}

// Name and labels: recording rules with equal ones can write the same series.
static void rule_key(const struct rules_rule *r, struct gs_buf *out)
{
    gs_buf_addf(out, "%s%c", r->name, '\0');
    for (size_t i = 0; i < r->n_labels; i++) {
        gs_buf_add_slice(out, r->labels[i].name);
        gs_buf_add_char(out, '\0');
        gs_buf_add_slice(out, r->labels[i].value);
        gs_buf_add_char(out, '\0');
    }
}

struct keyed_rule {
    struct gs_buf key;
    const struct rules_rule *rule;
    const char *file;
};

static int by_key(const void *a, const void *b)
{
    const struct keyed_rule *x = a, *y = b;
    size_t n = x->key.len < y->key.len ? x->key.len : y->key.len;
    int c = memcmp(x->key.data, y->key.data, n);
    if (c || x->key.len != y->key.len)
        return c ? c : x->key.len > y->key.len ? 1 : -1;
    return (x->rule->line > y->rule->line) - (x->rule->line < y->rule->line);
}

// Alerts with the same name and labels are usual, so only promtool reports them.
static struct keyed_rule *sorted_rules(const struct rules_set *set, bool alerts, size_t *ret_n)
{
    struct keyed_rule *rules = gs_alloc_array(count_rules(set) + 1, sizeof(*rules));
    size_t n = 0;
    for (size_t g = 0; g < set->n_groups; g++)
        for (size_t i = 0; i < set->groups[g].n_rules; i++) {
            const struct rules_rule *r = &set->groups[g].rules[i];
            if (!alerts && (r->kind != RULES_RECORD || !r->expr))
                continue;
            rules[n] = (struct keyed_rule){.rule = r, .file = set->groups[g].file};
            rule_key(r, &rules[n++].key);
        }
    if (n)
        qsort(rules, n, sizeof(*rules), by_key);
    *ret_n = n;
    return rules;
}

static void add_promtool_duplicate(const struct rules_rule *r, struct gs_buf *out)
{
    gs_buf_addf(out, "Metric: %s\nLabel(s):\n", r->name);
    for (size_t i = 0; i < r->n_labels; i++)
        gs_buf_addf(out, "\t" GS_SLICE_FMT ": " GS_SLICE_FMT "\n", GS_SLICE_ARG(r->labels[i].name),
                    GS_SLICE_ARG(r->labels[i].value));
}

// Returns the number of duplicates.
static size_t report_duplicates(const struct engine_check_options *o, const struct rules_set *set)
{
    size_t n, found = 0;
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_FREE struct keyed_rule *rules = sorted_rules(set, o->promtool_texts, &n);
    for (size_t i = 1; i < n; i++) {
        bool same = gs_slice_eq(gs_buf_slice(&rules[i].key), gs_buf_slice(&rules[i - 1].key));
        bool third = same && i > 1 &&
                     gs_slice_eq(gs_buf_slice(&rules[i].key), gs_buf_slice(&rules[i - 2].key));
        if (!same || (third && o->promtool_texts))
            continue;
        found++;
        if (o->promtool_texts)
            add_promtool_duplicate(rules[i].rule, &text);
        else
            fprintf(stderr, "  %s:%d: %s: another recording rule has the same name and labels\n",
                    rules[i].file, rules[i].rule->line, rules[i].rule->name);
    }
    if (found && o->promtool_texts)
        fprintf(stderr,
                "  FAILED:\nlint error %zu duplicate rule(s) found.\n%sMight cause inconsistency "
                "while recording expressions\n",
                found, text.data);
    for (size_t i = 0; i < n; i++)
        gs_buf_finish(&rules[i].key);
    return found;
}

// --- files ---

// A file that has no rules is an error, except for promtool and in a configuration, which may name
// a file that gets them later.
static struct gs_error *load_rule_file(const char *path, bool may_be_empty,
                                       struct rules_problems *problems, struct rules_set **ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path ? path : "/dev/stdin", MAX_FILE, &text);
    if (err)
        return err;
    const char *name = path ? path : "stdin";
    GS_AUTO_FREE char *foreign = may_be_empty
                                     ? NULL
                                     : recognize_foreign(gs_buf_slice(&text), RECOGNIZE_RULES,
                                                         "a rule file or PrometheusRule objects");
    if (foreign)
        return gs_error_new(GS_EINVAL, "%s: %s", name, foreign);
    err = rules_parse(gs_buf_slice(&text), name, problems, ret);
    if (!err && !may_be_empty && !count_rules(*ret)) {
        rules_set_free(*ret);
        *ret = NULL;
        return gs_error_new(GS_EINVAL, "%s: the file has no rules", name);
    }
    return err;
}

static size_t count_disabled(const struct rules_set *set)
{
    size_t n = 0;
    for (size_t g = 0; g < set->n_groups; g++)
        for (size_t i = 0; i < set->groups[g].n_rules; i++)
            n += !set->groups[g].rules[i].expr;
    return n;
}

// path NULL: the standard input.
void engine_check_rule_file(const struct engine_check_options *o, const struct engine_lint *lint,
                            const char *path, bool of_config, struct engine_check_outcome *outcome)
{
    GS_CLEANUP(rules_problems_finish)
    struct rules_problems problems = {.ignore_unknown_fields = o->ignore_unknown_fields};
    struct rules_set *set = NULL;
    printf("Checking %s\n", path ? path : "standard input");
    (void)fflush(stdout);
    GS_AUTO_ERROR struct gs_error *err =
        load_rule_file(path, of_config || o->promtool_texts, &problems, &set);
    bool wrong = err || problems.len;
    if (wrong)
        fprintf(stderr, "  FAILED:\n");
    if (err)
        fprintf(stderr, "%s\n", gs_error_message(err));
    for (size_t i = 0; i < problems.len; i++)
        fprintf(stderr, "%s\n", problems.items[i].text);
    bool lints = set && lint->duplicate_rules && !(wrong && o->promtool_texts);
    bool doubted = lints && report_duplicates(o, set) > 0;
    if (!wrong && !(doubted && o->promtool_texts))
        printf("  SUCCESS: %zu rules found\n", count_rules(set));
    else if (set && wrong && !o->promtool_texts)
        printf("  %zu rules found, %zu with errors: these would not be evaluated\n",
               count_rules(set), count_disabled(set));
    if (!wrong || !o->promtool_texts)
        printf("\n");
    (void)fflush(stdout);
    outcome->wrong = outcome->wrong || wrong;
    outcome->doubted = outcome->doubted || doubted;
    rules_set_free(set);
}

int engine_check_rules(const struct engine_check_options *o, int n_files, char **files)
{
    struct engine_lint lint = engine_lint_of(o, false);
    struct engine_check_outcome outcome = {0};
    if (!n_files)
        engine_check_rule_file(o, &lint, NULL, false, &outcome);
    for (int i = 0; i < n_files; i++)
        engine_check_rule_file(o, &lint, files[i], false, &outcome);
    return engine_check_exit(o, &outcome);
}
