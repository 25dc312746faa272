// SPDX-License-Identifier: Apache-2.0
// One Prometheus object as settings of the engine. A mistake in a Secret that it names leaves the
// settings of before, as prometheus-operator leaves the configuration of before.
#include "local/operator/operator_private.h"

#include "base/mem.h"
#include "engine/chart/chart.h"
#include "kube/object.h"

// --- references to Secrets ---

static const char *const secret_keys[] = {
    "additionalScrapeConfigs", "additionalAlertManagerConfigs", "additionalAlertRelabelConfigs"};

bool operator_followed_names(const json_t *obj, const char *secret)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(secret_keys); i++)
        if (gs_streq(codec_json_str(obj, "spec", secret_keys[i], "name", NULL), secret))
            return true;
    return false;
}

// Adds the text of a Secret as the value of the key.
static struct gs_error *add_secret(const json_t *obj, const char *key,
                                   const struct kube_cache *secrets, json_t *values)
{
    const json_t *ref = codec_json_get(obj, "spec", key, NULL);
    GS_AUTO_BUF struct gs_buf text = {0};
    if (!json_is_object(ref))
        return NULL;
    struct gs_error *err =
        operator_secret_text(secrets, kube_namespace(obj), codec_json_str(ref, "name", NULL),
                             codec_json_str(ref, "key", NULL), &text);
    if (err && codec_json_bool(ref, false, "optional", NULL)) {
        gs_error_free(err);
        return NULL;
    }
    if (err)
        return gs_error_wrap(err, "%s", key);
    json_t *value = json_stringn(text.data ? text.data : "", text.len);
    if (!value)
        return gs_error_new(GS_EINVAL, "%s: not text in UTF-8", key);
    json_object_set_new(values, key, value);
    return NULL;
}

// --- settings ---

// {"x": 1} becomes {"x": "1"}.
static json_t *as_text(const json_t *value)
{
    if (json_is_integer(value))
        return codec_json_strf("%lld", (long long)json_integer_value(value));
    if (json_is_boolean(value))
        return json_string(json_is_true(value) ? "true" : "false");
    return json_incref((json_t *)(uintptr_t)value);
}

static json_t *alertmanagers_of(const json_t *obj)
{
    json_t *out = json_array(), *item;
    size_t i;
    json_array_foreach (codec_json_get(obj, "spec", "alerting", "alertmanagers", NULL), i, item) {
        static const char *const keys[] = {"name", "namespace", "port", "scheme", "pathPrefix"};
        json_t *one = json_object();
        for (size_t k = 0; k < GS_ARRAY_LEN(keys); k++)
            if (json_object_get(item, keys[k]))
                json_object_set_new(one, keys[k], as_text(json_object_get(item, keys[k])));
        if (!json_object_get(one, "namespace"))
            codec_json_set_str(one, "namespace", kube_namespace(obj));
        json_array_append_new(out, one);
    }
    return out;
}

// A label that the operator adds; its name may be set to "".
static void add_own_label(const json_t *obj, const char *key, const char *usual, const char *value,
                          json_t *labels)
{
    const char *given = codec_json_str(obj, "spec", key, NULL), *name = given ? given : usual;
    if (*name)
        codec_json_set_str(labels, name, value);
}

static json_t *external_labels(const json_t *obj)
{
    json_t *labels = json_object(), *value;
    const char *key;
    GS_AUTO_FREE char *name = kube_key(obj);
    GS_AUTO_FREE char *pod = gs_format("prometheus-%s-0", kube_name(obj));
    add_own_label(obj, "prometheusExternalLabelName", "prometheus", name, labels);
    add_own_label(obj, "replicaExternalLabelName", "prometheus_replica", pod, labels);
    json_object_foreach (codec_json_get(obj, "spec", "externalLabels", NULL), key, value)
        json_object_set_new(labels, key, as_text(value));
    return labels;
}

static json_t *times_of(const json_t *obj)
{
    const json_t *spec = json_object_get(obj, "spec");
    const char *timeout = operator_text(spec, "scrapeTimeout", NULL);
    json_t *times = json_object();
    codec_json_set_str(times, "scrape_interval", operator_text(spec, "scrapeInterval", "30s"));
    if (timeout)
        codec_json_set_str(times, "scrape_timeout", timeout);
    return times;
}

// Jobs without an interval have that of the object, and not that of the engine.
static void add_times(const json_t *times, json_t *jobs)
{
    size_t i;
    json_t *job;
    json_array_foreach (jobs, i, job) {
        bool own = json_object_get(job, "scrape_interval") != NULL;
        if (!own)
            json_object_set(job, "scrape_interval", json_object_get(times, "scrape_interval"));
        if (!own && !json_object_get(job, "scrape_timeout") &&
            json_object_get(times, "scrape_timeout"))
            json_object_set(job, "scrape_timeout", json_object_get(times, "scrape_timeout"));
    }
}

static struct gs_error *read_sections(const json_t *obj, const struct kube_cache *secrets,
                                      json_t **ret)
{
    struct chart_values values = {0};
    CODEC_AUTO_JSON json_t *spec =
        json_pack("{s:o, s:s, s:o}", "externalLabels", external_labels(obj), "evaluationInterval",
                  operator_text(json_object_get(obj, "spec"), "evaluationInterval", "30s"),
                  "alertingEndpoints", alertmanagers_of(obj));
    struct gs_error *err = NULL;
    for (size_t i = 0; i < GS_ARRAY_LEN(secret_keys) && !err; i++)
        err = add_secret(obj, secret_keys[i], secrets, spec);
    if (!err)
        err = chart_spec_add(spec, "spec", &values);
    if (!err) {
        CODEC_AUTO_JSON json_t *times = times_of(obj);
        add_times(times, json_object_get(values.config, "scrape_configs"));
        *ret = GS_TAKE(values.config);
    }
    chart_values_finish(&values);
    return err;
}

// --- selectors ---

static const struct {
    const char *labels, *namespaces;
} selector_keys[ENGINE_CONFIG_KINDS] = {
    [ENGINE_CONFIG_SERVICE_MONITOR] = {"serviceMonitorSelector", "serviceMonitorNamespaceSelector"},
    [ENGINE_CONFIG_POD_MONITOR] = {"podMonitorSelector", "podMonitorNamespaceSelector"},
    [ENGINE_CONFIG_RULE] = {"ruleSelector", "ruleNamespaceSelector"},
};

static struct gs_error *read_selectors(struct operator_followed *f, const json_t *obj)
{
    for (size_t i = 0; i < ENGINE_CONFIG_KINDS; i++) {
        const char *const keys[] = {selector_keys[i].labels, selector_keys[i].namespaces};
        struct kube_selector *to[] = {&f->labels[i], &f->namespaces[i]};
        for (size_t k = 0; k < GS_ARRAY_LEN(keys); k++) {
            struct kube_selector read = {0};
            struct gs_error *err =
                kube_selector_from_json(codec_json_get(obj, "spec", keys[k], NULL), &read);
            if (err)
                return gs_error_wrap(err, "%s", keys[k]);
            kube_selector_finish(to[k]);
            *to[k] = read;
        }
    }
    return NULL;
}

// ns NULL: its labels are not known.
static bool selects_namespace(const struct operator_followed *f, enum engine_config_kind kind,
                              const json_t *obj, const json_t *ns)
{
    // Without the selector, only the namespace of the Prometheus object.
    if (!json_is_object(codec_json_get(f->obj, "spec", selector_keys[kind].namespaces, NULL)))
        return gs_streq(kube_namespace(obj), kube_namespace(f->obj));
    return kube_selector_matches(&f->namespaces[kind],
                                 codec_json_get(ns, "metadata", "labels", NULL));
}

bool operator_followed_selects(const struct operator_followed *f, enum engine_config_kind kind,
                               const json_t *obj, const json_t *ns)
{
    return f->obj &&
           kube_selector_matches(&f->labels[kind],
                                 codec_json_get(obj, "metadata", "labels", NULL)) &&
           selects_namespace(f, kind, obj, ns);
}

char *operator_followed_why_not(const struct operator_followed *f, enum engine_config_kind kind,
                                const json_t *obj, const json_t *ns)
{
    GS_AUTO_FREE char *key = kube_key(f->obj);
    GS_AUTO_BUF struct gs_buf labels = {0};
    const char *name = selector_keys[kind].labels;
    if (!json_is_object(codec_json_get(f->obj, "spec", name, NULL)))
        return gs_format("Prometheus %s does not select it: its %s is not set, which selects "
                         "nothing; set it to {} to select all objects",
                         key, name);
    kube_selector_format(&f->labels[kind], &labels);
    if (!kube_selector_matches(&f->labels[kind], codec_json_get(obj, "metadata", "labels", NULL)))
        return gs_format("Prometheus %s does not select it: its labels do not match the %s %s; add "
                         "the label, or change the selector (values of kube-prometheus-stack: "
                         "prometheus.prometheusSpec.%sNilUsesHelmValues: false)",
                         key, name, labels.data, name);
    if (!selects_namespace(f, kind, obj, ns))
        return gs_format("Prometheus %s does not select its namespace %s: see %s", key,
                         kube_namespace(obj), selector_keys[kind].namespaces);
    return NULL;
}

// --- the object ---

static char *versions_of(const json_t *obj, const struct kube_cache *secrets)
{
    struct gs_buf out = {0};
    gs_buf_addf(&out, "%s %s", kube_uid(obj), kube_resource_version(obj));
    for (size_t i = 0; i < GS_ARRAY_LEN(secret_keys); i++) {
        const char *name = codec_json_str(obj, "spec", secret_keys[i], "name", NULL);
        const json_t *secret = name ? kube_cache_get(secrets, kube_namespace(obj), name) : NULL;
        gs_buf_addf(&out, " %s", secret ? kube_resource_version(secret) : "-");
    }
    return gs_buf_take(&out);
}

struct operator_followed *operator_followed_new(void)
{
    return gs_alloc(sizeof(struct operator_followed));
}

static void set_error(struct operator_followed *f, struct gs_error *err)
{
    free(f->error);
    f->error = err ? gs_strdup(gs_error_message(err)) : NULL;
    gs_error_free(err);
}

void operator_followed_read(struct operator_followed *f, const json_t *obj,
                            const struct kube_cache *secrets)
{
    json_t *sections = NULL;
    if (f->obj && codec_json_bool(obj, false, "spec", "paused", NULL))
        return;
    char *versions = versions_of(obj, secrets);
    bool is_new = !gs_streq(versions, f->versions);
    free(f->versions);
    f->versions = versions;
    if (!is_new)
        return;
    json_decref(f->obj);
    f->obj = json_incref((json_t *)(uintptr_t)obj);
    struct gs_error *err = read_selectors(f, obj);
    if (!err)
        err = read_sections(obj, secrets, &sections);
    if (sections) {
        json_decref(f->sections);
        f->sections = sections;
    }
    json_decref(f->global);
    f->global = times_of(obj);
    set_error(f, err);
}

void operator_followed_free(void *arg)
{
    struct operator_followed *f = arg;
    if (!f)
        return;
    for (size_t i = 0; i < ENGINE_CONFIG_KINDS; i++) {
        kube_selector_finish(&f->labels[i]);
        kube_selector_finish(&f->namespaces[i]);
    }
    json_decref(f->obj);
    json_decref(f->sections);
    json_decref(f->global);
    free(f->error);
    free(f->versions);
    free(f);
}
