// SPDX-License-Identifier: Apache-2.0
// How a Deployment moves its replicas between ReplicaSets: rolling update, recreate, proportional
// scaling, as Kubernetes' deployment controller. maxSurge and maxUnavailable hold at every moment.
// Each call takes one step; the next follows when objects have changed.
#include "local/controllers/controllers_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "local/pod.h"

#include <math.h>

void controllers_rollout_read_spec(struct controllers_rollout *r)
{
    const json_t *strategy = codec_json_get(r->deployment, "spec", "strategy", NULL);
    const json_t *rolling = json_object_get(strategy, "rollingUpdate");
    r->replicas = codec_json_int(r->deployment, 1, "spec", "replicas", NULL);
    r->recreate = gs_streq(codec_json_str(strategy, "type", NULL), "Recreate");
    r->max_surge = r->max_unavailable = 0;
    if (r->recreate)
        return;
    int64_t n = r->replicas;
    r->max_surge = local_scaled(json_object_get(rolling, "maxSurge"), n, true, (n + 3) / 4);
    r->max_unavailable = local_scaled(json_object_get(rolling, "maxUnavailable"), n, false, n / 4);
    // Both can round to zero. Then pods are replaced one at a time.
    if (r->max_surge == 0 && r->max_unavailable == 0)
        r->max_unavailable = 1;
    if (r->max_unavailable > n)
        r->max_unavailable = n;
}

int64_t controllers_rollout_max_replicas(const struct controllers_rollout *r)
{
    return r->replicas > 0 ? r->replicas + r->max_surge : 0;
}

int64_t controllers_rollout_spec_sum(const struct controllers_rollout *r)
{
    int64_t sum = 0;
    for (size_t i = 0; i < r->len; i++)
        sum += r->all[i].spec;
    return sum;
}

static int64_t available_sum(const struct controllers_rollout *r)
{
    int64_t sum = 0;
    for (size_t i = 0; i < r->len; i++)
        sum += r->all[i].available;
    return sum;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// --- scaling a ReplicaSet ---

bool controllers_rollout_scale(struct controllers_rollout *r, struct controllers_rollout_rs *rs,
                               int64_t replicas)
{
    GS_AUTO_FREE char *desired = gs_format("%lld", (long long)r->replicas);
    long long n_most = r->replicas + r->max_surge;
    GS_AUTO_FREE char *most = gs_format("%lld", n_most);
    if (rs->spec == replicas &&
        gs_streq(kube_annotation(rs->obj, CONTROLLERS_ROLLOUT_ANN_DESIRED), desired) &&
        gs_streq(kube_annotation(rs->obj, CONTROLLERS_ROLLOUT_ANN_MAX), most))
        return false;
    // An update with the resourceVersion: a decision about an outdated copy must not be written.
    CODEC_AUTO_JSON json_t *changed = json_deep_copy(rs->obj);
    codec_json_set(changed, json_integer(replicas), "spec", "replicas", NULL);
    codec_json_set(changed, json_string(desired), "metadata", "annotations",
                   CONTROLLERS_ROLLOUT_ANN_DESIRED, NULL);
    codec_json_set(changed, json_string(most), "metadata", "annotations",
                   CONTROLLERS_ROLLOUT_ANN_MAX, NULL);
    local_reconcile_update(r->work, KUBE_REPLICASETS, changed, NULL, NULL, NULL);
    if (rs->spec != replicas)
        local_reconcile_event(r->work, r->recorder, r->deployment, "ScalingReplicaSet",
                              "Scaled %s replica set %s from %lld to %lld",
                              replicas > rs->spec ? "up" : "down", kube_name(rs->obj),
                              (long long)rs->spec, (long long)replicas);
    rs->spec = replicas;
    return true;
}

// --- rolling update ---

int64_t controllers_rollout_current_target(const struct controllers_rollout *r, int64_t now_spec)
{
    if (r->recreate)
        return r->replicas;
    // Stricter than Kubernetes, which uses only the specs: pods above the size of a ReplicaSet
    // still use GPUs, so they count.
    int64_t room = r->replicas + r->max_surge;
    for (size_t i = 0; i < r->len; i++)
        room -= max64(r->all[i].spec, r->all[i].replicas);
    if (room <= 0)
        return now_spec;
    return now_spec + max64(0, min64(room, r->replicas - now_spec));
}

static bool scale_current(struct controllers_rollout *r)
{
    if (!r->current || r->current->spec == r->replicas)
        return false;
    int64_t target = r->current->spec > r->replicas
                         ? r->replicas
                         : controllers_rollout_current_target(r, r->current->spec);
    return target != r->current->spec && controllers_rollout_scale(r, r->current, target);
}

// Unavailable pods of old ReplicaSets are deleted first: they serve no requests.
static int64_t drop_unhealthy(struct controllers_rollout *r, int64_t budget)
{
    int64_t dropped = 0;
    for (size_t i = 0; i < r->len && dropped < budget; i++) {
        struct controllers_rollout_rs *rs = &r->all[i];
        if (rs == r->current || rs->spec == 0 || rs->spec <= rs->available)
            continue;
        int64_t n = min64(budget - dropped, rs->spec - rs->available);
        controllers_rollout_scale(r, rs, rs->spec - n);
        dropped += n;
    }
    return dropped;
}

static int64_t drop_available(struct controllers_rollout *r, int64_t budget)
{
    int64_t dropped = 0;
    for (size_t i = 0; i < r->len && dropped < budget; i++) {
        struct controllers_rollout_rs *rs = &r->all[i];
        if (rs == r->current || rs->spec == 0)
            continue;
        int64_t n = min64(budget - dropped, rs->spec);
        controllers_rollout_scale(r, rs, rs->spec - n);
        dropped += n;
    }
    return dropped;
}

static bool scale_old(struct controllers_rollout *r)
{
    int64_t current_spec = r->current ? r->current->spec : 0;
    int64_t current_available = r->current ? r->current->available : 0;
    int64_t total = controllers_rollout_spec_sum(r);
    if (total == current_spec)
        return false;
    int64_t min_available = r->replicas - r->max_unavailable;
    int64_t budget = total - min_available - (current_spec - current_available);
    if (budget <= 0)
        return false;
    int64_t dropped = drop_unhealthy(r, budget);
    // One write for each object: the next step continues with a ReplicaSet that was just changed.
    if (dropped == 0)
        dropped = drop_available(r, min64(budget, available_sum(r) - min_available));
    return dropped > 0;
}

bool controllers_rollout_rolling_step(struct controllers_rollout *r)
{
    return scale_current(r) || scale_old(r);
}

// --- recreate ---

bool controllers_rollout_recreate_down(struct controllers_rollout *r)
{
    bool any = false;
    for (size_t i = 0; i < r->len; i++) {
        struct controllers_rollout_rs *rs = &r->all[i];
        if (rs != r->current && rs->spec > 0)
            any = controllers_rollout_scale(r, rs, 0) || any;
    }
    return any;
}

// --- changes of spec.replicas ---

static int64_t annotated(const struct controllers_rollout_rs *rs, const char *name,
                         int64_t fallback)
{
    const char *text = kube_annotation(rs->obj, name);
    int64_t n = fallback;
    if (text)
        gs_error_free(gs_parse_i64(gs_slice_of(text), 0, INT32_MAX, &n));
    return n;
}

bool controllers_rollout_is_scaling(const struct controllers_rollout *r)
{
    for (size_t i = 0; i < r->len; i++) {
        const struct controllers_rollout_rs *rs = &r->all[i];
        if (rs->spec > 0 &&
            annotated(rs, CONTROLLERS_ROLLOUT_ANN_DESIRED, r->replicas) != r->replicas)
            return true;
    }
    return false;
}

// The only active ReplicaSet, or the latest one if none is active. NULL if several are active.
static struct controllers_rollout_rs *active_or_latest(struct controllers_rollout *r)
{
    struct controllers_rollout_rs *active = NULL;
    for (size_t i = 0; i < r->len; i++) {
        if (r->all[i].spec == 0)
            continue;
        if (active)
            return NULL;
        active = &r->all[i];
    }
    if (active || r->len == 0)
        return active;
    return r->current ? r->current : &r->all[r->len - 1];
}

static bool saturated(const struct controllers_rollout *r)
{
    return r->current && r->current->spec == r->replicas &&
           annotated(r->current, CONTROLLERS_ROLLOUT_ANN_DESIRED, -1) == r->replicas &&
           r->current->available == r->replicas;
}

// The share of `to_add` of this ReplicaSet, in proportion to its size.
static int64_t proportion(const struct controllers_rollout *r,
                          const struct controllers_rollout_rs *rs, int64_t to_add, int64_t added)
{
    if (rs->spec == 0 || to_add == added)
        return 0;
    if (r->replicas == 0)
        return -rs->spec;
    int64_t most = annotated(rs, CONTROLLERS_ROLLOUT_ANN_MAX, 0);
    if (most <= 0)
        most = codec_json_int(r->deployment, 0, "status", "replicas", NULL);
    if (most <= 0)
        return 0;
    double grown = (double)rs->spec * (double)(r->replicas + r->max_surge) / (double)most;
    int64_t share = llround(grown) - rs->spec, left = to_add - added;
    return to_add > 0 ? min64(share, left) : max64(share, left);
}

static int larger_then_newer(const void *pa, const void *pb)
{
    const struct controllers_rollout_rs *a = *(struct controllers_rollout_rs *const *)pa,
                                        *b = *(struct controllers_rollout_rs *const *)pb;
    if (a->spec != b->spec)
        return a->spec > b->spec ? -1 : 1;
    return a > b ? -1 : 1; // the array is oldest first
}

static int larger_then_older(const void *pa, const void *pb)
{
    const struct controllers_rollout_rs *a = *(struct controllers_rollout_rs *const *)pa,
                                        *b = *(struct controllers_rollout_rs *const *)pb;
    if (a->spec != b->spec)
        return a->spec > b->spec ? -1 : 1;
    return a < b ? -1 : 1;
}

static void share_out(struct controllers_rollout *r, int64_t to_add)
{
    GS_AUTO_FREE struct controllers_rollout_rs **active =
        gs_alloc_array(r->len, sizeof(struct controllers_rollout_rs *));
    GS_AUTO_FREE int64_t *size = gs_alloc_array(r->len, sizeof(int64_t));
    size_t n = 0;
    for (size_t i = 0; i < r->len; i++)
        if (r->all[i].spec > 0)
            active[n++] = &r->all[i];
    qsort(active, n, sizeof(struct controllers_rollout_rs *),
          to_add > 0 ? larger_then_newer : larger_then_older);
    int64_t added = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t share = to_add ? proportion(r, active[i], to_add, added) : 0;
        size[i] = active[i]->spec + share;
        added += share;
    }
    for (size_t i = 0; i < n; i++) {
        if (i == 0 && to_add)
            size[i] = max64(0, size[i] + to_add - added);
        controllers_rollout_scale(r, active[i], size[i]);
    }
}

void controllers_rollout_scale_proportionally(struct controllers_rollout *r)
{
    struct controllers_rollout_rs *only = active_or_latest(r);
    if (only) {
        controllers_rollout_scale(r, only, r->replicas);
        return;
    }
    if (saturated(r)) {
        controllers_rollout_recreate_down(r);
        return;
    }
    if (!r->recreate)
        share_out(r, controllers_rollout_max_replicas(r) - controllers_rollout_spec_sum(r));
}
