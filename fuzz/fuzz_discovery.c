// SPDX-License-Identifier: Apache-2.0
// What servers say that are asked for targets, tokens and names. The first byte chooses which.
#include "engine/discovery/discovery.h"
#include "engine/discovery/groups.h"
#include "net/dns/dns.h"
#include "net/endpoint/endpoint_private.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t touch(const struct metrics_label *l, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < l[i].value.len; k++)
            sum += (unsigned char)l[i].value.data[k];
    return sum;
}

// Everything that was read can be touched.
static void check_groups(const struct discovery_group_list *l)
{
    size_t sum = 0;
    for (size_t i = 0; i < l->len; i++) {
        const struct discovery_group *g = &l->items[i];
        sum += touch(g->labels, g->n_labels) + strlen(g->source);
        for (size_t k = 0; k < g->n_targets; k++)
            sum += touch(g->targets[k], g->n_target_labels[k]);
    }
    if (sum == SIZE_MAX)
        abort();
}

static void read_list(struct gs_slice body)
{
    struct discovery_group_list l = {0};
    size_t n = 0;
    const struct http_answer answer = {
        .status = 200, .content_type = "application/json", .body = body};
    gs_error_free(discovery_http_read(&answer, "http://h/", 3, &l, &n));
    check_groups(&l);
    discovery_group_list_finish(&l);
}

static void read_token(int status, const char *content_type, struct gs_slice body)
{
    struct endpoint_token t = {0};
    const struct http_answer answer = {
        .status = status, .content_type = content_type, .body = body};
    GS_AUTO_ERROR struct gs_error *err = endpoint_token_read_answer(&answer, &t);
    if (!err && (strpbrk(t.authorization, "\r\n") || t.lifetime_s < 0))
        abort();
    endpoint_token_finish(&t);
}

static void read_message(struct gs_slice message)
{
    struct gs_arena mem = {0};
    struct dns_answer a = {0};
    GS_AUTO_BUF struct gs_buf query = {0};
    GS_AUTO_ERROR struct gs_error *err = dns_read_answer(message, &mem, &a);
    size_t sum = 0;
    for (size_t i = 0; i < a.n; i++)
        sum += strlen(a.records[i].target) + a.records[i].port;
    if ((err && a.n) || sum == SIZE_MAX)
        abort();
    gs_error_free(dns_write_query("gpu.example", DNS_SRV, 0x3031, true, &query));
    if (dns_answers(message, gs_buf_slice(&query)) && message.len < 12)
        abort();
    gs_arena_finish(&mem);
}

static void read_resolv_conf(struct gs_slice text)
{
    struct dns_config c;
    GS_AUTO_BUF struct gs_buf query = {0};
    dns_config_read(text, &c);
    for (size_t i = 0; i < c.n_search; i++)
        gs_error_free(dns_write_query(c.search[i], DNS_A, 1, false, &query));
    if (c.n_servers > DNS_MAX_SERVERS || c.n_search > DNS_MAX_SEARCH || c.ndots > 15)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    struct gs_slice body = gs_slice_make(data + 1, size - 1);
    switch (data[0] % 6) {
    case 0:
        read_list(body);
        break;
    case 1:
        read_token(200, "application/json", body);
        break;
    case 2:
        read_token(200, "text/plain", body);
        break;
    case 3:
        read_token(400, NULL, body);
        break;
    case 4:
        read_message(body);
        break;
    default:
        read_resolv_conf(body);
    }
    return 0;
}
