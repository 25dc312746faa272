// SPDX-License-Identifier: Apache-2.0
// The times of samples behind a result, without a second query: the query is extended by `or` with
// the timestamps, and a label tells the two apart. The HPA and `kubectl` see this time.
#include "adapter/provider/provider_private.h"

#include "base/mem.h"

#define MARK "__gpuscale_time__"

bool provider_times_known(const char *template_text)
{
    return strstr(template_text, ".Series") && strstr(template_text, ".LabelMatchers");
}

// The line break ends a comment in the last line of the query.
void provider_times_add(const struct gs_buf *query, struct gs_slice label, struct gs_slice series,
                        struct gs_slice matchers, struct gs_buf *out)
{
    gs_buf_addf(out,
                "(" GS_SLICE_FMT "\n) or label_replace(min by (" GS_SLICE_FMT
                ") (timestamp(" GS_SLICE_FMT "{" GS_SLICE_FMT "})), \"" MARK
                "\", \"1\", \"\", \"\")",
                GS_SLICE_ARG(gs_buf_slice(query)), GS_SLICE_ARG(label), GS_SLICE_ARG(series),
                GS_SLICE_ARG(matchers));
}

void provider_times_add_alternative(const struct gs_buf *query, struct gs_slice label,
                                    struct gs_slice other_label, struct gs_buf *out)
{
    gs_buf_addf(out,
                "\nor on (" GS_SLICE_FMT ", " MARK ") label_join((" GS_SLICE_FMT
                "\n), \"" GS_SLICE_FMT "\", \"\", \"" GS_SLICE_FMT "\")",
                GS_SLICE_ARG(label), GS_SLICE_ARG(gs_buf_slice(query)), GS_SLICE_ARG(label),
                GS_SLICE_ARG(other_label));
}

bool provider_times_is_mark(const struct source_sample *s)
{
    for (size_t i = 0; i < s->n_labels; i++)
        if (gs_slice_eq_str(s->labels[i].name, MARK))
            return true;
    return false;
}

static struct gs_slice sample_label_value(const struct source_sample *s, struct gs_slice label)
{
    for (size_t i = 0; i < s->n_labels; i++)
        if (gs_slice_eq(s->labels[i].name, label))
            return s->labels[i].value;
    return GS_SLICE("");
}

static int64_t time_of(const struct source_sample *s, int64_t fallback_ms)
{
    bool good = s && s->value > 0 && s->value < 1e12; // also not NaN
    return good ? (int64_t)(s->value * 1000 + 0.5) : fallback_ms;
}

struct gs_hmap *provider_times_index(const struct source_result *r, struct gs_slice label)
{
    struct gs_hmap *map = gs_hmap_new(NULL);
    for (size_t i = 0; i < r->n; i++)
        if (provider_times_is_mark(&r->samples[i]))
            gs_hmap_put(map, sample_label_value(&r->samples[i], label),
                        (void *)(uintptr_t)&r->samples[i]);
    return map;
}

int64_t provider_times_look_up(const struct gs_hmap *index, struct gs_slice value,
                               int64_t fallback_ms)
{
    return time_of(gs_hmap_get(index, value), fallback_ms);
}
