// SPDX-License-Identifier: Apache-2.0
// Asks a real prometheus-adapter and ours the same and compares: lists of discovery, values, codes,
// the beginnings of messages. Requests are made from the lists, and read from files.
//     adapter-differential defaults: the default rules of the chart, as YAML
//     adapter-differential KUBECONFIG REAL_URL OUR_URL REQUESTS DIFFERENCES
#include "adapter/config/config.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "codec/json.h"
#include "kube/kubeconfig.h"
#include "net/http/client.h"

#include <stdio.h>

enum { MAX_FILE = 1024 * 1024 };

struct side {
    struct http_client *client;
    int status;
    json_t *body; // NULL: no JSON
    struct gs_buf text;
};

static uv_loop_t loop;
static struct side real, ours;
static size_t asked, good, failed, meant;
static char **differences;
static size_t n_differences;

static void on_done(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct side *s = arg;
    if (err) {
        fprintf(stderr, "%s\n", gs_error_message(err));
        exit(2);
    }
    s->status = a->status;
    gs_buf_clear(&s->text);
    gs_buf_add_slice(&s->text, a->body);
    json_decref(s->body);
    s->body = NULL;
    gs_error_free(codec_json_parse(a->body, false, &s->body));
}

static void ask(struct side *s, const char *path)
{
    static const struct http_callbacks callbacks = {.on_done = on_done};
    const struct http_request request = {.path = path};
    s->status = 0;
    http_send(s->client, &request, &callbacks, s);
    while (!s->status)
        uv_run(&loop, UV_RUN_ONCE);
}

static void ask_both(const char *path)
{
    ask(&real, path);
    ask(&ours, path);
}

// --- comparing ---

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// What of an item is the same on both sides, as one text; sorted over all items.
static char *items_text(const json_t *items, bool sort)
{
    size_t i, n = json_array_size(items);
    json_t *item;
    char **texts = gs_alloc_array(n + 1, sizeof(char *));
    GS_AUTO_BUF struct gs_buf all = {0};
    json_array_foreach (items, i, item) {
        CODEC_AUTO_JSON json_t *copy = json_deep_copy(item);
        json_object_del(copy, "timestamp");
        json_object_del(copy, "window"); // prometheus-adapter never sets it
        json_object_del(copy, "windowSeconds");
        codec_json_del(copy, "metadata", "creationTimestamp", NULL);
        texts[i] = json_dumps(copy, JSON_SORT_KEYS | JSON_COMPACT);
    }
    if (sort && n > 1)
        qsort(texts, n, sizeof(*texts), compare_texts);
    for (i = 0; i < n; i++) {
        gs_buf_addf(&all, "%s\n", texts[i]);
        free(texts[i]);
    }
    free(texts);
    return gs_buf_take(&all);
}

static bool same_list(const char *key)
{
    GS_AUTO_FREE char *a = items_text(json_object_get(real.body, key), true);
    GS_AUTO_FREE char *b = items_text(json_object_get(ours.body, key), true);
    return strcmp(a, b) == 0;
}

// One object of metrics.k8s.io.
static bool same_one(void)
{
    CODEC_AUTO_JSON json_t *a = json_array();
    CODEC_AUTO_JSON json_t *b = json_array();
    json_array_append(a, real.body);
    json_array_append(b, ours.body);
    GS_AUTO_FREE char *x = items_text(a, false);
    GS_AUTO_FREE char *y = items_text(b, false);
    return strcmp(x, y) == 0;
}

static bool same(void)
{
    const char *a = codec_json_str(real.body, "message", NULL);
    const char *b = codec_json_str(ours.body, "message", NULL);
    if (real.status != ours.status)
        return false;
    if (!json_object_get(real.body, "kind")) // a page for people
        return !json_object_get(ours.body, "kind");
    if (codec_json_get(real.body, "usage", NULL) || codec_json_get(real.body, "containers", NULL))
        return same_one();
    if (!gs_streq(codec_json_str(real.body, "kind", NULL),
                  codec_json_str(ours.body, "kind", NULL)) ||
        !gs_streq(codec_json_str(real.body, "apiVersion", NULL),
                  codec_json_str(ours.body, "apiVersion", NULL)) ||
        !gs_streq(codec_json_str(real.body, "reason", NULL),
                  codec_json_str(ours.body, "reason", NULL)))
        return false;
    return a ? b && gs_starts(b, a) : same_list("items") && same_list("resources");
}

static void compare(const char *path)
{
    const char *why = NULL;
    asked++;
    for (size_t i = 0; i < n_differences; i++)
        if (strstr(path, differences[i]))
            why = differences[i];
    if (same()) {
        good++;
        return;
    }
    if (why) {
        meant++;
        return;
    }
    failed++;
    printf("DIFFERENT: %s\n  real %d: %s\n  ours %d: %s\n", path, real.status,
           real.text.data ? real.text.data : "", ours.status, ours.text.data ? ours.text.data : "");
}

static void check(const char *path)
{
    ask_both(path);
    compare(path);
}

// --- requests from the lists ---

static void check_metric(const char *version, const char *name)
{
    static const char *const objects[] = {"web-0", "web-1", "web", "gpu-node-1", "*", "nope"};
    const char *slash = strchr(name, '/');
    if (!slash)
        return;
    GS_AUTO_FREE char *resource = gs_strndup(name, (size_t)(slash - name));
    bool root = gs_streq(resource, "nodes") || gs_streq(resource, "persistentvolumes");
    for (size_t i = 0; i < GS_ARRAY_LEN(objects); i++) {
        GS_AUTO_FREE char *path =
            gs_streq(resource, "namespaces")
                ? gs_format("/apis/custom.metrics.k8s.io/%s/namespaces/%s/metrics%s", version,
                            i ? objects[i] : "ml", slash)
                : gs_format("/apis/custom.metrics.k8s.io/%s/%s%s/%s%s", version,
                            root ? "" : "namespaces/ml/", resource, objects[i], slash);
        check(path);
    }
}

static size_t check_lists(void)
{
    static const char *const versions[] = {"v1beta1", "v1beta2"};
    size_t n = 0;
    for (size_t v = 0; v < GS_ARRAY_LEN(versions); v++) {
        GS_AUTO_FREE char *path = gs_format("/apis/custom.metrics.k8s.io/%s", versions[v]);
        size_t i;
        json_t *item;
        check(path);
        CODEC_AUTO_JSON json_t *list = json_incref(real.body);
        json_array_foreach (json_object_get(list, "resources"), i, item) {
            check_metric(versions[v], codec_json_str(item, "name", NULL));
            n++;
        }
    }
    check("/apis/external.metrics.k8s.io/v1beta1");
    return n;
}

// --- files ---

static char **read_lines(const char *path, size_t *ret_n)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (err) {
        fprintf(stderr, "%s\n", gs_error_message(err));
        exit(2);
    }
    struct gs_slice rest = gs_buf_slice(&text);
    char **lines = NULL;
    size_t cap = 0, n = 0;
    while (rest.data) {
        struct gs_slice line = gs_slice_trim(gs_slice_cut(&rest, '\n'));
        if (!line.len || line.data[0] == '#')
            continue;
        gs_grow(&lines, &cap, n, sizeof(*lines));
        lines[n++] = gs_slice_dup(line);
    }
    *ret_n = n;
    return lines;
}

static struct http_client *client_of(const struct kube_config *k, const char *url)
{
    const struct http_client_config cfg = {.base_url = url,
                                           .cert_pem = k->client_cert_pem,
                                           .key_pem = k->client_key_pem,
                                           .insecure = true,
                                           .user_agent = "comparison"};
    struct http_client *c = NULL;
    struct gs_error *err = http_client_new_curl(&loop, &cfg, &c);
    if (err) {
        fprintf(stderr, "%s\n", gs_error_message(err));
        exit(2);
    }
    return c;
}

static void free_lines(char **lines, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(lines[i]);
    free(lines);
}

static void finish(struct kube_config *k)
{
    http_client_free(real.client);
    http_client_free(ours.client);
    uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
    kube_config_finish(k);
    free_lines(differences, n_differences);
}

int main(int argc, char **argv)
{
    struct kube_config k = {0};
    if (argc == 2 && gs_streq(argv[1], "defaults")) {
        printf("%s", adapter_config_defaults());
        return 0;
    }
    if (argc != 6 || kube_config_load(argv[1], NULL, &k)) {
        fprintf(stderr, "usage: %s KUBECONFIG REAL_URL OUR_URL REQUESTS DIFFERENCES\n", argv[0]);
        return 2;
    }
    uv_loop_init(&loop);
    real.client = client_of(&k, argv[2]);
    ours.client = client_of(&k, argv[3]);
    size_t n = 0;
    char **requests = read_lines(argv[4], &n);
    differences = read_lines(argv[5], &n_differences);
    for (size_t i = 0; i < n_differences; i++)
        differences[i][strcspn(differences[i], "\t")] = '\0';
    size_t metrics = check_lists();
    for (size_t i = 0; i < n; i++) {
        GS_AUTO_FREE char *path = gs_format("/apis/%s", requests[i]);
        check(path);
    }
    printf("%zu metrics listed, %zu requests: %zu the same, %zu meant to differ, %zu different\n",
           metrics, asked, good, meant, failed);
    free_lines(requests, n);
    finish(&k);
    return failed || asked < 50 ? 1 : 0;
}
