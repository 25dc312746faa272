// SPDX-License-Identifier: Apache-2.0
// Samples with their labels, over the reader.
#include "metrics/reader.h"

#include "base/mem.h"
#include "metrics/metrics_private.h"

// Whether a sample belongs to the family: by its name, or with the suffix of a histogram or
// summary.
static bool in_family(struct gs_slice family, enum metrics_type type, struct gs_slice name)
{
    static const char *const suffixes[] = {"_bucket", "_sum", "_count"};
    if (!family.len || name.len < family.len || memcmp(name.data, family.data, family.len) != 0)
        return false;
    struct gs_slice rest = gs_slice_make(name.data + family.len, name.len - family.len);
    if (!rest.len)
        return true;
    if (type != METRICS_HISTOGRAM && type != METRICS_SUMMARY)
        return false;
    for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++)
        if (gs_slice_eq_str(rest, suffixes[i]))
            return true;
    return false;
}

static struct gs_error *one_sample(struct metrics_reader *r, const struct metrics_line *line,
                                   struct metrics_sample *ret)
{
    const struct metrics_label *labels;
    size_t n;
    struct gs_error *err = metrics_reader_labels(r, line, &labels, &n);
    if (err)
        return err;
    *ret = (struct metrics_sample){
        .name = labels[0].value,
        .labels = labels + 1,
        .n_labels = n - 1,
        .value = line->value,
        .has_timestamp = line->has_timestamp,
        .timestamp_ms = line->timestamp_ms,
        .type = in_family(r->family, r->type, labels[0].value) ? r->type : METRICS_UNTYPED,
    };
    return NULL;
}

struct gs_error *metrics_parse(struct gs_slice text, enum metrics_format format,
                               const struct metrics_limits *limits,
                               bool (*on_sample)(void *arg, const struct metrics_sample *s),
                               void *arg)
{
    struct metrics_reader *r = metrics_reader_new();
    metrics_reader_start(r, text, format, limits);
    struct gs_error *err = NULL;
    for (bool more = true; more;) {
        struct metrics_line line;
        struct metrics_sample s;
        err = metrics_reader_next(r, &line, &more);
        if (err || !more)
            break;
        err = one_sample(r, &line, &s);
        if (err && gs_error_code(err) == GS_ELIMIT && limits && limits->skip_over_limits) {
            gs_error_free(GS_TAKE(err));
            continue;
        }
        if (err || !on_sample(arg, &s))
            break;
    }
    metrics_reader_free(r);
    return err;
}

struct gs_error *metrics_parse_text(struct gs_slice text, const struct metrics_limits *limits,
                                    bool (*on_sample)(void *arg, const struct metrics_sample *s),
                                    void *arg)
{
    return metrics_parse(text, METRICS_TEXT, limits, on_sample, arg);
}
