// SPDX-License-Identifier: Apache-2.0
// Pods and events of starts: a list of objects, which the learner of start-up times reads in order.
// Each of them is also read as a file of starts that were learned.
#include "base/mem.h"
#include "kube/object.h"
#include "startup/credit.h"

#include <stddef.h>

#define NOW_MS INT64_C(1800000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_object(struct startup_learner *l, const json_t *o)
{
    struct startup_progress p;
    struct startup_coming coming = {0}, copy;
    startup_observe_pod(l, o, json_object_get(o, "node"), NOW_MS);
    startup_observe_event(l, o, NOW_MS);
    startup_progress_of(l, o, NOW_MS, &p);
    startup_coming_add(&coming, &p, NOW_MS);
    json_decref(startup_coming_json(&coming, NOW_MS));
    startup_coming_from_json(o, NOW_MS, &copy);
    if (kube_name(o))
        startup_engine_ready(l, kube_namespace(o), kube_name(o), NOW_MS);
}

static void read_trend(const json_t *o)
{
    struct startup_trend t = startup_trend_from_json(o, NOW_MS);
    const struct startup_coming coming = {.ready = 1, .starting = (int32_t)t.n % 3};
    struct startup_credit credit;
    startup_trend_add(&t, 1000, NOW_MS);
    startup_credit_apply(&t, &coming, 3, 1000, &credit);
    if (credit.proposal < 3 || credit.proposal > 1000)
        __builtin_trap();
    free(credit.text);
    json_decref(startup_trend_json(&t, NOW_MS));
}

static void restore(const json_t *o)
{
    struct startup_learner *l = startup_learner_new();
    struct startup_expected e;
    GS_AUTO_ERROR struct gs_error *err = startup_learner_restore(l, o, NOW_MS);
    if (!err)
        startup_expected_of_workload(l, "ml", "deployment/api", &e);
    json_decref(startup_learner_json(l, NOW_MS));
    startup_learner_free(l);
}

static void read_results(const struct startup_learner *l)
{
    struct startup_expected e;
    struct gs_buf text = {0};
    startup_expected_of_workload(l, "ml", "deployment/api", &e);
    json_t *json = startup_expected_json(&e);
    startup_expected_text(json, &text);
    json_decref(json);
    json_decref(startup_workload_json(l, "ml", "deployment/api"));
    gs_buf_finish(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CODEC_AUTO_JSON json_t *list = NULL;
    GS_AUTO_ERROR struct gs_error *err =
        codec_json_parse((struct gs_slice){(const char *)data, size}, false, &list);
    struct startup_learner *l = startup_learner_new();
    for (size_t i = 0; !err && i < json_array_size(list); i++) {
        read_object(l, json_array_get(list, i));
        read_trend(json_array_get(list, i));
        restore(json_array_get(list, i));
    }
    read_results(l);
    for (size_t i = 0; !err && i < json_array_size(list); i++)
        startup_forget_pod(l, json_array_get(list, i), NOW_MS);
    startup_learner_free(l);
    return 0;
}
