// SPDX-License-Identifier: Apache-2.0
// Checks of the metrics that dcgm-exporter 4.9 has renamed: who uses names that no exporter gives
// any more, and targets of autoscalers in the unit of the other name. A gpuscale engine reads both
// names, so nothing is wrong there.
#include "aliases/aliases.h"
#include "base/mem.h"
#include "dcgm/fields.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"

#include <math.h>
#include <string.h>

enum { MAX_NAME = 128 };

// --- names ---

static bool exists(const struct doctor_examination *e, const char *name)
{
    size_t i;
    const json_t *sample;
    json_array_foreach (doctor_query(e, "gpu_names"), i, sample)
        if (gs_streq(doctor_sample_label(sample, "__name__"), name))
            return true;
    return false;
}

// The name that the series of a metric have, if they have only another one. *ret: that name.
static bool is_renamed(const struct doctor_examination *e, struct gs_slice metric,
                       struct aliases_name *ret)
{
    struct aliases_name others[ALIASES_MAX];
    size_t n = aliases_of(metric, others);
    GS_AUTO_FREE char *name = gs_slice_dup(metric);
    if (!n || exists(e, name))
        return false;
    for (size_t i = 0; i < n; i++)
        if (exists(e, others[i].name)) {
            *ret = others[i];
            return true;
        }
    return false;
}

static bool reads_both(const struct doctor_examination *e)
{
    return json_is_true(json_object_get(e->prometheus, "aliases"));
}

// The first renamed metric in a text, such as an expression or a dashboard.
static bool find_renamed(const struct doctor_examination *e, const char *text,
                         struct gs_slice *ret_metric, struct aliases_name *ret)
{
    for (const char *at = text; at && (at = strstr(at, DCGM_FIELD_PREFIX));) {
        size_t n = 0;
        while (gs_is_word(at[n]))
            n++;
        *ret_metric = gs_slice_make(at, n);
        if ((at == text || !gs_is_word(at[-1])) && is_renamed(e, *ret_metric, ret))
            return true;
        at += n;
    }
    return false;
}

static char *renamed_text(struct gs_slice metric, const struct aliases_name *to)
{
    GS_AUTO_BUF struct gs_buf factor = {0};
    aliases_add_factor(to, &factor);
    return gs_format("No exporter gives " GS_SLICE_FMT "; its name is now %s, and its values are "
                     "%s%s.",
                     GS_SLICE_ARG(metric), to->name, factor.len ? "those" : "the same",
                     factor.len ? factor.data : "");
}

#define FIX                                                                                        \
    "gpuscale convert %s FILE     # replaces names, and multiplies by the factors\n"               \
    "gpuscale engine and gpuscale adapter read both names (docs/metric-names.md)."

static void check_rules(struct doctor_examination *e)
{
    size_t i, k;
    const json_t *group, *rule;
    json_array_foreach (codec_json_get(e->prometheus, "rules", "groups", NULL), i, group)
        json_array_foreach (json_object_get(group, "rules"), k, rule) {
            const char *query = codec_json_str(rule, "query", NULL);
            struct gs_slice metric;
            struct aliases_name to;
            if (!find_renamed(e, query, &metric, &to))
                continue;
            GS_AUTO_FREE char *subject =
                gs_format("rule %s", doctor_text(codec_json_str(rule, "name", NULL)));
            doctor_add(e, (struct doctor_finding){subject, renamed_text(metric, &to),
                                                  gs_format("%.200s", query),
                                                  gs_format(FIX, "rules")});
        }
}

static void check_dashboards(struct doctor_examination *e)
{
    size_t i;
    const json_t *map, *text;
    json_array_foreach (doctor_items(e, "dashboards"), i, map) {
        const char *key;
        json_object_foreach ((json_t *)(uintptr_t)json_object_get(map, "data"), key, text) {
            struct gs_slice metric;
            struct aliases_name to;
            if (find_renamed(e, json_string_value(text), &metric, &to)) {
                doctor_report(e, "ConfigMap", map, renamed_text(metric, &to),
                              gs_format("dashboard %s", key), gs_format(FIX, "dashboards"));
                break;
            }
        }
    }
}

static void check_hpa(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                      const json_t *answer)
{
    struct gs_slice name = gs_slice_of(doctor_hpa_metric_name(metric));
    struct aliases_name to;
    if (!doctor_lacks_value(answer) || !is_renamed(e, name, &to))
        return;
    GS_AUTO_BUF struct gs_buf factor = {0};
    aliases_add_factor(&to, &factor);
    doctor_report(e, "HorizontalPodAutoscaler", hpa, renamed_text(name, &to),
                  gs_format("the metrics API has no value of " GS_SLICE_FMT, GS_SLICE_ARG(name)),
                  gs_format("Use the metric %s%s%s, or gpuscale adapter, which serves both names "
                            "(docs/metric-names.md).",
                            to.name,
                            factor.len ? " with a target in its unit: the old target is "
                                         "the new one"
                                       : "",
                            factor.len ? factor.data : ""));
}

void doctor_check_metric_renamed(struct doctor_examination *e)
{
    if (reads_both(e) || !doctor_query(e, "gpu_names"))
        return;
    check_rules(e);
    check_dashboards(e);
    doctor_each_hpa_metric(e, check_hpa);
}

// --- units of targets ---

// Targets that fit the other unit only. The limits leave no sensible target out: less than 2 %,
// more than 1.5 of a ratio, less than 1 MB, more than 10 TiB, less than 100 kHz, more than 100 GHz.
static bool is_of_other_unit(const struct dcgm_rename *r, bool is_new, double target)
{
    if (r->factor == 0.01)
        return is_new ? target > 1.5 : target <= 1;
    if (r->factor == 1048576)
        return is_new ? target < 1e6 : target > 1e7;
    if (r->factor == 1e6)
        return is_new ? target < 1e5 : target > 1e5;
    return false;
}

// DCGM_FI_DEV_GPU_UTIL of DCGM_FI_DEV_GPU_UTIL_AVG, too.
static bool rename_of_metric(const char *metric, struct dcgm_rename *ret, bool *ret_is_new)
{
    static const char *const suffixes[] = {"", "_AVG", "_MAX", "_MIN"};
    struct gs_slice s = gs_slice_of(metric);
    for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++) {
        char name[MAX_NAME];
        size_t n = strlen(suffixes[i]);
        if (s.len < n || s.len - n >= sizeof(name) || !gs_slice_ends(s, suffixes[i]))
            continue;
        memcpy(name, s.data, s.len - n);
        name[s.len - n] = '\0';
        if (dcgm_rename_of(name, ret)) {
            *ret_is_new = gs_streq(name, ret->new_name);
            return true;
        }
    }
    return false;
}

static double range_end(const struct doctor_examination *e, const char *metric, const char *end)
{
    const json_t *result = codec_json_get(e->prometheus, "metrics", metric, end, NULL);
    return doctor_sample_value(json_array_get(json_object_get(result, "result"), 0));
}

static char *observed(const struct doctor_examination *e, const char *metric)
{
    double low = range_end(e, metric, "lowest"), high = range_end(e, metric, "highest");
    return isnan(low) || isnan(high)
               ? gs_format("%s: no value in the last hour", metric)
               : gs_format("%s in the last hour: %.4g to %.4g", metric, low, high);
}

static void check_unit(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                       const json_t *answer)
{
    const char *name = doctor_text(doctor_hpa_metric_name(metric));
    double target = doctor_hpa_metric_target(metric);
    struct dcgm_rename r;
    bool is_new;
    (void)answer;
    if (!rename_of_metric(name, &r, &is_new) || !(target > 0) ||
        !is_of_other_unit(&r, is_new, target))
        return;
    bool share = r.factor == 0.01;
    const char *unit = share ? (is_new ? "a ratio of 0 to 1" : "a percentage of 0 to 100")
                             : (is_new ? r.new_unit : r.old_unit);
    double right = is_new ? target * r.factor : target / r.factor;
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_format("The target %.6g does not fit the metric %s, which is %s%s.", target, name,
                  share ? "" : "in ", unit),
        observed(e, name),
        gs_format("Set the target to %.6g%s: %.6g %s is %.6g %s. In %s this target fits "
                  "%s.",
                  right, share && is_new ? " (in milli: 1000 times as much, with an m)" : "",
                  target, is_new ? r.old_unit : r.new_unit, right, is_new ? r.new_unit : r.old_unit,
                  is_new ? r.old_unit : r.new_unit, is_new ? r.old_name : r.new_name));
}

void doctor_check_target_unit(struct doctor_examination *e)
{
    doctor_each_hpa_metric(e, check_unit);
}
