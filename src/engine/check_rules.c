// SPDX-License-Identifier: Apache-2.0
#include "engine/check.h"

#include "base/file.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "engine/rules/rules.h"

#define MAX_FILE ((size_t)16 * 1024 * 1024)

static size_t count_rules(const struct rules_set *set)
{
    size_t n = 0;
    for (size_t i = 0; i < set->n_groups; i++)
        n += set->groups[i].n_rules;
    return n;
}

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

// Two recording rules with the same name and labels can write the same series.
static size_t report_duplicates(const struct rules_set *set)
{
    size_t found = 0;
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *seen = gs_hmap_new(NULL);
    for (size_t g = 0; g < set->n_groups; g++)
        for (size_t i = 0; i < set->groups[g].n_rules; i++) {
            const struct rules_rule *r = &set->groups[g].rules[i];
            GS_AUTO_BUF struct gs_buf key = {0};
            if (r->kind != RULES_RECORD || !r->expr)
                continue;
            rule_key(r, &key);
            if (gs_hmap_get(seen, gs_buf_slice(&key))) {
                fprintf(stderr,
                        "  %s:%d: %s: another recording rule has the same name and labels\n",
                        set->groups[g].file, r->line, r->name);
                found++;
            }
            gs_hmap_put(seen, gs_buf_slice(&key), seen);
        }
    return found;
}

static struct gs_error *load_rule_file(const char *path, struct rules_problems *problems,
                                       struct rules_set **ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    return err ? err : rules_parse(gs_buf_slice(&text), path, problems, ret);
}

static bool check_rule_file(const struct engine_check_options *o, const char *path)
{
    GS_CLEANUP(rules_problems_finish)
    struct rules_problems problems = {.ignore_unknown_fields = o->ignore_unknown_fields};
    struct rules_set *set = NULL;
    printf("Checking %s\n", path);
    (void)fflush(stdout);
    GS_AUTO_ERROR struct gs_error *err = load_rule_file(path, &problems, &set);
    if (err || problems.len)
        fprintf(stderr, "  FAILED:\n");
    if (err)
        fprintf(stderr, "%s\n", gs_error_message(err));
    for (size_t i = 0; i < problems.len; i++)
        fprintf(stderr, "%s\n", problems.items[i].text);
    size_t doubtful = set ? report_duplicates(set) : 0, n = set ? count_rules(set) : 0, off = 0;
    for (size_t g = 0; set && g < set->n_groups; g++)
        for (size_t i = 0; i < set->groups[g].n_rules; i++)
            off += !set->groups[g].rules[i].expr;
    if (!err && !problems.len)
        printf("  SUCCESS: %zu rules found\n", n);
    else if (!err)
        printf("  %zu rules found, %zu with errors: these would not be evaluated\n", n, off);
    printf("\n");
    rules_set_free(set);
    return !err && !problems.len && !(o->strict && doubtful);
}

int engine_check_rules(const struct engine_check_options *o, int n_files, char **files)
{
    bool ok = true;
    for (int i = 0; i < n_files; i++)
        ok = check_rule_file(o, files[i]) && ok;
    return ok ? 0 : 1;
}
