// SPDX-License-Identifier: Apache-2.0
// A Prometheus object as prometheus-operator deploys it: a StatefulSet for each shard. What runs in
// the containers is decided by their images; the metrics engine of `gpuscale up` serves all of
// them.
#include "local/operator/operator_private.h"

#include "base/mem.h"
#include "kube/object.h"

#define MAX_SHARDS 16
#define PORT       9090

int64_t operator_prometheus_shards(const json_t *obj)
{
    int64_t n = codec_json_int(obj, 1, "spec", "shards", NULL);
    return n < 1 ? 1 : n > MAX_SHARDS ? MAX_SHARDS : n;
}

char *operator_prometheus_set_name(const json_t *obj, int64_t shard)
{
    return shard ? gs_format("prometheus-%s-shard-%lld", kube_name(obj), (long long)shard)
                 : gs_format("prometheus-%s", kube_name(obj));
}

static void add_arg(json_t *args, const char *flag, const char *value)
{
    if (value && *value)
        json_array_append_new(args, codec_json_strf("--%s=%s", flag, value));
}

static json_t *args_of(const json_t *spec)
{
    json_t *args = json_array();
    add_arg(args, "config.file", "/etc/prometheus/config_out/prometheus.env.yaml");
    json_array_append_new(args, json_string("--web.enable-lifecycle"));
    add_arg(args, "web.external-url", codec_json_str(spec, "externalUrl", NULL));
    add_arg(args, "web.route-prefix", operator_text(spec, "routePrefix", "/"));
    add_arg(args, "storage.tsdb.path", "/prometheus");
    add_arg(args, "storage.tsdb.retention.time", codec_json_str(spec, "retention", NULL));
    add_arg(args, "storage.tsdb.retention.size", codec_json_str(spec, "retentionSize", NULL));
    return args;
}

json_t *operator_prometheus_set(const json_t *obj, int64_t shard, const char *reloader)
{
    GS_AUTO_FREE char *secret = gs_format("prometheus-%s", kube_name(obj));
    GS_AUTO_FREE char *name = operator_prometheus_set_name(obj, shard);
    const struct operator_set s = {.obj = obj,
                                   .app = "prometheus",
                                   .repository = "quay.io/prometheus/prometheus",
                                   .version = "v3.5.0",
                                   .port = PORT,
                                   .config_dir = "/etc/prometheus/config",
                                   .data_dir = "/prometheus",
                                   .reloader = reloader,
                                   .config_secret = secret,
                                   .config_file = "prometheus.yaml.gz"};
    json_t *labels = operator_set_labels(&s);
    codec_json_set_str(labels, "operator.prometheus.io/name", kube_name(obj));
    json_object_set_new(labels, "operator.prometheus.io/shard",
                        codec_json_strf("%lld", (long long)shard));
    return operator_set_make(&s, name, labels, args_of(json_object_get(obj, "spec")));
}

json_t *operator_prometheus_service(const json_t *obj)
{
    return operator_governing_service(obj, "prometheus", PORT);
}
