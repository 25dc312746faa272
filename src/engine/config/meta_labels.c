// SPDX-License-Identifier: Apache-2.0
// Finds relabeling rules that never match, because the labels that they read cannot exist: labels
// of another discovery mechanism or role, labels that end with target relabeling, and labels that
// only a later rule sets.
// https://prometheus.io/docs/prometheus/latest/configuration/configuration/#kubernetes_sd_config
#include "engine/config/config_private.h"

#include "base/mem.h"
#include "base/option.h"

#define META       "__meta_"
#define KUBERNETES META "kubernetes_"

enum {
    ON_NODE = 1 << ENGINE_CONFIG_SD_NODE,
    ON_POD = 1 << ENGINE_CONFIG_SD_POD,
    ON_SERVICE = 1 << ENGINE_CONFIG_SD_SERVICE,
    ON_ENDPOINTS = 1 << ENGINE_CONFIG_SD_ENDPOINTS,
    ON_SLICE = 1 << ENGINE_CONFIG_SD_ENDPOINTSLICE,
    ON_INGRESS = 1 << ENGINE_CONFIG_SD_INGRESS,
    ON_ATTACHED = 1 << 8, // attach_metadata: {node: true}
};

static const char *const roles[] = {
    [ENGINE_CONFIG_SD_NODE] = "node",
    [ENGINE_CONFIG_SD_POD] = "pod",
    [ENGINE_CONFIG_SD_SERVICE] = "service",
    [ENGINE_CONFIG_SD_ENDPOINTS] = "endpoints",
    [ENGINE_CONFIG_SD_ENDPOINTSLICE] = "endpointslice",
    [ENGINE_CONFIG_SD_INGRESS] = "ingress",
};

// The labels that begin with KUBERNETES, by what follows. on: the roles that set them. names: the
// rest of the name; those that end with "_" continue with a name of the cluster.
static const struct family {
    const char *begin;
    unsigned on;
    const char *names[24];
} families[] = {
    {"namespace", ON_POD | ON_SERVICE | ON_ENDPOINTS | ON_SLICE | ON_INGRESS, {NULL}},
    {"node_",
     ON_NODE | ON_ATTACHED,
     {"name", "provider_id", "label_", "labelpresent_", "annotation_", "annotationpresent_",
      "address_", "condition_"}},
    {"service_",
     ON_SERVICE | ON_ENDPOINTS | ON_SLICE,
     {"name", "label_", "labelpresent_", "annotation_", "annotationpresent_", "cluster_ip",
      "external_name", "loadbalancer_ip", "port_name", "port_number", "port_protocol", "type"}},
    {"pod_",
     ON_POD | ON_ENDPOINTS | ON_SLICE,
     {"name",
      "ip",
      "label_",
      "labelpresent_",
      "annotation_",
      "annotationpresent_",
      "container_init",
      "container_name",
      "container_id",
      "container_image",
      "container_port_name",
      "container_port_number",
      "container_port_protocol",
      "ready",
      "phase",
      "node_name",
      "host_ip",
      "uid",
      "controller_kind",
      "controller_name",
      "cronjob_name",
      "deployment_name",
      "job_name"}},
    {"endpoints_",
     ON_ENDPOINTS,
     {"name", "label_", "labelpresent_", "annotation_", "annotationpresent_"}},
    {"endpoint_",
     ON_ENDPOINTS,
     {"hostname", "node_name", "ready", "port_name", "port_protocol", "address_target_kind",
      "address_target_name"}},
    {"endpointslice_",
     ON_SLICE,
     {"name", "label_", "labelpresent_", "annotation_", "annotationpresent_", "address_target_kind",
      "address_target_name", "address_type", "endpoint_conditions_ready",
      "endpoint_conditions_serving", "endpoint_conditions_terminating", "endpoint_topology_",
      "endpoint_hostname", "endpoint_node_name", "endpoint_zone", "port", "port_app_protocol",
      "port_name", "port_protocol"}},
    {"ingress_",
     ON_INGRESS,
     {"name", "label_", "labelpresent_", "annotation_", "annotationpresent_", "class_name",
      "scheme", "host", "path"}},
};

struct reading {
    struct codec_reader *r;
    const struct engine_config_sd_configs *sd;
    const struct engine_config_relabels *rules;
    const json_t *list;
    unsigned on;  // roles of the job
    bool any;     // a discovery may set any label
    size_t index; // of the rule
};

static void warn_about(const struct reading *x, const char *label, const char *why)
{
    codec_reader_note(x->r, json_array_get(x->list, x->index), "the rule never matches: %s %s",
                      label, why);
}

// --- which labels exist ---

static const struct family *family_of(const char *rest)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(families); i++)
        if (gs_starts(rest, families[i].begin))
            return &families[i];
    return NULL;
}

// Labels of later versions of Prometheus may be unknown here, so only slips are reported.
static void check_name(const struct reading *x, const char *label, const struct family *f,
                       bool whole)
{
    const char *name = label + strlen(KUBERNETES) + strlen(f->begin);
    size_t n = 0;
    for (; n < GS_ARRAY_LEN(f->names) && f->names[n]; n++)
        if (gs_streq(name, f->names[n]) ||
            (gs_ends(f->names[n], "_") && gs_starts(name, f->names[n])))
            return;
    const char *near = whole && n ? gs_suggest(name, f->names, n) : NULL;
    if (!near || gs_ends(near, "_"))
        return;
    GS_AUTO_FREE char *why =
        gs_format("does not exist, did you mean \"" KUBERNETES "%s%s\"?", f->begin, near);
    warn_about(x, label, why);
}

static void check_role(const struct reading *x, const char *label, const struct family *f)
{
    GS_AUTO_BUF struct gs_buf why = {0};
    gs_buf_add_str(&why, "exists only with role");
    for (size_t i = 0, n = 0; i < GS_ARRAY_LEN(roles); i++)
        if (f->on & (1U << i))
            gs_buf_addf(&why, "%s %s", n++ ? "," : "", roles[i]);
    if (f->on & ON_ATTACHED)
        gs_buf_add_str(&why, ", or with attach_metadata: {node: true}");
    warn_about(x, label, why.data);
}

// Names of labels and annotations have "_" for each other character.
static bool has_wrong_characters(const struct reading *x, const char *label)
{
    GS_AUTO_FREE char *right = gs_strdup(label);
    bool wrong = false;
    for (char *c = right; *c; c++)
        if (strchr("./-", *c)) {
            *c = '_';
            wrong = true;
        }
    if (!wrong)
        return false;
    GS_AUTO_FREE char *why = gs_format("is written %s", right);
    warn_about(x, label, why);
    return true;
}

static bool is_of_static(const struct engine_config_sd_configs *sd, const char *label)
{
    for (size_t i = 0; i < sd->n_statics; i++)
        for (size_t k = 0; k < sd->statics[i].n_labels; k++)
            if (gs_slice_eq_str(sd->statics[i].labels[k].name, label))
                return true;
    return false;
}

// whole: the complete name; else it is the beginning of names.
static void check_meta(const struct reading *x, const char *label, bool whole)
{
    bool kubernetes = gs_starts(label, KUBERNETES), dns = gs_starts(label, META "dns_");
    const struct family *f = kubernetes ? family_of(label + strlen(KUBERNETES)) : NULL;
    if (x->any || is_of_static(x->sd, label) || (whole && has_wrong_characters(x, label)))
        return;
    if (!x->on && kubernetes)
        warn_about(x, label, "exists only with kubernetes_sd_configs");
    else if (!kubernetes && !x->sd->n_unsupported && !(dns && x->sd->n_dns))
        warn_about(x, label, "is set by no service discovery of the job");
    else if (f && !(f->on & x->on))
        check_role(x, label, f);
    else if (f)
        check_name(x, label, f, whole);
}

// --- rules ---

static bool sets(const struct engine_config_relabel *rule, const char *label)
{
    bool target = rule->action == ENGINE_CONFIG_RELABEL_REPLACE ||
                  rule->action == ENGINE_CONFIG_RELABEL_HASHMOD ||
                  rule->action == ENGINE_CONFIG_RELABEL_LOWERCASE ||
                  rule->action == ENGINE_CONFIG_RELABEL_UPPERCASE;
    return target && (gs_streq(rule->target_label, label) || strchr(rule->target_label, '$'));
}

static bool is_set_by(const struct reading *x, const char *label, size_t from, size_t until)
{
    for (size_t i = from; i < until; i++)
        if (sets(&x->rules->items[i], label) ||
            x->rules->items[i].action == ENGINE_CONFIG_RELABEL_LABELMAP)
            return true;
    return false;
}

// The text of a regular expression before its first operator.
static char *literal_begin(const char *pattern)
{
    return gs_strndup(pattern, strcspn(pattern, "\\.[]{}()*+?^$|"));
}

typedef void check_label_fn(const struct reading *x, const char *label, bool whole);

static void check_rules(struct reading *x, check_label_fn *check)
{
    for (x->index = 0; x->index < x->rules->n && !x->r->err; x->index++) {
        const struct engine_config_relabel *rule = &x->rules->items[x->index];
        for (size_t k = 0; k < rule->n_source_labels; k++)
            check(x, rule->source_labels[k], true);
        if (rule->action != ENGINE_CONFIG_RELABEL_LABELMAP)
            continue;
        GS_AUTO_FREE char *begin = literal_begin(rule->pattern);
        check(x, begin, false);
    }
}

static void check_target_label(const struct reading *x, const char *label, bool whole)
{
    if (is_set_by(x, label, 0, x->index))
        return;
    if (gs_starts(label, META))
        check_meta(x, label, whole);
    else if (gs_starts(label, "__tmp") && is_set_by(x, label, x->index + 1, x->rules->n))
        warn_about(x, label, "is set only by a later rule");
}

static void check_metric_label(const struct reading *x, const char *label, bool whole)
{
    (void)whole;
    if (gs_starts(label, META) && !is_set_by(x, label, 0, x->index))
        warn_about(x, label,
                   "ends with relabel_configs; copy it there to a label without leading \"__\"");
}

void engine_config_check_meta_labels(struct codec_reader *r, const json_t *item,
                                     const struct engine_config_scrape_config *s)
{
    struct reading x = {.r = r,
                        .sd = &s->sd,
                        .rules = &s->relabel,
                        .list = json_object_get(item, "relabel_configs"),
                        .any = s->sd.n_files || s->sd.n_http};
    for (size_t i = 0; i < s->sd.n_kubernetes; i++)
        x.on |= 1U << s->sd.kubernetes[i].role |
                (s->sd.kubernetes[i].attach.node ? (unsigned)ON_ATTACHED : 0);
    check_rules(&x, check_target_label);
    x.rules = &s->metric_relabel;
    x.list = json_object_get(item, "metric_relabel_configs");
    check_rules(&x, check_metric_label);
}
