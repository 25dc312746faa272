// SPDX-License-Identifier: Apache-2.0
// Reads what the Cluster Autoscaler publishes as text: messages of events, and the ConfigMap with
// its status (YAML since 1.30; the older plain text is ignored).
#include "base/mem.h"
#include "base/num.h"
#include "codec/yaml.h"
#include "kube/object.h"
#include "nodes/inspect/inspect_private.h"

#define MAX_STATUS ((size_t)1 << 20) // a ConfigMap

static bool cut_number(struct gs_slice *text, const char *end, int64_t *ret)
{
    size_t len = strlen(end);
    const char *at = text->len ? memmem(text->data, text->len, end, len) : NULL;

    if (!at)
        return false;
    struct gs_slice number = gs_slice_make(text->data, (size_t)(at - text->data));
    GS_AUTO_ERROR struct gs_error *err = gs_parse_i64(number, 0, INT32_MAX, ret);
    if (err)
        return false;
    *text = gs_slice_make(at + len, text->len - number.len - len);
    return true;
}

// "GROUP 0->1 (max: 8)"
static bool parse_scale_up(struct gs_slice entry, struct inspect_scale_up *ret)
{
    static const char max[] = "(max: ";
    size_t at = 0;

    for (size_t i = 0; i < entry.len; i++)
        if (entry.data[i] == ' ') {
            at = i;
            break;
        }
    if (at == 0)
        return false;
    ret->group = gs_slice_make(entry.data, at);
    struct gs_slice rest = gs_slice_make(entry.data + at + 1, entry.len - at - 1);
    if (!cut_number(&rest, "->", &ret->from) || !cut_number(&rest, " ", &ret->to) ||
        rest.len < strlen(max) || memcmp(rest.data, max, strlen(max)) != 0)
        return false;
    rest = gs_slice_make(rest.data + strlen(max), rest.len - strlen(max));
    return cut_number(&rest, ")", &ret->max);
}

bool inspect_next_scale_up(struct gs_slice *rest, struct inspect_scale_up *ret)
{
    while (rest->len) {
        const char *open = memchr(rest->data, '{', rest->len);
        const char *end = rest->data + rest->len;
        const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
        if (!close)
            return false;
        struct gs_slice entry = gs_slice_make(open + 1, (size_t)(close - open - 1));
        *rest = gs_slice_make(close + 1, (size_t)(end - close - 1));
        if (parse_scale_up(entry, ret))
            return true;
    }
    return false;
}

static json_t *group_of(const json_t *g)
{
    const json_t *health = json_object_get(g, "health");
    const json_t *counts = json_object_get(health, "nodeCounts");
    const json_t *up = json_object_get(g, "scaleUp");
    const char *code = codec_json_str(up, "backoffInfo", "errorCode", NULL);
    const char *message = codec_json_str(up, "backoffInfo", "errorMessage", NULL);
    json_t *out = json_object();

    codec_json_set_int(out, "min", codec_json_int(health, 0, "minSize", NULL));
    codec_json_set_int(out, "max", codec_json_int(health, 0, "maxSize", NULL));
    codec_json_set_int(out, "target", codec_json_int(health, 0, "cloudProviderTarget", NULL));
    codec_json_set_int(out, "registered", codec_json_int(counts, 0, "registered", "total", NULL));
    codec_json_set_int(out, "ready", codec_json_int(counts, 0, "registered", "ready", NULL));
    codec_json_set_int(out, "unregistered", codec_json_int(counts, 0, "unregistered", NULL));
    codec_json_set_str(out, "scaleUp", codec_json_str(up, "status", NULL));
    codec_json_set_str(out, "since", codec_json_str(up, "lastTransitionTime", NULL));
    if (code || message)
        json_object_set_new(out, "error",
                            codec_json_strf("%s%s%s", code ? code : "", code && message ? ": " : "",
                                            message ? message : ""));
    return out;
}

json_t *inspect_status_groups(const json_t *config_map)
{
    const char *text = codec_json_str(config_map, "data", "status", NULL);
    GS_CLEANUP(codec_yaml_docs_finish) struct codec_yaml_docs docs = {0};
    json_t *out = json_object();
    size_t i;
    json_t *g;

    if (!text || strlen(text) > MAX_STATUS)
        return out;
    GS_AUTO_ERROR struct gs_error *err = codec_yaml_parse(gs_slice_of(text), "status", &docs);
    if (err || docs.len == 0)
        return out;
    json_array_foreach (json_object_get(docs.items[0].value, "nodeGroups"), i, g) {
        const char *name = codec_json_str(g, "name", NULL);
        if (name)
            json_object_set_new(out, name, group_of(g));
    }
    return out;
}
