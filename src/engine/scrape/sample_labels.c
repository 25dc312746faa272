// SPDX-License-Identifier: Apache-2.0
// Joins the labels of a sample with those of its target (honor_labels, exported_ prefixes), and
// checks them against the limits of the job, as Prometheus' scrape package does.
#include "engine/scrape/scrape_private.h"

#include "base/mem.h"
#include "metrics/write.h"

#include <stdlib.h>

static const struct metrics_label *find_label(const struct metrics_label *items, size_t n,
                                              struct gs_slice name)
{
    for (size_t i = 0; i < n; i++)
        if (gs_slice_eq(items[i].name, name))
            return &items[i];
    return NULL;
}

// Adds the prefix "exported_" until the name is unique.
static void set_exported(struct engine_config_label_builder *b, const struct metrics_label *l)
{
    GS_AUTO_FREE char *name = gs_format("exported_" GS_SLICE_FMT, GS_SLICE_ARG(l->name));
    while (engine_config_labels_get(b, gs_slice_of(name)).len) {
        char *longer = gs_format("exported_%s", name);
        free(name);
        name = longer;
    }
    engine_config_labels_set(b, gs_slice_of(name), l->value);
}

static int by_name_length(const void *a, const void *b)
{
    const struct metrics_label *x = *(const struct metrics_label *const *)a;
    const struct metrics_label *y = *(const struct metrics_label *const *)b;
    if (x->name.len != y->name.len)
        return x->name.len < y->name.len ? -1 : 1;
    return memcmp(x->name.data, y->name.data, x->name.len);
}

void scrape_sample_labels_merge(const struct scrape_sample_target *target, bool honor_labels,
                                const struct metrics_label *scraped, size_t n,
                                struct engine_config_label_builder *b)
{
    engine_config_labels_clear(b);
    for (size_t i = 0; i < n; i++)
        if (scraped[i].value.len)
            engine_config_labels_set(b, scraped[i].name, scraped[i].value);
    GS_AUTO_FREE const struct metrics_label **conflicts =
        gs_alloc_array(target->n + 1, sizeof(struct metrics_label *));
    size_t n_conflicts = 0;
    for (size_t i = 0; i < target->n; i++) {
        const struct metrics_label *t = &target->items[i];
        const struct metrics_label *own = find_label(scraped, n, t->name);
        if (own && honor_labels)
            continue; // also if the label is empty: the target's label is then removed
        if (own && own->value.len)
            conflicts[n_conflicts++] = own;
        engine_config_labels_set(b, t->name, t->value);
    }
    // Shorter names first: "x" becomes exported_x before a scraped "exported_x" is renamed.
    qsort(conflicts, n_conflicts, sizeof(struct metrics_label *), by_name_length);
    for (size_t i = 0; i < n_conflicts; i++)
        set_exported(b, conflicts[i]);
}

static int shown(struct gs_slice s)
{
    return (int)(s.len < 50 ? s.len : 50);
}

// For metric_name_validation_scheme: legacy. Otherwise names are valid: the reader and relabeling
// accept UTF-8 only.
static bool names_are_legacy(const struct engine_config_label_builder *b)
{
    for (size_t i = 0; i < b->len; i++)
        if (!metrics_is_plain_label(b->items[i].name) ||
            (gs_slice_eq_str(b->items[i].name, "__name__") &&
             !metrics_is_plain_name(b->items[i].value)))
            return false;
    return true;
}

// {__name__="a", "b.c"="d"}
static struct gs_error *invalid_names(const struct engine_config_label_builder *b)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    for (size_t i = 0; i < b->len; i++) {
        const char *quote = metrics_is_plain_label(b->items[i].name) ? "" : "\"";
        gs_buf_addf(&text, "%s%s", i ? ", " : "", quote);
        metrics_write_label_value(&text, b->items[i].name);
        gs_buf_addf(&text, "%s=\"", quote);
        metrics_write_label_value(&text, b->items[i].value);
        gs_buf_add_char(&text, '"');
    }
    return gs_error_new(GS_EINVAL, "invalid metric name or label names: {%s}", text.data);
}

struct gs_error *scrape_sample_labels_check(const struct engine_config_scrape_config *cfg,
                                            const struct engine_config_label_builder *b)
{
    struct gs_slice name = engine_config_labels_get(b, GS_SLICE("__name__"));
    if (!name.len)
        return gs_error_new(GS_EINVAL, "missing metric name (__name__ label)");
    if (cfg->legacy_names && !names_are_legacy(b))
        return invalid_names(b);
    if (cfg->label_limit && b->len > cfg->label_limit)
        return gs_error_new(
            GS_ELIMIT, "label_limit exceeded (metric: %.*s, number of labels: %zu, limit: %zu)",
            shown(name), name.data, b->len, cfg->label_limit);
    for (size_t i = 0; i < b->len; i++) {
        struct gs_slice key = b->items[i].name, value = b->items[i].value;
        if (cfg->label_name_length_limit && key.len > cfg->label_name_length_limit)
            return gs_error_new(GS_ELIMIT,
                                "label_name_length_limit exceeded (metric: %.*s, label name: %.*s, "
                                "length: %zu, limit: %zu)",
                                shown(name), name.data, shown(key), key.data, key.len,
                                cfg->label_name_length_limit);
        if (cfg->label_value_length_limit && value.len > cfg->label_value_length_limit)
            return gs_error_new(GS_ELIMIT,
                                "label_value_length_limit exceeded (metric: %.*s, label name: "
                                "%.*s, value: \"%.*s\", length: %zu, limit: %zu)",
                                shown(name), name.data, shown(key), key.data, shown(value),
                                value.data, value.len, cfg->label_value_length_limit);
    }
    return NULL;
}
