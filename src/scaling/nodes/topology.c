// SPDX-License-Identifier: Apache-2.0
// Rules between pods: topology spread constraints (DoNotSchedule), required affinity and
// anti-affinity. Each term has a counter of pods by domain, which placements keep up to date. The
// counters of a form are filled when a pod of this form is first checked. Those of anti-affinity
// terms also count the pods that have the term (`holders`), because these refuse other pods.
#include "base/mem.h"
#include "kube/object.h"
#include "kube/selector.h"
#include "nodes/nodes_private.h"

#define NO_DOMAIN UINT32_MAX
#define SPREAD    "node(s) didn't match pod topology spread constraints"

// --- topology keys: the domain of each node ---

struct topology_key {
    char *label;
    struct nodes_names values;
    uint32_t *domains; // by node; NO_DOMAIN: the node lacks the label
    size_t cap;
};

struct counts {
    uint32_t *items; // by domain
    size_t cap;
};

enum term_kind { TERM_SPREAD, TERM_AFFINITY, TERM_ANTI };

struct term {
    enum term_kind kind;
    uint32_t key;
    struct kube_selector selector;
    const json_t *namespaces;         // a list; NULL: the pod's own
    struct kube_selector ns_selector; // of names of namespaces
    bool has_ns_selector, matches_self;
    int64_t max_skew, min_domains;      // TERM_SPREAD
    bool honor_taints, ignore_affinity; // TERM_SPREAD
    struct counts pods, holders;
    uint64_t n_pods;
    struct counts eligible; // TERM_SPREAD: nodes that count, by domain
    uint32_t least;         // TERM_SPREAD: of the domains
    size_t n_domains;
    bool stale; // least and n_domains
};

struct nodes_rules {
    const char *ns;
    const json_t *pod; // of this form
    struct term *terms;
    size_t n_terms, cap;
    bool active;
    bool *eligible; // TERM_SPREAD: by node
    size_t eligible_cap;
};

struct nodes_topology {
    struct topology_key *keys;
    size_t n_keys, keys_cap;
    struct nodes_rules **rules;
    size_t n_rules, rules_cap;
    size_t n_anti; // terms
    // Anti-affinity terms of placed pods that match this pod.
    size_t last_pod, last_anti;
    struct term **against;
    size_t n_against, against_cap;
};

static uint32_t *count_at(struct counts *c, uint32_t domain)
{
    while (c->cap <= domain) {
        size_t before = c->cap;
        gs_grow(&c->items, &c->cap, before, sizeof(*c->items));
        memset(c->items + before, 0, (c->cap - before) * sizeof(*c->items));
    }
    return &c->items[domain];
}

static uint32_t count_of(const struct counts *c, uint32_t domain)
{
    return domain < c->cap ? c->items[domain] : 0;
}

static void set_domain(struct topology_key *k, const struct nodes_snapshot *s, size_t node)
{
    while (k->cap <= node)
        gs_grow(&k->domains, &k->cap, k->cap, sizeof(*k->domains));
    const char *value = kube_label(s->nodes[node].object, k->label);
    k->domains[node] = value ? nodes_intern(&k->values, gs_slice_of(value)) : NO_DOMAIN;
}

static uint32_t key_number(struct nodes_snapshot *s, const char *label)
{
    struct nodes_topology *t = s->topology;
    for (size_t i = 0; i < t->n_keys; i++)
        if (gs_streq(t->keys[i].label, label))
            return (uint32_t)i;
    gs_grow(&t->keys, &t->keys_cap, t->n_keys, sizeof(*t->keys));
    struct topology_key *k = &t->keys[t->n_keys];
    *k = (struct topology_key){.label = gs_strdup(label)};
    for (size_t i = 0; i < s->n_nodes; i++)
        set_domain(k, s, i);
    return (uint32_t)t->n_keys++;
}

static uint32_t domain_of(const struct nodes_snapshot *s, const struct term *t, size_t node)
{
    return s->topology->keys[t->key].domains[node];
}

// --- reading the rules of a pod ---

// Values of the pod's own labels narrow the selector.
static void add_label_keys(struct kube_selector *sel, const json_t *keys, const json_t *pod,
                           enum kube_selector_op op)
{
    size_t i;
    json_t *key;
    json_array_foreach ((json_t *)keys, i, key) {
        const char *name = json_string_value(key), *value = name ? kube_label(pod, name) : NULL;
        if (!value)
            continue;
        gs_grow(&sel->items, &sel->cap, sel->len, sizeof(*sel->items));
        struct kube_requirement *r = &sel->items[sel->len++];
        *r = (struct kube_requirement){.key = gs_strdup(name), .op = op, .n_values = 1};
        r->values = gs_alloc_array(1, sizeof(char *));
        r->values[0] = gs_strdup(value);
    }
}

static void read_selector(const json_t *json, struct kube_selector *ret)
{
    struct gs_error *err = kube_selector_from_json(json, ret);
    if (err)
        *ret = (struct kube_selector){.nothing = true};
    gs_error_free(err);
}

static bool ns_matches(const struct term *t, const char *own, const char *ns)
{
    if (codec_json_has_string(t->namespaces, ns))
        return true;
    if (!t->has_ns_selector)
        return !json_array_size(t->namespaces) && gs_streq(own, ns);
    CODEC_AUTO_JSON json_t *labels = json_object();
    codec_json_set_str(labels, "kubernetes.io/metadata.name", ns);
    return kube_selector_matches(&t->ns_selector, labels);
}

static bool term_matches(const struct term *t, const char *own_ns, const json_t *pod)
{
    const char *ns = kube_namespace(pod);
    return ns_matches(t, own_ns, ns ? ns : "") &&
           kube_selector_matches(&t->selector, codec_json_get(pod, "metadata", "labels", NULL));
}

static struct term *add_term(struct nodes_snapshot *s, struct nodes_rules *r, enum term_kind kind,
                             const json_t *json)
{
    gs_grow(&r->terms, &r->cap, r->n_terms, sizeof(*r->terms));
    struct term *t = &r->terms[r->n_terms++];
    *t = (struct term){.kind = kind, .stale = true};
    const char *label = codec_json_str(json, "topologyKey", NULL);
    t->key = key_number(s, label ? label : "");
    read_selector(json_object_get(json, "labelSelector"), &t->selector);
    add_label_keys(&t->selector, json_object_get(json, "matchLabelKeys"), r->pod, KUBE_SEL_EQ);
    if (kind != TERM_SPREAD) {
        add_label_keys(&t->selector, json_object_get(json, "mismatchLabelKeys"), r->pod,
                       KUBE_SEL_NEQ);
        t->namespaces = json_object_get(json, "namespaces");
        const json_t *selector = json_object_get(json, "namespaceSelector");
        t->has_ns_selector = json_is_object(selector);
        if (t->has_ns_selector)
            read_selector(selector, &t->ns_selector);
    }
    t->matches_self = term_matches(t, r->ns, r->pod);
    return t;
}

static void read_spread(struct nodes_snapshot *s, struct nodes_rules *r, const json_t *list)
{
    size_t i;
    json_t *c;
    json_array_foreach ((json_t *)list, i, c) {
        if (!gs_streq(codec_json_str(c, "whenUnsatisfiable", NULL), "DoNotSchedule"))
            continue;
        struct term *t = add_term(s, r, TERM_SPREAD, c);
        t->max_skew = codec_json_int(c, 1, "maxSkew", NULL);
        t->min_domains = codec_json_int(c, 1, "minDomains", NULL);
        t->honor_taints = gs_streq(codec_json_str(c, "nodeTaintsPolicy", NULL), "Honor");
        t->ignore_affinity = gs_streq(codec_json_str(c, "nodeAffinityPolicy", NULL), "Ignore");
    }
}

static void read_terms(struct nodes_snapshot *s, struct nodes_rules *r, enum term_kind kind,
                       const json_t *list)
{
    size_t i;
    json_t *term;
    json_array_foreach ((json_t *)list, i, term) {
        add_term(s, r, kind, term);
        s->topology->n_anti += kind == TERM_ANTI;
    }
}

struct nodes_rules *nodes_rules_new(struct nodes_snapshot *s, const json_t *pod)
{
    const json_t *spread = codec_json_get(pod, "spec", "topologySpreadConstraints", NULL);
    const json_t *affinity = codec_json_get(pod, "spec", "affinity", NULL);
    const json_t *with = codec_json_get(affinity, "podAffinity",
                                        "requiredDuringSchedulingIgnoredDuringExecution", NULL);
    const json_t *against = codec_json_get(affinity, "podAntiAffinity",
                                           "requiredDuringSchedulingIgnoredDuringExecution", NULL);
    if (!json_array_size(spread) && !json_array_size(with) && !json_array_size(against))
        return NULL;
    if (!s->topology) {
        s->topology = gs_alloc(sizeof(*s->topology));
        s->topology->last_pod = NODES_NONE;
    }
    struct nodes_rules *r = gs_alloc(sizeof(*r));
    const char *ns = kube_namespace(pod);
    r->ns = ns ? ns : "";
    r->pod = pod;
    read_spread(s, r, spread);
    read_terms(s, r, TERM_AFFINITY, with);
    read_terms(s, r, TERM_ANTI, against);
    struct nodes_topology *t = s->topology;
    gs_grow(&t->rules, &t->rules_cap, t->n_rules, sizeof(struct nodes_rules *));
    t->rules[t->n_rules++] = r;
    return r;
}

void nodes_rules_free(struct nodes_rules *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_terms; i++) {
        struct term *t = &r->terms[i];
        kube_selector_finish(&t->selector);
        kube_selector_finish(&t->ns_selector);
        free(t->pods.items);
        free(t->holders.items);
        free(t->eligible.items);
    }
    free(r->terms);
    free(r->eligible);
    free(r);
}

void nodes_topology_free(struct nodes_topology *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_keys; i++) {
        free(t->keys[i].label);
        free(t->keys[i].domains);
        nodes_names_clear(&t->keys[i].values);
    }
    free(t->keys);
    free(t->rules);
    free(t->against);
    free(t);
}

// --- counting ---

static bool is_eligible(const struct nodes_snapshot *s, const struct nodes_rules *r,
                        const struct term *t, size_t node)
{
    const json_t *object = s->nodes[node].object;
    if (s->nodes[node].excluded || domain_of(s, t, node) == NO_DOMAIN)
        return false;
    if (!t->ignore_affinity && !nodes_selects(r->pod, object))
        return false;
    if (!t->honor_taints)
        return true;
    GS_AUTO_FREE char *taint = nodes_untolerated_taint(r->pod, object, false);
    return !taint;
}

// A node counts for all spread constraints of a pod or for none.
static bool node_counts(const struct nodes_snapshot *s, const struct nodes_rules *r, size_t node)
{
    bool any = false;
    for (size_t i = 0; i < r->n_terms; i++) {
        if (r->terms[i].kind != TERM_SPREAD)
            continue;
        any = true;
        if (!is_eligible(s, r, &r->terms[i], node))
            return false;
    }
    return any;
}

static void count_node(struct nodes_snapshot *s, struct nodes_rules *r, size_t node, int sign)
{
    while (r->eligible_cap <= node) {
        size_t before = r->eligible_cap;
        gs_grow(&r->eligible, &r->eligible_cap, before, sizeof(bool));
        memset(r->eligible + before, 0, r->eligible_cap - before);
    }
    bool counts = sign > 0 ? node_counts(s, r, node) : r->eligible[node];
    r->eligible[node] = sign > 0 && counts;
    for (size_t i = 0; i < r->n_terms && counts; i++) {
        struct term *t = &r->terms[i];
        if (t->kind != TERM_SPREAD)
            continue;
        *count_at(&t->eligible, domain_of(s, t, node)) += (uint32_t)sign;
        t->stale = true;
    }
}

static bool matches_all_affinity(const struct nodes_rules *r, const json_t *pod)
{
    for (size_t i = 0; i < r->n_terms; i++)
        if (r->terms[i].kind == TERM_AFFINITY && !term_matches(&r->terms[i], r->ns, pod))
            return false;
    return true;
}

static void count_pod(struct nodes_snapshot *s, struct nodes_rules *r, const json_t *pod,
                      size_t node, int sign)
{
    for (size_t i = 0; i < r->n_terms; i++) {
        struct term *t = &r->terms[i];
        uint32_t domain = domain_of(s, t, node);
        if (domain == NO_DOMAIN)
            continue;
        bool counts =
            t->kind == TERM_AFFINITY ? matches_all_affinity(r, pod) : term_matches(t, r->ns, pod);
        if (t->kind == TERM_SPREAD)
            counts = counts && r->eligible[node] && !kube_is_deleting(pod);
        if (!counts)
            continue;
        *count_at(&t->pods, domain) += (uint32_t)sign;
        t->n_pods += (uint64_t)(int64_t)sign;
        t->stale = true;
    }
}

static void activate(struct nodes_snapshot *s, struct nodes_rules *r)
{
    if (r->active)
        return;
    r->active = true;
    for (size_t i = 0; i < s->n_nodes; i++)
        count_node(s, r, i, 1);
    for (size_t i = 0; i < s->n_pods; i++)
        if (s->pods[i].node != UINT32_MAX)
            count_pod(s, r, s->pods[i].object, s->pods[i].node, 1);
}

// Pods that a node has when it stops counting stay in the counters of affinity only.
static void count_node_pods(struct nodes_snapshot *s, struct nodes_rules *r, size_t node, int sign)
{
    for (size_t i = 0; i < s->n_pods && s->nodes[node].n_pods; i++) {
        if (s->pods[i].node != node || kube_is_deleting(s->pods[i].object))
            continue;
        for (size_t k = 0; k < r->n_terms; k++) {
            struct term *t = &r->terms[k];
            if (t->kind == TERM_SPREAD && term_matches(t, r->ns, s->pods[i].object)) {
                *count_at(&t->pods, domain_of(s, t, node)) += (uint32_t)sign;
                t->n_pods += (uint64_t)(int64_t)sign;
            }
        }
    }
}

void nodes_topology_add_node(struct nodes_snapshot *s, size_t node)
{
    struct nodes_topology *t = s->topology;
    for (size_t i = 0; t && i < t->n_keys; i++)
        set_domain(&t->keys[i], s, node);
    for (size_t i = 0; t && i < t->n_rules; i++) {
        struct nodes_rules *r = t->rules[i];
        if (!r->active)
            continue;
        count_node(s, r, node, 1);
        if (r->eligible[node])
            count_node_pods(s, r, node, 1);
    }
}

void nodes_topology_drop_node(struct nodes_snapshot *s, size_t node)
{
    struct nodes_topology *t = s->topology;
    for (size_t i = 0; t && i < t->n_rules; i++) {
        struct nodes_rules *r = t->rules[i];
        if (!r->active)
            continue;
        if (r->eligible[node])
            count_node_pods(s, r, node, -1);
        count_node(s, r, node, -1);
    }
}

void nodes_topology_count(struct nodes_snapshot *s, size_t pod, size_t node, int sign)
{
    struct nodes_topology *t = s->topology;
    if (!t)
        return;
    struct nodes_rules *own = s->forms[s->pods[pod].form]->rules;
    for (size_t i = 0; own && i < own->n_terms; i++) {
        uint32_t domain = domain_of(s, &own->terms[i], node);
        if (own->terms[i].kind == TERM_ANTI && domain != NO_DOMAIN)
            *count_at(&own->terms[i].holders, domain) += (uint32_t)sign;
    }
    for (size_t i = 0; i < t->n_rules; i++)
        if (t->rules[i]->active)
            count_pod(s, t->rules[i], s->pods[pod].object, node, sign);
}

// --- the filters ---

static void find_least(struct term *t)
{
    t->stale = false;
    t->n_domains = 0;
    t->least = 0;
    for (uint32_t i = 0; i < t->eligible.cap; i++) {
        if (!t->eligible.items[i])
            continue;
        uint32_t n = count_of(&t->pods, i);
        if (!t->n_domains || n < t->least)
            t->least = n;
        t->n_domains++;
    }
    if ((int64_t)t->n_domains < t->min_domains)
        t->least = 0;
}

static const char *spread_reason(const struct nodes_snapshot *s, struct nodes_rules *r, size_t node)
{
    for (size_t i = 0; i < r->n_terms; i++) {
        struct term *t = &r->terms[i];
        if (t->kind != TERM_SPREAD)
            continue;
        uint32_t domain = domain_of(s, t, node);
        if (domain == NO_DOMAIN)
            return SPREAD " (missing required label)";
        if (t->stale)
            find_least(t);
        int64_t skew = (int64_t)count_of(&t->pods, domain) + t->matches_self - (int64_t)t->least;
        if (skew > t->max_skew)
            return SPREAD;
    }
    return NULL;
}

static bool affinity_holds(const struct nodes_snapshot *s, const struct nodes_rules *r, size_t node)
{
    bool all = true, none_anywhere = true;
    for (size_t i = 0; i < r->n_terms; i++) {
        const struct term *t = &r->terms[i];
        if (t->kind != TERM_AFFINITY)
            continue;
        uint32_t domain = domain_of(s, t, node);
        if (domain == NO_DOMAIN)
            return false;
        all = all && count_of(&t->pods, domain) > 0;
        none_anywhere = none_anywhere && t->n_pods == 0;
    }
    // The first pod of a group that has affinity to itself.
    return all || (none_anywhere && matches_all_affinity(r, r->pod));
}

static bool anti_affinity_holds(const struct nodes_snapshot *s, const struct nodes_rules *r,
                                size_t node)
{
    for (size_t i = 0; i < r->n_terms; i++) {
        const struct term *t = &r->terms[i];
        uint32_t domain = domain_of(s, t, node);
        if (t->kind == TERM_ANTI && domain != NO_DOMAIN && count_of(&t->pods, domain) > 0)
            return false;
    }
    return true;
}

static void find_against(const struct nodes_snapshot *s, size_t pod)
{
    struct nodes_topology *t = s->topology;
    if (t->last_pod == pod && t->last_anti == t->n_anti)
        return;
    t->last_pod = pod;
    t->last_anti = t->n_anti;
    t->n_against = 0;
    for (size_t i = 0; i < t->n_rules; i++) {
        struct nodes_rules *r = t->rules[i];
        for (size_t k = 0; k < r->n_terms; k++) {
            if (r->terms[k].kind != TERM_ANTI ||
                !term_matches(&r->terms[k], r->ns, s->pods[pod].object))
                continue;
            gs_grow(&t->against, &t->against_cap, t->n_against, sizeof(struct term *));
            t->against[t->n_against++] = &r->terms[k];
        }
    }
}

static bool others_allow(const struct nodes_snapshot *s, size_t pod, size_t node)
{
    struct nodes_topology *t = s->topology;
    if (!t->n_anti)
        return true;
    find_against(s, pod);
    for (size_t i = 0; i < t->n_against; i++) {
        uint32_t domain = domain_of(s, t->against[i], node);
        if (domain != NO_DOMAIN && count_of(&t->against[i]->holders, domain) > 0)
            return false;
    }
    return true;
}

const char *nodes_topology_reason(struct nodes_snapshot *s, size_t pod, size_t node)
{
    if (!s->topology)
        return NULL;
    struct nodes_rules *r = s->forms[s->pods[pod].form]->rules;
    if (r) {
        activate(s, r);
        const char *reason = spread_reason(s, r, node);
        if (reason)
            return reason;
        if (!affinity_holds(s, r, node))
            return "node(s) didn't match pod affinity rules";
        if (!anti_affinity_holds(s, r, node))
            return "node(s) didn't match pod anti-affinity rules";
    }
    return others_allow(s, pod, node) ? NULL
                                      : "node(s) didn't satisfy existing pods anti-affinity rules";
}
