// SPDX-License-Identifier: Apache-2.0
// The last decision of each autoscaler as short texts for the status block.
#include "up/console/console.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>

struct console_decisions {
    struct console_decision *items;
    size_t len, cap;
};

static void clear_decision(struct console_decision *d)
{
    free(d->key);
    free(d->target);
    free(d->reading);
    free(d->why);
    *d = (struct console_decision){0};
}

struct console_decisions *console_decisions_new(void)
{
    return gs_alloc(sizeof(struct console_decisions));
}

void console_decisions_free(struct console_decisions *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->len; i++)
        clear_decision(&d->items[i]);
    free(d->items);
    free(d);
}

static struct console_decision *find_or_add_decision(struct console_decisions *d, const char *key)
{
    for (size_t i = 0; i < d->len; i++)
        if (gs_streq(d->items[i].key, key))
            return &d->items[i];
    gs_grow(&d->items, &d->cap, d->len, sizeof(*d->items));
    return &d->items[d->len++];
}

// "17.25", "512Mi", "1.2Gi"; kubectl writes 17250m for the first. Large amounts have a suffix: a
// binary one if the target is a multiple of Ki, as amounts of memory are.
static void add_amount(struct gs_buf *out, int64_t milli, bool binary)
{
    static const char *const suffixes[] = {"", "k", "M", "G", "T", "P"};
    static const char *const binary_suffixes[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
    const double step = binary ? 1024 : 1000, from = binary ? 1024 : 100000;
    double v = (double)milli / 1000;
    size_t i = 0;
    if (fabs(v) >= from)
        for (; fabs(v) >= step && i + 1 < GS_ARRAY_LEN(suffixes); i++)
            v /= step;
    char text[64];
    int n = snprintf(text, sizeof(text), "%.*f", i || fabs(v) >= 0.1 || !milli ? 2 : 3, v);
    while (n > 0 && text[n - 1] == '0')
        text[--n] = '\0';
    if (n > 0 && text[n - 1] == '.')
        text[--n] = '\0';
    gs_buf_addf(out, "%s%s", text, binary ? binary_suffixes[i] : suffixes[i]);
}

// "46/20" of the first metric, and the number of other metrics.
static char *value_and_target(const struct hpa_spec *spec, const struct hpa_decision *d)
{
    if (!d->n_metrics || !d->metrics[0].ok)
        return gs_strdup("<unknown>");
    const struct hpa_metric_result *m = &d->metrics[0];
    const struct hpa_metric_spec *s = &spec->metrics[0];
    GS_AUTO_BUF struct gs_buf out = {0};
    if (m->has_utilization) {
        gs_buf_addf(&out, "%d%%/%d%%", m->utilization, s->utilization);
    } else {
        bool average = m->has_average_value;
        int64_t target = s->has_average_value ? s->average_value : s->value;
        bool binary = target && target % (1024 * 1000) == 0;
        if (average || m->has_value)
            add_amount(&out, average ? m->average_value : m->value, binary);
        else
            gs_buf_add_str(&out, "<unknown>"); // no replicas, no average
        gs_buf_add_char(&out, '/');
        add_amount(&out, target, binary);
    }
    if (d->n_metrics > 1)
        gs_buf_addf(&out, " + %zu more", d->n_metrics - 1);
    return gs_buf_take(&out);
}

// The explanation of what decided, a metric or an annotation, then what clamped it.
static char *decision_reason(const struct hpa_decision *d)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    if (d->extra)
        gs_buf_add_str(&out, d->extra);
    for (size_t i = 0; !d->extra && i < d->n_metrics; i++) {
        const struct hpa_metric_result *m = &d->metrics[i];
        if (!m->explanation || (m->ok && m->proposal != d->proposal))
            continue;
        gs_buf_add_str(&out, m->explanation);
        break;
    }
    if (d->explanation && *d->explanation) {
        if (out.len)
            gs_buf_add_str(&out, "; ");
        gs_buf_add_str(&out, d->explanation);
    }
    return gs_buf_take(&out);
}

const struct console_decision *console_decisions_record(struct console_decisions *all,
                                                        const struct hpa_spec *spec,
                                                        const struct hpa_decision *d)
{
    char *key = gs_format("%s/%s", spec->ns, spec->name);
    struct console_decision *r = find_or_add_decision(all, key);
    clear_decision(r);
    *r = (struct console_decision){
        .key = key,
        .target = gs_format("%s/%s", spec->target_kind, spec->target_name),
        .current = d->current,
        .desired = d->desired,
        .min = spec->has_min ? spec->min_replicas : 1,
        .max = spec->max_replicas,
        .reading = value_and_target(spec, d),
        .why = decision_reason(d),
        .decided_ms = d->decided_ms,
    };
    return r;
}

size_t console_decisions_len(const struct console_decisions *d)
{
    return d->len;
}

const struct console_decision *console_decisions_at(const struct console_decisions *d, size_t i)
{
    return &d->items[i];
}

bool console_decisions_all_at_min(const struct console_decisions *d)
{
    for (size_t i = 0; i < d->len; i++)
        if (d->items[i].current > d->items[i].min || d->items[i].desired > d->items[i].min)
            return false;
    return d->len > 0;
}
