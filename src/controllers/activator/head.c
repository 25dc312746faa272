// SPDX-License-Identifier: Apache-2.0
// The head of an HTTP/1 request as far as the activator needs it: to answer in HTTP, and not to be
// woken by health checks. Everything else is passed on without being read.
#include "activator/gate_private.h"

#include <string.h>
#include <strings.h>

static const char *const methods[] = {"GET ",   "POST ",    "PUT ",     "HEAD ",  "DELETE ",
                                      "PATCH ", "OPTIONS ", "CONNECT ", "TRACE ", NULL};

// Of programs that check whether an address is healthy, and of scrapers.
static const char *const probes[] = {
    "kube-probe/",        "GoogleHC/", "ELB-HealthChecker/",  "Prometheus/",      "Amazon-Route53-",
    "Blackbox Exporter/", "Envoy/HC",  "Azure Traffic Manag", "gpuscale-engine/", NULL};

static bool may_be_method(struct gs_slice b)
{
    for (size_t i = 0; methods[i]; i++) {
        size_t n = strlen(methods[i]);
        if (memcmp(b.data, methods[i], b.len < n ? b.len : n) == 0)
            return true;
    }
    return false;
}

static struct gs_slice first_line(struct gs_slice b)
{
    const char *end = memchr(b.data, '\n', b.len);
    return gs_slice_make(b.data, end ? (size_t)(end - b.data) : b.len);
}

static bool names_http(struct gs_slice line)
{
    line = gs_slice_trim(line);
    return gs_slice_ends(line, " HTTP/1.1") || gs_slice_ends(line, " HTTP/1.0");
}

enum activator_protocol activator_head_protocol(struct gs_slice b)
{
    if (!b.len)
        return ACTIVATOR_PART;
    if (!may_be_method(b))
        return ACTIVATOR_OTHER;
    bool has_line = memchr(b.data, '\n', b.len) != NULL;
    if (has_line && !names_http(first_line(b)))
        return ACTIVATOR_OTHER;
    if (memmem(b.data, b.len, "\r\n\r\n", 4) || memmem(b.data, b.len, "\n\n", 2))
        return ACTIVATOR_HTTP;
    return b.len < ACTIVATOR_MAX_HEAD ? ACTIVATOR_PART
           : has_line                 ? ACTIVATOR_TOO_LONG
                                      : ACTIVATOR_OTHER;
}

bool activator_head_is_1_1(struct gs_slice head)
{
    return gs_slice_ends(gs_slice_trim(first_line(head)), " HTTP/1.1");
}

struct gs_slice activator_head_value(struct gs_slice head, const char *name)
{
    gs_slice_cut(&head, '\n');
    while (head.len) {
        struct gs_slice line = gs_slice_trim(gs_slice_cut(&head, '\n'));
        if (!line.len)
            break;
        if (gs_slice_is_word(gs_slice_trim(gs_slice_cut(&line, ':')), name))
            return gs_slice_trim(line);
    }
    return (struct gs_slice){0};
}

static bool is_agent_of_probe(struct gs_slice agent, char **more)
{
    for (size_t i = 0; probes[i]; i++)
        if (gs_slice_starts(agent, probes[i]))
            return true;
    for (size_t i = 0; more && more[i]; i++)
        if (gs_slice_starts(agent, more[i]))
            return true;
    return false;
}

// Without its query.
static struct gs_slice path_of(struct gs_slice head)
{
    struct gs_slice line = first_line(head);
    gs_slice_cut(&line, ' ');
    struct gs_slice path = gs_slice_cut(&line, ' ');
    return gs_slice_cut(&path, '?');
}

bool activator_head_is_probe(struct gs_slice head, const struct activator_rules *rules)
{
    struct gs_slice path = path_of(head);
    char **paths = rules ? rules->probe_paths : NULL;
    bool reads = gs_slice_starts(head, "GET ") || gs_slice_starts(head, "HEAD ");
    for (size_t i = 0; reads && paths && paths[i]; i++)
        if (gs_slice_eq_str(path, paths[i]))
            return true;
    return is_agent_of_probe(activator_head_value(head, "user-agent"),
                             rules ? rules->probe_agents : NULL);
}

static const char *phrase(int status)
{
    return status == 200   ? "OK"
           : status == 429 ? "Too Many Requests"
           : status == 431 ? "Request Header Fields Too Large"
                           : "Service Unavailable";
}

void activator_head_refuse(struct gs_buf *out, int status, int retry_seconds, const char *text)
{
    gs_buf_addf(out, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n", status,
                phrase(status));
    gs_buf_addf(out, "Content-Length: %zu\r\nConnection: close\r\n", strlen(text) + 1);
    if (retry_seconds)
        gs_buf_addf(out, "Retry-After: %d\r\n", retry_seconds);
    gs_buf_addf(out, "\r\n%s\n", text);
}
