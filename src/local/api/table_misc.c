// SPDX-License-Identifier: Apache-2.0
// Nodes, Namespaces, Events, ConfigMaps, Secrets, ServiceAccounts, Leases.
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/table.h"

// --- nodes ---

static void cell_node_status(json_t *cells, const json_t *node)
{
    const json_t *ready = kube_condition(node, "Ready");
    const char *status = codec_json_str(ready, "status", NULL);
    struct gs_buf text = {0};

    if (!ready)
        gs_buf_add_str(&text, "Unknown");
    else
        gs_buf_add_str(&text, gs_streq(status, "True") ? "Ready" : "NotReady");
    if (codec_json_bool(node, false, "spec", "unschedulable", NULL))
        gs_buf_add_str(&text, ",SchedulingDisabled");
    local_api_cell_buf(cells, &text, "");
}

static void cell_roles(json_t *cells, const json_t *node)
{
    static const char prefix[] = "node-role.kubernetes.io/";
    struct gs_buf text = {0};
    const char *key;
    json_t *value;

    json_object_foreach (codec_json_get(node, "metadata", "labels", NULL), key, value) {
        const char *role = gs_starts(key, prefix)                   ? key + strlen(prefix)
                           : strcmp(key, "kubernetes.io/role") == 0 ? json_string_value(value)
                                                                    : NULL;
        if (role && *role)
            gs_buf_addf(&text, "%s%s", text.len ? "," : "", role);
    }
    local_api_cell_buf(cells, &text, "<none>");
}

static void cell_node_address(json_t *cells, const json_t *node, const char *type)
{
    size_t i;
    json_t *address;
    const char *found = NULL;

    json_array_foreach (codec_json_get(node, "status", "addresses", NULL), i, address)
        if (!found && gs_streq(codec_json_str(address, "type", NULL), type))
            found = codec_json_str(address, "address", NULL);
    local_api_cell_or(cells, found, "<none>");
}

static void cell_node_info(json_t *cells, const json_t *node, const char *key)
{
    local_api_cell_or(cells, codec_json_str(node, "status", "nodeInfo", key, NULL), "<unknown>");
}

static void node_cells(const json_t *node, json_t *cells, int64_t now_ms)
{
    local_api_cell_name(cells, node);
    cell_node_status(cells, node);
    cell_roles(cells, node);
    local_api_cell_age(cells, node, now_ms);
    local_api_cell_str(cells, codec_json_str(node, "status", "nodeInfo", "kubeletVersion", NULL));
    cell_node_address(cells, node, "InternalIP");
    cell_node_address(cells, node, "ExternalIP");
    cell_node_info(cells, node, "osImage");
    cell_node_info(cells, node, "kernelVersion");
    cell_node_info(cells, node, "containerRuntimeVersion");
}

const struct local_api_table local_api_table_nodes = {
    (const struct local_api_column[]){
        LOCAL_API_COLUMN_NAME,
        {"Status", "string", 0, "The status of the node"},
        {"Roles", "string", 0, "The roles of the node"},
        LOCAL_API_COLUMN_AGE,
        {"Version", "string", 0, "Version that the kubelet reports."},
        {"Internal-IP", "string", 1, "Address inside the cluster."},
        {"External-IP", "string", 1, "Address from outside."},
        {"OS-Image", "string", 1, "Operating system."},
        {"Kernel-Version", "string", 1, "Kernel."},
        {"Container-Runtime", "string", 1, "What runs the containers."},
        {0}},
    node_cells};

// --- namespaces ---

static void namespace_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    local_api_cell_name(cells, obj);
    local_api_cell_str(cells, kube_phase(obj));
    local_api_cell_age(cells, obj, now_ms);
}

const struct local_api_table local_api_table_namespaces = {
    (const struct local_api_column[]){LOCAL_API_COLUMN_NAME,
                                      {"Status", "string", 0, "The status of the namespace"},
                                      LOCAL_API_COLUMN_AGE,
                                      {0}},
    namespace_cells};

// --- events ---

static const char *text_or(const char *text, const char *other)
{
    return text && *text ? text : other;
}

static void cell_event_object(json_t *cells, const json_t *event)
{
    const char *kind = codec_json_str(event, "involvedObject", "kind", NULL);
    const char *name = codec_json_str(event, "involvedObject", "name", NULL);
    struct gs_buf text = {0};

    for (const char *c = kind; c && *c; c++)
        gs_buf_add_char(&text, (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c));
    if (name && *name)
        gs_buf_addf(&text, "/%s", name);
    local_api_cell_buf(cells, &text, "");
}

static void cell_event_source(json_t *cells, const json_t *event)
{
    const char *component = text_or(codec_json_str(event, "source", "component", NULL),
                                    codec_json_str(event, "reportingComponent", NULL));
    const char *host = text_or(codec_json_str(event, "source", "host", NULL),
                               codec_json_str(event, "reportingInstance", NULL));
    struct gs_buf text = {0};

    gs_buf_add_str(&text, component ? component : "");
    if (host && *host)
        gs_buf_addf(&text, "%s%s", text.len ? ", " : "", host);
    local_api_cell_buf(cells, &text, "");
}

static void event_cells(const json_t *event, json_t *cells, int64_t now_ms)
{
    const char *first = text_or(codec_json_str(event, "firstTimestamp", NULL),
                                codec_json_str(event, "eventTime", NULL));
    const char *last = text_or(codec_json_str(event, "lastTimestamp", NULL), first);
    const json_t *series = json_object_get(event, "series");
    int64_t count = codec_json_int(event, 0, "count", NULL);
    char age[LOCAL_API_AGE_SIZE];

    if (series) {
        last = codec_json_str(series, "lastObservedTime", NULL);
        count = codec_json_int(series, count, "count", NULL);
    }
    struct gs_slice message = gs_slice_trim(gs_slice_of(codec_json_str(event, "message", NULL)));
    local_api_cell_str(cells, local_api_format_age(last, now_ms, age));
    local_api_cell_str(cells, codec_json_str(event, "type", NULL));
    local_api_cell_str(cells, codec_json_str(event, "reason", NULL));
    cell_event_object(cells, event);
    local_api_cell_str(cells, codec_json_str(event, "involvedObject", "fieldPath", NULL));
    cell_event_source(cells, event);
    json_array_append_new(cells, json_stringn(message.data ? message.data : "", message.len));
    local_api_cell_str(cells, local_api_format_age(first, now_ms, age));
    local_api_cell_int(cells, count ? count : 1);
    local_api_cell_name(cells, event);
}

const struct local_api_table local_api_table_events = {
    (const struct local_api_column[]){
        {"Last Seen", "string", 0, "Time of the most recent occurrence."},
        {"Type", "string", 0, "Normal or Warning."},
        {"Reason", "string", 0, "Short word for what happened."},
        {"Object", "string", 0, "What it happened to."},
        {"Subobject", "string", 1, "Part of the object."},
        {"Source", "string", 1, "Who reports it."},
        {"Message", "string", 0, "What happened."},
        {"First Seen", "string", 1, "Time of the first occurrence."},
        {"Count", "integer", 1, "Number of occurrences."},
        {"Name", "string", 1, "Name of the event."},
        {0}},
    event_cells};

// --- small kinds ---

static void configmap_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    size_t n = json_object_size(json_object_get(obj, "data")) +
               json_object_size(json_object_get(obj, "binaryData"));

    local_api_cell_name(cells, obj);
    local_api_cell_int(cells, (int64_t)n);
    local_api_cell_age(cells, obj, now_ms);
}

const struct local_api_table local_api_table_configmaps = {
    (const struct local_api_column[]){LOCAL_API_COLUMN_NAME,
                                      {"Data", "string", 0, "Number of entries."},
                                      LOCAL_API_COLUMN_AGE,
                                      {0}},
    configmap_cells};

static void secret_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    local_api_cell_name(cells, obj);
    local_api_cell_str(cells, codec_json_str(obj, "type", NULL));
    local_api_cell_int(cells, (int64_t)json_object_size(json_object_get(obj, "data")));
    local_api_cell_age(cells, obj, now_ms);
}

const struct local_api_table local_api_table_secrets = {
    (const struct local_api_column[]){LOCAL_API_COLUMN_NAME,
                                      {"Type", "string", 0, "What the data is for."},
                                      {"Data", "string", 0, "Number of entries."},
                                      LOCAL_API_COLUMN_AGE,
                                      {0}},
    secret_cells};

static void serviceaccount_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    local_api_cell_name(cells, obj);
    local_api_cell_int(cells, (int64_t)json_array_size(json_object_get(obj, "secrets")));
    local_api_cell_age(cells, obj, now_ms);
}

const struct local_api_table local_api_table_serviceaccounts = {
    (const struct local_api_column[]){LOCAL_API_COLUMN_NAME,
                                      {"Secrets", "string", 0, "Number of secrets."},
                                      LOCAL_API_COLUMN_AGE,
                                      {0}},
    serviceaccount_cells};

static void lease_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    local_api_cell_name(cells, obj);
    local_api_cell_str(cells, codec_json_str(obj, "spec", "holderIdentity", NULL));
    local_api_cell_age(cells, obj, now_ms);
}

const struct local_api_table local_api_table_leases = {
    (const struct local_api_column[]){LOCAL_API_COLUMN_NAME,
                                      {"Holder", "string", 0, "Who holds the lease."},
                                      LOCAL_API_COLUMN_AGE,
                                      {0}},
    lease_cells};
