// SPDX-License-Identifier: Apache-2.0
// The recorded signals of the inference engines of a workload, from the series gpuscale_inference_*
// of a Prometheus.
#include "base/mem.h"
#include "replay/history.h"
#include "replay/history_private.h"

#include <string.h>

#define WINDOW_STEPS 4     // of rates, at least
#define WINDOW_MS    60000 // the least

struct signals {
    const struct replay_history_source *source;
    int64_t now_ms, window_s;
    char *matchers; // of the pods
};

// Of the pods of a Deployment or StatefulSet.
static char *matchers_of(const json_t *explanation, const char *ns_label, const char *pod_label)
{
    struct gs_buf out = {0};
    const char *target = codec_json_str(explanation, "target", NULL);
    const char *slash = target ? strchr(target, '/') : NULL;
    GS_AUTO_FREE char *pods =
        gs_format("%s-([a-z0-9]+-[a-z0-9]{5}|[0-9]+)", slash ? slash + 1 : "");
    replay_history_add_matcher(&out, ns_label, "=", codec_json_str(explanation, "namespace", NULL));
    gs_buf_add_char(&out, ',');
    replay_history_add_matcher(&out, pod_label, "=~", pods);
    return gs_buf_take(&out);
}

static void add_rate(const struct signals *s, const char *name, struct gs_buf *out)
{
    gs_buf_addf(out, "sum(rate(gpuscale_inference_%s{%s}[%llds]))", name, s->matchers,
                (long long)s->window_s);
}

// The values of an expression become a member. Optional ones may be absent.
static struct gs_error *fetch_into(const struct signals *s, const struct gs_buf *expr,
                                   bool optional, const char *key, json_t *ret)
{
    CODEC_AUTO_JSON json_t *series = NULL;
    struct gs_error *err = replay_history_query(s->source, gs_buf_slice(expr), s->now_ms, &series);
    if (!err)
        json_object_set(ret, key, json_object_get(series, "values"));
    if (!err || !optional || gs_error_code(err) != GS_ENOTFOUND)
        return err;
    gs_error_free(err);
    return NULL;
}

static struct gs_error *fetch_rates(const struct signals *s, json_t *ret)
{
    static const struct {
        const char *key, *series;
    } rates[] = {{"requests", "ttft_seconds_count"},
                 {"promptTokens", "prompt_tokens_total"},
                 {"generationTokens", "generation_tokens_total"}};
    struct gs_error *err = NULL;
    for (size_t i = 0; !err && i < GS_ARRAY_LEN(rates); i++) {
        GS_AUTO_BUF struct gs_buf expr = {0};
        add_rate(s, rates[i].series, &expr);
        err = fetch_into(s, &expr, false, rates[i].key, ret);
    }
    return err;
}

static struct gs_error *fetch_speed(const struct signals *s, json_t *ret)
{
    GS_AUTO_BUF struct gs_buf running = {0};
    GS_AUTO_BUF struct gs_buf itl = {0};
    gs_buf_addf(&running, "sum(gpuscale_inference_running{%s})", s->matchers);
    add_rate(s, "itl_seconds_sum", &itl);
    gs_buf_add_str(&itl, " / ");
    add_rate(s, "itl_seconds_count", &itl);
    struct gs_error *err = fetch_into(s, &running, true, "running", ret);
    return err ? err : fetch_into(s, &itl, true, "itl", ret);
}

// The value of a label of the first series.
static struct gs_error *fetch_label(const struct signals *s, const struct gs_buf *expr,
                                    const char *label, const char *key, json_t *ret)
{
    CODEC_AUTO_JSON json_t *series = NULL;
    struct gs_error *err = replay_history_query(s->source, gs_buf_slice(expr), s->now_ms, &series);
    const char *value = err ? NULL : codec_json_str(series, "metric", label, NULL);
    if (value)
        codec_json_set_str(ret, key, value);
    if (!err || gs_error_code(err) != GS_ENOTFOUND)
        return err;
    gs_error_free(err);
    return NULL;
}

static struct gs_error *fetch_names(const struct signals *s, const json_t *explanation, json_t *ret)
{
    GS_AUTO_BUF struct gs_buf model = {0};
    GS_AUTO_BUF struct gs_buf gpu = {0};
    GS_AUTO_FREE char *exported = matchers_of(explanation, "exported_namespace", "exported_pod");
    gs_buf_addf(&model, "count by (model) (gpuscale_inference_running{%s})", s->matchers);
    gs_buf_addf(&gpu, "count by (modelName) (DCGM_FI_DEV_FB_USED{%s} or DCGM_FI_DEV_FB_USED{%s})",
                s->matchers, exported);
    struct gs_error *err = fetch_label(s, &model, "model", "model", ret);
    return err ? err : fetch_label(s, &gpu, "modelName", "gpu", ret);
}

struct gs_error *replay_history_fetch_engines(const struct replay_history_source *source,
                                              const json_t *explanation, int64_t now_ms,
                                              json_t *question)
{
    int64_t window_ms = WINDOW_STEPS * replay_history_step_ms(source);
    GS_AUTO_FREE char *matchers = matchers_of(explanation, "namespace", "pod");
    const struct signals s = {source, now_ms,
                              (window_ms < WINDOW_MS ? WINDOW_MS : window_ms) / 1000, matchers};
    CODEC_AUTO_JSON json_t *found = json_object();
    struct gs_error *err = fetch_rates(&s, found);
    if (err && gs_error_code(err) == GS_ENOTFOUND) {
        gs_error_free(err);
        return NULL; // no engines
    }
    if (!err)
        err = fetch_speed(&s, found);
    if (!err)
        err = fetch_names(&s, explanation, found);
    if (!err)
        json_object_set(question, "inference", found);
    return err;
}
