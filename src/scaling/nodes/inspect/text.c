// SPDX-License-Identifier: Apache-2.0
// The views as text for a terminal.
#include "base/clock.h"
#include "base/mem.h"
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

// rows: an array of arrays of strings; the first is the head.
static void print_table(const json_t *rows, struct gs_buf *out)
{
    size_t widths[16] = {0}, i, k;
    json_t *row, *cell;

    json_array_foreach ((json_t *)rows, i, row)
        json_array_foreach (row, k, cell)
            if (k < GS_ARRAY_LEN(widths) && json_string_length(cell) > widths[k])
                widths[k] = json_string_length(cell);
    json_array_foreach ((json_t *)rows, i, row) {
        size_t n = json_array_size(row);
        json_array_foreach (row, k, cell) {
            bool last = k + 1 >= n || k + 1 >= GS_ARRAY_LEN(widths);
            gs_buf_addf(out, "%-*s%s", last ? 0 : (int)widths[k], json_string_value(cell),
                        last ? "" : "   ");
        }
        gs_buf_add_str(out, "\n");
    }
}

static void add_text(json_t *row, const char *text)
{
    json_array_append_new(row, codec_json_strf("%s", text && *text ? text : "-"));
}

static void add_number(json_t *row, const json_t *obj, const char *first, const char *second)
{
    int64_t n = second ? codec_json_int(obj, -1, first, second, NULL)
                       : codec_json_int(obj, -1, first, NULL);

    json_array_append_new(row, n < 0 ? json_string("-") : codec_json_strf("%lld", (long long)n));
}

static void add_gpus(json_t *row, const json_t *obj)
{
    static const char *const keys[] = {"total", "used", "free", "stranded"};

    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++)
        add_number(row, obj, "gpus", keys[i]);
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

static void add_pool_row(json_t *rows, const json_t *pool)
{
    json_t *row = json_array();
    GS_AUTO_BUF struct gs_buf text = {0};
    char p90[GS_RFC3339_SIZE];
    int64_t seconds = codec_json_int(pool, -1, "startup", "p90Seconds", NULL);
    int64_t coming = codec_json_int(pool, 0, "coming", NULL);

    add_text(row, codec_json_str(pool, "name", NULL));
    add_number(row, pool, "nodes", NULL);
    add_number(row, pool, "ready", NULL);
    add_number(row, pool, "coming", NULL);
    add_number(row, pool, "min", NULL);
    add_number(row, pool, "max", NULL);
    add_gpus(row, pool);
    add_text(row, seconds < 0 ? NULL : inspect_duration(seconds * 1000, p90));
    if (json_object_get(pool, "backoff"))
        add_backoff(pool, &text);
    else if (coming > 0)
        gs_buf_addf(&text, "%lld coming", (long long)coming);
    add_text(row, text.data);
    json_array_append_new(rows, row);
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

static void add_node_row(json_t *rows, const json_t *node, bool wide)
{
    json_t *row = json_array();
    GS_AUTO_BUF struct gs_buf runs = {0};
    GS_AUTO_BUF struct gs_buf removal = {0};

    add_runs(node, &runs);
    add_removal(node, &removal);
    add_text(row, codec_json_str(node, "name", NULL));
    add_text(row, codec_json_str(node, "pool", NULL));
    add_text(row, codec_json_str(node, "state", NULL));
    add_gpus(row, node);
    add_text(row, codec_json_str(node, "price", NULL));
    add_text(row, runs.data);
    add_text(row, removal.data);
    if (wide) {
        add_text(row, codec_json_str(node, "machine", NULL));
        add_text(row, codec_json_str(node, "since", NULL));
        const char *reason = codec_json_str(node, "reason", NULL);
        add_text(row, reason ? reason : codec_json_str(node, "kept", NULL));
    }
    json_array_append_new(rows, row);
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

void inspect_nodes_text(const json_t *view, bool wide, struct gs_buf *out)
{
    CODEC_AUTO_JSON json_t *pools =
        json_pack("[[s,s,s,s,s,s,s,s,s,s,s,s]]", "POOL", "NODES", "READY", "COMING", "MIN", "MAX",
                  "GPUS", "USED", "FREE", "STRANDED", "START-UP", "STATE");
    CODEC_AUTO_JSON json_t *nodes =
        json_pack("[[s,s,s,s,s,s,s,s,s,s]]", "NODE", "POOL", "STATE", "GPUS", "USED", "FREE",
                  "STRANDED", "PRICE", "RUNS", "REMOVAL");
    size_t i, start = out->len;
    json_t *item;

    json_array_foreach (json_object_get(view, "pools"), i, item)
        add_pool_row(pools, item);
    if (wide) {
        json_t *head = json_array_get(nodes, 0);
        json_array_append_new(head, json_string("MACHINE"));
        json_array_append_new(head, json_string("SINCE"));
        json_array_append_new(head, json_string("REASON"));
    }
    json_array_foreach (json_object_get(view, "nodes"), i, item)
        add_node_row(nodes, item, wide);
    if (json_array_size(pools) > 1) {
        print_table(pools, out);
        gs_buf_add_str(out, "\n");
    }
    print_table(nodes, out);
    add_usability(json_object_get(view, "gpus"), out);
    add_pending(json_object_get(view, "pending"), out);
    inspect_make_printable(out, start);
}
