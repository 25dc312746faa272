// SPDX-License-Identifier: Apache-2.0
// Reads a mapping of labels into an array that is sorted by name, as label sets are everywhere.
#include "base/mem.h"
#include "engine/config/config_private.h"

static int compare_static_labels(const void *a, const void *b)
{
    const struct metrics_label *x = a, *y = b;
    return strcmp(x->name.data, y->name.data);
}

void engine_config_labels(struct codec_reader *r, const json_t *map,
                          const struct metrics_label **ret, size_t *ret_n)
{
    const char *key;
    json_t *value;
    size_t n = 0;
    if (!codec_reader_is_mapping(r, map, "labels"))
        return;
    struct metrics_label *labels = codec_reader_alloc(r, json_object_size(map) * sizeof(*labels));
    json_object_foreach ((json_t *)map, key, value) {
        const char *text = codec_read_text(r, value);
        if (!*key)
            codec_reader_fail(r, value, "\"\" is not a valid label name");
        labels[n++] = (struct metrics_label){gs_slice_of(codec_reader_format(r, "%s", key)),
                                             gs_slice_of(text)};
    }
    if (n)
        qsort(labels, n, sizeof(*labels), compare_static_labels);
    *ret = labels;
    *ret_n = n;
}
