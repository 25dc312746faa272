// SPDX-License-Identifier: Apache-2.0
// One request to the expander: 100 options and 1,000 pods of 50 owners. In the smaller request each
// pod is in one option; in the larger one each option has all pods, as where node groups differ
// only in price.
#include "codec/protobuf.h"
#include "micro.h"

#include "base/log.h"
#include "base/mem.h"
#include "expander/expander_private.h"
#include "nodes/wire/wire.h"

#include <stdio.h>

#define BAR_MS 100.0

enum { OPTIONS = 100, PODS = 1000, OWNERS = 50, MAX_GPUS = 8 };

static const char pod_text[] =
    "{\"metadata\":{\"name\":\"train-5d5c7b9c6-%04d\",\"namespace\":\"default\",\"uid\":"
    "\"6f1c2b0e-95a0-4a1e-8d1e-0d9a86a8%04d\",\"labels\":{\"app\":\"train-%d\"},"
    "\"ownerReferences\":[{\"apiVersion\":\"apps/"
    "v1\",\"kind\":\"ReplicaSet\",\"name\":\"train-%d\","
    "\"uid\":\"0a1b2c3d-0000-4000-8000-%012d\",\"controller\":true}]},\"spec\":{"
    "\"nodeSelector\":{\"kubernetes.io/os\":\"linux\"},\"tolerations\":[{\"key\":\"nvidia.com/"
    "gpu\","
    "\"operator\":\"Exists\",\"effect\":\"NoSchedule\"}],\"volumes\":[{\"name\":\"api-access-%d\","
    "\"emptyDir\":{}}],\"containers\":[{\"name\":\"cuda\",\"image\":\"nvidia/cuda:12.4.1\","
    "\"command\":[\"train\"],\"env\":[{\"name\":\"A\",\"value\":\"B\"}],\"resources\":{\"limits\":"
    "{\"nvidia.com/gpu\":\"%d\"},\"requests\":{\"cpu\":\"2\",\"memory\":\"8Gi\","
    "\"nvidia.com/gpu\":\"%d\"}}}]}}";

static const char node_text[] =
    "{\"metadata\":{\"name\":\"template\",\"labels\":{\"kubernetes.io/os\":\"linux\"}},\"spec\":{"
    "\"taints\":[{\"key\":\"nvidia.com/gpu\",\"value\":\"present\",\"effect\":\"NoSchedule\"}]},"
    "\"status\":{\"allocatable\":{\"cpu\":\"%d\",\"memory\":\"%dGi\",\"pods\":\"110\","
    "\"nvidia.com/gpu\":\"%d\"},\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}";

struct asked {
    struct expander expander;
    struct gs_buf request;
};

static void add_pod(struct gs_buf *out, int i)
{
    int owner = i % OWNERS, gpus = 1 + owner % 4;
    GS_AUTO_BUF struct gs_buf message = {0};
    GS_AUTO_FREE char *text = gs_format(pod_text, i, i, owner, owner, owner, i, gpus, gpus);
    CODEC_AUTO_JSON json_t *pod = json_loads(text, 0, NULL);
    gs_error_free(wire_write_pod(pod, &message));
    codec_proto_add_bytes(out, 5, gs_buf_slice(&message));
}

static void add_option(struct gs_buf *out, int i, bool all)
{
    char name[32];
    GS_AUTO_BUF struct gs_buf option = {0}, entry = {0}, message = {0};
    int gpus = 1 + i % MAX_GPUS;
    GS_AUTO_FREE char *text = gs_format(node_text, 16 * gpus, 64 * gpus, gpus);
    CODEC_AUTO_JSON json_t *node = json_loads(text, 0, NULL);
    (void)snprintf(name, sizeof(name), "group-%d", i);
    codec_proto_add_bytes(&option, 1, gs_slice_of(name));
    codec_proto_add_varint(&option, 2, PODS);
    for (int k = 0; k < PODS; k++)
        if (all || k % OPTIONS == i)
            add_pod(&option, k);
    codec_proto_add_bytes(out, 1, gs_buf_slice(&option));
    gs_error_free(wire_write_node(node, &message));
    codec_proto_add_bytes(&entry, 1, gs_slice_of(name));
    codec_proto_add_bytes(&entry, 2, gs_buf_slice(&message));
    codec_proto_add_bytes(out, 3, gs_buf_slice(&entry));
}

static void ask(void *arg)
{
    struct asked *a = arg;
    GS_AUTO_BUF struct gs_buf answer = {0};
    GS_AUTO_FREE char *why = NULL;
    if (expander_answer(&a->expander, gs_buf_slice(&a->request), &answer, &why) != EXPANDER_CHOSEN)
        abort();
}

static void measure(double seconds, bool all)
{
    char what[80], figure[40];
    struct asked a = {.expander = {.policy = NODES_POLICY_PACKING}};
    a.expander.record = expander_record_new(1);
    for (int i = 0; i < OPTIONS; i++)
        add_option(&a.request, i, all);
    double ms = micro_time(seconds, ask, &a) * 1000;
    (void)snprintf(what, sizeof(what), "expander: %d options, %d pods, request of %.1f MB", OPTIONS,
                   PODS, (double)a.request.len / 1e6);
    (void)snprintf(figure, sizeof(figure), "%.0f ms", ms);
    micro_row(what, figure, "100 ms", ms < BAR_MS);
    expander_record_free(a.expander.record);
    gs_buf_finish(&a.request);
}

void micro_expander(double seconds)
{
    gs_log_configure(GS_LOG_WARN, GS_LOG_TEXT);
    measure(seconds, false);
    measure(seconds, true);
}
