// SPDX-License-Identifier: Apache-2.0
// Triggers of gpuscale's external scaler for KEDA as metrics of the type Object or External, and
// back: both read the same value of the adapter, and no value is an error for both.
#include "adapter/scaledobject/scaledobject_private.h"

#include "base/num.h"
#include "kube/object.h"
#include "kube/quantity.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *kind, *api_version;
} kinds[] = {{"Deployment", "apps/v1"}, {"StatefulSet", "apps/v1"}, {"DaemonSet", "apps/v1"},
             {"ReplicaSet", "apps/v1"}, {"Service", "v1"},          {"Pod", "v1"},
             {"Job", "batch/v1"}};

char *scaledobject_threshold(const json_t *target)
{
    bool by_value = gs_streq(codec_json_str(target, "type", NULL), "Value");
    const char *text = codec_json_str(target, by_value ? "value" : "averageValue", NULL);
    int64_t milli = 0;
    char number[GS_DOUBLE_SIZE];
    GS_AUTO_ERROR struct gs_error *err =
        text ? kube_quantity_parse_milli(gs_slice_of(text), &milli) : NULL;
    return !text || err ? NULL : gs_strdup(gs_format_double((double)milli / 1000, number));
}

// --- metrics ---

// "deployment", "deployments.apps": of the table; -1: none.
static int find_kind(struct gs_slice text)
{
    struct gs_slice name = gs_slice_cut(&text, '.');
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
        size_t len = strlen(kinds[i].kind);
        bool plural = name.len == len + 1 && name.data[len] == 's';
        if ((name.len == len || plural) && strncasecmp(name.data, kinds[i].kind, len) == 0)
            return (int)i;
    }
    return -1;
}

// {"kind", "name", "apiVersion"}; NULL: a problem was reported.
static json_t *described_object(const struct scaledobject_input *t)
{
    const char *text = codec_json_str(t->metadata, "object", NULL);
    GS_AUTO_FREE char *both =
        text ? gs_strdup(text) : gs_format("deployment/%s", kube_name(t->object));
    struct gs_slice name = gs_slice_of(both), kind = gs_slice_cut(&name, '/');
    int k = find_kind(kind);
    if (k < 0 || !name.len)
        return scaledobject_input_problem(t, ".metadata.object",
                                          "want KIND/NAME of a workload, a Service or a Pod");
    return json_pack("{s:s, s:s%, s:s}", "kind", kinds[k].kind, "name", name.data, name.len,
                     "apiVersion", kinds[k].api_version);
}

// Adds "LABEL=VALUE". False: it is not in this form.
static bool add_label(struct gs_slice text, json_t *labels)
{
    const char *equal = text.len ? memchr(text.data, '=', text.len) : NULL;
    size_t n = equal ? (size_t)(equal - text.data) : 0;
    struct gs_slice name = gs_slice_trim(gs_slice_make(text.data, n));
    if (!equal || !name.len || name.data[name.len - 1] == '!' || memchr(name.data, ' ', name.len) ||
        memchr(equal + 1, '=', text.len - n - 1))
        return false;
    GS_AUTO_FREE char *key = gs_slice_dup(name);
    GS_AUTO_FREE char *value =
        gs_slice_dup(gs_slice_trim(gs_slice_make(equal + 1, text.len - n - 1)));
    codec_json_set_str(labels, key, value);
    return true;
}

// {"name", "selector": {"matchLabels"}}; NULL: a problem was reported.
static json_t *metric_identifier(const struct scaledobject_input *t)
{
    const char *text = codec_json_str(t->metadata, "selector", NULL);
    struct gs_slice rest = gs_slice_of(text ? text : "");
    CODEC_AUTO_JSON json_t *labels = json_object();
    while (rest.len)
        if (!add_label(gs_slice_cut(&rest, ','), labels))
            return scaledobject_input_problem(t, ".metadata.selector", "want LABEL=VALUE,…");
    json_t *out = json_pack("{s:s}", "name", codec_json_str(t->metadata, "signal", NULL));
    if (json_object_size(labels))
        json_object_set_new(out, "selector", json_pack("{s:O}", "matchLabels", labels));
    return out;
}

// What the connection needs, and the signal, by which the way back finds the trigger.
static void keep_client(const struct scaledobject_input *t)
{
    static const char *const converted[] = {"object", "external", "selector", "threshold"};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)t->metadata, key, value)
        if (!gs_is_one_of(key, converted, GS_ARRAY_LEN(converted)))
            json_object_set(t->kept_metadata, key, value);
}

static bool has_activation(const struct scaledobject_input *t)
{
    GS_AUTO_FREE char *text =
        scaledobject_text(json_object_get(t->metadata, "activationThreshold"));
    int64_t milli = 0;
    return text && *text && !(scaledobject_milli(text, &milli) && milli == 0);
}

// False: a problem was reported.
static bool read_external(const struct scaledobject_input *t, bool *ret)
{
    GS_AUTO_FREE char *text = scaledobject_text(json_object_get(t->metadata, "external"));
    struct gs_slice word = gs_slice_trim(gs_slice_of(text ? text : ""));
    *ret = gs_slice_is_word(word, "true");
    if (*ret || !word.len || gs_slice_is_word(word, "false"))
        return true;
    scaledobject_input_problem(t, ".metadata.external", "want true or false");
    return false;
}

// KEDA puts the value of a variable of the pods in place of such a key.
static bool has_variable(const struct scaledobject_input *t)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)t->metadata, key, value) {
        if (!gs_ends(key, "FromEnv"))
            continue;
        GS_AUTO_FREE char *field = gs_format(".metadata.%s", key);
        scaledobject_input_problem(t, field, "an autoscaler has no variables; write the value");
        return true;
    }
    return false;
}

json_t *scaledobject_signal_metric(const struct scaledobject_input *t)
{
    bool external;
    if (has_variable(t) || !read_external(t, &external))
        return NULL;
    if (t->from_zero && has_activation(t))
        return scaledobject_input_problem(t, ".metadata.activationThreshold",
                                          "an autoscaler from zero is active above 0");
    CODEC_AUTO_JSON json_t *target = scaledobject_target(t);
    CODEC_AUTO_JSON json_t *metric = metric_identifier(t);
    CODEC_AUTO_JSON json_t *object = external ? NULL : described_object(t);
    if (!target || !metric || (!external && !object))
        return NULL;
    keep_client(t);
    if (external)
        return json_pack("{s:s, s:{s:O, s:O}}", "type", "External", "external", "metric", metric,
                         "target", target);
    return json_pack("{s:s, s:{s:O, s:O, s:O}}", "type", "Object", "object", "describedObject",
                     object, "metric", metric, "target", target);
}

// --- triggers ---

static void set_object(const json_t *described, json_t *metadata)
{
    const char *kind = codec_json_str(described, "kind", NULL);
    const char *name = codec_json_str(described, "name", NULL);
    GS_AUTO_FREE char *text = gs_format("%s/%s", kind ? kind : "", name ? name : "");
    for (char *p = text; *p && *p != '/'; p++)
        *p = (char)tolower((unsigned char)*p);
    codec_json_set_str(metadata, "object", text);
}

static void set_selector(const json_t *metric, json_t *metadata)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    const char *key;
    json_t *value;
    json_object_foreach (codec_json_get(metric, "selector", "matchLabels", NULL), key, value)
        gs_buf_addf(&text, "%s%s=%s", text.len ? "," : "", key,
                    json_string_value(value) ? json_string_value(value) : "");
    if (text.len)
        codec_json_set_str(metadata, "selector", text.data);
}

json_t *scaledobject_signal_trigger(const json_t *hpa, const json_t *metric, json_t *metadata,
                                    const char *scaler, struct scaledobject_result *r)
{
    const json_t *source = json_object_get(metric, "object");
    bool external = !source;
    source = external ? json_object_get(metric, "external") : source;
    const json_t *identifier = json_object_get(source, "metric");
    const char *name = codec_json_str(identifier, "name", NULL);
    GS_AUTO_FREE char *threshold = scaledobject_threshold(json_object_get(source, "target"));
    const char *type = codec_json_str(source, "target", "type", NULL);
    if (!json_object_get(metadata, "scalerAddress") && scaler)
        codec_json_set_str(metadata, "scalerAddress", scaler);
    if (!name || !threshold || !json_object_get(metadata, "scalerAddress") ||
        json_array_size(codec_json_get(identifier, "selector", "matchExpressions", NULL))) {
        scaledobject_problem(
            r, hpa,
            "%s metric %s: want a number as its target, labels as its selector, and "
            "the address of gpuscale's scaler: set --scaler",
            external ? "External" : "Object", name ? name : "without a name");
        return NULL;
    }
    codec_json_set_str(metadata, "signal", name);
    codec_json_set_str(metadata, "threshold", threshold);
    set_selector(identifier, metadata);
    if (external)
        codec_json_set_str(metadata, "external", "true");
    else
        set_object(json_object_get(source, "describedObject"), metadata);
    return json_pack("{s:s, s:s}", "type", "external", "metricType", type ? type : "");
}
