// SPDX-License-Identifier: Apache-2.0
// /metrics of the API server, with the names of kube-apiserver: requests by verb, resource and
// code, stored objects, and the state of APIServices. Requests of mounted and aggregated groups are
// not counted here.
#include "base/hmap.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/admission.h"
#include "local/api/crd.h"
#include "metrics/process.h"
#include "metrics/write.h"
#include "net/http/routes.h"

#include <stdio.h>

// Clients can define resources and versions, so the rows are bounded.
#define MAX_ROWS 5000

// Others are counted as the first code of their class.
static const int codes[] = {101, 200, 201, 202, 400, 401, 403, 404, 405, 406, 409,
                            410, 413, 415, 422, 429, 500, 501, 502, 503, 504};
#define N_CODES GS_ARRAY_LEN(codes)

enum { VERB, GROUP, VERSION, RESOURCE, SUBRESOURCE, SCOPE, N_LABELS };
static const char *const names[N_LABELS] = {"verb",     "group",       "version",
                                            "resource", "subresource", "scope"};

// The values of the labels are its key, with blanks between them.
struct request_row {
    uint64_t counts[N_CODES];
};

// --- counting ---

static const char *verb_of(const struct local_api_request *r)
{
    const char *method = http_method(r->x);

    if (strcmp(method, "GET") == 0 && local_api_query_bool(r->x, "watch"))
        return "WATCH";
    if (strcmp(method, "GET") == 0)
        return r->name ? "GET" : "LIST";
    if (strcmp(method, "PATCH") == 0)
        return local_api_is_apply(r) ? "APPLY" : "PATCH";
    if (strcmp(method, "DELETE") == 0)
        return r->name ? "DELETE" : "DELETECOLLECTION";
    return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ? method : "OTHER";
}

// Of the path, so any other text is no label.
static const char *subresource_of(const struct local_api_request *r)
{
    static const char *const known[] = {"status",   "scale",       "log",      "exec",
                                        "attach",   "binding",     "token",    "proxy",
                                        "eviction", "portforward", "finalize", LOCAL_API_EPHEMERAL};

    for (size_t i = 0; r->sub && i < GS_ARRAY_LEN(known); i++)
        if (strcmp(r->sub, known[i]) == 0)
            return known[i];
    return "";
}

static const char *scope_of(const struct local_api_request *r)
{
    return r->name ? "resource" : *r->ns ? "namespace" : "cluster";
}

static struct request_row *row_of(struct local_api *api, const char *const values[N_LABELS])
{
    GS_AUTO_FREE char *key = gs_format("%s %s %s %s %s %s", values[0], values[1], values[2],
                                       values[3], values[4], values[5]);
    struct request_row *row = gs_hmap_get_str(api->requests, key);

    if (row || gs_hmap_len(api->requests) >= MAX_ROWS)
        return row;
    row = gs_alloc(sizeof *row);
    gs_hmap_put_str(api->requests, key, row);
    return row;
}

static size_t index_of_code(int status)
{
    size_t of_class = 0;

    for (size_t i = 0; i < N_CODES; i++) {
        if (codes[i] == status)
            return i;
        if (codes[i] / 100 == status / 100 && codes[of_class] / 100 != status / 100)
            of_class = i;
    }
    return of_class;
}

static void on_response(void *arg, int status, const char *content_type, struct gs_slice body)
{
    struct request_row *row = arg;

    row->counts[index_of_code(status)]++;
}

void local_api_count(const struct local_api_request *r)
{
    const char *const values[N_LABELS] = {
        verb_of(r), r->res->group, r->version, r->res->plural, subresource_of(r), scope_of(r),
    };
    struct request_row *row = row_of(r->api, values);

    if (row)
        http_on_response(r->x, on_response, row);
}

// --- the text ---

static struct metrics_label label(const char *name, const char *value)
{
    return (struct metrics_label){gs_slice_of(name), gs_slice_of(value)};
}

static void write_row(const struct request_row *row, struct gs_slice key, struct gs_buf *out)
{
    struct metrics_label labels[N_LABELS + 2];
    char code[16];

    for (size_t i = 0; i < N_LABELS; i++)
        labels[i] = (struct metrics_label){gs_slice_of(names[i]), gs_slice_cut(&key, ' ')};
    labels[N_LABELS] = label("component", "apiserver");
    for (size_t i = 0; i < N_CODES; i++) {
        if (!row->counts[i])
            continue;
        snprintf(code, sizeof code, "%d", codes[i]);
        labels[N_LABELS + 1] = label("code", code);
        metrics_write_sample(out, "apiserver_request_total", labels, GS_ARRAY_LEN(labels),
                             (double)row->counts[i]);
    }
}

static void write_requests(const struct local_api *api, struct gs_buf *out)
{
    size_t pos = 0;
    struct gs_slice key;
    void *row;

    metrics_write_family(out, "apiserver_request_total", METRICS_COUNTER,
                         "Counter of requests by verb, resource and code.");
    while (gs_hmap_next(api->requests, &pos, &key, &row))
        write_row(row, key, out);
}

static void write_objects(const struct local_api *api, struct gs_buf *out)
{
    const struct local_api_resource *res;

    metrics_write_family(out, "apiserver_storage_objects", METRICS_GAUGE,
                         "Number of stored objects by resource.");
    for (size_t i = 0; (res = local_api_nth_resource(api, i)); i++) {
        GS_AUTO_BUF struct gs_buf name = {0};
        size_t n = local_api_store_len(api->store, local_api_resource_bucket(res));
        if (res->view_of)
            continue;
        local_api_resource_name(res, &name);
        struct metrics_label l = label("resource", name.data);
        metrics_write_sample(out, "apiserver_storage_objects", &l, 1, (double)n);
    }
}

static void write_apiservices(const struct local_api *api, struct gs_buf *out)
{
    size_t bucket = local_api_resource_bucket(
        local_api_resource_find("apiregistration.k8s.io", "v1", "apiservices"));
    const struct local_api_store_version *v;
    const char *name;

    metrics_write_family(out, "aggregator_unavailable_apiservice", METRICS_GAUGE,
                         "1 for an APIService that is not available.");
    for (size_t i = 0; (v = local_api_store_at(api->store, bucket, i, NULL, &name)); i++) {
        struct metrics_label l = label("name", name);
        metrics_write_sample(out, "aggregator_unavailable_apiservice", &l, 1,
                             !kube_condition_true(v->tree, "Available"));
    }
}

static void write_build(struct gs_buf *out)
{
    const struct metrics_label labels[] = {
        label("major", KUBE_VERSION_MAJOR),
        label("minor", KUBE_VERSION_MINOR),
        label("git_version", LOCAL_API_GIT_VERSION),
    };

    metrics_write_family(out, "kubernetes_build_info", METRICS_GAUGE,
                         "1, with the version of the server.");
    metrics_write_sample(out, "kubernetes_build_info", labels, GS_ARRAY_LEN(labels), 1);
}

void local_api_serve_metrics(const struct local_api *api, struct http_exchange *x)
{
    GS_AUTO_BUF struct gs_buf out = {0};

    write_build(&out);
    write_requests(api, &out);
    write_objects(api, &out);
    write_apiservices(api, &out);
    metrics_write_family(&out, "apiserver_longrunning_requests", METRICS_GAUGE,
                         "Number of open watches.");
    struct metrics_label verb = label("verb", "WATCH");
    metrics_write_sample(&out, "apiserver_longrunning_requests", &verb, 1, (double)api->n_watches);
    metrics_write_process(&out, api->started_ms);
    http_reply(x, 200, HTTP_TYPE_METRICS, gs_buf_slice(&out));
}
