// SPDX-License-Identifier: Apache-2.0
// Autoscalers in manifests, checked as the API server does, and the annotations that only this
// controller reads.
#include "hpa_controller/check.h"

#include "base/mem.h"
#include "base/slice.h"
#include "hpa/convert.h"
#include "hpa/hpa.h"
#include "hpa/zero.h"
#include "hpa_controller/controller.h"
#include "kube/object.h"
#include "slo/manifest.h"

#include <stdio.h>

struct check {
    const char *path;
    size_t n; // autoscalers
    size_t n_errors, n_warnings;
};

static void print_mistake(struct check *c, const json_t *hpa, bool error, const char *problem,
                          const char *fix)
{
    const char *ns = kube_namespace(hpa), *name = kube_name(hpa);
    printf("%s: HorizontalPodAutoscaler %s%s%s: %s%s", c->path, ns ? ns : "", ns ? "/" : "",
           name ? name : "", error ? "" : "warning: ", problem);
    printf(fix ? " What to do: %s.\n" : "\n", fix);
    c->n_errors += error;
    c->n_warnings += !error;
}

static void check_fields(struct check *c, const json_t *hpa)
{
    GS_CLEANUP(kube_field_errors_finish) struct kube_field_errors wrong = {0};
    CODEC_AUTO_JSON json_t *object = json_deep_copy(hpa);
    hpa_default(object);
    hpa_validate(object, &wrong);
    GS_AUTO_FREE char *text = gs_strndup(wrong.len ? wrong.text.data : "", wrong.text.len);
    if (wrong.len)
        print_mistake(c, hpa, true, text, NULL);
}

static void check_object(struct check *c, const json_t *hpa)
{
    CODEC_AUTO_JSON json_t *mistakes = json_array();
    GS_AUTO_ERROR struct gs_error *protection = hpa_check_protection(hpa);
    GS_AUTO_ERROR struct gs_error *fallback = hpa_check_fallback(hpa);
    int64_t ignored;
    GS_AUTO_ERROR struct gs_error *period = hpa_sync_period(hpa, &ignored);
    GS_AUTO_ERROR struct gs_error *name = hpa_check_annotations(hpa);
    GS_AUTO_ERROR struct gs_error *priority = hpa_check_priority(hpa);
    size_t i;
    const json_t *m;
    c->n++;
    check_fields(c, hpa);
    if (protection)
        print_mistake(c, hpa, true, gs_error_message(protection), NULL);
    if (kube_annotation(hpa, HPA_ZERO_AFTER_ANNOTATION) &&
        codec_json_int(hpa, 1, "spec", "minReplicas", NULL) != 0)
        print_mistake(c, hpa, false,
                      "annotation " HPA_ZERO_AFTER_ANNOTATION
                      " has no effect: minReplicas is not 0.",
                      "set spec.minReplicas to 0");
    if (fallback)
        print_mistake(c, hpa, true, gs_error_message(fallback), NULL);
    if (period)
        print_mistake(c, hpa, true, gs_error_message(period), NULL);
    if (name)
        print_mistake(c, hpa, true, gs_error_message(name), NULL);
    if (priority)
        print_mistake(c, hpa, true, gs_error_message(priority), NULL);
    slo_manifest_mistakes(hpa, mistakes);
    json_array_foreach (mistakes, i, m)
        print_mistake(c, hpa, codec_json_bool(m, true, "error", NULL),
                      codec_json_str(m, "problem", NULL), codec_json_str(m, "fix", NULL));
}

static void check_if_hpa(struct check *c, const json_t *object)
{
    if (gs_streq(codec_json_str(object, "kind", NULL), "HorizontalPodAutoscaler"))
        check_object(c, object);
}

static void check_objects(struct check *c, const json_t *objects)
{
    const json_t *items = json_object_get(objects, "items"), *object;
    size_t i;
    if (!items)
        check_if_hpa(c, objects);
    json_array_foreach (items, i, object)
        check_if_hpa(c, object);
}

static bool check_file(const char *path, bool strict)
{
    struct check c = {.path = path};
    CODEC_AUTO_JSON json_t *objects = NULL;
    const char *const paths[] = {path};
    GS_AUTO_ERROR struct gs_error *err = hpa_convert_files(paths, 1, "v2", &objects);
    if (err) {
        printf("%s\n", gs_error_message(err));
        return false;
    }
    check_objects(&c, objects);
    if (!c.n)
        printf("%s: no HorizontalPodAutoscaler\n", path);
    else if (!c.n_errors)
        printf("%s: %zu autoscaler%s, %zu warning%s\n", path, c.n, c.n == 1 ? "" : "s",
               c.n_warnings, c.n_warnings == 1 ? "" : "s");
    return c.n && !c.n_errors && !(strict && c.n_warnings);
}

int hpa_check_files(int n_files, char *const *files, bool strict)
{
    bool ok = true;
    for (int i = 0; i < n_files; i++)
        ok = check_file(files[i], strict) && ok;
    return ok ? 0 : 1;
}
