// SPDX-License-Identifier: Apache-2.0
// Lines of the exposition, with limits for one object: a single object with thousands of labels
// must not hide the others. A shortened object is counted and named in a warning.
#include "engine/state_metrics/state_metrics_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/encoding.h"
#include "kube/quantity.h"
#include "metrics/write.h"

// Limits of the series of one object. Objects of real clusters are far below them. A series within
// them is within the limits of the store, and of the reader that reads this text.
#define MAX_SAMPLES      ((size_t)1000) // in one family
#define MAX_VALUE        ((size_t)4096) // bytes of a label's value
#define MAX_LABELS       ((size_t)200)  // label_*
#define MAX_LABELS_BYTES ((size_t)40 << 10)

void state_metrics_next_object(struct state_metrics_writer *w)
{
    w->n = 0;
    w->cut = NULL;
}

void state_metrics_begin(struct state_metrics_writer *w)
{
    w->start = w->out->len;
    gs_buf_add_str(w->out, w->family);
    w->open = false;
}

void state_metrics_label(struct state_metrics_writer *w, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    struct gs_slice shown = gs_slice_of(value);
    if (shown.len > MAX_VALUE) {
        shown.len = codec_utf8_valid_prefix(gs_slice_make(value, MAX_VALUE));
        w->cut = "a value of more than 4,096 bytes is shortened";
    }
    gs_buf_add_char(w->out, w->open ? ',' : '{');
    w->open = true;
    gs_buf_add_str(w->out, name);
    gs_buf_add_str(w->out, "=\"");
    metrics_write_label_value(w->out, shown);
    gs_buf_add_char(w->out, '"');
}

void state_metrics_end(struct state_metrics_writer *w, double value)
{
    char text[GS_DOUBLE_SIZE];
    gs_buf_add_str(w->out, w->open ? "} " : " ");
    gs_buf_add_str(w->out, gs_format_double(value, text));
    gs_buf_add_char(w->out, '\n');
    if (++w->n > MAX_SAMPLES) {
        w->out->len = w->start;
        w->cut = "only its first 1,000 series are stored";
    }
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

static bool contains(const struct shown *list, size_t n, const char *name)
{
    const struct shown key = {.name = (char *)name};
    return bsearch(&key, list, n, sizeof(*list), compare_shown) != NULL;
}

// The label of a key whose converted name other keys have, too: with the suffix _conflict1,
// _conflict2 …, except where another key has that name.
static char *conflicting_name(const struct shown *list, size_t n, const char *name, size_t *number)
{
    char *out = NULL;
    do {
        free(out);
        out = gs_format("%s_conflict%zu", name, ++*number);
    } while (contains(list, n, out));
    return out;
}

static void write_shown(struct state_metrics_writer *w, const struct shown *list, size_t n)
{
    size_t bytes = 0, number = 0;
    for (size_t i = 0; i < n; i++) {
        bool after = i > 0 && gs_streq(list[i - 1].name, list[i].name);
        bool before = i + 1 < n && gs_streq(list[i + 1].name, list[i].name);
        if (!after)
            number = 0;
        GS_AUTO_FREE char *name = after || before ? conflicting_name(list, n, list[i].name, &number)
                                                  : gs_strdup(list[i].name);
        bytes += strlen(name) + strlen(list[i].value);
        if (i == MAX_LABELS || bytes > MAX_LABELS_BYTES) {
            w->cut = "the object has too many labels, the last ones are left out";
            return;
        }
        state_metrics_label(w, name, list[i].value);
    }
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
    write_shown(w, list, n);
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
    if (saturated) {
        gs_error_free(kube_quantity_parse_value(text, &v));
        *ret = (double)v;
    }
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
