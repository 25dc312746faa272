// SPDX-License-Identifier: Apache-2.0
// The last log line of containers that have ended, for the reason why a pod does not run. A line
// is fetched once for each instance; until then it is absent.
#include "up/console/console_private.h"

#include "base/mem.h"
#include "diagnosis/diagnosis.h"
#include "kube/object.h"

#define MAX_LINES 256

struct entry {
    struct console_last_lines *lines;
    char *key;      // pod uid and container
    char *instance; // ID of the container of the line or the request
    char *line;     // NULL: not fetched yet
    struct http_op *op;
    bool wanted;
};

struct console_last_lines {
    struct kube_client *client;
    struct entry *items[MAX_LINES];
    size_t len;
};

struct console_last_lines *console_last_lines_new(struct kube_client *client)
{
    struct console_last_lines *l = gs_alloc(sizeof(*l));
    l->client = client;
    return l;
}

static void entry_free(struct entry *e)
{
    http_op_cancel(e->op);
    free(e->key);
    free(e->instance);
    free(e->line);
    free(e);
}

void console_last_lines_free(struct console_last_lines *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->len; i++)
        entry_free(l->items[i]);
    free(l);
}

static void on_log(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct entry *e = arg;
    e->op = NULL;
    struct gs_slice none = {NULL, 0};
    bool ok = response && response->status == 200;
    gs_error_free(err);
    free(e->line);
    e->line = diagnosis_last_log_line(ok ? response->body : none);
}

static void fetch_last_line(struct entry *e, const json_t *pod, const char *container,
                            bool runs_again)
{
    GS_AUTO_BUF struct gs_buf path = {0};
    kube_path(&path, KUBE_PODS, kube_namespace(pod), kube_name(pod), "log");
    gs_buf_add_str(&path, "?tailLines=20&limitBytes=65536&container=");
    http_encode(gs_slice_of(container), &path);
    if (runs_again)
        gs_buf_add_str(&path, "&previous=true");
    const struct http_request request = {.path = path.data};
    const struct http_callbacks cb = {.on_done = on_log};
    e->op = http_send(kube_client_http(e->lines->client), &request, &cb, e);
}

static struct entry *find_or_add_line(struct console_last_lines *l, const char *key)
{
    for (size_t i = 0; i < l->len; i++)
        if (gs_streq(l->items[i]->key, key))
            return l->items[i];
    if (l->len == MAX_LINES)
        return NULL;
    struct entry *e = gs_alloc(sizeof(*e));
    e->lines = l;
    e->key = gs_strdup(key);
    return l->items[l->len++] = e;
}

const char *console_last_lines_get(void *lines, const json_t *pod, const json_t *container_status)
{
    const char *container = codec_json_str(container_status, "name", NULL);
    const char *uid = kube_uid(pod);
    const json_t *ended = codec_json_get(container_status, "state", "terminated", NULL);
    bool runs_again = codec_json_get(container_status, "state", "running", NULL) != NULL;
    if (!ended)
        ended = codec_json_get(container_status, "lastState", "terminated", NULL);
    const char *instance = codec_json_str(ended, "containerID", NULL);
    GS_AUTO_FREE char *key = gs_format("%s/%s", uid ? uid : "", container ? container : "");
    struct entry *e = instance && container ? find_or_add_line(lines, key) : NULL;
    if (!e)
        return "";
    e->wanted = true;
    if (!gs_streq(e->instance, instance) && !e->op) {
        free(e->instance);
        e->instance = gs_strdup(instance);
        fetch_last_line(e, pod, container, runs_again);
    }
    return e->line;
}

void console_last_lines_sweep(struct console_last_lines *l)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->len; i++) {
        struct entry *e = l->items[i];
        if (!e->wanted) {
            entry_free(e);
            continue;
        }
        e->wanted = false;
        l->items[kept++] = e;
    }
    l->len = kept;
}
