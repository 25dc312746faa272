// SPDX-License-Identifier: Apache-2.0
// Converts PodMetrics and NodeMetrics to tables (for kubectl get) and to metadata only.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables
#include "adapter/api/api_private.h"

#include "kube/quantity.h"

static json_t *column(const char *name, const char *format, const char *description)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:i}", "name", name, "type", "string", "format", format,
                     "description", description, "priority", 0);
}

// Returns the sum over the containers of a pod, or the usage of a node.
static int64_t total(const json_t *item, const char *what)
{
    const json_t *containers = json_object_get(item, "containers");
    int64_t sum = 0, milli;
    size_t i;
    json_t *c;
    const char *own = codec_json_str(item, "usage", what, NULL);
    if (own) {
        gs_error_free(kube_quantity_parse_milli(gs_slice_of(own), &sum));
        return sum;
    }
    json_array_foreach (containers, i, c) {
        const char *text = codec_json_str(c, "usage", what, NULL);
        struct gs_error *err = text ? kube_quantity_parse_milli(gs_slice_of(text), &milli) : NULL;
        if (text && !err && __builtin_add_overflow(sum, milli, &sum))
            sum = INT64_MAX;
        gs_error_free(err);
    }
    return sum;
}

// include: "None" or "Object"; others add the metadata.
static json_t *row_object(const json_t *item, const char *include)
{
    if (gs_streq(include, "None"))
        return NULL;
    if (gs_streq(include, "Object"))
        return json_incref((json_t *)(uintptr_t)item);
    return json_pack("{s:s, s:s, s:O}", "kind", "PartialObjectMetadata", "apiVersion",
                     "meta.k8s.io/v1", "metadata", json_object_get(item, "metadata"));
}

static json_t *row(const json_t *item, const char *include)
{
    char cpu[KUBE_QUANTITY_SIZE], memory[KUBE_QUANTITY_SIZE];
    int64_t bytes = total(item, "memory");
    kube_quantity_format_milli(total(item, "cpu"), cpu);
    if (bytes % 1000 == 0)
        kube_quantity_format_bytes(bytes / 1000, memory);
    else
        kube_quantity_format_milli(bytes, memory);
    const char *name = codec_json_str(item, "metadata", "name", NULL);
    const char *window = codec_json_str(item, "window", NULL);
    json_t *r =
        json_pack("{s:[s,s,s,s]}", "cells", name ? name : "", cpu, memory, window ? window : "");
    json_t *object = row_object(item, include);
    if (object)
        json_object_set_new(r, "object", object);
    return r;
}

json_t *adapter_api_usage_table(const json_t *body, const char *version, const char *include)
{
    const json_t *items = json_object_get(body, "items");
    json_t *rows = json_array();
    size_t i;
    json_t *item;
    if (!items)
        json_array_append_new(rows, row(body, include));
    json_array_foreach (items, i, item)
        json_array_append_new(rows, row(item, include));
    return json_pack("{s:s, s:s, s:{}, s:[o,o,o,o], s:o}", "kind", "Table", "apiVersion", version,
                     "metadata", "columnDefinitions",
                     column("Name", "name", "Name of the resource"), column("cpu", "quantity", ""),
                     column("memory", "quantity", ""), column("Window", "duration", ""), "rows",
                     rows);
}

static json_t *partial(const json_t *item, const char *version)
{
    return json_pack("{s:s, s:s, s:O}", "kind", "PartialObjectMetadata", "apiVersion", version,
                     "metadata", json_object_get(item, "metadata"));
}

json_t *adapter_api_usage_partial(const json_t *body, const char *version)
{
    const json_t *items = json_object_get(body, "items");
    size_t i;
    json_t *item;
    if (!items)
        return partial(body, version);
    json_t *list = json_array();
    json_array_foreach (items, i, item)
        json_array_append_new(list, partial(item, version));
    return json_pack("{s:s, s:s, s:{}, s:o}", "kind", "PartialObjectMetadataList", "apiVersion",
                     version, "metadata", "items", list);
}
