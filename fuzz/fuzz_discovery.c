// SPDX-License-Identifier: Apache-2.0
// What servers say that targets are asked of: lists of target groups.
#include "engine/discovery/discovery.h"
#include "engine/discovery/groups.h"
#include "net/http_client.h"

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
static void check_groups(const struct sd_group_list *l)
{
    size_t sum = 0;
    for (size_t i = 0; i < l->len; i++) {
        const struct sd_group *g = &l->items[i];
        sum += touch(g->labels, g->n_labels) + strlen(g->source);
        for (size_t k = 0; k < g->n_targets; k++)
            sum += touch(g->targets[k], g->n_target_labels[k]);
    }
    if (sum == SIZE_MAX)
        abort();
}

static void read_list(struct gs_slice body)
{
    struct sd_group_list l = {0};
    size_t n = 0;
    const struct http_answer answer = {
        .status = 200, .content_type = "application/json", .body = body};
    gs_error_free(sd_http_read(&answer, "http://h/", 3, &l, &n));
    check_groups(&l);
    sd_group_list_finish(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_list(gs_slice_make(data, size));
    return 0;
}
