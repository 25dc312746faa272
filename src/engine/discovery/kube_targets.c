// SPDX-License-Identifier: Apache-2.0
// The targets of one Kubernetes object for each role, with the labels of Prometheus'
// discovery/kubernetes package. A pure function of the object and of the objects that the lookup
// finds.
#include "engine/discovery/discovery_private.h"

#include "base/mem.h"
#include "kube/object.h"

#define META "__meta_kubernetes_"

struct target {
    struct discovery_labels labels;
    struct target *next;
};

// A container port that an endpoint of the group refers to.
struct covered {
    const json_t *pod;
    int64_t port;
    struct covered *next;
};

struct build {
    const struct discovery_kube_lookup *lookup;
    struct gs_arena *arena;
    struct discovery_labels labels; // labels of the group
    struct target *first, **last;
    size_t n_targets;
    struct covered *covered; // in reverse order of the endpoints
};

struct kube_gvr discovery_kube_resource(enum engine_config_sd_role role)
{
    switch (role) {
    case ENGINE_CONFIG_SD_NODE:
        return KUBE_NODES;
    case ENGINE_CONFIG_SD_POD:
        return KUBE_PODS;
    case ENGINE_CONFIG_SD_SERVICE:
        return KUBE_SERVICES;
    case ENGINE_CONFIG_SD_ENDPOINTS:
        return KUBE_ENDPOINTS;
    case ENGINE_CONFIG_SD_ENDPOINTSLICE:
        return (struct kube_gvr){"discovery.k8s.io", "v1", "endpointslices"};
    case ENGINE_CONFIG_SD_INGRESS:
        break;
    }
    return (struct kube_gvr){"networking.k8s.io", "v1", "ingresses"};
}

static struct discovery_labels *add_target(struct build *b, const char *address)
{
    struct target *t = gs_arena_alloc(b->arena, sizeof(*t));
    t->labels.arena = b->arena;
    *b->last = t;
    b->last = &t->next;
    b->n_targets++;
    discovery_labels_add(&t->labels, "__address__", address);
    return &t->labels;
}

static const char *bool_text(const json_t *v)
{
    return json_is_boolean(v) ? (json_is_true(v) ? "true" : "false") : NULL;
}

static void add_int(struct discovery_labels *l, const char *name, int64_t v)
{
    discovery_labels_addf(l, name, "%lld", (long long)v);
}

// ns NULL: an object in no namespace. NULL: not found.
static const json_t *find(const struct build *b, enum discovery_kube_related kind, const char *ns,
                          const char *name)
{
    return name ? b->lookup->find(b->lookup->arg, kind, ns, name) : NULL;
}

static void attach_node(const struct build *b, struct discovery_labels *l, const char *name)
{
    const json_t *node = b->lookup->attach.node ? find(b, DISCOVERY_KUBE_NODE, NULL, name) : NULL;
    if (node)
        discovery_labels_add_meta(l, "node", node);
}

// The name of the object's namespace, and with attach_metadata its labels.
static void add_namespace_labels(struct build *b, const json_t *obj)
{
    const char *name = kube_namespace(obj);
    const json_t *ns =
        b->lookup->attach.namespace_ ? find(b, DISCOVERY_KUBE_NAMESPACE, NULL, name) : NULL;
    discovery_labels_add(&b->labels, META "namespace", name);
    if (ns)
        discovery_labels_add_maps(&b->labels, "namespace", ns);
}

// --- pods ---

static const char *pod_ready(const json_t *pod)
{
    const json_t *c = kube_condition(pod, "Ready");
    const char *status = c ? codec_json_str(c, "status", NULL) : NULL;
    if (gs_streq(status, "True"))
        return "true";
    return gs_streq(status, "False") ? "false" : "unknown";
}

// The name of the owner of a ReplicaSet or Job, if it is of this kind.
static const char *owner_of(const struct build *b, enum discovery_kube_related kind, const char *ns,
                            const char *name, const char *owner_kind)
{
    const json_t *obj = find(b, kind, ns, name), *owner = obj ? kube_controller_ref(obj) : NULL;
    if (!owner || !gs_streq(codec_json_str(owner, "kind", NULL), owner_kind))
        return NULL;
    return codec_json_str(owner, "name", NULL);
}

static void attach_owners(const struct build *b, struct discovery_labels *l, const json_t *pod,
                          const json_t *owner)
{
    const struct engine_config_attach *attach = &b->lookup->attach;
    const char *ns = kube_namespace(pod), *kind = codec_json_str(owner, "kind", NULL),
               *name = codec_json_str(owner, "name", NULL);
    bool of_job = gs_streq(kind, "Job");
    if (attach->deployment && gs_streq(kind, "ReplicaSet"))
        discovery_labels_add(l, META "pod_deployment_name",
                             owner_of(b, DISCOVERY_KUBE_REPLICASET, ns, name, "Deployment"));
    if (attach->job && of_job)
        discovery_labels_add(l, META "pod_job_name", name);
    if (attach->cronjob && of_job)
        discovery_labels_add(l, META "pod_cronjob_name",
                             owner_of(b, DISCOVERY_KUBE_JOB, ns, name, "CronJob"));
}

// A job for annotations builds the address from prometheus.io/port, so its label has the number on
// which the port listens.
static void move_annotated_port(struct discovery_labels *l, const json_t *pod)
{
    int port = kube_scrape_port(pod);
    if (!port || kube_port(pod, port) == port)
        return;
    for (size_t i = 0; i < l->len; i++)
        if (gs_slice_eq_str(l->items[i].name, META "pod_annotation_prometheus_io_port"))
            l->items[i].value = gs_slice_of(discovery_format(l->arena, "%d", kube_port(pod, port)));
}

static void add_pod_labels(const struct build *b, struct discovery_labels *l, const json_t *pod)
{
    discovery_labels_add(l, META "pod_ip", codec_json_str(pod, "status", "podIP", NULL));
    discovery_labels_add(l, META "pod_ready", pod_ready(pod));
    discovery_labels_add(l, META "pod_phase", kube_phase(pod));
    discovery_labels_add(l, META "pod_node_name", kube_pod_node(pod));
    discovery_labels_add(l, META "pod_host_ip", codec_json_str(pod, "status", "hostIP", NULL));
    discovery_labels_add(l, META "pod_uid", kube_uid(pod));
    discovery_labels_add_meta(l, "pod", pod);
    move_annotated_port(l, pod);
    const json_t *owner = kube_controller_ref(pod);
    if (owner) {
        discovery_labels_add(l, META "pod_controller_kind", codec_json_str(owner, "kind", NULL));
        discovery_labels_add(l, META "pod_controller_name", codec_json_str(owner, "name", NULL));
        attach_owners(b, l, pod, owner);
    }
}

// Iterates over init containers and containers of a pod in order. *i starts at 0.
static const json_t *next_container(const json_t *pod, size_t *i, bool *ret_init)
{
    const json_t *containers = codec_json_get(pod, "spec", "containers", NULL);
    size_t n = json_array_size(containers), at = (*i)++;
    *ret_init = at >= n;
    return at < n ? json_array_get(containers, at)
                  : json_array_get(codec_json_get(pod, "spec", "initContainers", NULL), at - n);
}

static const char *container_id(const json_t *pod, const char *name, bool init)
{
    const json_t *all = codec_json_get(pod, "status",
                                       init ? "initContainerStatuses" : "containerStatuses", NULL),
                 *s;
    size_t i;
    json_array_foreach ((json_t *)all, i, s) {
        if (gs_streq(codec_json_str(s, "name", NULL), name))
            return codec_json_str(s, "containerID", NULL);
    }
    return NULL;
}

static void add_container(struct discovery_labels *l, const json_t *container, bool init)
{
    discovery_labels_add(l, META "pod_container_name", codec_json_str(container, "name", NULL));
    discovery_labels_add(l, META "pod_container_image", codec_json_str(container, "image", NULL));
    discovery_labels_add(l, META "pod_container_init", init ? "true" : "false");
}

static int64_t container_port(const json_t *port)
{
    return codec_json_int(port, 0, "containerPort", NULL);
}

// The port number under which the pod's port is reachable.
static int64_t reached_port(const json_t *pod, const json_t *port)
{
    return kube_port(pod, (int)container_port(port));
}

static void add_port(struct discovery_labels *l, const json_t *port, const char *protocol)
{
    discovery_labels_add(l, META "pod_container_port_name", codec_json_str(port, "name", NULL));
    add_int(l, META "pod_container_port_number", container_port(port));
    discovery_labels_add(l, META "pod_container_port_protocol", protocol);
}

static void build_pod(struct build *b, const json_t *pod)
{
    const char *ip = codec_json_str(pod, "status", "podIP", NULL);
    if (!ip || !*ip) // the pod is starting or was evicted
        return;
    add_pod_labels(b, &b->labels, pod);
    add_namespace_labels(b, pod);
    attach_node(b, &b->labels, kube_pod_node(pod));
    const json_t *container;
    bool init;
    for (size_t i = 0; (container = next_container(pod, &i, &init));) {
        const char *id = container_id(pod, codec_json_str(container, "name", NULL), init);
        const json_t *ports = codec_json_get(container, "ports", NULL), *port;
        if (!json_array_size(ports)) { // users add a port to the address by relabeling
            struct discovery_labels *l = add_target(b, ip);
            add_container(l, container, init);
            discovery_labels_add(l, META "pod_container_id", id);
        }
        size_t p;
        json_array_foreach ((json_t *)ports, p, port) {
            struct discovery_labels *l =
                add_target(b, discovery_join_host_port(b->arena, ip, reached_port(pod, port)));
            add_container(l, container, init);
            discovery_labels_add(l, META "pod_container_id", id);
            add_port(l, port, codec_json_str(port, "protocol", NULL));
        }
    }
}

// --- endpoints and endpoint slices ---

static void cover(struct build *b, const json_t *pod, int64_t port)
{
    struct covered *c = gs_arena_alloc(b->arena, sizeof(*c));
    *c = (struct covered){pod, port, b->covered};
    b->covered = c;
}

static const json_t *find_pod(const struct build *b, const json_t *ref)
{
    const char *name = codec_json_str(ref, "name", NULL),
               *ns = codec_json_str(ref, "namespace", NULL);
    if (!gs_streq(codec_json_str(ref, "kind", NULL), "Pod") || !ns)
        return NULL;
    return find(b, DISCOVERY_KUBE_POD, ns, name);
}

// Adds the labels of the endpoint's pod and of the container that has the port. port < 0: no port.
static void add_endpoint_pod(struct build *b, struct discovery_labels *l, const json_t *pod,
                             int64_t port)
{
    add_pod_labels(b, l, pod);
    const json_t *container;
    bool init;
    for (size_t i = 0; port >= 0 && (container = next_container(pod, &i, &init));) {
        const json_t *ports = codec_json_get(container, "ports", NULL), *p;
        size_t k;
        json_array_foreach ((json_t *)ports, k, p) {
            if (reached_port(pod, p) != port)
                continue;
            add_container(l, container, init);
            add_port(l, p, codec_json_str(p, "protocol", NULL));
            break;
        }
    }
    cover(b, pod, port);
}

static bool is_covered(const struct build *b, const json_t *pod, int64_t port)
{
    for (const struct covered *c = b->covered; c; c = c->next)
        if (c->pod == pod && c->port == port)
            return true;
    return false;
}

// Adds targets for ports of the group's pods that no endpoint refers to.
static void add_uncovered_ports(struct build *b)
{
    for (const struct covered *c = b->covered; c; c = c->next) {
        bool seen = false;
        for (const struct covered *d = c->next; d && !seen; d = d->next)
            seen = d->pod == c->pod;
        const char *ip = codec_json_str(c->pod, "status", "podIP", NULL);
        if (seen || !ip || !*ip)
            continue;
        const json_t *container;
        bool init;
        for (size_t i = 0; (container = next_container(c->pod, &i, &init));) {
            const json_t *ports = codec_json_get(container, "ports", NULL), *p;
            size_t k;
            json_array_foreach ((json_t *)ports, k, p) {
                int64_t port = reached_port(c->pod, p);
                if (is_covered(b, c->pod, port))
                    continue;
                struct discovery_labels *l =
                    add_target(b, discovery_join_host_port(b->arena, ip, port));
                add_container(l, container, init);
                add_port(l, p, codec_json_str(p, "protocol", NULL));
                add_pod_labels(b, l, c->pod);
            }
        }
    }
}

// Adds the labels of the service; returns it, or NULL.
static const json_t *add_service(struct build *b, const char *ns, const char *name)
{
    const json_t *svc = ns ? find(b, DISCOVERY_KUBE_SERVICE, ns, name) : NULL;
    if (svc)
        discovery_labels_add_meta(&b->labels, "service", svc);
    return svc;
}

static void add_address(struct build *b, const json_t *addr, const json_t *port, const char *ready)
{
    const char *ip = codec_json_str(addr, "ip", NULL),
               *node = codec_json_str(addr, "nodeName", NULL);
    const json_t *ref = codec_json_get(addr, "targetRef", NULL);
    int64_t number = codec_json_int(port, 0, "port", NULL);
    if (!ip)
        return;
    struct discovery_labels *l = add_target(b, discovery_join_host_port(b->arena, ip, number));
    discovery_labels_add(l, META "endpoint_port_name", codec_json_str(port, "name", NULL));
    discovery_labels_add(l, META "endpoint_port_protocol", codec_json_str(port, "protocol", NULL));
    discovery_labels_add(l, META "endpoint_ready", ready);
    discovery_labels_add(l, META "endpoint_address_target_kind", codec_json_str(ref, "kind", NULL));
    discovery_labels_add(l, META "endpoint_address_target_name", codec_json_str(ref, "name", NULL));
    discovery_labels_add(l, META "endpoint_node_name", node);
    discovery_labels_add(l, META "endpoint_hostname", codec_json_str(addr, "hostname", NULL));
    if (!node && gs_streq(codec_json_str(ref, "kind", NULL), "Node"))
        node = codec_json_str(ref, "name", NULL);
    attach_node(b, l, node);
    const json_t *pod = find_pod(b, ref);
    if (pod)
        add_endpoint_pod(b, l, pod, number);
}

static void build_endpoints(struct build *b, const json_t *obj)
{
    add_namespace_labels(b, obj);
    (void)add_service(b, kube_namespace(obj), kube_name(obj));
    discovery_labels_add_meta(&b->labels, "endpoints", obj);
    const json_t *subset, *port, *addr;
    size_t i, p, a;
    json_array_foreach (codec_json_get(obj, "subsets", NULL), i, subset) {
        json_array_foreach (codec_json_get(subset, "ports", NULL), p, port) {
            json_array_foreach (codec_json_get(subset, "addresses", NULL), a, addr) {
                add_address(b, addr, port, "true");
            }
            json_array_foreach (codec_json_get(subset, "notReadyAddresses", NULL), a, addr) {
                add_address(b, addr, port, "false");
            }
        }
    }
    add_uncovered_ports(b);
}

static void add_slice_conditions(struct discovery_labels *l, const json_t *ep)
{
    const json_t *c = codec_json_get(ep, "conditions", NULL);
    discovery_labels_add(l, META "endpointslice_endpoint_conditions_ready",
                         bool_text(json_object_get(c, "ready")));
    discovery_labels_add(l, META "endpointslice_endpoint_conditions_serving",
                         bool_text(json_object_get(c, "serving")));
    discovery_labels_add(l, META "endpointslice_endpoint_conditions_terminating",
                         bool_text(json_object_get(c, "terminating")));
}

static void add_slice_endpoint(struct build *b, const json_t *ep, const json_t *port,
                               const char *address)
{
    const json_t *number = json_object_get(port, "port"), *ref = json_object_get(ep, "targetRef");
    bool has_port = json_is_integer(number);
    int64_t value = has_port ? (int64_t)json_integer_value(number) : -1;
    const char *node = codec_json_str(ep, "nodeName", NULL);
    struct discovery_labels *l =
        add_target(b, has_port ? discovery_join_host_port(b->arena, address, value) : address);
    discovery_labels_add(l, META "endpointslice_port_name", codec_json_str(port, "name", NULL));
    discovery_labels_add(l, META "endpointslice_port_protocol",
                         codec_json_str(port, "protocol", NULL));
    if (has_port)
        add_int(l, META "endpointslice_port", value);
    discovery_labels_add(l, META "endpointslice_port_app_protocol",
                         codec_json_str(port, "appProtocol", NULL));
    add_slice_conditions(l, ep);
    discovery_labels_add(l, META "endpointslice_endpoint_hostname",
                         codec_json_str(ep, "hostname", NULL));
    discovery_labels_add(l, META "endpointslice_address_target_kind",
                         codec_json_str(ref, "kind", NULL));
    discovery_labels_add(l, META "endpointslice_address_target_name",
                         codec_json_str(ref, "name", NULL));
    discovery_labels_add(l, META "endpointslice_endpoint_node_name", node);
    discovery_labels_add(l, META "endpointslice_endpoint_zone", codec_json_str(ep, "zone", NULL));
    discovery_labels_add_map(l, "endpointslice_endpoint_topology", NULL,
                             json_object_get(ep, "deprecatedTopology"));
    discovery_labels_add_map(l, "endpointslice_endpoint_topology_present", "true",
                             json_object_get(ep, "deprecatedTopology"));
    bool is_node = gs_streq(codec_json_str(ref, "kind", NULL), "Node");
    attach_node(b, l, is_node ? codec_json_str(ref, "name", NULL) : node);
    const json_t *pod = find_pod(b, ref);
    if (pod)
        add_endpoint_pod(b, l, pod, value);
}

// Whether the targets of a slice are also in the slice of the first address family of a dual-stack
// service.
static bool is_second_family(const json_t *svc, const json_t *slice)
{
    const char *policy = svc ? codec_json_str(svc, "spec", "ipFamilyPolicy", NULL) : NULL;
    const char *first = json_string_value(
        json_array_get(svc ? codec_json_get(svc, "spec", "ipFamilies", NULL) : NULL, 0));
    bool dual = gs_streq(policy, "PreferDualStack") || gs_streq(policy, "RequireDualStack");
    return dual && first && !gs_streq(codec_json_str(slice, "addressType", NULL), first);
}

static void build_endpointslice(struct build *b, const json_t *obj)
{
    add_namespace_labels(b, obj);
    discovery_labels_add(&b->labels, META "endpointslice_address_type",
                         codec_json_str(obj, "addressType", NULL));
    discovery_labels_add_meta(&b->labels, "endpointslice", obj);
    const json_t *svc =
        add_service(b, kube_namespace(obj), kube_label(obj, "kubernetes.io/service-name"));
    if (is_second_family(svc, obj))
        return;
    const json_t *ep, *port, *address;
    size_t i, p, a;
    json_array_foreach (codec_json_get(obj, "endpoints", NULL), i, ep) {
        json_array_foreach (codec_json_get(obj, "ports", NULL), p, port) {
            json_array_foreach (codec_json_get(ep, "addresses", NULL), a, address) {
                if (json_is_string(address))
                    add_slice_endpoint(b, ep, port, json_string_value(address));
            }
        }
    }
    add_uncovered_ports(b);
}

// --- services, nodes, ingresses ---

// The addresses of the load balancer, with commas.
static const char *load_balancer_ips(struct build *b, const json_t *svc)
{
    const char *all = NULL;
    const json_t *ingress;
    size_t i;
    json_array_foreach (codec_json_get(svc, "status", "loadBalancer", "ingress", NULL), i,
                        ingress) {
        const char *ip = codec_json_str(ingress, "ip", NULL);
        if (ip && *ip)
            all = all ? discovery_format(b->arena, "%s,%s", all, ip) : ip;
    }
    return all ? all : codec_json_str(svc, "spec", "loadBalancerIP", NULL);
}

static void build_service(struct build *b, const json_t *svc)
{
    const char *type = codec_json_str(svc, "spec", "type", NULL);
    bool external = gs_streq(type, "ExternalName");
    add_namespace_labels(b, svc);
    discovery_labels_add_meta(&b->labels, "service", svc);
    const char *host = discovery_format(b->arena, "%s.%s.svc", kube_name(svc), kube_namespace(svc));
    const json_t *port;
    size_t i;
    json_array_foreach (codec_json_get(svc, "spec", "ports", NULL), i, port) {
        int64_t number = codec_json_int(port, 0, "port", NULL);
        struct discovery_labels *l =
            add_target(b, discovery_join_host_port(b->arena, host, number));
        discovery_labels_add(l, META "service_port_name", codec_json_str(port, "name", NULL));
        add_int(l, META "service_port_number", number);
        discovery_labels_add(l, META "service_port_protocol",
                             codec_json_str(port, "protocol", NULL));
        discovery_labels_add(l, META "service_type", type);
        if (external)
            discovery_labels_add(l, META "service_external_name",
                                 codec_json_str(svc, "spec", "externalName", NULL));
        else
            discovery_labels_add(l, META "service_cluster_ip",
                                 codec_json_str(svc, "spec", "clusterIP", NULL));
        if (gs_streq(type, "LoadBalancer"))
            discovery_labels_add(l, META "service_loadbalancer_ip", load_balancer_ips(b, svc));
    }
}

static const char *address_of_type(const json_t *node, const char *type)
{
    const json_t *a;
    size_t i;
    json_array_foreach (codec_json_get(node, "status", "addresses", NULL), i, a) {
        if (gs_streq(codec_json_str(a, "type", NULL), type))
            return codec_json_str(a, "address", NULL);
    }
    return NULL;
}

// ready="true", diskpressure="false" …
static void add_node_conditions(struct build *b, const json_t *node)
{
    const json_t *c;
    size_t i;
    json_array_foreach (codec_json_get(node, "status", "conditions", NULL), i, c) {
        const char *type = codec_json_str(c, "type", NULL),
                   *status = codec_json_str(c, "status", NULL);
        if (type && status)
            discovery_labels_add_lower(&b->labels, "node_condition", type, status);
    }
}

static void build_node(struct build *b, const json_t *node)
{
    static const char *const types[] = {"InternalIP",  "InternalDNS",  "ExternalIP",
                                        "ExternalDNS", "LegacyHostIP", "Hostname"};
    discovery_labels_add(&b->labels, META "node_provider_id",
                         codec_json_str(node, "spec", "providerID", NULL));
    add_node_conditions(b, node);
    discovery_labels_add_meta(&b->labels, "node", node);
    const char *host = NULL;
    for (size_t i = 0; i < GS_ARRAY_LEN(types) && !host; i++)
        host = address_of_type(node, types[i]);
    if (!host)
        return;
    int64_t port =
        codec_json_int(node, 0, "status", "daemonEndpoints", "kubeletEndpoint", "Port", NULL);
    struct discovery_labels *l = add_target(b, discovery_join_host_port(b->arena, host, port));
    discovery_labels_add(l, "instance", kube_name(node));
    for (size_t i = 0; i < GS_ARRAY_LEN(types); i++)
        discovery_labels_add(l, discovery_format(b->arena, META "node_address_%s", types[i]),
                             address_of_type(node, types[i]));
}

// "*.example.org" matches names with one more label.
static bool host_matches(const char *pattern, const char *host)
{
    if (gs_streq(pattern, host))
        return true;
    const char *dot = host ? strchr(host, '.') : NULL;
    return gs_starts(pattern, "*.") && dot && gs_streq(pattern + 1, dot);
}

static bool has_tls(const json_t *ingress, const char *host)
{
    const json_t *tls, *name;
    size_t i, k;
    json_array_foreach (codec_json_get(ingress, "spec", "tls", NULL), i, tls) {
        json_array_foreach (codec_json_get(tls, "hosts", NULL), k, name) {
            if (host_matches(json_string_value(name), host))
                return true;
        }
    }
    return false;
}

static void add_ingress_path(struct build *b, const json_t *ingress, const char *host,
                             const char *path)
{
    struct discovery_labels *l = add_target(b, host);
    discovery_labels_add(l, META "ingress_scheme", has_tls(ingress, host) ? "https" : "http");
    discovery_labels_add(l, META "ingress_host", host);
    discovery_labels_add(l, META "ingress_path", path && *path ? path : "/");
}

static void build_ingress(struct build *b, const json_t *obj)
{
    add_namespace_labels(b, obj);
    discovery_labels_add(&b->labels, META "ingress_class_name",
                         codec_json_str(obj, "spec", "ingressClassName", NULL));
    discovery_labels_add_meta(&b->labels, "ingress", obj);
    const json_t *rule, *path;
    size_t i, p;
    json_array_foreach (codec_json_get(obj, "spec", "rules", NULL), i, rule) {
        const char *host = codec_json_str(rule, "host", NULL);
        const json_t *paths = codec_json_get(rule, "http", "paths", NULL);
        if (!json_is_object(json_object_get(rule, "http")))
            add_ingress_path(b, obj, host, "/");
        json_array_foreach ((json_t *)paths, p, path) {
            add_ingress_path(b, obj, host, codec_json_str(path, "path", NULL));
        }
    }
}

// --- a group ---

static const struct {
    void (*build)(struct build *b, const json_t *obj);
    const char *source; // the prefix of "/namespace/name"
} roles[] = {
    [ENGINE_CONFIG_SD_NODE] = {build_node, "node"},
    [ENGINE_CONFIG_SD_POD] = {build_pod, "pod"},
    [ENGINE_CONFIG_SD_SERVICE] = {build_service, "svc"},
    [ENGINE_CONFIG_SD_ENDPOINTS] = {build_endpoints, "endpoints"},
    [ENGINE_CONFIG_SD_ENDPOINTSLICE] = {build_endpointslice, "endpointslice"},
    [ENGINE_CONFIG_SD_INGRESS] = {build_ingress, "ingress"},
};

void discovery_kube_build(enum engine_config_sd_role role, const json_t *obj,
                          const struct discovery_kube_lookup *lookup, struct gs_arena *arena,
                          struct discovery_group *ret)
{
    struct build b = {.lookup = lookup, .arena = arena, .labels.arena = arena};
    b.last = &b.first;
    roles[role].build(&b, obj);
    GS_AUTO_FREE char *key = kube_key(obj);
    const struct metrics_label **targets =
        gs_arena_alloc(arena, (b.n_targets + 1) * sizeof(*targets));
    size_t *counts = gs_arena_alloc(arena, (b.n_targets + 1) * sizeof(*counts)), n = 0;
    for (const struct target *t = b.first; t; t = t->next, n++) {
        targets[n] = t->labels.items;
        counts[n] = t->labels.len;
    }
    *ret = (struct discovery_group){
        .source = discovery_format(arena, "%s/%s", roles[role].source, key),
        .labels = b.labels.items,
        .n_labels = b.labels.len,
        .targets = targets,
        .n_target_labels = counts,
        .n_targets = n,
    };
}
