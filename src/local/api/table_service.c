// SPDX-License-Identifier: Apache-2.0
// Services, Endpoints, EndpointSlices, Ingresses.
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/table.h"

#include <inttypes.h>

#define MAX_ENDPOINTS 3

static void add_item(struct gs_buf *out, const char *text)
{
    gs_buf_addf(out, "%s%s", out->len ? "," : "", text);
}

static void add_ingress(const json_t *svc, struct gs_buf *out)
{
    size_t i;
    json_t *entry;

    json_array_foreach (codec_json_get(svc, "status", "loadBalancer", "ingress", NULL), i, entry) {
        const char *ip = codec_json_str(entry, "ip", NULL);
        const char *host = codec_json_str(entry, "hostname", NULL);
        if (ip || host)
            add_item(out, ip ? ip : host);
    }
}

static void cell_external_ip(json_t *cells, const json_t *svc)
{
    const char *type = codec_json_str(svc, "spec", "type", NULL);
    bool balancer = gs_streq(type, "LoadBalancer");
    struct gs_buf text = {0};
    size_t i;
    json_t *ip;

    if (gs_streq(type, "ExternalName")) {
        local_api_cell_or(cells, codec_json_str(svc, "spec", "externalName", NULL), "<none>");
        return;
    }
    if (balancer)
        add_ingress(svc, &text);
    json_array_foreach (codec_json_get(svc, "spec", "externalIPs", NULL), i, ip)
        if (json_is_string(ip))
            add_item(&text, json_string_value(ip));
    local_api_cell_buf(cells, &text, balancer ? "<pending>" : "<none>");
}

// Where it can be reached: with the addresses beside it, what a client types.
static void cell_service_ports(json_t *cells, const json_t *svc)
{
    struct gs_buf text = {0};
    size_t i;
    json_t *port;

    json_array_foreach (codec_json_get(svc, "spec", "ports", NULL), i, port) {
        const char *protocol = codec_json_str(port, "protocol", NULL);
        int64_t node_port = codec_json_int(port, 0, "nodePort", NULL);
        gs_buf_addf(&text, "%s%d", i ? "," : "",
                    kube_port(svc, (int)codec_json_int(port, 0, "port", NULL)));
        if (node_port)
            gs_buf_addf(&text, ":%" PRId64, node_port);
        gs_buf_addf(&text, "/%s", protocol ? protocol : "TCP");
    }
    local_api_cell_buf(cells, &text, "<none>");
}

static void service_cells(const json_t *svc, json_t *cells, int64_t now_ms)
{
    local_api_cell_name(cells, svc);
    local_api_cell_str(cells, codec_json_str(svc, "spec", "type", NULL));
    local_api_cell_or(cells, codec_json_str(svc, "spec", "clusterIP", NULL), "<none>");
    cell_external_ip(cells, svc);
    cell_service_ports(cells, svc);
    local_api_cell_age(cells, svc, now_ms);
    local_api_cell_map(cells, codec_json_get(svc, "spec", "selector", NULL), "<none>");
}

const struct local_api_table local_api_table_services = {
    (const struct local_api_column[]){
        LOCAL_API_COLUMN_NAME,
        {"Type", "string", 0, "How the service is reached."},
        {"Cluster-IP", "string", 0, "Address inside the cluster."},
        {"External-IP", "string", 0, "Address from outside."},
        {"Port(s)", "string", 0, "Ports, with their node ports."},
        LOCAL_API_COLUMN_AGE,
        {"Selector", "string", 1, "Labels of the pods that serve it."},
        {0}},
    service_cells};

// --- endpoints ---

static void add_subset(const json_t *subset, struct gs_buf *out, size_t *n)
{
    const json_t *ports = json_object_get(subset, "ports");
    size_t n_ports = json_array_size(ports), i;
    json_t *address;

    json_array_foreach (json_object_get(subset, "addresses"), i, address) {
        const char *ip = codec_json_str(address, "ip", NULL);
        for (size_t p = 0; p < (n_ports ? n_ports : 1); p++) {
            if ((*n)++ >= MAX_ENDPOINTS)
                continue;
            gs_buf_addf(out, "%s%s", out->len ? "," : "", ip ? ip : "");
            if (n_ports)
                gs_buf_addf(out, ":%" PRId64,
                            codec_json_int(json_array_get(ports, p), 0, "port", NULL));
        }
    }
}

static void endpoints_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    struct gs_buf text = {0};
    size_t n = 0, i;
    json_t *subset;

    json_array_foreach (json_object_get(obj, "subsets"), i, subset)
        add_subset(subset, &text, &n);
    if (n > MAX_ENDPOINTS)
        gs_buf_addf(&text, " + %zu more...", n - MAX_ENDPOINTS);
    local_api_cell_name(cells, obj);
    local_api_cell_buf(cells, &text, "<none>");
    local_api_cell_age(cells, obj, now_ms);
}

const struct local_api_table local_api_table_endpoints = {
    (const struct local_api_column[]){
        LOCAL_API_COLUMN_NAME,
        {"Endpoints", "string", 0, "Addresses and ports of the ready pods."},
        LOCAL_API_COLUMN_AGE,
        {0}},
    endpoints_cells};

static void endpointslice_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    struct gs_buf ports = {0}, addresses = {0};
    size_t i, k;
    json_t *item, *address;

    json_array_foreach (json_object_get(obj, "ports"), i, item)
        gs_buf_addf(&ports, "%s%" PRId64, i ? "," : "", codec_json_int(item, 0, "port", NULL));
    json_array_foreach (json_object_get(obj, "endpoints"), i, item)
        json_array_foreach (json_object_get(item, "addresses"), k, address)
            add_item(&addresses, json_string_value(address) ? json_string_value(address) : "");
    local_api_cell_name(cells, obj);
    local_api_cell_str(cells, codec_json_str(obj, "addressType", NULL));
    local_api_cell_buf(cells, &ports, "<unset>");
    local_api_cell_buf(cells, &addresses, "<unset>");
    local_api_cell_age(cells, obj, now_ms);
}

const struct local_api_table local_api_table_endpointslices = {
    (const struct local_api_column[]){LOCAL_API_COLUMN_NAME,
                                      {"AddressType", "string", 0, "Kind of the addresses."},
                                      {"Ports", "string", 0, "Ports of the endpoints."},
                                      {"Endpoints", "string", 0, "Addresses."},
                                      LOCAL_API_COLUMN_AGE,
                                      {0}},
    endpointslice_cells};

// --- ingresses ---

static void ingress_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    struct gs_buf hosts = {0}, addresses = {0}, ports = {0};
    bool tls = json_array_size(codec_json_get(obj, "spec", "tls", NULL)) > 0;
    size_t i;
    json_t *rule;

    json_array_foreach (codec_json_get(obj, "spec", "rules", NULL), i, rule) {
        const char *host = codec_json_str(rule, "host", NULL);
        if (host && *host)
            add_item(&hosts, host);
    }
    add_ingress(obj, &addresses);
    gs_buf_addf(&ports, "%d", kube_port(obj, 80));
    if (tls)
        gs_buf_addf(&ports, ", %d", kube_port(obj, 443));
    local_api_cell_name(cells, obj);
    local_api_cell_or(cells, codec_json_str(obj, "spec", "ingressClassName", NULL), "<none>");
    local_api_cell_buf(cells, &hosts, "*");
    local_api_cell_buf(cells, &addresses, "");
    local_api_cell_buf(cells, &ports, "");
    local_api_cell_age(cells, obj, now_ms);
}

const struct local_api_table local_api_table_ingresses = {
    (const struct local_api_column[]){LOCAL_API_COLUMN_NAME,
                                      {"Class", "string", 0, "The IngressClass that it is for."},
                                      {"Hosts", "string", 0, "Hosts that it applies to."},
                                      {"Address", "string", 0, "Address of a load balancer."},
                                      {"Ports", "string", 0, "Ports of the rules."},
                                      LOCAL_API_COLUMN_AGE,
                                      {0}},
    ingress_cells};

static void ingress_class_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    const json_t *ref = codec_json_get(obj, "spec", "parameters", NULL);
    const char *group = codec_json_str(ref, "apiGroup", NULL);
    struct gs_buf parameters = {0};

    if (ref)
        gs_buf_addf(&parameters, "%s%s%s/%s", codec_json_str(ref, "kind", NULL), group ? "." : "",
                    group ? group : "", codec_json_str(ref, "name", NULL));
    local_api_cell_name(cells, obj);
    local_api_cell_str(cells, codec_json_str(obj, "spec", "controller", NULL));
    local_api_cell_buf(cells, &parameters, "<none>");
    local_api_cell_age(cells, obj, now_ms);
}

const struct local_api_table local_api_table_ingress_classes = {
    (const struct local_api_column[]){LOCAL_API_COLUMN_NAME,
                                      {"Controller", "string", 0, "Controller of the class."},
                                      {"Parameters", "string", 0, "Parameters of the class."},
                                      LOCAL_API_COLUMN_AGE,
                                      {0}},
    ingress_class_cells};
