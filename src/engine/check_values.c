// SPDX-License-Identifier: Apache-2.0
// Checks Helm values of kube-prometheus-stack, with the objects that the chart makes of them.
#include "engine/check_private.h"

#include "base/mem.h"
#include "engine/chart/chart.h"

static bool check_objects(const struct engine_check_options *o, const char *path,
                          const struct chart_values *v, struct engine_check_counts *counts)
{
    bool ok = true;
    size_t i;
    json_t *value;
    json_array_foreach (v->objects, i, value) {
        const json_t *twin = json_array_get(v->twins, i);
        struct codec_yaml_mark m = codec_yaml_mark_of(v->twin_marks, json_object_get(twin, "spec"));
        const struct engine_check_object object = {path, m.line ? m.line : 1, value, v->marks,
                                                   twin, v->twin_marks};
        ok = engine_check_object(o, &object, counts) && ok;
    }
    return ok;
}

bool engine_check_values(const struct engine_check_options *o, const char *path,
                         struct gs_slice text)
{
    struct chart_values v = {0};
    struct engine_check_counts counts = {0};
    bool found = false;
    GS_AUTO_ERROR struct gs_error *err = chart_values_add(text, path, &v, &found);
    if (err)
        fprintf(stderr, "  FAILED: %s\n\n", gs_error_message(err));
    for (size_t i = 0; !err && i < v.n_notes; i++)
        printf("  WARNING: %s\n", v.notes[i]);
    for (size_t i = 0; !err && i < v.n_mistakes; i++)
        fprintf(stderr, "  FAILED: %s\n", v.mistakes[i]);
    bool ok = !err && !v.n_mistakes && !(o->strict && v.n_notes);
    if (!err)
        ok = check_objects(o, path, &v, &counts) && ok;
    counts.scrapes = json_array_size(json_object_get(v.config, "scrape_configs"));
    counts.alertmanagers =
        json_array_size(codec_json_get(v.config, "alerting", "alertmanagers", NULL));
    counts.settings = v.n_settings - (counts.scrapes > 0);
    GS_AUTO_FREE char *what = engine_check_counts_text(&counts);
    if (ok && !what)
        fprintf(stderr,
                "  FAILED: %s: no scrape configs, monitors, rules or settings of Prometheus\n\n",
                path);
    ok = ok && what;
    if (ok)
        printf("  SUCCESS: %s has valid values of kube-prometheus-stack: %s\n\n", path, what);
    chart_values_finish(&v);
    return ok;
}
