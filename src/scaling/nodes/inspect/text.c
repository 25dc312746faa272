// SPDX-License-Identifier: Apache-2.0
// The views as text for a terminal.
#include "base/clock.h"
#include "base/mem.h"
#include "base/table.h"
#include "nodes/inspect/inspect_private.h"

#define MAX_PENDING 20 // lines

// Messages come from other programs: they must not control the terminal.
void inspect_make_printable(struct gs_buf *text, size_t from)
{
    for (size_t i = from; i < text->len; i++)
        if (((unsigned char)text->data[i] < 0x20 && text->data[i] != '\n') || text->data[i] == 0x7f)
            text->data[i] = ' ';
}

// --- tables, as kubectl prints them ---

static const struct gs_table_style kubectl_style = {.gap = 3, .left = SIZE_MAX};

static void add_text(struct gs_table *t, const char *text)
{
    gs_table_add(t, text && *text ? text : NULL);
}

static void add_number(struct gs_table *t, const json_t *obj, const char *first, const char *second)
{
    int64_t n = second ? codec_json_int(obj, -1, first, second, NULL)
                       : codec_json_int(obj, -1, first, NULL);

    if (n < 0)
        gs_table_add(t, NULL);
    else
        gs_table_addf(t, "%lld", (long long)n);
}

static void add_gpus(struct gs_table *t, const json_t *obj)
{
    static const char *const keys[] = {"total", "used", "free", "stranded"};

    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++)
        add_number(t, obj, "gpus", keys[i]);
}

void inspect_add_gpus(int64_t n, struct gs_buf *out)
{
    gs_buf_addf(out, "%lld GPU%s", (long long)n, n == 1 ? "" : "s");
}

// --- pools ---

static void add_backoff(const json_t *pool, struct gs_buf *out)
{
    const json_t *b = json_object_get(pool, "backoff");
    const char *since = codec_json_str(b, "since", NULL), *until = codec_json_str(b, "until", NULL);
    const char *error = codec_json_str(b, "error", NULL);

    gs_buf_add_str(out, "in back-off");
    if (since)
        gs_buf_addf(out, " since %s", since);
    if (until)
        gs_buf_addf(out, " until %s", until);
    if (error)
        gs_buf_addf(out, ": %s", error);
}

static void add_pool_row(struct gs_table *t, const json_t *pool)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    char p90[GS_RFC3339_SIZE];
    int64_t seconds = codec_json_int(pool, -1, "startup", "p90Seconds", NULL);
    int64_t coming = codec_json_int(pool, 0, "coming", NULL);

    add_text(t, codec_json_str(pool, "name", NULL));
    add_number(t, pool, "nodes", NULL);
    add_number(t, pool, "ready", NULL);
    add_number(t, pool, "coming", NULL);
    add_number(t, pool, "min", NULL);
    add_number(t, pool, "max", NULL);
    add_gpus(t, pool);
    add_text(t, seconds < 0 ? NULL : inspect_duration(seconds * 1000, p90));
    if (json_object_get(pool, "backoff"))
        add_backoff(pool, &text);
    else if (coming > 0)
        gs_buf_addf(&text, "%lld coming", (long long)coming);
    add_text(t, text.data);
}

// --- nodes ---

static void add_runs(const json_t *node, struct gs_buf *out)
{
    const char *workload;
    json_t *pods;
    size_t n = 0;

    json_object_foreach (json_object_get(node, "runs"), workload, pods) {
        if (n++ == 3) {
            gs_buf_addf(out, ", +%zu", json_object_size(json_object_get(node, "runs")) - 3);
            break;
        }
        gs_buf_addf(out, "%s%s", n > 1 ? ", " : "", workload);
        if (json_integer_value(pods) > 1)
            gs_buf_addf(out, " x%lld", (long long)json_integer_value(pods));
    }
}

static void add_removal(const json_t *node, struct gs_buf *out)
{
    const json_t *removal = json_object_get(node, "removal");
    const char *since = codec_json_str(removal, "since", NULL);

    if (removal)
        gs_buf_addf(out, "candidate%s%s", since ? " since " : "", since ? since : "");
    else if (codec_json_bool(node, false, "scaleDownDisabled", NULL))
        gs_buf_add_str(out, "disabled");
}

static void add_node_row(struct gs_table *t, const json_t *node, bool wide)
{
    GS_AUTO_BUF struct gs_buf runs = {0};
    GS_AUTO_BUF struct gs_buf removal = {0};

    add_runs(node, &runs);
    add_removal(node, &removal);
    add_text(t, codec_json_str(node, "name", NULL));
    add_text(t, codec_json_str(node, "pool", NULL));
    add_text(t, codec_json_str(node, "state", NULL));
    add_gpus(t, node);
    add_text(t, codec_json_str(node, "price", NULL));
    add_text(t, runs.data);
    add_text(t, removal.data);
    if (wide) {
        add_text(t, codec_json_str(node, "machine", NULL));
        add_text(t, codec_json_str(node, "since", NULL));
        const char *reason = codec_json_str(node, "reason", NULL);
        add_text(t, reason ? reason : codec_json_str(node, "kept", NULL));
    }
}

// --- all ---

static void add_pending(const json_t *pending, struct gs_buf *out)
{
    size_t i;
    json_t *pod;

    if (json_array_size(pending) == 0)
        return;
    gs_buf_addf(out, "\n%zu pod%s for a node:\n", json_array_size(pending),
                json_array_size(pending) == 1 ? " waits" : "s wait");
    json_array_foreach ((json_t *)pending, i, pod) {
        const char *ns = codec_json_str(pod, "namespace", NULL);
        const char *message = codec_json_str(pod, "message", NULL);
        if (i == MAX_PENDING) {
            gs_buf_addf(out, "  … and %zu more\n", json_array_size(pending) - i);
            break;
        }
        gs_buf_addf(out, "  %s/%s (", ns ? ns : "", codec_json_str(pod, "name", NULL));
        inspect_add_gpus(codec_json_int(pod, 0, "gpus", NULL), out);
        gs_buf_addf(out, "): %s%s%s\n", codec_json_str(pod, "reason", NULL), message ? ": " : "",
                    message ? message : "");
    }
}

static void add_usability(const json_t *gpus, struct gs_buf *out)
{
    const char *node = codec_json_str(gpus, "largestPodNode", NULL);
    double fragmented = json_number_value(json_object_get(gpus, "fragmented"));

    gs_buf_add_str(out, "\nLargest pod that fits now: ");
    inspect_add_gpus(codec_json_int(gpus, 0, "largestPod", NULL), out);
    if (node)
        gs_buf_addf(out, " on %s", node);
    gs_buf_addf(out, ". Free: %lld of ", (long long)codec_json_int(gpus, 0, "free", NULL));
    inspect_add_gpus(codec_json_int(gpus, 0, "total", NULL), out);
    gs_buf_addf(out, ", of which the typical pod cannot use %.1f.\n", fragmented);
}

static void add_pools(const json_t *pools, struct gs_buf *out)
{
    static const char *const titles[] = {"POOL", "NODES", "READY", "COMING",   "MIN",      "MAX",
                                         "GPUS", "USED",  "FREE",  "STRANDED", "START-UP", "STATE"};
    const size_t n = json_array_size(pools);
    GS_CLEANUP(gs_table_freep)
    struct gs_table *t = n ? gs_table_new(n + 1, GS_ARRAY_LEN(titles)) : NULL;
    size_t i;
    json_t *pool;

    if (!t)
        return;
    for (i = 0; i < GS_ARRAY_LEN(titles); i++)
        gs_table_add(t, titles[i]);
    json_array_foreach ((json_t *)pools, i, pool)
        add_pool_row(t, pool);
    gs_table_print(t, &kubectl_style, out);
    gs_buf_add_str(out, "\n");
}

static void add_nodes(const json_t *nodes, bool wide, struct gs_buf *out)
{
    static const char *const titles[] = {"NODE",    "POOL",     "STATE", "GPUS", "USED",
                                         "FREE",    "STRANDED", "PRICE", "RUNS", "REMOVAL",
                                         "MACHINE", "SINCE",    "REASON"};
    const size_t n_titles = GS_ARRAY_LEN(titles) - (wide ? 0 : 3);
    GS_CLEANUP(gs_table_freep)
    struct gs_table *t = gs_table_new(json_array_size(nodes) + 1, n_titles);
    size_t i;
    json_t *node;

    if (!t)
        return;
    for (i = 0; i < n_titles; i++)
        gs_table_add(t, titles[i]);
    json_array_foreach ((json_t *)nodes, i, node)
        add_node_row(t, node, wide);
    gs_table_print(t, &kubectl_style, out);
}

void inspect_nodes_text(const json_t *view, bool wide, struct gs_buf *out)
{
    size_t start = out->len;

    add_pools(json_object_get(view, "pools"), out);
    add_nodes(json_object_get(view, "nodes"), wide, out);
    add_usability(json_object_get(view, "gpus"), out);
    add_pending(json_object_get(view, "pending"), out);
    inspect_make_printable(out, start);
}
