// SPDX-License-Identifier: Apache-2.0
// What Prometheus and Alertmanager objects have in common when they become StatefulSets, and how
// the made objects are written: an annotation has the hash of what made an object, so that defaults
// of the API are not taken for changes.
#include "local/operator/operator_private.h"

#include "base/mem.h"
#include "codec/encoding.h"
#include "kube/names.h"
#include "kube/object.h"

#define MAX_REPLICAS  100
#define RELOADER_PORT 8080
#define OUTPUT_VOLUME "config-out"
#define CONFIG_VOLUME "config"
#define GRACE_SECONDS 600 // of prometheus-operator

static const json_t *spec_of(const struct operator_set *s)
{
    return json_object_get(s->obj, "spec");
}

const char *operator_text(const json_t *obj, const char *key, const char *fallback)
{
    const char *text = codec_json_str(obj, key, NULL);
    return text && *text ? text : fallback;
}

char *operator_set_name(const struct operator_set *s)
{
    return gs_format("%s-%s", s->app, kube_name(s->obj));
}

int64_t operator_replicas(const json_t *obj)
{
    int64_t n = codec_json_int(obj, 1, "spec", "replicas", NULL);
    return n < 0 ? 0 : n > MAX_REPLICAS ? MAX_REPLICAS : n;
}

// --- names, labels ---

// "v3.5.0" of the spec, else of the image's tag.
static const char *version_of(const struct operator_set *s)
{
    const char *image = operator_text(spec_of(s), "image", NULL),
               *slash = image ? strrchr(image, '/') : NULL;
    const char *tag = image ? strchr(slash ? slash : image, ':') : NULL;
    const char *of_image = tag && !strchr(tag, '@') ? tag + 1 : s->version;
    return operator_text(spec_of(s), "version", of_image);
}

static char *image_of(const struct operator_set *s)
{
    const char *image = operator_text(spec_of(s), "image", NULL);
    return image ? gs_strdup(image) : gs_format("%s:%s", s->repository, version_of(s));
}

json_t *operator_set_labels(const struct operator_set *s)
{
    const char *version = version_of(s);
    json_t *labels = json_object();
    json_t *own = codec_json_get(s->obj, "spec", "podMetadata", "labels", NULL);
    if (json_is_object(own))
        json_object_update(labels, own);
    codec_json_set_str(labels, "app.kubernetes.io/name", s->app);
    codec_json_set_str(labels, "app.kubernetes.io/instance", kube_name(s->obj));
    codec_json_set_str(labels, OPERATOR_MANAGED_BY, "prometheus-operator");
    version += *version == 'v';
    if (*version && kube_check_label_value(gs_slice_of(version), NULL))
        codec_json_set_str(labels, "app.kubernetes.io/version", version);
    codec_json_set_str(labels, s->app, kube_name(s->obj));
    return labels;
}

// The selector has no label that an update of the object may change.
static json_t *selector_of(const struct operator_set *s, const json_t *labels)
{
    json_t *selector = json_copy((json_t *)(uintptr_t)labels);
    json_t *own = codec_json_get(s->obj, "spec", "podMetadata", "labels", NULL);
    const char *key;
    json_t *value;
    json_object_foreach (own, key, value)
        if (!gs_starts(key, "app.kubernetes.io/") && !gs_streq(key, s->app) &&
            !gs_starts(key, "operator.prometheus.io/"))
            json_object_del(selector, key);
    json_object_del(selector, "app.kubernetes.io/version");
    return selector;
}

// --- containers ---

static json_t *probe(const char *path, const char *port, int period_s, int failures)
{
    return json_pack("{s:{s:s, s:s, s:s}, s:i, s:i, s:i}", "httpGet", "path", path, "port", port,
                     "scheme", "HTTP", "timeoutSeconds", 3, "periodSeconds", period_s,
                     "failureThreshold", failures);
}

// "/x" + "/-/ready"
static char *below(const json_t *spec, const char *path)
{
    const char *prefix = operator_text(spec, "routePrefix", "/");
    size_t len = strlen(prefix);
    while (len && prefix[len - 1] == '/')
        len--;
    return gs_format("%.*s%s", (int)len, prefix, path);
}

static void copy_members(const json_t *from, const char *const *keys, json_t *to)
{
    for (; *keys; keys++) {
        json_t *value = json_object_get(from, *keys);
        if (value && !json_is_null(value))
            json_object_set(to, *keys, value);
    }
}

static json_t *mounts_of(const struct operator_set *s)
{
    GS_AUTO_FREE char *output = gs_format("%s_out", s->config_dir);
    json_t *mounts = json_pack("[{s:s, s:s, s:b}, {s:s, s:s}, {s:s, s:s}]", "name", CONFIG_VOLUME,
                               "mountPath", s->config_dir, "readOnly", 1, "name", OUTPUT_VOLUME,
                               "mountPath", output, "name", "data", "mountPath", s->data_dir);
    json_array_extend(mounts, json_object_get(spec_of(s), "volumeMounts"));
    return mounts;
}

// Volumes of the Secrets and ConfigMaps that the spec lists, with their mounts in the container.
static void add_listed(const struct operator_set *s, const char *key, json_t *volumes,
                       json_t *mounts)
{
    bool secret = gs_streq(key, "secrets");
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(spec_of(s), key), i, item) {
        const char *of = json_string_value(item);
        if (!of)
            continue;
        GS_AUTO_FREE char *volume = gs_format("%s-%zu", secret ? "secret" : "configmap", i);
        GS_AUTO_FREE char *path = gs_format("/etc/%s/%s/%s", s->app, key, of);
        json_array_append_new(volumes, json_pack("{s:s, s:{s:s}}", "name", volume,
                                                 secret ? "secret" : "configMap",
                                                 secret ? "secretName" : "name", of));
        json_array_append_new(
            mounts, json_pack("{s:s, s:s, s:b}", "name", volume, "mountPath", path, "readOnly", 1));
    }
}

static json_t *main_container(const struct operator_set *s, json_t *args, json_t *mounts)
{
    static const char *const copied[] = {"resources", "imagePullPolicy", NULL};
    const json_t *spec = spec_of(s);
    const char *port = operator_text(spec, "portName", "web");
    GS_AUTO_FREE char *image = image_of(s);
    GS_AUTO_FREE char *ready = below(spec, "/-/ready"), *healthy = below(spec, "/-/healthy");
    json_t *c = json_pack("{s:s, s:s, s:o, s:[{s:s, s:I, s:s}], s:o}", "name", s->app, "image",
                          image, "args", args, "ports", "name", port, "containerPort",
                          (json_int_t)s->port, "protocol", "TCP", "volumeMounts", mounts);
    json_object_set_new(c, "startupProbe", probe(ready, port, 1, 900)); // of 15 minutes
    codec_json_set_int(json_object_get(c, "startupProbe"), "initialDelaySeconds", 1);
    json_object_set_new(c, "readinessProbe", probe(ready, port, 5, 3));
    json_object_set_new(c, "livenessProbe", probe(healthy, port, 5, 6));
    copy_members(spec, copied, c);
    return c;
}

static json_t *reloader(const struct operator_set *s, const char *name, int64_t port, bool once)
{
    GS_AUTO_FREE char *reload = below(spec_of(s), "/-/reload");
    json_t *args = json_array();
    json_array_append_new(args, codec_json_strf("--listen-address=:%lld", (long long)port));
    if (once)
        json_array_append_new(args, json_string("--watch-interval=0"));
    else
        json_array_append_new(args, codec_json_strf("--reload-url=http://127.0.0.1:%lld%s",
                                                    (long long)s->port, reload));
    json_array_append_new(args,
                          codec_json_strf("--config-file=%s/%s", s->config_dir, s->config_file));
    json_array_append_new(args, codec_json_strf("--watched-dir=%s", s->config_dir));
    json_t *c = json_pack("{s:s, s:s, s:o, s:[{s:s, s:{s:{s:s}}}], s:[{s:s, s:s, s:b}]}", "name",
                          name, "image", s->reloader, "args", args, "env", "name", "POD_NAME",
                          "valueFrom", "fieldRef", "fieldPath", "metadata.name", "volumeMounts",
                          "name", CONFIG_VOLUME, "mountPath", s->config_dir, "readOnly", 1);
    json_object_set_new(c, "ports",
                        json_pack("[{s:s, s:I, s:s}]", "name", "reloader-web", "containerPort",
                                  (json_int_t)port, "protocol", "TCP"));
    return c;
}

// Containers of the spec: new ones, and changes of those that have the same name.
static void merge_containers(json_t *list, const json_t *own)
{
    size_t i, k;
    json_t *item, *existing;
    json_array_foreach (own, i, item) {
        const char *name = codec_json_str(item, "name", NULL);
        bool found = false;
        json_array_foreach (list, k, existing)
            if (gs_streq(codec_json_str(existing, "name", NULL), name)) {
                json_object_update(existing, item);
                found = true;
            }
        if (!found && name)
            json_array_append(list, item);
    }
}

// --- the StatefulSet ---

static json_t *pod_spec(const struct operator_set *s, json_t *args)
{
    static const char *const copied[] = {"nodeSelector",
                                         "tolerations",
                                         "affinity",
                                         "topologySpreadConstraints",
                                         "serviceAccountName",
                                         "automountServiceAccountToken",
                                         "imagePullSecrets",
                                         "priorityClassName",
                                         "securityContext",
                                         "hostAliases",
                                         "dnsPolicy",
                                         "dnsConfig",
                                         NULL};
    const json_t *spec = spec_of(s);
    json_t *volumes = json_pack("[{s:s, s:{s:s}}, {s:s, s:{}}, {s:s, s:{}}]", "name", CONFIG_VOLUME,
                                "secret", "secretName", s->config_secret, "name", OUTPUT_VOLUME,
                                "emptyDir", "name", "data", "emptyDir");
    json_t *mounts = mounts_of(s);
    add_listed(s, "secrets", volumes, mounts);
    add_listed(s, "configMaps", volumes, mounts);
    json_array_extend(volumes, json_object_get(spec, "volumes"));
    json_t *containers = json_pack("[o, o]", main_container(s, args, mounts),
                                   reloader(s, "config-reloader", RELOADER_PORT, false));
    json_t *init = json_pack("[o]", reloader(s, "init-config-reloader", RELOADER_PORT + 1, true));
    merge_containers(containers, json_object_get(spec, "containers"));
    merge_containers(init, json_object_get(spec, "initContainers"));
    json_t *pod =
        json_pack("{s:o, s:o, s:o, s:I}", "containers", containers, "initContainers", init,
                  "volumes", volumes, "terminationGracePeriodSeconds", (json_int_t)GRACE_SECONDS);
    copy_members(spec, copied, pod);
    return pod;
}

// The annotations of the object, without those that belong to its own writers.
static json_t *inherited(const json_t *obj, const char *key)
{
    json_t *from = codec_json_get(obj, "metadata", key, NULL), *to = json_object(), *value;
    const char *name;
    json_object_foreach (from, name, value)
        if (!gs_starts(name, "kubectl.kubernetes.io/") && !gs_starts(name, "meta.helm.sh/"))
            json_object_set(to, name, value);
    return to;
}

json_t *operator_set_make(const struct operator_set *s, const char *name, json_t *labels,
                          json_t *args)
{
    GS_AUTO_FREE char *service = gs_format("%s-operated", s->app);
    json_t *of_set = inherited(s->obj, "labels");
    json_t *annotations = json_pack("{s:s}", "kubectl.kubernetes.io/default-container", s->app);
    json_t *own = codec_json_get(s->obj, "spec", "podMetadata", "annotations", NULL);
    if (json_is_object(own))
        json_object_update(annotations, own);
    codec_json_set_str(of_set, OPERATOR_MANAGED_BY, "prometheus-operator");
    codec_json_set_str(of_set, "operator.prometheus.io/name", kube_name(s->obj));
    codec_json_set_str(of_set, "operator.prometheus.io/mode", "server");
    json_t *shard = json_object_get(labels, "operator.prometheus.io/shard");
    if (shard)
        json_object_set(of_set, "operator.prometheus.io/shard", shard);
    return json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:o, s:o, s:[o]}, s:{s:s, s:s, s:I, s:{s:o}, s:{s:{s:o, s:o}, "
        "s:o}}}",
        "apiVersion", "apps/v1", "kind", "StatefulSet", "metadata", "name", name, "namespace",
        kube_namespace(s->obj), "labels", of_set, "annotations", inherited(s->obj, "annotations"),
        "ownerReferences", kube_make_controller_ref(s->obj), "spec", "serviceName", service,
        "podManagementPolicy", "Parallel", "replicas", (json_int_t)operator_replicas(s->obj),
        "selector", "matchLabels", selector_of(s, labels), "template", "metadata", "labels", labels,
        "annotations", annotations, "spec", pod_spec(s, args));
}

// --- Services and Secrets ---

json_t *operator_governing_service(const json_t *owner, const char *app, int64_t port)
{
    GS_AUTO_FREE char *name = gs_format("%s-operated", app);
    GS_AUTO_FREE char *label = gs_format("operated-%s", app);
    json_t *ref = kube_make_controller_ref(owner);
    json_object_del(ref, "controller"); // it belongs to all objects of the namespace
    json_object_del(ref, "blockOwnerDeletion");
    return json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:{s:s, s:s}, s:[o]}, s:{s:s, s:[{s:s, s:I, s:I}], s:{s:s}}}",
        "apiVersion", "v1", "kind", "Service", "metadata", "name", name, "namespace",
        kube_namespace(owner), "labels", label, "true", OPERATOR_MANAGED_BY, "prometheus-operator",
        "ownerReferences", ref, "spec", "clusterIP", "None", "ports", "name", "web", "port",
        (json_int_t)port, "targetPort", (json_int_t)port, "selector", "app.kubernetes.io/name",
        app);
}

static bool is_owned_by(const json_t *obj, const json_t *owner)
{
    size_t i;
    json_t *ref;
    json_array_foreach (codec_json_get(obj, "metadata", "ownerReferences", NULL), i, ref)
        if (gs_streq(codec_json_str(ref, "uid", NULL), kube_uid(owner)))
            return true;
    return false;
}

void operator_ensure_service(struct local_reconcile *w, const json_t *existing, const json_t *owner,
                             json_t *desired)
{
    if (!existing) {
        local_reconcile_create(w, KUBE_SERVICES, kube_namespace(desired), desired, NULL, NULL);
        return;
    }
    if (is_owned_by(existing, owner))
        return;
    json_t *refs = json_deep_copy(codec_json_get(existing, "metadata", "ownerReferences", NULL));
    if (!refs)
        refs = json_array();
    json_array_extend(refs, codec_json_get(desired, "metadata", "ownerReferences", NULL));
    CODEC_AUTO_JSON json_t *patch = json_pack("{s:{s:o}}", "metadata", "ownerReferences", refs);
    local_reconcile_patch(w, KUBE_SERVICES, kube_namespace(existing), kube_name(existing), NULL,
                          patch, NULL, NULL);
}

json_t *operator_secret(const json_t *owner, const char *name, const json_t *entries)
{
    json_t *data = json_object(), *text;
    const char *key;
    json_object_foreach ((json_t *)(uintptr_t)entries, key, text) {
        GS_AUTO_BUF struct gs_buf base64 = {0};
        codec_base64_encode(gs_slice_make(json_string_value(text), json_string_length(text)),
                            &base64);
        codec_json_set_str(data, key, base64.data ? base64.data : "");
    }
    return json_pack("{s:s, s:s, s:{s:s, s:s, s:{s:s}, s:[o]}, s:o}", "apiVersion", "v1", "kind",
                     "Secret", "metadata", "name", name, "namespace", kube_namespace(owner),
                     "labels", OPERATOR_MANAGED_BY, "prometheus-operator", "ownerReferences",
                     kube_make_controller_ref(owner), "data", data);
}

struct gs_error *operator_secret_text(const struct kube_cache *secrets, const char *ns,
                                      const char *name, const char *key, struct gs_buf *ret)
{
    const json_t *secret = name ? kube_cache_get(secrets, ns, name) : NULL;
    const char *base64 = codec_json_str(secret, "data", key, NULL);
    if (!name || !*name || !key || !*key)
        return gs_error_new(GS_EINVAL, "a Secret reference needs name and key");
    if (!secret)
        return gs_error_new(GS_ENOTFOUND, "Secret %s/%s not found", ns, name);
    if (!base64)
        return gs_error_new(GS_ENOTFOUND, "key \"%s\" in Secret %s/%s not found", key, ns, name);
    struct gs_error *err = codec_base64_decode(gs_slice_of(base64), ret);
    return err ? gs_error_wrap(err, "Secret %s/%s, key \"%s\"", ns, name, key) : NULL;
}

// --- writing ---

static char *hash_of(const json_t *value)
{
    GS_AUTO_FREE char *text = value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    return gs_format("%016llx", (unsigned long long)gs_hash(text, text ? strlen(text) : 0));
}

static void update_map(json_t *metadata, const json_t *desired, const char *key)
{
    json_t *to = json_object_get(metadata, key),
           *from = codec_json_get(desired, "metadata", key, NULL);
    if (!to)
        json_object_set_new(metadata, key, to = json_object());
    if (json_is_object(from))
        json_object_update(to, from);
}

bool operator_ensure(struct local_reconcile *w, struct kube_gvr r, const json_t *existing,
                     json_t *desired)
{
    static const char *const content[] = {"spec", "data", "subsets", NULL};
    GS_AUTO_FREE char *hash = hash_of(desired);
    const json_t *owner = kube_controller_ref(desired), *has = kube_controller_ref(existing);
    codec_json_set(desired, json_string(hash), "metadata", "annotations", OPERATOR_ANN_INPUT, NULL);
    if (!existing) {
        local_reconcile_create(w, r, kube_namespace(desired), desired, NULL, NULL);
        return true;
    }
    if (owner && !gs_streq(codec_json_str(has, "uid", NULL), codec_json_str(owner, "uid", NULL)))
        return false;
    if (gs_streq(kube_annotation(existing, OPERATOR_ANN_INPUT), hash))
        return true;
    CODEC_AUTO_JSON json_t *changed = json_deep_copy(existing);
    json_t *metadata = json_object_get(changed, "metadata");
    update_map(metadata, desired, "labels");
    update_map(metadata, desired, "annotations");
    for (size_t i = 0; content[i]; i++)
        if (json_object_get(desired, content[i]))
            json_object_set(changed, content[i], json_object_get(desired, content[i]));
    local_reconcile_update(w, r, changed, NULL, NULL, NULL);
    return true;
}
