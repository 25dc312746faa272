// SPDX-License-Identifier: Apache-2.0
// Nodes and Pods in the protobuf form of the Cluster Autoscaler's plug-ins. Members that decisions
// do not use are skipped, as requests of large clusters have thousands of pods.
#include "nodes/wire/wire.h"

#include "base/mem.h"
#include "kube/proto.h"

static const char *const pod_omit[] = {"volumes",
                                       "volumeMounts",
                                       "volumeDevices",
                                       "env",
                                       "envFrom",
                                       "command",
                                       "args",
                                       "livenessProbe",
                                       "readinessProbe",
                                       "startupProbe",
                                       "lifecycle",
                                       "securityContext",
                                       "managedFields",
                                       "dnsConfig",
                                       "hostAliases",
                                       "imagePullSecrets",
                                       "readinessGates",
                                       "containerStatuses",
                                       "initContainerStatuses",
                                       "ephemeralContainers",
                                       "ephemeralContainerStatuses",
                                       NULL};
static const char *const node_omit[] = {"images", "managedFields", "volumesInUse",
                                        "volumesAttached", NULL};

static struct gs_error *read_object(const char *kind, const char *const *omit, size_t *budget,
                                    struct gs_slice message, json_t **ret)
{
    const struct kube_proto_options o = {.skip_unknown = true, .omit = omit, .budget = budget};
    if (message.len > WIRE_MAX_OBJECT)
        return gs_error_new(GS_ELIMIT, "a %s of %zu bytes; the limit is %u", kind, message.len,
                            WIRE_MAX_OBJECT);
    CODEC_AUTO_JSON json_t *obj = json_pack("{s:s, s:s}", "apiVersion", "v1", "kind", kind);
    struct gs_error *err = kube_proto_decode(kube_schema_find("v1", kind), message, &o, obj);
    if (err)
        return gs_error_wrap(err, "a %s", kind);
    *ret = GS_TAKE(obj);
    return NULL;
}

struct gs_error *wire_read_node(struct gs_slice message, json_t **ret)
{
    return read_object("Node", node_omit, NULL, message, ret);
}

struct gs_error *wire_read_pod(struct gs_slice message, json_t **ret)
{
    return read_object("Pod", pod_omit, NULL, message, ret);
}

struct gs_error *wire_read_pod_within(struct gs_slice message, size_t *budget, json_t **ret)
{
    return read_object("Pod", pod_omit, budget, message, ret);
}

static struct gs_error *write_object(const char *kind, const json_t *obj, struct gs_buf *out)
{
    struct gs_error *err = kube_proto_encode(kube_schema_find("v1", kind), obj, out);
    return err ? gs_error_wrap(err, "a %s", kind) : NULL;
}

struct gs_error *wire_write_node(const json_t *node, struct gs_buf *out)
{
    return write_object("Node", node, out);
}

struct gs_error *wire_write_pod(const json_t *pod, struct gs_buf *out)
{
    return write_object("Pod", pod, out);
}
