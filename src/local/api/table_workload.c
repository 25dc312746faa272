// SPDX-License-Identifier: Apache-2.0
// Deployments, ReplicaSets, StatefulSets, DaemonSets, ControllerRevisions, PodDisruptionBudgets,
// HorizontalPodAutoscalers.
#include "base/mem.h"
#include "kube/object.h"
#include "kube/selector.h"
#include "local/api/table.h"

#include <ctype.h>
#include <inttypes.h>

static int64_t spec_replicas(const json_t *obj)
{
    return codec_json_int(obj, 1, "spec", "replicas", NULL);
}

static int64_t status_int(const json_t *obj, const char *key)
{
    return codec_json_int(obj, 0, "status", key, NULL);
}

void local_api_cell_selector(json_t *cells, const json_t *obj)
{
    struct kube_selector selector = {0};
    struct gs_buf text = {0};

    GS_AUTO_ERROR struct gs_error *err = kube_selector_of(obj, &selector);
    if (!err)
        kube_selector_format(&selector, &text);
    kube_selector_finish(&selector);
    local_api_cell_buf(cells, &text, "<none>");
}

static void cells_template(json_t *cells, const json_t *obj)
{
    local_api_cell_containers(cells,
                              codec_json_get(obj, "spec", "template", "spec", "containers", NULL));
}

#define TEMPLATE_COLUMNS                                                                           \
    {"Containers", "string", 1, "Names of each container in the template."},                       \
    {                                                                                              \
        "Images", "string", 1, "Images referenced by each container in the template."              \
    }
#define SELECTOR_COLUMN                                                                            \
    {                                                                                              \
        "Selector", "string", 1, "Label selector for pods."                                        \
    }

static void deployment_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    local_api_cell_name(cells, obj);
    json_array_append_new(cells,
                          codec_json_strf("%" PRId64 "/%" PRId64, status_int(obj, "readyReplicas"),
                                          spec_replicas(obj)));
    local_api_cell_int(cells, status_int(obj, "updatedReplicas"));
    local_api_cell_int(cells, status_int(obj, "availableReplicas"));
    local_api_cell_age(cells, obj, now_ms);
    cells_template(cells, obj);
    local_api_cell_selector(cells, obj);
}

const struct local_api_table local_api_table_deployments = {
    (const struct local_api_column[]){
        LOCAL_API_COLUMN_NAME,
        {"Ready", "string", 0, "Number of the pod with ready state"},
        {"Up-to-date", "integer", 0,
         "Total number of non-terminated pods that have the desired template."},
        {"Available", "integer", 0, "Total number of available pods."},
        LOCAL_API_COLUMN_AGE,
        TEMPLATE_COLUMNS,
        SELECTOR_COLUMN,
        {0}},
    deployment_cells};

static void replicaset_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    local_api_cell_name(cells, obj);
    local_api_cell_int(cells, spec_replicas(obj));
    local_api_cell_int(cells, status_int(obj, "replicas"));
    local_api_cell_int(cells, status_int(obj, "readyReplicas"));
    local_api_cell_age(cells, obj, now_ms);
    cells_template(cells, obj);
    local_api_cell_selector(cells, obj);
}

const struct local_api_table local_api_table_replicasets = {
    (const struct local_api_column[]){LOCAL_API_COLUMN_NAME,
                                      {"Desired", "integer", 0, "Number of pods that are wanted."},
                                      {"Current", "integer", 0, "Number of pods that exist."},
                                      {"Ready", "integer", 0, "Number of pods that are ready."},
                                      LOCAL_API_COLUMN_AGE,
                                      TEMPLATE_COLUMNS,
                                      SELECTOR_COLUMN,
                                      {0}},
    replicaset_cells};

static void statefulset_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    local_api_cell_name(cells, obj);
    json_array_append_new(cells,
                          codec_json_strf("%" PRId64 "/%" PRId64, status_int(obj, "readyReplicas"),
                                          spec_replicas(obj)));
    local_api_cell_age(cells, obj, now_ms);
    cells_template(cells, obj);
}

const struct local_api_table local_api_table_statefulsets = {
    (const struct local_api_column[]){LOCAL_API_COLUMN_NAME,
                                      {"Ready", "string", 0, "Number of the pod with ready state"},
                                      LOCAL_API_COLUMN_AGE,
                                      TEMPLATE_COLUMNS,
                                      {0}},
    statefulset_cells};

static void daemonset_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    static const char *const counts[] = {"desiredNumberScheduled", "currentNumberScheduled",
                                         "numberReady", "updatedNumberScheduled",
                                         "numberAvailable"};

    local_api_cell_name(cells, obj);
    for (size_t i = 0; i < GS_ARRAY_LEN(counts); i++)
        local_api_cell_int(cells, status_int(obj, counts[i]));
    local_api_cell_map(cells, codec_json_get(obj, "spec", "template", "spec", "nodeSelector", NULL),
                       "<none>");
    local_api_cell_age(cells, obj, now_ms);
    cells_template(cells, obj);
    local_api_cell_selector(cells, obj);
}

const struct local_api_table local_api_table_daemonsets = {
    (const struct local_api_column[]){
        LOCAL_API_COLUMN_NAME,
        {"Desired", "integer", 0, "Number of nodes that should run the pod."},
        {"Current", "integer", 0, "Number of nodes that run at least one such pod."},
        {"Ready", "integer", 0, "Number of nodes with a ready pod."},
        {"Up-to-date", "integer", 0, "Number of nodes that run the current template."},
        {"Available", "integer", 0, "Number of nodes with an available pod."},
        {"Node Selector", "string", 0, "Labels of the nodes that are meant."},
        LOCAL_API_COLUMN_AGE,
        TEMPLATE_COLUMNS,
        SELECTOR_COLUMN,
        {0}},
    daemonset_cells};

static void cell_share(json_t *cells, const json_t *value)
{
    if (json_is_integer(value))
        json_array_append_new(cells, codec_json_strf("%lld", (long long)json_integer_value(value)));
    else
        local_api_cell_or(cells, json_string_value(value), "N/A");
}

static void budget_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    const json_t *spec = json_object_get(obj, "spec");

    local_api_cell_name(cells, obj);
    cell_share(cells, json_object_get(spec, "minAvailable"));
    cell_share(cells, json_object_get(spec, "maxUnavailable"));
    local_api_cell_int(cells, codec_json_int(obj, 0, "status", "disruptionsAllowed", NULL));
    local_api_cell_age(cells, obj, now_ms);
}

const struct local_api_table local_api_table_budgets = {
    (const struct local_api_column[]){
        LOCAL_API_COLUMN_NAME,
        {"Min Available", "string", 0, "The minimum number of pods that must be available."},
        {"Max Unavailable", "string", 0, "The maximum number of pods that may be unavailable."},
        {"Allowed Disruptions", "integer", 0,
         "Calculated number of pods that may be disrupted at this time."},
        LOCAL_API_COLUMN_AGE,
        {0}},
    budget_cells};

static void revision_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    local_api_cell_name(cells, obj);
    const json_t *owner = kube_controller_ref(obj);
    const char *version = codec_json_str(owner, "apiVersion", NULL);
    const char *kind = codec_json_str(owner, "kind", NULL);
    const char *name = codec_json_str(owner, "name", NULL);
    size_t group = version && strchr(version, '/') ? strcspn(version, "/") : 0;
    GS_AUTO_BUF struct gs_buf text = {0};
    for (const char *c = kind; c && *c; c++)
        gs_buf_add_char(&text, (char)tolower((unsigned char)*c));
    if (kind)
        gs_buf_addf(&text, "%s%.*s/%s", group ? "." : "", (int)group, version, name ? name : "");
    local_api_cell_or(cells, text.data, "<none>");
    local_api_cell_int(cells, codec_json_int(obj, 0, "revision", NULL));
    local_api_cell_age(cells, obj, now_ms);
}

const struct local_api_table local_api_table_revisions = {
    (const struct local_api_column[]){
        LOCAL_API_COLUMN_NAME,
        {"Controller", "string", 0, "The object that the revision belongs to."},
        {"Revision", "integer", 0, "Number of the revision."},
        LOCAL_API_COLUMN_AGE,
        {0}},
    revision_cells};

// --- HorizontalPodAutoscalers: the targets ---

#define MAX_TARGETS 2

static const char *target_text(const json_t *target, const char *key)
{
    return codec_json_str(target, key, NULL);
}

// "current/target" by value or average value.
static void add_amount(struct gs_buf *out, const json_t *current, const json_t *target,
                       const char *key, const char *suffix)
{
    const char *now = codec_json_str(current, key, NULL);
    gs_buf_addf(out, "%s/%s%s", now ? now : "<unknown>", target_text(target, key), suffix);
}

static void add_resource(struct gs_buf *out, const json_t *source, const json_t *current,
                         const json_t *target)
{
    const char *name = codec_json_str(source, "name", NULL);

    gs_buf_addf(out, "%s: ", name ? name : "");
    if (target_text(target, "averageValue")) {
        add_amount(out, current, target, "averageValue", "");
        return;
    }
    const json_t *percent = json_object_get(current, "averageUtilization");
    const json_t *wanted = json_object_get(target, "averageUtilization");
    if (json_is_integer(percent))
        gs_buf_addf(out, "%" JSON_INTEGER_FORMAT "%%/", json_integer_value(percent));
    else
        gs_buf_add_str(out, "<unknown>/");
    if (json_is_integer(wanted))
        gs_buf_addf(out, "%" JSON_INTEGER_FORMAT "%%", json_integer_value(wanted));
    else
        gs_buf_add_str(out, "<auto>");
}

static const char *member_of(const char *type)
{
    static const char *const types[][2] = {{"Resource", "resource"},
                                           {"ContainerResource", "containerResource"},
                                           {"Pods", "pods"},
                                           {"Object", "object"},
                                           {"External", "external"}};

    for (size_t i = 0; type && i < GS_ARRAY_LEN(types); i++)
        if (strcmp(types[i][0], type) == 0)
            return types[i][1];
    return NULL;
}

static void add_target(struct gs_buf *out, const json_t *metric, const json_t *status)
{
    const char *type = codec_json_str(metric, "type", NULL);
    const char *member = member_of(type);

    if (!member) {
        gs_buf_add_str(out, "<unknown type>");
        return;
    }
    const json_t *source = json_object_get(metric, member);
    const json_t *target = json_object_get(source, "target");
    // The status at this index can belong to another metric.
    const json_t *current = gs_streq(codec_json_str(status, "type", NULL), type)
                                ? codec_json_get(status, member, "current", NULL)
                                : NULL;
    if (gs_ends(type, "Resource"))
        add_resource(out, source, current, target);
    else if (strcmp(type, "Pods") == 0)
        add_amount(out, current, target, "averageValue", "");
    else if (strcmp(type, "Object") == 0 ? gs_streq(target_text(target, "type"), "AverageValue")
                                         : target_text(target, "averageValue") != NULL)
        add_amount(out, current, target, "averageValue", " (avg)");
    else
        add_amount(out, current, target, "value", "");
}

static void cell_targets(json_t *cells, const json_t *hpa)
{
    const json_t *metrics = codec_json_get(hpa, "spec", "metrics", NULL);
    const json_t *current = codec_json_get(hpa, "status", "currentMetrics", NULL);
    size_t n = json_array_size(metrics);
    struct gs_buf text = {0};

    for (size_t i = 0; i < n && i < MAX_TARGETS; i++) {
        gs_buf_add_str(&text, i ? ", " : "");
        add_target(&text, json_array_get(metrics, i), json_array_get(current, i));
    }
    if (n > MAX_TARGETS)
        gs_buf_addf(&text, " + %zu more...", n - MAX_TARGETS);
    local_api_cell_buf(cells, &text, "<none>");
}

static void hpa_cells(const json_t *hpa, json_t *cells, int64_t now_ms)
{
    const char *kind = codec_json_str(hpa, "spec", "scaleTargetRef", "kind", NULL);
    const char *name = codec_json_str(hpa, "spec", "scaleTargetRef", "name", NULL);
    const json_t *min = codec_json_get(hpa, "spec", "minReplicas", NULL);

    local_api_cell_name(cells, hpa);
    json_array_append_new(cells, codec_json_strf("%s/%s", kind ? kind : "", name ? name : ""));
    cell_targets(cells, hpa);
    if (json_is_integer(min))
        json_array_append_new(cells,
                              codec_json_strf("%" JSON_INTEGER_FORMAT, json_integer_value(min)));
    else
        local_api_cell_str(cells, "<unset>");
    local_api_cell_int(cells, codec_json_int(hpa, 0, "spec", "maxReplicas", NULL));
    local_api_cell_int(cells, status_int(hpa, "currentReplicas"));
    local_api_cell_age(cells, hpa, now_ms);
}

const struct local_api_table local_api_table_hpas = {
    (const struct local_api_column[]){
        LOCAL_API_COLUMN_NAME,
        {"Reference", "string", 0, "What is scaled."},
        {"Targets", "string", 0, "Current and target value of each metric."},
        {"MinPods", "string", 0, "Lower limit of the number of pods."},
        {"MaxPods", "integer", 0, "Upper limit of the number of pods."},
        {"Replicas", "integer", 0, "Number of replicas last seen."},
        LOCAL_API_COLUMN_AGE,
        {0}},
    hpa_cells};
