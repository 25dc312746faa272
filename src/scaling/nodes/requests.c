// SPDX-License-Identifier: Apache-2.0
// The requests of a pod as kube-scheduler sums them: containers, the peak of init containers
// beside sidecars, pod-level resources, and overhead. All amounts are milli-units.
#include "base/mem.h"
#include "base/num.h"
#include "kube/quantity.h"
#include "nodes/nodes_private.h"

int64_t nodes_milli_of(const json_t *quantity)
{
    int64_t milli = 0;
    if (json_is_string(quantity)) {
        struct gs_slice text = {json_string_value(quantity), json_string_length(quantity)};
        gs_error_free(kube_quantity_parse_milli(text, &milli));
    } else if (json_is_integer(quantity)) {
        int64_t n = json_integer_value(quantity);
        if (__builtin_mul_overflow(n, INT64_C(1000), &milli))
            milli = n > 0 ? INT64_MAX : INT64_MIN;
    } else if (json_is_real(quantity)) {
        kube_quantity_from_double(json_real_value(quantity), &milli);
    }
    return milli;
}

// --- sums ---

void nodes_sum_init(struct nodes_sum *sum)
{
    sum->items = sum->inline_items;
    sum->len = 0;
    sum->cap = NODES_SUM_INLINE;
}

void nodes_sum_finish(struct nodes_sum *sum)
{
    if (sum->items != sum->inline_items)
        free(sum->items);
}

static int64_t *slot(struct nodes_sum *sum, const char *name)
{
    for (size_t i = 0; i < sum->len; i++)
        if (gs_streq(sum->items[i].name, name))
            return &sum->items[i].milli;
    if (sum->len == sum->cap) {
        struct nodes_sum_item *more = gs_alloc_array(sum->cap * 2, sizeof(*more));
        memcpy(more, sum->items, sum->len * sizeof(*more));
        nodes_sum_finish(sum);
        sum->items = more;
        sum->cap *= 2;
    }
    sum->items[sum->len] = (struct nodes_sum_item){.name = name};
    return &sum->items[sum->len++].milli;
}

static int64_t amount(const struct nodes_sum *sum, const char *name)
{
    for (size_t i = 0; i < sum->len; i++)
        if (gs_streq(sum->items[i].name, name))
            return sum->items[i].milli;
    return 0;
}

// What has only a limit requests that.
static void take(struct nodes_sum *sum, const json_t *resources)
{
    const json_t *requests = json_object_get(resources, "requests");
    const char *name;
    json_t *quantity;
    json_object_foreach ((json_t *)requests, name, quantity)
        *slot(sum, name) = nodes_milli_of(quantity);
    json_object_foreach (json_object_get(resources, "limits"), name, quantity)
        if (!json_object_get(requests, name))
            *slot(sum, name) = nodes_milli_of(quantity);
}

static void add(struct nodes_sum *to, const struct nodes_sum *from)
{
    for (size_t i = 0; i < from->len; i++) {
        int64_t *at = slot(to, from->items[i].name);
        *at = gs_add_clamped(*at, from->items[i].milli);
    }
}

// The init containers run one at a time, beside the sidecars (restartPolicy: Always) that were
// started before. sidecars: their sum; peak: the largest sum.
static void sum_init_containers(const json_t *list, struct nodes_sum *sidecars,
                                struct nodes_sum *peak)
{
    size_t i;
    json_t *container;
    json_array_foreach ((json_t *)list, i, container) {
        struct nodes_sum one;
        nodes_sum_init(&one);
        take(&one, json_object_get(container, "resources"));
        bool sidecar = gs_streq(codec_json_str(container, "restartPolicy", NULL), "Always");
        if (sidecar)
            add(sidecars, &one);
        for (size_t k = 0; k < one.len; k++) {
            const char *name = one.items[k].name;
            int64_t beside = amount(sidecars, name);
            int64_t used = sidecar ? beside : gs_add_clamped(one.items[k].milli, beside);
            int64_t *at = slot(peak, name);
            if (used > *at)
                *at = used;
        }
        nodes_sum_finish(&one);
    }
}

// Resources of the whole pod replace those of its containers (CPU, memory, huge pages).
static void take_pod_level(struct nodes_sum *sum, const json_t *resources)
{
    struct nodes_sum own;
    nodes_sum_init(&own);
    take(&own, resources);
    for (size_t i = 0; i < own.len; i++)
        *slot(sum, own.items[i].name) = own.items[i].milli;
    nodes_sum_finish(&own);
}

void nodes_sum_of_pod(struct nodes_sum *sum, const json_t *pod)
{
    const json_t *spec = json_object_get(pod, "spec"),
                 *init = json_object_get(spec, "initContainers");
    size_t i;
    json_t *container;
    json_array_foreach (json_object_get(spec, "containers"), i, container) {
        const json_t *resources = json_object_get(container, "resources");
        if (!json_object_size(resources))
            continue;
        struct nodes_sum one;
        nodes_sum_init(&one);
        take(&one, resources);
        add(sum, &one);
        nodes_sum_finish(&one);
    }
    if (json_array_size(init)) {
        struct nodes_sum sidecars, peak;
        nodes_sum_init(&sidecars);
        nodes_sum_init(&peak);
        sum_init_containers(init, &sidecars, &peak);
        add(sum, &sidecars);
        for (i = 0; i < peak.len; i++) {
            int64_t *at = slot(sum, peak.items[i].name);
            if (peak.items[i].milli > *at)
                *at = peak.items[i].milli;
        }
        nodes_sum_finish(&sidecars);
        nodes_sum_finish(&peak);
    }
    const json_t *pod_level = json_object_get(spec, "resources");
    if (json_object_size(pod_level))
        take_pod_level(sum, pod_level);
    const char *name;
    json_t *quantity;
    json_object_foreach (json_object_get(spec, "overhead"), name, quantity) {
        int64_t *at = slot(sum, name);
        *at = gs_add_clamped(*at, nodes_milli_of(quantity));
    }
}

json_t *nodes_pod_requests(const json_t *pod)
{
    struct nodes_sum sum;
    nodes_sum_init(&sum);
    nodes_sum_of_pod(&sum, pod);
    json_t *out = json_object();
    for (size_t i = 0; i < sum.len; i++)
        json_object_set_new(out, sum.items[i].name, json_integer(sum.items[i].milli));
    nodes_sum_finish(&sum);
    return out;
}

static void lower_amount(json_t *amounts, const char *name, int64_t milli)
{
    const json_t *had = json_object_get(amounts, name);
    if (!had)
        return;
    int64_t left = gs_add_clamped(nodes_milli_of(had), -milli);
    char text[KUBE_QUANTITY_SIZE];
    codec_json_set_str(amounts, name, kube_quantity_format_milli(left > 0 ? left : 0, text));
}

void nodes_reserve_daemon(json_t *node, const json_t *pod)
{
    GS_AUTO_FREE char *taint = nodes_untolerated_taint(pod, node, false);
    if (taint || !nodes_selects(pod, node))
        return;
    json_t *allocatable = codec_json_get(node, "status", "allocatable", NULL);
    CODEC_AUTO_JSON json_t *requests = nodes_pod_requests(pod);
    const char *name;
    json_t *milli;
    json_object_foreach (requests, name, milli)
        lower_amount(allocatable, name, json_integer_value(milli));
    lower_amount(allocatable, "pods", 1000);
}
