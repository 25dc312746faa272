// SPDX-License-Identifier: Apache-2.0
// static_configs, file_sd_configs, kubernetes_sd_configs, relabel_configs.
#include "engine/config/reader.h"

#include "base/mem.h"
#include <strings.h>

// --- static and file ---

static void read_targets(struct config_reader *r, const json_t *value, void *out)
{
    struct engine_static_group *g = out;
    config_texts(r, value, &g->targets, &g->n_targets);
    for (size_t i = 0; i < g->n_targets && !r->err; i++)
        if (strchr(g->targets[i], '/'))
            config_fail(r, json_array_get(value, i), "\"%s\" is not a valid hostname",
                        g->targets[i]);
}

static void read_labels(struct config_reader *r, const json_t *value, void *out)
{
    struct engine_static_group *g = out;
    config_labels(r, value, &g->labels, &g->n_labels);
}

void config_read_statics(struct config_reader *r, const json_t *item, void *out)
{
    static const struct config_field fields[] = {
        {"targets", FIELD_READ, 0, read_targets},
        {"labels", FIELD_READ, 0, read_labels},
        {0},
    };
    config_read(r, item, fields, "static_configs", out);
}

static void read_files(struct config_reader *r, const json_t *value, void *out)
{
    struct engine_file_sd *f = out;
    config_texts(r, value, &f->files, &f->n_files);
    const char **files = (const char **)f->files;
    for (size_t i = 0; i < f->n_files && !r->err; i++) {
        if (!gs_ends(files[i], ".json") && !gs_ends(files[i], ".yml") &&
            !gs_ends(files[i], ".yaml"))
            config_fail(r, json_array_get(value, i),
                        "path name \"%s\" is not valid for file discovery", files[i]);
        files[i] = config_path(r, files[i]);
    }
}

void config_read_file_sd(struct config_reader *r, const json_t *item, void *out)
{
    static const struct config_field fields[] = {
        {"files", FIELD_READ, 0, read_files},
        {"refresh_interval", FIELD_MS, offsetof(struct engine_file_sd, refresh_ms), NULL},
        {0},
    };
    struct engine_file_sd *f = out;
    f->refresh_ms = 300000;
    config_read(r, item, fields, "file_sd_configs", f);
    if (!f->n_files)
        config_fail(r, item, "file service discovery config must contain at least one path name");
}

// --- kubernetes ---

static void read_role(struct config_reader *r, const json_t *value, void *out)
{
    static const char *const names[] = {[SD_NODE] = "node",
                                        [SD_POD] = "pod",
                                        [SD_SERVICE] = "service",
                                        [SD_ENDPOINTS] = "endpoints",
                                        [SD_ENDPOINTSLICE] = "endpointslice",
                                        [SD_INGRESS] = "ingress"};
    const char *text = config_text(r, value);
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        if (gs_streq(text, names[i])) {
            *(enum engine_sd_role *)out = (enum engine_sd_role)i;
            return;
        }
    }
    config_fail(r, value, "unknown Kubernetes SD role \"%s\"", text);
}

static void read_names(struct config_reader *r, const json_t *value, void *out)
{
    struct engine_kubernetes_sd *k = out;
    config_texts(r, value, &k->namespaces, &k->n_namespaces);
}

static void read_namespaces(struct config_reader *r, const json_t *value, void *out)
{
    static const struct config_field fields[] = {
        {"names", FIELD_READ, 0, read_names},
        {"own_namespace", FIELD_BOOL, offsetof(struct engine_kubernetes_sd, own_namespace), NULL},
        {0},
    };
    config_read(r, value, fields, "namespaces", out);
}

struct selector {
    enum engine_sd_role role;
    const char *label, *field;
};

static void read_selector(struct config_reader *r, const json_t *item, void *out)
{
    static const struct config_field fields[] = {
        {"role", FIELD_READ, offsetof(struct selector, role), read_role},
        {"label", FIELD_TEXT, offsetof(struct selector, label), NULL},
        {"field", FIELD_TEXT, offsetof(struct selector, field), NULL},
        {0},
    };
    config_read(r, item, fields, "selectors", out);
}

static void read_attach(struct config_reader *r, const json_t *value, void *out)
{
    static const struct config_field fields[] = {
        {"node", FIELD_BOOL, offsetof(struct engine_kubernetes_sd, attach_node), NULL},
        {"namespace", FIELD_IGNORED, 0, NULL},
        {0},
    };
    config_read(r, value, fields, "attach_metadata", out);
}

void config_read_kubernetes_sd(struct config_reader *r, const json_t *item, void *out)
{
    static const struct config_field fields[] = {
        {"role", FIELD_READ, offsetof(struct engine_kubernetes_sd, role), read_role},
        {"api_server", FIELD_TEXT, offsetof(struct engine_kubernetes_sd, api_server), NULL},
        {"kubeconfig_file", FIELD_PATH, offsetof(struct engine_kubernetes_sd, kubeconfig_file),
         NULL},
        {"namespaces", FIELD_READ, 0, read_namespaces},
        {"attach_metadata", FIELD_READ, 0, read_attach},
        {"selectors", FIELD_UNUSED, 0, NULL}, // below: they need the role
        {0},
    };
    struct engine_kubernetes_sd *k = out;
    config_read_with_http(r, item, fields, "kubernetes_sd_configs", k, &k->http);
    if (!json_object_get(item, "role"))
        config_fail(r, item,
                    "role missing (one of: pod, service, endpoints, endpointslice, node, ingress)");
    struct selector *selectors;
    size_t n;
    config_read_list(r, json_object_get(item, "selectors"), sizeof(*selectors), read_selector,
                     &selectors, &n);
    for (size_t i = 0; i < n && !r->err; i++) {
        if (selectors[i].role != k->role)
            continue;
        k->label_selector = selectors[i].label;
        k->field_selector = selectors[i].field;
    }
}

// --- relabelling ---

static void read_sources(struct config_reader *r, const json_t *value, void *out)
{
    struct engine_relabel *l = out;
    config_texts(r, value, &l->source_labels, &l->n_source_labels);
}

static void read_action(struct config_reader *r, const json_t *value, void *out)
{
    static const char *const names[] = {
        [RELABEL_REPLACE] = "replace",     [RELABEL_KEEP] = "keep",
        [RELABEL_DROP] = "drop",           [RELABEL_KEEPEQUAL] = "keepequal",
        [RELABEL_DROPEQUAL] = "dropequal", [RELABEL_HASHMOD] = "hashmod",
        [RELABEL_LABELMAP] = "labelmap",   [RELABEL_LABELDROP] = "labeldrop",
        [RELABEL_LABELKEEP] = "labelkeep", [RELABEL_LOWERCASE] = "lowercase",
        [RELABEL_UPPERCASE] = "uppercase",
    };
    const char *text = config_text(r, value);
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        if (strcasecmp(text, names[i]) == 0) {
            *(enum engine_relabel_action *)out = (enum engine_relabel_action)i;
            return;
        }
    }
    config_fail(r, value, "unknown relabel action \"%s\"", text);
}

static void compile(struct config_reader *r, const json_t *at, const char *pattern,
                    struct tsdb_regex **ret)
{
    struct gs_error *err = tsdb_regex_new(gs_slice_of(pattern), ret);
    if (err) {
        config_fail(r, at, "%s", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    gs_grow(&r->regexes, &r->regexes_cap, r->n_regexes, sizeof(*r->regexes));
    r->regexes[r->n_regexes++] = *ret;
}

static void check_relabel(struct config_reader *r, const json_t *item,
                          const struct engine_relabel *l)
{
    bool needs_target = l->action == RELABEL_HASHMOD || l->action == RELABEL_LOWERCASE ||
                        l->action == RELABEL_UPPERCASE || l->action == RELABEL_KEEPEQUAL ||
                        l->action == RELABEL_DROPEQUAL || l->action == RELABEL_REPLACE;
    if (l->action == RELABEL_HASHMOD && !l->modulus)
        config_fail(r, item, "relabel configuration for hashmod requires non-zero modulus");
    if (needs_target && !*l->target_label)
        config_fail(r, item, "relabel configuration for this action requires 'target_label' value");
}

static void read_relabel(struct config_reader *r, const json_t *item, void *out)
{
    static const struct config_field fields[] = {
        {"source_labels", FIELD_READ, 0, read_sources},
        {"separator", FIELD_TEXT, offsetof(struct engine_relabel, separator), NULL},
        {"target_label", FIELD_TEXT, offsetof(struct engine_relabel, target_label), NULL},
        {"replacement", FIELD_TEXT, offsetof(struct engine_relabel, replacement), NULL},
        {"modulus", FIELD_COUNT, offsetof(struct engine_relabel, modulus), NULL},
        {"action", FIELD_READ, offsetof(struct engine_relabel, action), read_action},
        {"regex", FIELD_UNUSED, 0, NULL},
        {0},
    };
    struct engine_relabel *l = out;
    l->separator = ";";
    l->target_label = "";
    l->replacement = "$1";
    config_read(r, item, fields, "relabel_configs", l);
    if (r->err)
        return;
    if (!json_is_object(item)) {
        config_fail(r, item, "a relabel config must be a mapping");
        return;
    }
    const json_t *regex = json_object_get(item, "regex");
    compile(r, regex ? regex : item, regex ? config_text(r, regex) : "(.*)", &l->regex);
    check_relabel(r, item, l);
}

void config_read_relabels(struct config_reader *r, const json_t *list, void *out)
{
    struct engine_relabels *l = out;
    config_read_list(r, list, sizeof(struct engine_relabel), read_relabel, &l->items, &l->n);
}
