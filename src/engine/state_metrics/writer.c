// SPDX-License-Identifier: Apache-2.0
#include "engine/state_metrics/state_metrics_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/quantity.h"
#include "metrics/write.h"

void state_metrics_begin(struct state_metrics_writer *w)
{
    gs_buf_add_str(w->out, w->family);
    w->open = false;
}

void state_metrics_label(struct state_metrics_writer *w, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    gs_buf_add_char(w->out, w->open ? ',' : '{');
    w->open = true;
    gs_buf_add_str(w->out, name);
    gs_buf_add_str(w->out, "=\"");
    metrics_write_label_value(w->out, gs_slice_of(value));
    gs_buf_add_char(w->out, '"');
}

void state_metrics_end(struct state_metrics_writer *w, double value)
{
    char text[GS_DOUBLE_SIZE];
    gs_buf_add_str(w->out, w->open ? "} " : " ");
    gs_buf_add_str(w->out, gs_format_double(value, text));
    gs_buf_add_char(w->out, '\n');
}

void state_metrics_flag(struct state_metrics_writer *w, bool on)
{
    state_metrics_end(w, on ? 1 : 0);
}

bool state_metrics_seconds(const char *rfc3339, double *ret)
{
    int64_t ms;
    struct gs_error *err = rfc3339 ? gs_parse_rfc3339(gs_slice_of(rfc3339), &ms)
                                   : gs_error_new(GS_ENOTFOUND, "no time");
    gs_error_free(err);
    if (err)
        return false;
    int64_t whole_s = ms / 1000;
    *ret = (double)whole_s;
    return true;
}

// --- label_* ---

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// Converts names like kube-state-metrics: other characters become "_", camelCase becomes
// camel_case.
static char *prometheus_name(const char *key)
{
    struct gs_buf out = {0};
    gs_buf_add_str(&out, "label_");
    for (const char *c = key; *c; c++) {
        bool upper = *c >= 'A' && *c <= 'Z';
        if (upper && c > key && is_lower_or_digit(c[-1]))
            gs_buf_add_char(&out, '_');
        if (upper)
            gs_buf_add_char(&out, (char)(*c - 'A' + 'a'));
        else
            gs_buf_add_char(&out, (char)(is_lower_or_digit(*c) ? *c : '_'));
    }
    return gs_buf_take(&out);
}

static bool allowed(const struct state_metrics_allow *a, const char *key)
{
    if (!a)
        return false;
    for (size_t i = 0; i < a->n && !a->all; i++)
        if (gs_streq(a->names[i], key))
            return true;
    return a->all;
}

struct shown {
    char *name;
    const char *value;
};

static int compare_shown(const void *a, const void *b)
{
    const struct shown *x = a, *y = b;
    return strcmp(x->name, y->name);
}

void state_metrics_object_labels(struct state_metrics_writer *w, const json_t *obj)
{
    json_t *labels = codec_json_get(obj, "metadata", "labels", NULL), *value;
    struct shown *list = gs_alloc_array(json_object_size(labels) + 1, sizeof(*list));
    size_t n = 0;
    const char *key;
    json_object_foreach (labels, key, value) {
        if (json_is_string(value) && allowed(w->allow, key))
            list[n++] = (struct shown){prometheus_name(key), json_string_value(value)};
    }
    qsort(list, n, sizeof(*list), compare_shown);
    // Keys with the same converted name get the suffixes _conflict1, _conflict2 ….
    for (size_t i = 0; i < n;) {
        size_t same = i + 1;
        while (same < n && gs_streq(list[same].name, list[i].name))
            same++;
        for (size_t k = i; k < same; k++) {
            GS_AUTO_FREE char *name = same == i + 1
                                          ? gs_strdup(list[k].name)
                                          : gs_format("%s_conflict%zu", list[k].name, k - i + 1);
            state_metrics_label(w, name, list[k].value);
        }
        i = same;
    }
    for (size_t i = 0; i < n; i++)
        free(list[i].name);
    free(list);
}

// --- resource lists and conditions ---

static const char *resource_unit(const char *resource)
{
    if (gs_streq(resource, "cpu"))
        return "core";
    if (gs_streq(resource, "memory") || gs_streq(resource, "storage") ||
        gs_streq(resource, "ephemeral-storage") || gs_starts(resource, "hugepages-"))
        return "byte";
    return "integer";
}

bool state_metrics_amount(const json_t *quantity, double *ret)
{
    struct gs_slice text = gs_slice_of(json_string_value(quantity));
    GS_AUTO_FREE char *number = NULL;
    if (json_is_number(quantity)) {
        number = codec_json_text(quantity);
        text = gs_slice_of(number);
    }
    int64_t v = 0;
    GS_AUTO_ERROR struct gs_error *err = kube_quantity_parse_milli(text, &v);
    if (err)
        return false;
    bool saturated = v == INT64_MAX || v == INT64_MIN;
    *ret = (double)v / 1000;
    if (saturated && !(err = kube_quantity_parse_value(text, &v)))
        *ret = (double)v;
    return true;
}

void state_metrics_resources(struct state_metrics_writer *w, const json_t *list,
                             void (*each)(struct state_metrics_writer *w, const void *arg),
                             const void *arg)
{
    const char *key;
    json_t *quantity;
    json_object_foreach ((json_t *)list, key, quantity) {
        double v;
        if (!state_metrics_amount(quantity, &v))
            continue;
        GS_AUTO_FREE char *name = gs_strdup(key);
        for (char *c = name; *c; c++)
            if (!is_lower_or_digit(*c) && !(*c >= 'A' && *c <= 'Z'))
                *c = '_';
        state_metrics_begin(w);
        each(w, arg);
        state_metrics_label(w, "resource", name);
        state_metrics_label(w, "unit", resource_unit(key));
        state_metrics_end(w, v);
    }
}

void state_metrics_conditions(struct state_metrics_writer *w, const json_t *conditions,
                              void (*each)(struct state_metrics_writer *w, const void *arg),
                              const void *arg)
{
    static const char *const statuses[][2] = {
        {"True", "true"}, {"False", "false"}, {"Unknown", "unknown"}};
    const json_t *c;
    size_t i;
    json_array_foreach ((json_t *)conditions, i, c) {
        for (size_t s = 0; s < GS_ARRAY_LEN(statuses); s++) {
            state_metrics_begin(w);
            each(w, arg);
            state_metrics_label(w, "condition", codec_json_str(c, "type", NULL));
            state_metrics_label(w, "status", statuses[s][1]);
            state_metrics_flag(w, gs_streq(codec_json_str(c, "status", NULL), statuses[s][0]));
        }
    }
}
