// SPDX-License-Identifier: Apache-2.0
// Reads responses of the metrics APIs into samples, in milli-units. A response of another shape is
// an error, not an empty result: no data is never zero.
#include "hpa/observe.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"
#include "kube/object.h"
#include "kube/quantity.h"

static struct gs_error *read_quantity(const json_t *v, int64_t *ret_milli)
{
    if (!json_is_string(v))
        return gs_error_new(GS_EPROTO, "a value is not a quantity");
    return kube_quantity_parse_milli(gs_slice_make(json_string_value(v), json_string_length(v)),
                                     ret_milli);
}

// A value without a timestamp counts as current.
static int64_t read_time(const json_t *item, int64_t now_ms)
{
    const char *text = codec_json_str(item, "timestamp", NULL);
    int64_t ms = now_ms;
    GS_AUTO_ERROR struct gs_error *err = text ? gs_parse_rfc3339(gs_slice_of(text), &ms) : NULL;
    return err ? now_ms : ms;
}

static void append_sample(struct hpa_values *values, struct hpa_sample sample)
{
    gs_grow(&values->items, &values->cap, values->len, sizeof(*values->items));
    values->items[values->len++] = sample;
}

static struct gs_error *items_of(const json_t *body, const json_t **ret)
{
    const json_t *items = json_object_get(body, "items");
    if (items && !json_is_array(items) && !json_is_null(items))
        return gs_error_new(GS_EPROTO, "the response has no list of items");
    if (!json_is_object(body))
        return gs_error_new(GS_EPROTO, "the response is not an object");
    *ret = items;
    return NULL;
}

static int64_t window_ms(const json_t *item)
{
    const int64_t longest = 86400;
    int64_t seconds = codec_json_int(item, 0, "windowSeconds", NULL);
    return seconds > 0 && seconds <= longest ? seconds * 1000 : 0;
}

struct gs_error *hpa_read_custom(const json_t *body, struct gs_arena *arena, int64_t now_ms,
                                 struct hpa_values *ret)
{
    const json_t *items = NULL;
    struct gs_error *err = items_of(body, &items);
    for (size_t i = 0; !err && i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        const char *name = codec_json_str(item, "describedObject", "name", NULL);
        struct hpa_sample s = {.pod = gs_arena_strdup(arena, name ? name : ""),
                               .timestamp_ms = read_time(item, now_ms),
                               .window_ms = window_ms(item)};
        err = read_quantity(json_object_get(item, "value"), &s.value);
        if (!err)
            append_sample(ret, s);
    }
    return err;
}

struct gs_error *hpa_read_external(const json_t *body, int64_t now_ms, struct hpa_values *ret)
{
    const json_t *items = NULL;
    struct gs_error *err = items_of(body, &items);
    for (size_t i = 0; !err && i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        struct hpa_sample s = {.timestamp_ms = read_time(item, now_ms),
                               .window_ms = window_ms(item)};
        err = read_quantity(json_object_get(item, "value"), &s.value);
        if (!err)
            append_sample(ret, s);
    }
    return err;
}

// *ret_found is false if a container lacks the usage: the sum of the pod would be too small.
static struct gs_error *sum_containers(const json_t *item, const char *resource,
                                       const char *container, bool *ret_found, int64_t *ret)
{
    const json_t *containers = json_object_get(item, "containers");
    int64_t sum = 0;
    size_t n = 0;
    *ret_found = false;
    for (size_t i = 0; i < json_array_size(containers); i++) {
        const json_t *c = json_array_get(containers, i);
        if (*container && !gs_streq(codec_json_str(c, "name", NULL), container))
            continue;
        const json_t *usage = codec_json_get(c, "usage", resource, NULL);
        if (!usage)
            return NULL;
        int64_t milli = 0, total;
        struct gs_error *err = read_quantity(usage, &milli);
        if (err)
            return err;
        sum = __builtin_add_overflow(sum, milli, &total) ? INT64_MAX : total;
        n++;
    }
    *ret_found = n > 0;
    *ret = sum;
    return NULL;
}

static int64_t duration_ms(const json_t *item, const char *name)
{
    const char *text = codec_json_str(item, name, NULL);
    int64_t ns = 0;
    GS_AUTO_ERROR struct gs_error *err = text ? gs_parse_duration(gs_slice_of(text), &ns) : NULL;
    return err || ns < 0 ? 0 : ns / GS_NS_PER_MS;
}

struct gs_error *hpa_read_resource(const json_t *body, const char *resource, const char *container,
                                   struct gs_arena *arena, int64_t now_ms, struct hpa_values *ret,
                                   size_t *ret_items)
{
    const json_t *items = NULL;
    struct gs_error *err = items_of(body, &items);
    for (size_t i = 0; !err && i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        const char *name = kube_name(item);
        int64_t window = duration_ms(item, "window");
        struct hpa_sample s = {.pod = gs_arena_strdup(arena, name ? name : ""),
                               .timestamp_ms = read_time(item, now_ms),
                               .window_ms = window ? window : -1};
        bool found;
        err = sum_containers(item, resource, container, &found, &s.value);
        if (!err && found)
            append_sample(ret, s);
    }
    if (!err)
        *ret_items = json_array_size(items);
    return err;
}

static bool has_container(const json_t *item, const char *container)
{
    const json_t *containers = json_object_get(item, "containers");
    for (size_t i = 0; i < json_array_size(containers); i++)
        if (gs_streq(codec_json_str(json_array_get(containers, i), "name", NULL), container))
            return true;
    return false;
}

struct gs_error *hpa_check_container(const json_t *body, const char *container)
{
    const json_t *items = NULL;
    struct gs_error *err = items_of(body, &items);
    for (size_t i = 0; !err && i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        const char *ns = kube_namespace(item), *name = kube_name(item);
        if (!has_container(item, container))
            err = gs_error_new(GS_ENOTFOUND,
                               "failed to get container metrics: container %s not present in "
                               "metrics for pod %s/%s",
                               container, ns ? ns : "", name ? name : "");
    }
    return err;
}
