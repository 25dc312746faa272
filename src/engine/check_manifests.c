// SPDX-License-Identifier: Apache-2.0
// Checks the objects of the Prometheus operator in a file of manifests. Objects of other programs
// are named, because nothing about them is checked.
#include "engine/check_private.h"

#include "base/mem.h"
#include "base/option.h"
#include "kube/object.h"
#include "recognize/recognize.h"

#define GROUP       "monitoring.coreos.com/"
#define API_VERSION GROUP "v1"
#define EXPECTED    "ServiceMonitor, PodMonitor and PrometheusRule objects"

static const char *const read_kinds[] = {"ServiceMonitor", "PodMonitor", "PrometheusRule"};
static const char *const operator_kinds[] = {"Alertmanager", "AlertmanagerConfig", "Probe",
                                             "Prometheus",   "PrometheusAgent",    "ScrapeConfig",
                                             "ThanosRuler"};

struct manifests {
    const struct engine_check_options *o;
    const char *path;
    const struct codec_yaml_marks *marks, *twin_marks;
    struct engine_check_counts counts;
    size_t n_read, n_other;
    char *first_other; // what the first object of another program is; freed at the end
    bool wrong;
};

static void fail_object(struct manifests *m, int line, const json_t *obj, const char *text)
{
    const char *name = kube_name(obj), *kind = kube_kind(obj);
    fprintf(stderr, "  FAILED: %s:%d: %s %s: %s\n", m->path, line, kind ? kind : "(no kind)",
            name ? name : "(no name)", text);
    m->wrong = true;
}

static void check_kind(struct manifests *m, int line, const json_t *obj)
{
    const char *api_version = kube_api_version(obj), *kind = kube_kind(obj);
    const char *near = gs_suggest(kind ? kind : "", read_kinds, GS_ARRAY_LEN(read_kinds));
    bool of_group = api_version && gs_starts(api_version, GROUP);
    bool known = gs_is_one_of(kind, operator_kinds, GS_ARRAY_LEN(operator_kinds));
    if (of_group && near && !known) {
        GS_AUTO_FREE char *text = gs_format("unknown kind, did you mean \"%s\"?", near);
        fail_object(m, line, obj, text);
        return;
    }
    m->n_other++;
    if (!m->first_other)
        m->first_other = recognize_document(obj).text;
}

static void check_document(struct manifests *m, int line, const json_t *obj, const json_t *twin)
{
    const char *api_version = kube_api_version(obj);
    if (!gs_is_one_of(kube_kind(obj), read_kinds, GS_ARRAY_LEN(read_kinds))) {
        check_kind(m, line, obj);
        return;
    }
    m->n_read++;
    if (!gs_streq(api_version, API_VERSION)) {
        GS_AUTO_FREE char *text = gs_format("apiVersion %s is not read, expected " API_VERSION,
                                            api_version ? api_version : "(none)");
        fail_object(m, line, obj, text);
        return;
    }
    const struct engine_check_object object = {m->path, line, obj, m->marks, twin, m->twin_marks};
    m->wrong = !engine_check_object(m->o, &object, &m->counts) || m->wrong;
}

// The items of a typed list, such as ServiceMonitorList, may have no kind.
static json_t *item_of(const json_t *list, const json_t *item)
{
    const char *kind = kube_kind(list);
    json_t *copy = json_copy((json_t *)(uintptr_t)item);
    size_t n = strlen(kind) - strlen("List");
    if (n && !json_object_get(copy, "kind"))
        json_object_set_new(copy, "kind", json_stringn(kind, n));
    if (n && !json_object_get(copy, "apiVersion"))
        codec_json_set_str(copy, "apiVersion", kube_api_version(list));
    return copy;
}

static void check_list(struct manifests *m, int line, const json_t *list, const json_t *twin)
{
    size_t i;
    json_t *item;
    const json_t *twins = json_object_get(twin, "items");
    json_array_foreach (json_object_get(list, "items"), i, item) {
        const json_t *at = json_array_get(twins, i);
        struct codec_yaml_mark mark = codec_yaml_mark_of(m->twin_marks, at);
        if (!json_is_object(item) || !json_is_object(at)) {
            fail_object(m, mark.line ? mark.line : line, list, "an item is not an object");
            continue;
        }
        CODEC_AUTO_JSON json_t *obj = item_of(list, item);
        CODEC_AUTO_JSON json_t *obj_twin = item_of(list, at);
        check_document(m, mark.line ? mark.line : line, obj, obj_twin);
    }
}

static void print_result(const struct manifests *m)
{
    if (!m->n_read && !m->wrong) {
        fprintf(stderr, "  FAILED: %s: %s%s; expected " EXPECTED "\n", m->path,
                m->first_other ? "this looks like " : "the file has no objects",
                m->first_other ? m->first_other : "");
        return;
    }
    GS_AUTO_FREE char *counts = engine_check_counts_text(&m->counts);
    if (m->n_other)
        printf("  WARNING: %s: %zu other object%s not checked, such as %s\n", m->path, m->n_other,
               m->n_other == 1 ? " is" : "s are", m->first_other);
    if (!m->wrong)
        printf("  SUCCESS: %s is valid: %s\n\n", m->path, counts ? counts : "");
}

bool engine_check_manifests(const struct engine_check_options *o, const char *path,
                            struct gs_slice text)
{
    struct codec_yaml_docs docs = {0}, twins = {0};
    struct codec_yaml_marks *marks = NULL, *twin_marks = NULL;
    struct gs_error *err = codec_yaml_parse_marked(text, path, &docs, &marks);
    if (!err)
        err = codec_yaml_parse_texts(text, path, &twins, &twin_marks);
    struct manifests m = {.o = o, .path = path, .marks = marks, .twin_marks = twin_marks};
    for (size_t i = 0; !err && i < docs.len && i < twins.len; i++) {
        const json_t *doc = docs.items[i].value, *twin = twins.items[i].value;
        const char *kind = kube_kind(doc);
        if (kind && gs_ends(kind, "List"))
            check_list(&m, docs.items[i].line, doc, twin);
        else
            check_document(&m, docs.items[i].line, doc, twin);
    }
    if (err)
        fprintf(stderr, "  FAILED: %s\n", gs_error_message(err));
    else
        print_result(&m);
    bool ok = !err && !m.wrong && m.n_read;
    gs_error_free(err);
    free(m.first_other);
    codec_yaml_docs_finish(&docs);
    codec_yaml_docs_finish(&twins);
    codec_yaml_marks_free(marks);
    codec_yaml_marks_free(twin_marks);
    return ok;
}
