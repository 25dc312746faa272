// SPDX-License-Identifier: Apache-2.0
// Replies of servers that are queried for targets and tokens. The first byte chooses which.
#include "engine/discovery/discovery.h"
#include "engine/discovery/discovery_private.h"
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

// Reads all results, for the sanitizers.
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
    const struct http_response response = {
        .status = 200, .content_type = "application/json", .body = body};
    gs_error_free(discovery_http_read(&response, "http://h/", 3, &l, &n));
    check_groups(&l);
    discovery_group_list_finish(&l);
}

static void read_token(int status, const char *content_type, struct gs_slice body)
{
    struct endpoint_token t = {0};
    const struct http_response response = {
        .status = status, .content_type = content_type, .body = body};
    GS_AUTO_ERROR struct gs_error *err = endpoint_token_read_answer(&response, &t);
    if (!err && (strpbrk(t.authorization, "\r\n") || t.lifetime_s < 0))
        abort();
    endpoint_token_finish(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    struct gs_slice body = gs_slice_make(data + 1, size - 1);
    switch (data[0] % 4) {
    case 0:
        read_list(body);
        break;
    case 1:
        read_token(200, "application/json", body);
        break;
    case 2:
        read_token(200, "text/plain", body);
        break;
    default:
        read_token(400, NULL, body);
    }
    return 0;
}
