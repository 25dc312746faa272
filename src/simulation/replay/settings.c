// SPDX-License-Identifier: Apache-2.0
// The settings of a scenario that can be changed by name.
#include "nodes/prices.h"
#include "replay/scenario_private.h"
#include "replay/service.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"

#include <string.h>

struct gs_error *replay_scenario_find_prices(struct replay_scenario *s)
{
    struct gs_error *err = NULL;
    if (s->gpu)
        err = nodes_prices_of_gpu(s->prices, s->gpu, &s->price);
    if (!err && s->instance)
        err = nodes_prices_of_instance(s->prices, s->instance, &s->gpus_per_node, &s->node_price);
    return err;
}

struct gs_error *replay_scenario_prices(struct replay_scenario *s, const char *path)
{
    struct gs_error *err = nodes_prices_load(path, &s->prices);
    if (err)
        return err;
    err = replay_scenario_find_prices(s);
    return err ? gs_error_wrap(err, "%s", path) : NULL;
}

const char *replay_currency(const struct replay_scenario *s)
{
    const char *name = codec_json_str(s->prices, "currency", NULL);
    return name ? name : "";
}

static struct gs_error *set_target(struct replay_scenario *s, double v)
{
    struct hpa_metric_spec *m = s->spec.n_metrics ? &s->spec.metrics[0] : NULL;
    if (!m)
        return gs_error_new(GS_EINVAL, "target: the autoscaler has no metric");
    if (m->has_utilization)
        m->utilization = (int32_t)v;
    else if (m->has_average_value)
        m->average_value = (int64_t)(v * 1000);
    else
        m->value = (int64_t)(v * 1000);
    return v >= 1 ? NULL : gs_error_new(GS_EINVAL, "target: at least 1");
}

static struct gs_error *set_number(struct replay_scenario *s, const char *name, double v)
{
    if (gs_streq(name, "target"))
        return set_target(s, v);
    if (gs_streq(name, "tolerance"))
        s->controller.tolerance = v;
    else if (gs_streq(name, "min") && v >= 0 && v <= s->spec.max_replicas)
        s->spec.min_replicas = (int32_t)v;
    else if (gs_streq(name, "max") && v >= s->spec.min_replicas && v <= REPLAY_MAX_REPLICAS)
        s->spec.max_replicas = (int32_t)v;
    else if (gs_streq(name, "capacity") && v > 0)
        s->capacity = v;
    else if (gs_streq(name, "nodes") && v >= (double)s->min_nodes && v <= 100000)
        s->max_nodes = (size_t)v;
    else
        return gs_error_new(GS_EINVAL, "%s cannot be %g here", name, v);
    return NULL;
}

static struct gs_error *set_name(struct replay_scenario *s, const char *name, const char *value)
{
    struct replay_scenario_file *own = GS_CONTAINER_OF(s, struct replay_scenario_file, s);
    const char *copy = gs_arena_strdup(&own->arena, value);
    *(gs_streq(name, "gpu") ? &s->gpu : &s->instance) = copy;
    struct gs_error *err = replay_scenario_find_prices(s);
    return err ? err : replay_scenario_check(s);
}

struct gs_error *replay_scenario_set(struct replay_scenario *s, const char *name, const char *value)
{
    static const char *const numbers[] = {"target", "tolerance", "min", "max", "capacity", "nodes"};
    const struct {
        const char *name;
        int64_t *ms;
    } times[] = {
        {"downscaleWindow", &s->controller.downscale_window_ms},
        {"sync", &s->sync_ms},
        {"startup", &s->startup_ms},
        {"drain", &s->drain_ms},
        {"delay", &s->delay_ms},
        {"provision", &s->provision_ms},
        {"idle", &s->idle_ms},
        {"duration", &s->duration_ms},
    };
    bool found = false;
    struct gs_error *service_err = s->service ? replay_service_set(s, name, value, &found) : NULL;
    if (service_err || found)
        return service_err;
    if (gs_streq(name, "gpu") || gs_streq(name, "instance"))
        return set_name(s, name, value);
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++) {
        double v = 0;
        if (!gs_streq(name, numbers[i]))
            continue;
        struct gs_error *err = gs_parse_double(gs_slice_of(value), &v);
        err = err ? gs_error_wrap(err, "%s", name) : set_number(s, name, v);
        return err || !s->service ? err : replay_service_prepare(s);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(times); i++) {
        int64_t ns = 0;
        if (!gs_streq(name, times[i].name))
            continue;
        struct gs_error *err = gs_parse_duration(gs_slice_of(value), &ns);
        if (!err && (ns < 0 || ns / GS_NS_PER_SEC > INT32_MAX))
            err = gs_error_new(GS_EINVAL, "want a duration from 0s to 68y");
        if (err)
            return gs_error_wrap(err, "%s", name);
        *times[i].ms = ns / GS_NS_PER_MS;
        // The window of the autoscaler would override the controller's.
        if (times[i].ms == &s->controller.downscale_window_ms && s->spec.has_behavior)
            s->spec.down.window_seconds = (int32_t)(ns / GS_NS_PER_SEC);
        struct gs_error *wrong = replay_scenario_check(s);
        return wrong || !s->service ? wrong : replay_service_prepare(s);
    }
    return gs_error_new(GS_EINVAL,
                        "\"%s\" cannot be set; target, min, max, tolerance, downscaleWindow, sync, "
                        "startup, drain, delay, capacity, nodes, provision, idle, gpu, instance "
                        "and duration can; of a service also slo, slo.KEY, rate, promptTokens, "
                        "outputTokens, speed and seed",
                        name);
}
