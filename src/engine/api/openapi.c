// SPDX-License-Identifier: Apache-2.0
// /api/v1/openapi.yaml: a description of this API for tools (https://spec.openapis.org/oas/v3.1.1).
#include "engine/api/api_private.h"

#include "codec/yaml.h"

// --- what is described ---

static const struct parameter {
    const char *name, *type;
    bool repeated;
    const char *text;
} parameters[] = {
    {"by", "string", false, "Labels of the groups, with commas."},
    {"end", "string", false, "End of the time range: RFC 3339 or Unix seconds."},
    {"exclude_alerts", "boolean", false, "Leave out the alerts of alerting rules."},
    {"file[]", "string", true, "Only groups of this rule file."},
    {"group_limit", "integer", false, "Maximum number of groups."},
    {"group_next_token", "string", false, "The groupNextToken of the previous response."},
    {"idle", "string", false, "Time without use after which a GPU is idle, as a duration."},
    {"labels", "string", false, "The labels of a target, as a JSON object."},
    {"limit", "integer", false, "Maximum number of items. 0: no limit."},
    {"limit_per_metric", "integer", false, "Maximum number of items of a metric."},
    {"lookback_delta", "string", false, "Age of samples that a query uses, as a duration."},
    {"match[]", "string", true, "Selector of series."},
    {"match_target", "string", false, "Selector of targets by their labels."},
    {"metric", "string", false, "Only this metric."},
    {"metric_name_pattern", "string", false, "Regular expression of names."},
    {"query", "string", false, "Expression in PromQL."},
    {"rule_group[]", "string", true, "Only groups with this name."},
    {"rule_name[]", "string", true, "Only rules with this name."},
    {"scrapePool", "string", false, "Name of a scrape job."},
    {"since", "string", false, "Start of the report: RFC 3339 or Unix seconds."},
    {"start", "string", false, "Start of the time range: RFC 3339 or Unix seconds."},
    {"state", "string", false, "Only targets that are active, dropped or any."},
    {"stats", "string", false, "true or all: add the statistics of the query."},
    {"step", "string", false, "Distance between steps, as a duration or in seconds."},
    {"time", "string", false, "Time of the evaluation: RFC 3339 or Unix seconds."},
    {"timeout", "string", false, "Time limit, as a duration."},
    {"type", "string", false, "Only alerting rules (alert) or recording rules (record)."},
    {"until", "string", false, "End of the report: RFC 3339 or Unix seconds."},
};

// --- operations ---

static json_t *schema_of(const struct parameter *p)
{
    return p->repeated ? json_pack("{s:s,s:{s:s}}", "type", "array", "items", "type", p->type)
                       : json_pack("{s:s}", "type", p->type);
}

static const struct parameter *take_parameter(struct gs_slice *list, bool *ret_required)
{
    struct gs_slice name = gs_slice_cut(list, ' ');
    *ret_required = gs_slice_starts(name, "!");
    if (*ret_required)
        name = gs_slice_make(name.data + 1, name.len - 1);
    for (size_t i = 0; i < GS_ARRAY_LEN(parameters); i++)
        if (gs_slice_eq_str(name, parameters[i].name))
            return &parameters[i];
    return NULL; // the list is empty
}

static json_t *query_parameters(const struct engine_api_route *d)
{
    json_t *all = json_array();
    struct gs_slice list = gs_slice_of(d->parameters);
    const struct parameter *p;
    bool required;
    if (strchr(d->http.path, '*'))
        json_array_append_new(all, json_pack("{s:s,s:s,s:b,s:{s:s}}", "name", "name", "in", "path",
                                             "required", 1, "schema", "type", "string"));
    while (list.data && (p = take_parameter(&list, &required)))
        json_array_append_new(all, json_pack("{s:s,s:s,s:s,s:b,s:o}", "name", p->name, "in",
                                             "query", "description", p->text, "required", required,
                                             "schema", schema_of(p)));
    return all;
}

static json_t *form_of(const struct engine_api_route *d)
{
    json_t *properties = json_object(), *needed = json_array();
    struct gs_slice list = gs_slice_of(d->parameters);
    const struct parameter *p;
    bool required;
    while (list.data && (p = take_parameter(&list, &required))) {
        json_t *schema = schema_of(p);
        codec_json_set_str(schema, "description", p->text);
        json_object_set_new(properties, p->name, schema);
        if (required)
            json_array_append_new(needed, json_string(p->name));
    }
    return json_pack("{s:{s:{s:{s:s,s:o,s:o}}}}", "content", "application/x-www-form-urlencoded",
                     "schema", "type", "object", "properties", properties, "required", needed);
}

static json_t *pushed_body(const struct engine_api_route *d)
{
    json_t *content = json_object();
    for (size_t i = 0; i < GS_ARRAY_LEN(d->pushed) && d->pushed[i]; i++)
        json_object_set_new(content, d->pushed[i], json_object());
    return json_pack("{s:b,s:o}", "required", 1, "content", content);
}

static json_t *responses_of(const struct engine_api_route *d)
{
    static const struct {
        const char *type, *schema;
    } contents[] = {
        [ENGINE_API_OBJECT] = {"application/json", "#/components/schemas/Object"},
        [ENGINE_API_LIST] = {"application/json", "#/components/schemas/List"},
        [ENGINE_API_STRING] = {"application/json", "#/components/schemas/String"},
        [ENGINE_API_JSON] = {"application/json", NULL},
        [ENGINE_API_TEXT] = {"text/plain", NULL},
        [ENGINE_API_YAML] = {"application/yaml", NULL},
        [ENGINE_API_PROTOBUF] = {"application/x-protobuf", NULL},
        [ENGINE_API_EMPTY] = {NULL, NULL},
    };
    const char *status = d->body == ENGINE_API_EMPTY ? "204" : "200",
               *type = contents[d->body].type;
    json_t *all = json_object();
    codec_json_set(all, json_string("Success."), status, "description", NULL);
    if (type)
        codec_json_set(all, json_object(), status, "content", type, NULL);
    if (contents[d->body].schema)
        codec_json_set(all, json_string(contents[d->body].schema), status, "content", type,
                       "schema", "$ref", NULL);
    codec_json_set(all, json_string("#/components/responses/Error"), "default", "$ref", NULL);
    return all;
}

static json_t *operation_of(const struct engine_api_route *d, const char *method)
{
    GS_AUTO_FREE char *id = gs_format("%s%s", method, d->http.path);
    for (char *c = id; *c; c++)
        if (strchr("/*.", *c))
            *c = '-';
    bool form = !gs_streq(method, "get") && *d->parameters;
    json_t *o = json_pack("{s:s,s:s}", "operationId", id, "summary", d->summary);
    json_object_set_new(o, "parameters", form ? json_array() : query_parameters(d));
    if (form)
        json_object_set_new(o, "requestBody", form_of(d));
    else if (d->pushed[0])
        json_object_set_new(o, "requestBody", pushed_body(d));
    json_object_set_new(o, "responses", responses_of(d));
    return o;
}

// --- document ---

static json_t *paths_json(void)
{
    static const char *const methods[][2] = {{"GET", "get"}, {"POST", "post"}, {"PUT", "put"}};
    json_t *all = json_object();
    const char *path;
    for (size_t i = 0; (path = engine_api_route_path(i)); i++) {
        const struct engine_api_route *d = &engine_api_routes[i];
        const char *star = strchr(path, '*');
        if (!d->summary)
            continue;
        GS_AUTO_FREE char *name =
            star ? gs_format("%.*s{name}%s", (int)(star - path), path, star + 1) : gs_strdup(path);
        for (size_t k = 0; k < GS_ARRAY_LEN(methods); k++)
            if (engine_api_route_takes(i, methods[k][0]))
                codec_json_set(all, operation_of(d, methods[k][1]), name, methods[k][1], NULL);
    }
    return all;
}

static json_t *envelope(const char *data_type)
{
    return json_pack("{s:s,s:{s:{s:s},s:{s:s},s:{s:s,s:{s:s}},s:{s:s,s:{s:s}}}}", "type", "object",
                     "properties", "status", "const", "success", "data", "type", data_type,
                     "warnings", "type", "array", "items", "type", "string", "infos", "type",
                     "array", "items", "type", "string");
}

static json_t *components_json(void)
{
    json_t *error =
        json_pack("{s:s,s:{s:{s:s},s:{s:s},s:{s:s}}}", "type", "object", "properties", "status",
                  "const", "error", "errorType", "type", "string", "error", "type", "string");
    json_t *response =
        json_pack("{s:s,s:{s:{s:{s:s}},s:{s:{s:s}}}}", "description", "Failure.", "content",
                  "application/json", "schema", "$ref", "#/components/schemas/Error", "text/plain",
                  "schema", "type", "string");
    return json_pack("{s:{s:o,s:o,s:o,s:o},s:{s:o}}", "schemas", "Object", envelope("object"),
                     "List", envelope("array"), "String", envelope("string"), "Error", error,
                     "responses", "Error", response);
}

void engine_api_openapi(struct engine_api_request *r)
{
    // The features of 3.2 are not used: the documents differ only in the version.
    const char *wanted = engine_api_param(r, "openapi_version");
    const char *version = gs_streq(wanted, "3.2") || gs_streq(wanted, "3.2.0") ? "3.2.0" : "3.1.0";
    const struct engine_api_config *c = &r->api->cfg;
    const char *server = c->external_url && *c->external_url   ? c->external_url
                         : c->route_prefix && *c->route_prefix ? c->route_prefix
                                                               : "/";
    CODEC_AUTO_JSON json_t *document = json_pack(
        "{s:s,s:{s:s,s:s,s:s},s:[{s:s}],s:o,s:o}", "openapi", version, "info", "title",
        "gpuscale engine", "version", GPUSCALE_VERSION, "description",
        "The HTTP API of Prometheus " ENGINE_API_PROMETHEUS_VERSION " as the engine serves it.",
        "servers", "url", server, "paths", paths_json(), "components", components_json());
    GS_AUTO_BUF struct gs_buf out = {0};
    codec_yaml_dump(document, &out);
    http_add_header(r->x, "Cache-Control", "no-cache, no-store, must-revalidate");
    engine_api_reply_body(r, 200, "application/yaml; charset=utf-8", gs_buf_slice(&out));
}
