// SPDX-License-Identifier: Apache-2.0
// The metadata of a trigger. An unknown key is an error: a misspelled threshold would be ignored
// otherwise. The namespace is that of the ScaledObject; no key changes it.
#include "adapter/keda_scaler/keda_scaler_private.h"

#include "base/mem.h"
#include "base/num.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { MAX_TEXT = 4096, MAX_NAME = 253 };
#define KEYS     "signal, object, external, selector, threshold, activationThreshold"
#define FROM_ENV "FromEnv"

// Values of metadata; empty: absent.
struct texts {
    struct gs_slice signal, object, external, selector, threshold, activation;
};

static struct gs_slice *place_of(struct texts *t, struct gs_slice key)
{
    const struct {
        const char *key;
        struct gs_slice *place;
    } places[] = {{"signal", &t->signal},       {"object", &t->object},
                  {"external", &t->external},   {"selector", &t->selector},
                  {"threshold", &t->threshold}, {"activationThreshold", &t->activation}};
    if (gs_slice_ends(key, FROM_ENV)) // KEDA replaces the value by that of the variable
        key.len -= strlen(FROM_ENV);
    for (size_t i = 0; i < GS_ARRAY_LEN(places); i++)
        if (gs_slice_eq_str(key, places[i].key))
            return places[i].place;
    return NULL;
}

// Keys that KEDA's client reads itself.
static bool is_of_client(struct gs_slice key)
{
    static const char *const keys[] = {"scalerAddress", "enableTLS",     "unsafeSsl",
                                       "caCert",        "tlsClientCert", "tlsClientKey"};
    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++)
        if (gs_slice_eq_str(key, keys[i]))
            return true;
    return false;
}

static bool is_text(struct gs_slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.data[i] < ' ' || s.data[i] == 0x7f)
            return false;
    return s.len <= MAX_TEXT;
}

static struct gs_error *collect(const struct keda_scaler_request *rq, struct texts *ret)
{
    for (size_t i = 0; i < rq->n_metadata; i++) {
        const struct keda_scaler_pair *p = &rq->metadata[i];
        struct gs_slice *place = place_of(ret, p->key);
        if (!is_text(p->key) || !is_text(p->value))
            return gs_error_new(GS_EINVAL,
                                "metadata with a control character, or longer than %d "
                                "bytes",
                                MAX_TEXT);
        if (place)
            *place = gs_slice_trim(p->value);
        else if (!is_of_client(p->key))
            return gs_error_new(GS_EINVAL, "unknown metadata \"%.*s\": want " KEYS,
                                (int)(p->key.len < 64 ? p->key.len : 64), p->key.data);
    }
    return NULL;
}

// --- parts ---

static struct gs_error *read_number(struct gs_slice text, const char *key, double *ret)
{
    double v;
    struct gs_error *err = gs_parse_double(text, &v);
    if (err)
        return gs_error_wrap(err, "%s", key);
    if (!isfinite(v))
        return gs_error_new(GS_EINVAL, "%s \"" GS_SLICE_FMT "\": want a finite number", key,
                            GS_SLICE_ARG(text));
    *ret = v;
    return NULL;
}

static struct gs_error *read_numbers(const struct texts *t, struct keda_scaler_trigger *ret)
{
    struct gs_error *err =
        t->threshold.len ? read_number(t->threshold, "threshold", &ret->threshold) : NULL;
    if (!err && t->activation.len)
        err = read_number(t->activation, "activationThreshold", &ret->activation);
    if (err)
        return err;
    if (!(ret->threshold > 0))
        return gs_error_new(GS_EINVAL, "threshold: want a number above 0, the target of the "
                                       "autoscaler");
    return NULL;
}

static bool is_name(struct gs_slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!isalnum((unsigned char)s.data[i]) && s.data[i] != '-' && s.data[i] != '.')
            return false;
    return s.len > 0 && s.len <= MAX_NAME;
}

// KIND/NAME. Without it, the Deployment with the name of the ScaledObject.
static struct gs_error *read_object(const struct keda_scaler_request *rq, const struct texts *t,
                                    struct keda_scaler_trigger *ret)
{
    struct gs_slice name = t->object;
    struct gs_slice kind =
        t->object.len ? gs_slice_cut(&name, '/') : gs_slice_of("deployment.apps");
    ret->named = t->object.len > 0;
    if (!ret->named)
        name = rq->name;
    if (!is_name(kind) || !is_name(name))
        return gs_error_new(GS_EINVAL,
                            "object \"" GS_SLICE_FMT "\": want KIND/NAME, such as deployment/chat",
                            GS_SLICE_ARG(t->object));
    ret->resource = gs_slice_dup(kind);
    ret->name = gs_slice_dup(name);
    return NULL;
}

static struct gs_error *read_target(const struct keda_scaler_request *rq, const struct texts *t,
                                    struct keda_scaler_trigger *ret)
{
    bool external = gs_slice_is_word(t->external, "true");
    if (t->external.len && !external && !gs_slice_is_word(t->external, "false"))
        return gs_error_new(GS_EINVAL, "external: want true or false");
    if (external && t->object.len)
        return gs_error_new(GS_EINVAL, "an external metric has no object: remove object or "
                                       "external");
    return external ? NULL : read_object(rq, t, ret);
}

// The name becomes one of an external metric and a label of KEDA's own metrics.
static char *metric_name(const char *signal)
{
    char *name = gs_strdup(signal);
    for (char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_' && *p != '-')
            *p = '-';
    return name;
}

static struct gs_error *read_signal(const struct texts *t, struct keda_scaler_trigger *ret)
{
    if (!t->signal.len || t->signal.len > MAX_NAME || memchr(t->signal.data, '/', t->signal.len))
        return gs_error_new(GS_EINVAL, "signal: want the name of a metric, such as "
                                       "DCGM_FI_DEV_GPU_UTIL or gpuscale_activator_waiting");
    ret->signal = gs_slice_dup(t->signal);
    ret->metric = metric_name(ret->signal);
    return NULL;
}

struct gs_error *keda_scaler_trigger_read(const struct keda_scaler_request *rq,
                                          struct keda_scaler_trigger *ret)
{
    struct keda_scaler_trigger t = {0};
    struct texts texts = {0};
    struct gs_error *err = collect(rq, &texts);
    if (!err && !is_name(rq->ns))
        err = gs_error_new(GS_EINVAL, "the request has no namespace");
    if (!err)
        err = read_signal(&texts, &t);
    if (!err)
        err = read_target(rq, &texts, &t);
    if (!err)
        err = read_numbers(&texts, &t);
    GS_AUTO_FREE char *selector = gs_slice_dup(texts.selector);
    if (!err && (err = kube_selector_parse(selector, &t.selector)))
        err = gs_error_wrap(err, "selector");
    if (err) {
        keda_scaler_trigger_finish(&t);
        return err;
    }
    t.ns = gs_slice_dup(rq->ns);
    *ret = t;
    return NULL;
}

void keda_scaler_trigger_finish(struct keda_scaler_trigger *t)
{
    free(t->ns);
    free(t->signal);
    free(t->resource);
    free(t->name);
    free(t->metric);
    kube_selector_finish(&t->selector);
    *t = (struct keda_scaler_trigger){0};
}
