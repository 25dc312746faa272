// SPDX-License-Identifier: Apache-2.0
// A LabelSelector as Go prints a pointer to it with %v. Kubernetes uses this text in conditions and
// events.
#include "hpa/hpa_private.h"

#include <stdlib.h>
#include <string.h>

static void add_match_labels(const json_t *labels, struct gs_buf *out)
{
    size_t n = 0;
    const char **keys = gs_alloc_array(json_object_size(labels) + 1, sizeof(*keys));
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)labels, key, value)
        keys[n++] = key;
    qsort(keys, n, sizeof(*keys), gs_compare_texts);
    gs_buf_add_str(out, "MatchLabels:map[string]string{");
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_object_get(labels, keys[i]));
        gs_buf_addf(out, "%s: %s,", keys[i], text ? text : "");
    }
    gs_buf_add_str(out, "},");
    free(keys);
}

static void add_requirement(const json_t *r, struct gs_buf *out)
{
    const char *key = codec_json_str(r, "key", NULL), *op = codec_json_str(r, "operator", NULL);
    gs_buf_addf(out, "LabelSelectorRequirement{Key:%s,Operator:%s,Values:[", key ? key : "",
                op ? op : "");
    const json_t *values = json_object_get(r, "values");
    for (size_t i = 0; i < json_array_size(values); i++) {
        const char *text = json_string_value(json_array_get(values, i));
        gs_buf_addf(out, "%s%s", i ? " " : "", text ? text : "");
    }
    gs_buf_add_str(out, "],},");
}

void hpa_format_selector(const json_t *selector, struct gs_buf *out)
{
    if (!json_is_object(selector)) {
        gs_buf_add_str(out, "nil");
        return;
    }
    gs_buf_add_str(out, "&LabelSelector{");
    add_match_labels(json_object_get(selector, "matchLabels"), out);
    gs_buf_add_str(out, "MatchExpressions:[]LabelSelectorRequirement{");
    const json_t *list = json_object_get(selector, "matchExpressions");
    for (size_t i = 0; i < json_array_size(list); i++)
        add_requirement(json_array_get(list, i), out);
    gs_buf_add_str(out, "},}");
}
