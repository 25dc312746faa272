// SPDX-License-Identifier: Apache-2.0
#include "local/controllers/controllers_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "kube/quantity.h"

// --- amounts ---

static int64_t milli_of(const json_t *quantity)
{
    int64_t milli = 0;
    if (json_is_string(quantity)) {
        struct gs_slice text = {json_string_value(quantity), json_string_length(quantity)};
        gs_error_free(kube_quantity_parse_milli(text, &milli));
    } else if (json_is_integer(quantity)) {
        if (__builtin_mul_overflow(json_integer_value(quantity), INT64_C(1000), &milli))
            milli = INT64_MAX;
    } else if (json_is_real(quantity)) {
        kube_quantity_from_double(json_real_value(quantity), &milli);
    }
    return milli;
}

static int64_t add_clamped(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

static int64_t amount(const json_t *amounts, const char *name)
{
    return json_integer_value(json_object_get(amounts, name));
}

static void add_amount(json_t *amounts, const char *name, int64_t milli)
{
    json_object_set_new(amounts, name, json_integer(add_clamped(amount(amounts, name), milli)));
}

// A container's requests; what has only a limit requests that.
static json_t *container_requests(const json_t *container)
{
    json_t *sum = json_object();
    const char *name;
    json_t *quantity;
    json_object_foreach (codec_json_get(container, "resources", "limits", NULL), name, quantity)
        json_object_set_new(sum, name, json_integer(milli_of(quantity)));
    json_object_foreach (codec_json_get(container, "resources", "requests", NULL), name, quantity)
        json_object_set_new(sum, name, json_integer(milli_of(quantity)));
    return sum;
}

json_t *controllers_filter_requests(const json_t *pod)
{
    json_t *total = json_object();
    size_t i;
    json_t *container, *milli, *quantity;
    const char *name;
    json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), i, container) {
        CODEC_AUTO_JSON json_t *one = container_requests(container);
        json_object_foreach (one, name, milli)
            add_amount(total, name, json_integer_value(milli));
    }
    json_array_foreach (codec_json_get(pod, "spec", "initContainers", NULL), i, container) {
        CODEC_AUTO_JSON json_t *one = container_requests(container);
        json_object_foreach (one, name, milli)
            if (json_integer_value(milli) > amount(total, name))
                json_object_set(total, name, milli);
    }
    json_object_foreach (codec_json_get(pod, "spec", "overhead", NULL), name, quantity)
        add_amount(total, name, milli_of(quantity));
    return total;
}

void controllers_filter_node_init(struct controllers_filter_node *n, const json_t *node)
{
    const json_t *allocatable = codec_json_get(node, "status", "allocatable", NULL);
    n->node = node;
    n->free = json_object();
    n->free_pods = 0;
    const char *name;
    json_t *quantity;
    json_object_foreach ((json_t *)allocatable, name, quantity) {
        int64_t milli = milli_of(quantity);
        if (gs_streq(name, "pods"))
            n->free_pods = milli / 1000;
        else
            json_object_set_new(n->free, name, json_integer(milli));
    }
}

void controllers_filter_node_finish(struct controllers_filter_node *n)
{
    json_decref(n->free);
    n->free = NULL;
}

void controllers_filter_node_use(struct controllers_filter_node *n, const json_t *requests)
{
    const char *name;
    json_t *milli;
    json_object_foreach ((json_t *)requests, name, milli)
        add_amount(n->free, name, -json_integer_value(milli));
    n->free_pods--;
}

// --- labels ---

static bool compare_numbers(const char *label, const json_t *values, bool greater)
{
    const char *bound = json_string_value(json_array_get(values, 0));
    int64_t a = 0, b = 0;
    if (!label || !bound)
        return false;
    struct gs_error *err = gs_parse_i64(gs_slice_of(label), INT64_MIN, INT64_MAX, &a);
    if (!err)
        err = gs_parse_i64(gs_slice_of(bound), INT64_MIN, INT64_MAX, &b);
    bool failed = err != NULL;
    gs_error_free(err);
    return !failed && (greater ? a > b : a < b);
}

static bool expression_matches(const json_t *expr, const char *value)
{
    const char *op = codec_json_str(expr, "operator", NULL);
    const json_t *values = json_object_get(expr, "values");
    if (gs_streq(op, "In"))
        return value && codec_json_has_string(values, value);
    if (gs_streq(op, "NotIn"))
        return !value || !codec_json_has_string(values, value);
    if (gs_streq(op, "Exists"))
        return value != NULL;
    if (gs_streq(op, "DoesNotExist"))
        return value == NULL;
    if (gs_streq(op, "Gt"))
        return compare_numbers(value, values, true);
    return gs_streq(op, "Lt") && compare_numbers(value, values, false);
}

static bool term_matches(const json_t *term, const json_t *node)
{
    const json_t *labels = json_object_get(term, "matchExpressions");
    const json_t *fields = json_object_get(term, "matchFields");
    size_t i;
    json_t *expr;
    json_array_foreach ((json_t *)labels, i, expr) {
        const char *key = codec_json_str(expr, "key", NULL);
        if (!key || !expression_matches(expr, kube_label(node, key)))
            return false;
    }
    json_array_foreach ((json_t *)fields, i, expr) {
        if (!gs_streq(codec_json_str(expr, "key", NULL), "metadata.name") ||
            !expression_matches(expr, kube_name(node)))
            return false;
    }
    return json_array_size(labels) + json_array_size(fields) > 0;
}

bool controllers_filter_selects(const json_t *pod, const json_t *node)
{
    const char *key;
    json_t *value, *term;
    json_object_foreach (codec_json_get(pod, "spec", "nodeSelector", NULL), key, value) {
        if (!gs_streq(kube_label(node, key), json_string_value(value)))
            return false;
    }
    const json_t *required = codec_json_get(pod, "spec", "affinity", "nodeAffinity",
                                            "requiredDuringSchedulingIgnoredDuringExecution", NULL);
    if (!required)
        return true;
    size_t i;
    json_array_foreach (json_object_get(required, "nodeSelectorTerms"), i, term) {
        if (term_matches(term, node))
            return true;
    }
    return false;
}

// --- taints ---

static bool tolerates(const json_t *pod, const char *key, const char *value, const char *effect)
{
    size_t i;
    json_t *t;
    json_array_foreach (codec_json_get(pod, "spec", "tolerations", NULL), i, t) {
        const char *t_key = codec_json_str(t, "key", NULL),
                   *t_op = codec_json_str(t, "operator", NULL);
        const char *t_value = codec_json_str(t, "value", NULL);
        const char *t_effect = codec_json_str(t, "effect", NULL);
        bool exists = gs_streq(t_op, "Exists");
        if (t_effect && *t_effect && !gs_streq(t_effect, effect))
            continue;
        if (!t_key || !*t_key) {
            if (exists)
                return true;
            continue;
        }
        if (gs_streq(t_key, key) && (exists || gs_streq(t_value ? t_value : "", value)))
            return true;
    }
    return false;
}

char *controllers_filter_taint(const json_t *pod, const json_t *node, bool no_execute)
{
    size_t i;
    json_t *taint;
    json_array_foreach (codec_json_get(node, "spec", "taints", NULL), i, taint) {
        const char *key = codec_json_str(taint, "key", NULL);
        const char *value = codec_json_str(taint, "value", NULL);
        const char *effect = codec_json_str(taint, "effect", NULL);
        bool keeps_off =
            gs_streq(effect, "NoExecute") || (!no_execute && gs_streq(effect, "NoSchedule"));
        if (key && keeps_off && !tolerates(pod, key, value ? value : "", effect))
            return gs_format("node(s) had untolerated taint {%s: %s}", key, value ? value : "");
    }
    return NULL;
}

static char *untolerated(const json_t *pod, const json_t *node)
{
    char *taint = controllers_filter_taint(pod, node, false);
    if (taint)
        return taint;
    // Kubernetes' node controller turns a lost Ready into this taint; here that is one step.
    static const char not_ready[] = "node.kubernetes.io/not-ready";
    if (!kube_condition_true(node, "Ready") && !tolerates(pod, not_ready, "", "NoSchedule"))
        return gs_format("node(s) had untolerated taint {%s: }", not_ready);
    return NULL;
}

// --- the check ---

static void add_reason(json_t *reasons, const char *text)
{
    int64_t n = json_integer_value(json_object_get(reasons, text));
    json_object_set_new(reasons, text, json_integer(n + 1));
}

static bool has_room(const struct controllers_filter_node *n, const json_t *requests,
                     json_t *reasons)
{
    bool fits = true;
    const char *name;
    json_t *milli;
    if (n->free_pods < 1) {
        add_reason(reasons, "Too many pods");
        fits = false;
    }
    json_object_foreach ((json_t *)requests, name, milli) {
        int64_t want = json_integer_value(milli);
        if (want <= 0 || gs_streq(name, "ephemeral-storage") || want <= amount(n->free, name))
            continue;
        GS_AUTO_FREE char *text = gs_format("Insufficient %s", name);
        add_reason(reasons, text);
        fits = false;
    }
    return fits;
}

bool controllers_filter_check(const struct controllers_filter_node *n, const json_t *pod,
                              const json_t *requests, json_t *reasons)
{
    static const char unschedulable[] = "node.kubernetes.io/unschedulable";
    if (codec_json_bool(n->node, false, "spec", "unschedulable", NULL) &&
        !tolerates(pod, unschedulable, "", "NoSchedule")) {
        add_reason(reasons, "node(s) were unschedulable");
        return false;
    }
    GS_AUTO_FREE char *taint = untolerated(pod, n->node);
    if (taint) {
        add_reason(reasons, taint);
        return false;
    }
    if (!controllers_filter_selects(pod, n->node)) {
        add_reason(reasons, CONTROLLERS_FILTER_NOT_SELECTED);
        return false;
    }
    return has_room(n, requests, reasons);
}

char *controllers_filter_message(size_t n_nodes, const json_t *reasons)
{
    if (n_nodes == 0)
        return gs_strdup("no nodes available to schedule pods");
    size_t n = json_object_size(reasons), i = 0;
    GS_AUTO_FREE char **texts = gs_alloc_array(n + 1, sizeof(char *));
    const char *reason;
    json_t *count;
    json_object_foreach ((json_t *)reasons, reason, count)
        texts[i++] = gs_format("%lld %s", (long long)json_integer_value(count), reason);
    qsort(texts, n, sizeof(char *), gs_compare_texts);
    struct gs_buf out = {0};
    gs_buf_addf(&out, "0/%zu nodes are available: ", n_nodes);
    for (i = 0; i < n; i++) {
        gs_buf_addf(&out, "%s%s", i ? ", " : "", texts[i]);
        free(texts[i]);
    }
    gs_buf_add_char(&out, '.');
    return gs_buf_take(&out);
}
