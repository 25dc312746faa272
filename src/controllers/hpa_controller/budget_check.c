// SPDX-License-Identifier: Apache-2.0
// Budgets in files: ConfigMaps in manifests, or the text of one.
#include "hpa_controller/check.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/slice.h"
#include "budget/budget.h"
#include "codec/yaml.h"
#include "kube/object.h"

#include <stdio.h>

struct found {
    size_t n_maps;
    bool ok;
};

// err is owned.
static void report(const char *path, struct gs_error *error, struct budget_policy *p,
                   struct found *f)
{
    GS_AUTO_ERROR struct gs_error *err = error;
    f->n_maps++;
    if (err) {
        bool named = gs_starts(gs_error_message(err), path); // with the line
        printf("%s%s%s\n", named ? "" : path, named ? "" : ": ", gs_error_message(err));
        f->ok = false;
        return;
    }
    printf("%s: %zu budget%s, %s\n", path, p->n_scopes, p->n_scopes == 1 ? "" : "s",
           p->enforce ? "mode enforce" : "mode dryRun: nothing is limited");
    budget_policy_finish(p);
}

static bool is_map(const json_t *object)
{
    return gs_streq(kube_kind(object), "ConfigMap") &&
           (gs_streq(kube_name(object), BUDGET_CONFIG_MAP) ||
            codec_json_get(object, "data", BUDGET_KEY, NULL));
}

static void check_map(const char *path, const json_t *object, struct found *f)
{
    struct budget_policy p;
    if (!is_map(object))
        return;
    if (!gs_streq(kube_name(object), BUDGET_CONFIG_MAP)) {
        printf("%s: ConfigMap %s: only one with the name " BUDGET_CONFIG_MAP " is read\n", path,
               kube_name(object) ? kube_name(object) : "");
        f->ok = false;
    }
    report(path, budget_policy_of(object, &p), &p, f);
}

static void check_docs(const char *path, const struct codec_yaml_docs *docs, struct found *f)
{
    for (size_t i = 0; i < docs->len; i++) {
        const json_t *items = json_object_get(docs->items[i].value, "items");
        check_map(path, docs->items[i].value, f);
        for (size_t k = 0; k < json_array_size(items); k++)
            check_map(path, json_array_get(items, k), f);
    }
}

static bool check_budgets_file(const char *path)
{
    struct codec_yaml_docs docs = {0};
    GS_AUTO_BUF struct gs_buf text = {0};
    struct found f = {.ok = true};
    const char *file = gs_streq(path, "-") ? "/dev/stdin" : path;
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(file, BUDGET_MAX_TEXT, &text);
    if (!err)
        err = codec_yaml_parse(gs_buf_slice(&text), path, &docs);
    if (err) {
        printf("%s\n", gs_error_message(err));
        return false;
    }
    bool manifest = docs.len && kube_kind(docs.items[0].value);
    if (manifest) {
        check_docs(path, &docs, &f);
    } else {
        struct budget_policy p;
        report(path, budget_policy_parse(gs_buf_slice(&text), path, &p), &p, &f);
    }
    codec_yaml_docs_finish(&docs);
    if (!f.n_maps)
        printf("%s: no ConfigMap " BUDGET_CONFIG_MAP "\n", path);
    return f.ok && f.n_maps;
}

int hpa_check_budgets(int n_files, char *const *files)
{
    bool ok = true;
    for (int i = 0; i < n_files; i++)
        ok = check_budgets_file(files[i]) && ok;
    return ok ? 0 : 1;
}
