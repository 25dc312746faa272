// SPDX-License-Identifier: Apache-2.0
// What nodes and machines of pools offer: whether a pod could run on one of them if it were empty.
#include "base/mem.h"
#include "diagnosis/diagnosis_private.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "nodes/pool.h"
#include "nodes/scheduling.h"

// Nodes come first, then a machine of each pool. NULL: past the end.
static const json_t *place_at(const struct diagnosis_input *in, size_t i)
{
    size_t n = json_array_size(in->nodes);
    return i < n ? json_array_get(in->nodes, i)
                 : json_object_get(json_array_get(in->pools, i - n), "node");
}

static size_t n_places(const struct diagnosis_input *in)
{
    return json_array_size(in->nodes) + json_array_size(in->pools);
}

// "no node and no pool has"; pools that are not known are not named.
static const char *nothing_has(const struct diagnosis_input *in)
{
    return json_array_size(in->pools) ? "no node and no pool has" : "no node has";
}

static int64_t offer(const json_t *place, const char *resource)
{
    return nodes_milli_of(codec_json_get(place, "status", "allocatable", resource, NULL));
}

static int64_t largest_offer(const struct diagnosis_input *in, const char *resource)
{
    int64_t most = 0;
    for (size_t i = 0; i < n_places(in); i++) {
        int64_t milli = offer(place_at(in, i), resource);
        most = milli > most ? milli : most;
    }
    return most;
}

// Whether an empty place has what the pod requests. CPU, memory and storage that it does not list
// do not limit it, as in kube-scheduler.
static bool suits(const json_t *place, const json_t *requests)
{
    const char *name;
    json_t *milli;
    json_object_foreach ((json_t *)requests, name, milli) {
        bool listed = codec_json_get(place, "status", "allocatable", name, NULL);
        if ((listed || strchr(name, '/')) && json_integer_value(milli) > offer(place, name))
            return false;
    }
    return true;
}

// The first place that suits, from *pos on; NULL: no further one.
static const json_t *next_suitable(const struct diagnosis_input *in, const json_t *requests,
                                   size_t *pos)
{
    while (*pos < n_places(in)) {
        const json_t *place = place_at(in, (*pos)++);
        if (suits(place, requests))
            return place;
    }
    return NULL;
}

static bool pool_fits(const struct diagnosis_input *in, const json_t *pool, const json_t *requests)
{
    const json_t *node = json_object_get(pool, "node");
    GS_AUTO_FREE char *taint = nodes_untolerated_taint(in->pod, node, false);
    return !taint && nodes_selects(in->pod, node) && suits(node, requests);
}

// --- resources ---

static char *resource_remedy(const struct diagnosis_input *in, const char *resource)
{
    if (gs_streq(resource, NODES_GPU) && diagnosis_is_embedded(in))
        return gs_strdup("start with GPUs (--gpus) or a pool of machines with GPUs (--pool)");
    if (gs_streq(resource, NODES_GPU))
        return gs_strdup(
            "add a node with GPUs and the NVIDIA device plugin; gpuscale doctor checks both");
    return gs_format("more nodes do not help by themselves: %s", diagnosis_provider_of(resource));
}

size_t diagnosis_unknown_resources(const struct diagnosis_input *in, const json_t *requests,
                                   struct gs_buf *names, const char **ret_first)
{
    const char *name, *first = NULL;
    size_t n = 0;
    json_t *milli;
    json_object_foreach ((json_t *)requests, name, milli) {
        bool extended = strchr(name, '/') || gs_starts(name, "hugepages-");
        if (!extended || json_integer_value(milli) <= 0 || largest_offer(in, name) > 0)
            continue;
        gs_buf_addf(names, "%s%s", n++ ? ", " : "", name);
        if (!first || gs_streq(first, NODES_GPU))
            first = name;
    }
    *ret_first = first;
    return n;
}

static bool find_unknown_resource(const struct diagnosis_input *in, const json_t *requests,
                                  struct diagnosis *d)
{
    GS_AUTO_BUF struct gs_buf names = {0};
    const char *first;
    size_t n = diagnosis_unknown_resources(in, requests, &names, &first);
    if (!n)
        return false;
    diagnosis_set(d, DIAGNOSIS_RESOURCE, "Unschedulable",
                  gs_format("nothing here provides %s: %s %s", names.data, nothing_has(in),
                            n > 1 ? "these resources" : "this resource"),
                  resource_remedy(in, first));
    free(d->identity);
    d->identity = gs_strdup(first);
    return true;
}

static char *amount(const char *resource, int64_t milli)
{
    char text[KUBE_QUANTITY_SIZE];
    bool bytes = gs_streq(resource, "memory") || gs_streq(resource, "ephemeral-storage");
    return gs_strdup(bytes ? kube_quantity_format_bytes(milli / 1000, text)
                           : kube_quantity_format_milli(milli, text));
}

static bool find_too_large(const struct diagnosis_input *in, const json_t *requests,
                           struct diagnosis *d)
{
    const char *name;
    json_t *milli;
    json_object_foreach ((json_t *)requests, name, milli) {
        int64_t most = largest_offer(in, name);
        if (most <= 0 || json_integer_value(milli) <= most)
            continue;
        GS_AUTO_FREE char *want = amount(name, json_integer_value(milli)),
                          *have = amount(name, most);
        diagnosis_set(d, DIAGNOSIS_TOO_LARGE, "Unschedulable",
                      gs_format("it requests %s %s, and the largest node%s has %s", want, name,
                                json_array_size(in->pools) ? " or machine of a pool" : "", have),
                      gs_format("request at most %s for each pod, or %s", have,
                                diagnosis_is_embedded(in)
                                    ? "start with larger machines (--gpus, --pool)"
                                    : "add larger nodes"));
        return true;
    }
    size_t pos = 0;
    if (next_suitable(in, requests, &pos))
        return false;
    diagnosis_set(
        d, DIAGNOSIS_TOO_LARGE, "Unschedulable",
        gs_format("%s all that it requests together", nothing_has(in)),
        gs_strdup(
            "request less for each pod, or add larger nodes: compare with kubectl describe nodes"));
    return true;
}

// --- selectors ---

// "there are nvidia-l4, nvidia-tesla-v100": the values of a label, at most three; "": none.
static char *values_of(const struct diagnosis_input *in, const char *key)
{
    CODEC_AUTO_JSON json_t *seen = json_object();
    GS_AUTO_BUF struct gs_buf out = {0};
    for (size_t i = 0; i < n_places(in) && json_object_size(seen) < 3; i++) {
        const char *value = kube_label(place_at(in, i), key);
        if (!value || json_object_get(seen, value))
            continue;
        gs_buf_addf(&out, "%s%s", out.len ? ", " : "; they have ", value);
        json_object_set_new(seen, value, json_true());
    }
    return out.len ? gs_buf_take(&out) : gs_strdup("");
}

static bool any_has_label(const struct diagnosis_input *in, const json_t *requests, const char *key,
                          const char *value)
{
    size_t pos = 0;
    for (const json_t *place; (place = next_suitable(in, requests, &pos));)
        if (gs_streq(kube_label(place, key), value))
            return true;
    return false;
}

static char *selector_text(const struct diagnosis_input *in, const json_t *requests,
                           char **ret_label)
{
    static const char and_resources[] = " and the resources that it requests";
    const char *key;
    json_t *value;
    json_object_foreach (codec_json_get(in->pod, "spec", "nodeSelector", NULL), key, value) {
        const char *want = diagnosis_str(json_string_value(value));
        if (any_has_label(in, requests, key, want))
            continue;
        CODEC_AUTO_JSON json_t *nothing = json_object();
        bool too_small = any_has_label(in, nothing, key, want);
        GS_AUTO_FREE char *others = too_small ? gs_strdup("") : values_of(in, key);
        *ret_label = gs_format("%s=%s", key, want);
        return gs_format("%s the label %s=%s of its nodeSelector%s%s", nothing_has(in), key, want,
                         too_small ? and_resources : "", others);
    }
    return gs_format("%s all labels of its nodeSelector and node affinity%s", nothing_has(in),
                     json_object_size(requests) ? and_resources : "");
}

static bool find_selector(const struct diagnosis_input *in, const json_t *requests,
                          struct diagnosis *d)
{
    GS_AUTO_FREE char *label = NULL;
    size_t pos = 0;
    for (const json_t *place; (place = next_suitable(in, requests, &pos));)
        if (nodes_selects(in->pod, place))
            return false;
    char *text = selector_text(in, requests, &label);
    bool pools = diagnosis_is_embedded(in);
    char *remedy =
        label ? gs_format("correct the nodeSelector, or kubectl label node NODE %s%s%s", label,
                          pools ? ", or start with --pool …,label=" : "", pools ? label : "")
              : gs_strdup(
                    "compare its nodeSelector and affinity with kubectl get nodes --show-labels");
    diagnosis_set(d, DIAGNOSIS_SELECTOR, "Unschedulable", text, remedy);
    return true;
}

// --- taints ---

static const char *untolerated_key(const json_t *pod, const json_t *node)
{
    const json_t *taint;
    size_t i;
    json_array_foreach (codec_json_get(node, "spec", "taints", NULL), i, taint) {
        CODEC_AUTO_JSON json_t *alone = json_pack("{s:{s:[O]}}", "spec", "taints", taint);
        GS_AUTO_FREE char *text = nodes_untolerated_taint(pod, alone, false);
        if (text)
            return codec_json_str(taint, "key", NULL);
    }
    return NULL;
}

static char *taint_remedy(const json_t *place, const char *key)
{
    if (codec_json_bool(place, false, "spec", "unschedulable", NULL) ||
        gs_streq(key, "node.kubernetes.io/unschedulable"))
        return gs_format("kubectl uncordon %s", kube_name(place));
    if (gs_starts(key, "node.kubernetes.io/"))
        return gs_format("kubectl describe node %s: the taint goes when the node has recovered",
                         kube_name(place));
    return gs_format("add a toleration to the pod (tolerations: [{key: %s, operator: Exists}]), or "
                     "remove the taint with kubectl taint",
                     key);
}

// All nodes and pools that the pod selects are closed to it.
static bool find_taint(const struct diagnosis_input *in, const json_t *requests,
                       struct diagnosis *d)
{
    const json_t *closed = NULL;
    size_t pos = 0;
    for (const json_t *place; (place = next_suitable(in, requests, &pos));) {
        if (!nodes_selects(in->pod, place))
            continue;
        bool cordoned = codec_json_bool(place, false, "spec", "unschedulable", NULL);
        GS_AUTO_FREE char *taint = nodes_untolerated_taint(in->pod, place, false);
        if (!taint && !cordoned)
            return false;
        closed = closed ? closed : place;
    }
    if (!closed)
        return false;
    const char *key = untolerated_key(in->pod, closed);
    const char *shown = key ? key : "node.kubernetes.io/unschedulable";
    diagnosis_set(d, DIAGNOSIS_TAINT, "Unschedulable",
                  gs_format("it tolerates the taints of no node%s: %s of %s",
                            json_array_size(in->pools) ? " and no pool" : "", shown,
                            kube_name(closed)),
                  taint_remedy(closed, shown));
    return true;
}

// --- pools ---

static int64_t pool_size(const struct diagnosis_input *in, const json_t *pool)
{
    int64_t n = 0;
    size_t i;
    json_t *node;
    json_array_foreach ((json_t *)in->nodes, i, node)
        n += gs_streq(nodes_pool_label(node), codec_json_str(pool, "name", NULL));
    return n;
}

const json_t *diagnosis_full_pool(const struct diagnosis_input *in, const json_t *requests)
{
    size_t i;
    json_t *pool;
    json_array_foreach ((json_t *)in->pools, i, pool)
        if (pool_size(in, pool) >= codec_json_int(pool, 0, "max", NULL) &&
            pool_fits(in, pool, requests))
            return pool;
    return NULL;
}

// --- all ---

bool diagnosis_find_in_places(const struct diagnosis_input *in, const json_t *requests,
                              struct diagnosis *d)
{
    return json_array_size(in->nodes) > 0 &&
           (find_unknown_resource(in, requests, d) || find_too_large(in, requests, d) ||
            find_selector(in, requests, d) || find_taint(in, requests, d));
}
