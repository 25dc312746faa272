// SPDX-License-Identifier: Apache-2.0
// Watches PrometheusRule objects and keeps one set of rules for each. Valid rules of an object
// with a mistake are evaluated; the operator would reject the whole object.
#include "engine/rules/rules.h"

#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/rules/rules_private.h"
#include "kube/cache.h"
#include "kube/selector.h"
#include "metrics/write.h"

#define MAX_LOGGED       10 // errors of an object
#define PROMETHEUS_RULES ((struct kube_gvr){"monitoring.coreos.com", "v1", "prometheusrules"})

struct rules_objects {
    struct rules_manager *manager;
    struct kube_cache *cache;
    struct kube_watch_errors *errors;
    struct gs_hmap *invalid;                         // names of objects with an error -> the map
    const struct engine_config_selection *selection; // borrowed; NULL: the API has selected
    struct kube_selector labels;                     // for ENGINE_CONFIG_BY_LABELS
    struct gs_hmap *used;                            // names of objects with rules -> the map
};

static char *object_name(const json_t *obj)
{
    const char *ns = codec_json_str(obj, "metadata", "namespace", NULL);
    const char *name = codec_json_str(obj, "metadata", "name", NULL);
    return gs_format("prometheusrule/%s/%s", ns ? ns : "", name ? name : "");
}

static void log_problems(const struct rules_problems *problems, const char *name)
{
    for (size_t i = 0; i < problems->len && i < MAX_LOGGED; i++)
        gs_warn("rules", "%s", problems->items[i].text);
    if (problems->len > MAX_LOGGED)
        gs_warn("rules", "%s: %zu more errors", name, problems->len - MAX_LOGGED);
}

// *ret_valid: the object has no error.
static struct gs_error *build_rule_set(const json_t *obj, const char *name, struct rules_set **ret,
                                       bool *ret_valid)
{
    GS_CLEANUP(rules_problems_finish) struct rules_problems problems = {0};
    struct rules_builder b = {.problems = &problems};
    struct rules_source src = {.file = name, .keep_valid_parts = true};
    struct gs_error *err = rules_build_document(&b, &src, obj);
    log_problems(&problems, name);
    *ret_valid = !err && !problems.len;
    if (!err)
        *ret = rules_builder_end(&b);
    else
        rules_builder_finish(&b);
    return err;
}

static bool is_used(const struct rules_objects *o, const json_t *obj)
{
    const json_t *global;
    const struct engine_config_selection *s = o->selection;
    enum engine_config_choice choice =
        s ? s->of(s->arg, ENGINE_CONFIG_RULE, obj, &global) : ENGINE_CONFIG_USED;
    if (choice != ENGINE_CONFIG_BY_LABELS)
        return choice == ENGINE_CONFIG_USED;
    return kube_selector_matches(&o->labels, codec_json_get(obj, "metadata", "labels", NULL));
}

// A wrong part of an object costs only itself. If none of it can be read, its previous rules are
// kept.
static void on_rule_object_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct rules_objects *o = arg;
    GS_AUTO_FREE char *name = object_name(new_obj ? new_obj : old_obj);
    struct rules_set *set = NULL;
    bool valid = true, had = gs_hmap_get_str(o->used, name) != NULL;
    if (new_obj && !is_used(o, new_obj))
        new_obj = NULL;
    if (!had && !new_obj)
        return;
    if (had && new_obj && old_obj &&
        json_equal(codec_json_get(old_obj, "spec", NULL), codec_json_get(new_obj, "spec", NULL)))
        return;
    if (new_obj)
        gs_hmap_put_str(o->used, name, o->used);
    else
        gs_hmap_remove_str(o->used, name);
    // Items of a list have no kind.
    CODEC_AUTO_JSON json_t *doc = new_obj ? json_copy((json_t *)new_obj) : NULL;
    if (doc)
        codec_json_set_str(doc, "kind", "PrometheusRule");
    GS_AUTO_ERROR struct gs_error *err = doc ? build_rule_set(doc, name, &set, &valid) : NULL;
    if (valid)
        gs_hmap_remove_str(o->invalid, name);
    else
        gs_hmap_put_str(o->invalid, name, o->invalid);
    if (err)
        gs_warn("rules", "%s", gs_error_message(err));
    else
        rules_manager_apply_extra(o->manager, name, set);
}

void rules_objects_select_again(struct rules_objects *o)
{
    size_t pos = 0;
    for (const json_t *obj; (obj = kube_cache_next(o->cache, &pos));)
        on_rule_object_changed(o, obj, obj);
}

struct rules_objects *rules_objects_new(uv_loop_t *loop, struct kube_client *client, const char *ns,
                                        const char *selector,
                                        const struct engine_config_selection *selection,
                                        struct rules_manager *m)
{
    struct rules_objects *o = gs_alloc(sizeof(*o));
    GS_AUTO_BUF struct gs_buf query = {0};
    GS_AUTO_ERROR struct gs_error *err = kube_selector_parse(selector, &o->labels);
    if (err)
        gs_warn("rules", "all PrometheusRule objects are used: %s", gs_error_message(err));
    o->selection = selection;
    o->used = gs_hmap_new(NULL);
    if (selector && !selection) {
        gs_buf_add_str(&query, "labelSelector=");
        http_encode(gs_slice_of(selector), &query);
    }
    o->manager = m;
    o->invalid = gs_hmap_new(NULL);
    o->cache = kube_cache_new(loop, client, PROMETHEUS_RULES, ns, query.data);
    struct kube_cache_handlers handlers = {.on_change = on_rule_object_changed, .arg = o};
    kube_cache_add_handlers(o->cache, &handlers);
    kube_cache_start(o->cache);
    o->errors = kube_watch_errors_new(loop, o->cache, "rules", "PrometheusRule objects");
    return o;
}

void rules_objects_free(struct rules_objects *o)
{
    if (!o)
        return;
    kube_watch_errors_free(o->errors);
    kube_cache_free(o->cache);
    gs_hmap_free(o->invalid);
    gs_hmap_free(o->used);
    kube_selector_finish(&o->labels);
    free(o);
}

const char *rules_objects_error(const struct rules_objects *o)
{
    return kube_cache_error(o->cache);
}

void rules_objects_write_metrics(const struct rules_objects *o, struct gs_buf *out)
{
    static const char name[] = "gpuscale_rule_objects_invalid";
    metrics_write_family(out, name, METRICS_GAUGE,
                         "PrometheusRule objects with an error. Their valid rules are evaluated.");
    metrics_write_sample(out, name, NULL, 0, (double)gs_hmap_len(o->invalid));
}
