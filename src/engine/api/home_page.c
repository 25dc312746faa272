// SPDX-License-Identifier: Apache-2.0
// The start page (HTML), and /version.
#include "engine/api/api_private.h"

static const struct {
    const char *path, *text;
} links[] = {
    {"/api/v1/targets", "targets and the state of their scrapes"},
    {"/api/v1/query?query=up", "a query: <code>up</code>"},
    {"/api/v1/labels", "label names"},
    {"/api/v1/label/__name__/values", "metric names"},
    {"/api/v1/metadata", "types and help texts"},
    {"/api/v1/rules", "recording and alerting rules"},
    {"/api/v1/alerts", "active alerts"},
    {"/api/v1/status/tsdb", "statistics of the store"},
    {"/api/v1/status/config", "configuration"},
    {"/api/v1/status/flags", "flags"},
    {"/api/v1/status/runtimeinfo", "runtime information"},
    {"/federate?match%5B%5D=up", "federation"},
    {"/metrics", "metrics of the engine itself"},
    {"/-/healthy", "health"},
    {"/-/ready", "readiness"},
};

void engine_api_home(struct engine_api_request *r)
{
    const char *prefix = r->api->cfg.route_prefix;
    size_t n = prefix ? strlen(prefix) : 0;
    while (n && prefix[n - 1] == '/')
        n--;
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_buf_add_str(&out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                         "<title>gpuscale engine</title></head>\n<body>\n<h1>gpuscale engine</h1>\n"
                         "<p>Version " GPUSCALE_VERSION
                         ". It serves the HTTP API of Prometheus and has no graph page. Use "
                         "this address in Grafana, promtool or curl.</p>\n<ul>\n");
    for (size_t i = 0; i < GS_ARRAY_LEN(links); i++)
        gs_buf_addf(&out, "<li><a href=\"%.*s%s\">%s</a></li>\n", (int)n, prefix ? prefix : "",
                    links[i].path, links[i].text);
    gs_buf_add_str(&out, "</ul>\n</body></html>\n");
    engine_api_reply_body(r, 200, "text/html; charset=utf-8", gs_buf_slice(&out));
}
