// SPDX-License-Identifier: Apache-2.0
// What node autoscalers publish as text: the status of the Cluster Autoscaler, messages of events.
#include "nodes/inspect/inspect.h"

#include <stdlib.h>

static json_t *text_of(const uint8_t *data, size_t len)
{
    json_t *text = json_stringn((const char *)data, len); // NULL: not UTF-8
    return text ? text : json_string("");
}

static json_t *input(const char *json)
{
    json_t *value = json_loads(json, 0, NULL);
    if (!value)
        abort();
    return value;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char event[] =
        "{\"involvedObject\":{\"kind\":\"Pod\",\"namespace\":\"n\",\"name\":\"p\"},"
        "\"source\":{\"component\":\"cluster-autoscaler\"},\"reason\":\"TriggeredScaleUp\"}";
    CODEC_AUTO_JSON json_t *nodes =
        input("[{\"metadata\":{\"name\":\"a\",\"labels\":{\"gpuscale.dev/pool\":\"t4\"}}}]");
    CODEC_AUTO_JSON json_t *pods = input("[{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\"}}]");
    CODEC_AUTO_JSON json_t *events = json_array();
    CODEC_AUTO_JSON json_t *status = json_object();
    CODEC_AUTO_JSON json_t *text = text_of(data, size);
    GS_AUTO_BUF struct gs_buf out = {0};

    json_array_append_new(events, input(event));
    json_object_set(json_array_get(events, 0), "message", text);
    codec_json_set(status, json_incref(text), "data", "status", NULL);
    const struct inspect_input in = {
        .nodes = nodes, .pods = pods, .events = events, .status = status, .now_ms = 1000000};
    CODEC_AUTO_JSON json_t *view = inspect_nodes(&in);
    CODEC_AUTO_JSON json_t *pod = inspect_pod(&in, "n", "p");
    inspect_nodes_text(view, true, &out);
    inspect_pod_text(pod, &out);
    return 0;
}
