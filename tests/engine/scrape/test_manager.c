// SPDX-License-Identifier: Apache-2.0
// Targets of a configuration on a small server: stored samples, displayed targets, effects of a
// reload.
#include "engine/scrape/scrape.h"

#include "../../kube/loop.h"
#include "base/file.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "net/http/server.h"

#include <sys/socket.h>
#include <sys/un.h>

struct fixture {
    uv_loop_t loop;
    struct http_server *server;
    struct tsdb *db;
    struct scrape_manager *manager;
    struct engine_config *config;
    const char *body;
    int status, requests;
    char *authorization, *query;
    int scrapes;
    struct gs_buf fat; // gzip, of /fat
    int fat_requests;
};

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    if (strcmp(http_path(x), "/fat") == 0) {
        f->fat_requests++;
        http_add_header(x, "Content-Encoding", "gzip");
        http_reply(x, 200, "text/plain; version=0.0.4", gs_buf_slice(&f->fat));
        return;
    }
    f->requests++;
    free(f->authorization);
    free(f->query);
    f->authorization = gs_strdup(http_header(x, "Authorization"));
    f->query = gs_strdup(http_query(x, "collect"));
    http_reply(x, f->status, "text/plain; version=0.0.4", gs_slice_of(f->body));
}

static void on_scrape(void *arg)
{
    struct fixture *f = arg;
    f->scrapes++;
}

static void setup(struct fixture *f)
{
    *f = (struct fixture){.status = 200, .body = "util{pod=\"a\",job=\"theirs\"} 7\n"};
    uv_loop_init(&f->loop);
    const struct http_server_config cfg = {.address = "127.0.0.1"};
    assert_ok(http_server_start(&f->loop, &cfg, serve, f, &f->server));
    f->db = tsdb_new(NULL);
    f->manager = scrape_manager_new(&f->loop, f->db, NULL);
    scrape_manager_on_scrape(f->manager, on_scrape, f);
}

static void finish(struct fixture *f)
{
    scrape_manager_free(f->manager);
    http_server_stop(f->server);
    engine_config_free(f->config);
    loop_finish(&f->loop);
    tsdb_free(f->db);
    free(f->authorization);
    free(f->query);
    gs_buf_finish(&f->fat);
}

// %d in the text is the server's port.
static void apply(struct fixture *f, const char *text)
{
    GS_AUTO_BUF struct gs_buf yaml = {0};
    for (const char *c = text; *c; c++) {
        if (c[0] == '%' && c[1] == 'd') {
            gs_buf_addf(&yaml, "%d", http_server_port(f->server));
            c++;
        } else {
            gs_buf_add_char(&yaml, *c);
        }
    }
    struct engine_config *c;
    assert_ok(engine_config_parse(gs_buf_slice(&yaml), "p.yml", ".", &c));
    scrape_manager_apply(f->manager, c);
    engine_config_free(f->config);
    f->config = c;
}

// The newest value of the series with this name and label. -1: stale or absent.
static double value_of(struct fixture *f, const char *name, const char *label, const char *value)
{
    const struct tsdb_matcher m[] = {{GS_SLICE("__name__"), gs_slice_of(name), TSDB_EQ, NULL},
                                     {gs_slice_of(label), gs_slice_of(value), TSDB_EQ, NULL}};
    struct tsdb_refs refs = {0};
    double v = -1;
    assert_ok(tsdb_find(f->db, m, 2, 0, INT64_MAX, 0, &refs));
    if (refs.len)
        tsdb_latest(f->db, refs.items, 1, INT64_MAX, 0, &v, NULL);
    tsdb_refs_finish(&refs);
    return tsdb_is_stale(v) ? -1 : v;
}

#define JOB                                                                                        \
    "global: {scrape_interval: 50ms, scrape_timeout: 50ms}\n"                                      \
    "scrape_configs:\n"                                                                            \
    "- job_name: ours\n"                                                                           \
    "  params: {collect: [gpu]}\n"                                                                 \
    "  basic_auth: {username: u, password: p}\n"                                                   \
    "  static_configs: [{targets: ['127.0.0.1:%d'], labels: {rack: r1}}]\n"

static const json_t *first_active(const json_t *targets)
{
    return json_array_get(json_object_get(targets, "activeTargets"), 0);
}

// Waits until the first target has this value. On a slow machine, scrapes with a timeout of 50 ms
// can have other errors before.
static json_t *targets_when(struct fixture *f, const char *member, const char *value)
{
    json_t *targets = NULL;
    loop_until(&f->loop,
               (json_decref(targets), targets = scrape_targets_json(f->manager, "any", NULL),
                gs_streq(codec_json_str(first_active(targets), member, NULL), value)));
    return targets;
}

static void test_a_target_is_scraped_into_the_store(void **state)
{
    struct fixture f;
    setup(&f);
    apply(&f, JOB);
    loop_until(&f.loop, f.scrapes >= 2);
    loop_until(&f.loop, value_of(&f, "util", "job", "ours") == 7 &&
                            value_of(&f, "util", "exported_job", "theirs") == 7 &&
                            value_of(&f, "util", "rack", "r1") == 7 &&
                            value_of(&f, "up", "job", "ours") == 1);
    assert_string_equal(f.authorization, "Basic dTpw");
    assert_string_equal(f.query, "gpu");
    CODEC_AUTO_JSON json_t *targets = targets_when(&f, "health", "up");
    const json_t *t = first_active(targets);
    assert_string_equal(codec_json_str(t, "scrapePool", NULL), "ours");
    assert_string_equal(codec_json_str(t, "scrapeInterval", NULL), "50ms");
    assert_string_equal(codec_json_str(t, "labels", "rack", NULL), "r1");
    assert_string_equal(codec_json_str(t, "discoveredLabels", "__metrics_path__", NULL),
                        "/metrics");
    finish(&f);
    (void)state;
}

// A failure is a scrape, too. The target of the second configuration is scraped once a day.
static void test_targets_have_settled_after_a_scrape_of_each(void **state)
{
    struct fixture f;
    setup(&f);
    apply(&f, "global: {scrape_interval: 50ms, scrape_timeout: 50ms}\n"
              "scrape_configs: [{job_name: a, static_configs: [{targets: ['127.0.0.1:%d', "
              "'127.0.0.1:1']}]}]\n");
    assert_false(scrape_manager_settled(f.manager));
    loop_until(&f.loop, scrape_manager_settled(f.manager));
    assert_true(f.scrapes >= 2);
    assert_true(value_of(&f, "up", "instance", "127.0.0.1:1") == 0);
    apply(&f,
          "global: {scrape_interval: 50ms, scrape_timeout: 50ms}\n"
          "scrape_configs: [{job_name: a, static_configs: [{targets: ['127.0.0.1:%d']}]}, "
          "{job_name: b, scrape_interval: 1d, static_configs: [{targets: ['127.0.0.1:1']}]}]\n");
    int scrapes = f.scrapes;
    loop_until(&f.loop, f.scrapes >= scrapes + 3);
    assert_false(scrape_manager_settled(f.manager));
    finish(&f);
    (void)state;
}

static void test_a_failing_target_is_down_and_its_series_end(void **state)
{
    struct fixture f;
    setup(&f);
    apply(&f, JOB);
    loop_until(&f.loop, value_of(&f, "util", "job", "ours") == 7);
    f.status = 503;
    loop_until(&f.loop, value_of(&f, "up", "job", "ours") == 0);
    assert_true(value_of(&f, "util", "job", "ours") == -1);
    CODEC_AUTO_JSON json_t *targets =
        targets_when(&f, "lastError", "server returned HTTP status 503 Service Unavailable");
    assert_string_equal(codec_json_str(first_active(targets), "health", NULL), "down");
    f.status = 200;
    f.body = "util{\n";
    loop_until(&f.loop, f.requests > 5);
    assert_true(value_of(&f, "up", "job", "ours") == 0);
    finish(&f);
    (void)state;
}

static void test_a_reload_keeps_and_ends_targets(void **state)
{
    struct fixture f;
    setup(&f);
    apply(&f, JOB);
    loop_until(&f.loop, f.scrapes >= 1);
    apply(&f, JOB "  metric_relabel_configs: [{target_label: added, replacement: x}]\n");
    loop_until(&f.loop, value_of(&f, "util", "added", "x") == 7);
    apply(&f, "scrape_configs: []\n");
    assert_true(value_of(&f, "util", "added", "x") == -1);
    assert_true(value_of(&f, "up", "job", "ours") == -1);
    int before = f.requests;
    loop_for_ms(&f.loop, 200);
    assert_int_equal(f.requests, before);
    finish(&f);
    (void)state;
}

// A server on a socket of the file system, as a process without a port.
static void test_targets_on_unix_sockets(void **state)
{
    struct fixture f;
    setup(&f);
    struct http_server *other;
    char dir[] = "/tmp/gs-socket-XXXXXX";
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *path = gs_format("%s/s", dir);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 8), 0);
    const struct http_server_config cfg = {.address = "", .listen_fd = fd};
    assert_ok(http_server_start(&f.loop, &cfg, serve, &f, &other));
    GS_AUTO_FREE char *text =
        gs_format("global: {scrape_interval: 20ms}\nscrape_configs:\n- job_name: a\n"
                  "  static_configs: [{targets: [name], labels: {__unix_socket__: %s}}]\n",
                  path);
    apply(&f, text);
    loop_until(&f.loop, f.requests >= 2);
    CODEC_AUTO_JSON json_t *targets = targets_when(&f, "health", "up");
    assert_string_equal(codec_json_str(first_active(targets), "scrapeUrl", NULL),
                        "http://name/metrics");
    apply(&f, "scrape_configs: []\n");
    http_server_stop(other);
    finish(&f);
    (void)unlink(path);
    assert_int_equal(rmdir(dir), 0);
    (void)state;
}

static void test_relabelling_drops_targets(void **state)
{
    struct fixture f;
    setup(&f);
    apply(&f, "scrape_configs:\n"
              "- job_name: j\n"
              "  static_configs: [{targets: ['a:1', 'b:1']}]\n"
              "  relabel_configs:\n"
              "  - {source_labels: [__address__], regex: 'a:.*', action: drop}\n"
              "  - {target_label: __metrics_path__, replacement: /m}\n");
    CODEC_AUTO_JSON json_t *targets = scrape_targets_json(f.manager, "any", "j");
    assert_int_equal(json_array_size(json_object_get(targets, "activeTargets")), 1);
    assert_int_equal(json_array_size(json_object_get(targets, "droppedTargets")), 1);
    assert_int_equal(codec_json_int(targets, 0, "droppedTargetCounts", "j", NULL), 1);
    const json_t *t = first_active(targets);
    assert_string_equal(codec_json_str(t, "scrapeUrl", NULL), "http://b:1/m");
    assert_string_equal(codec_json_str(t, "labels", "instance", NULL), "b:1");
    assert_string_equal(codec_json_str(t, "health", NULL), "unknown");
    finish(&f);
    (void)state;
}

static void test_pools_are_shown_by_name_and_counted_all(void **state)
{
    struct fixture f;
    setup(&f);
    apply(&f, "scrape_configs:\n"
              "- job_name: z\n"
              "  keep_dropped_targets: 1\n"
              "  static_configs: [{targets: ['a:1', 'b:1', 'c:1']}]\n"
              "  relabel_configs: [{source_labels: [__address__], regex: '[ab]:1', action: drop}]\n"
              "- {job_name: a, static_configs: [{targets: ['d:1'], labels: {x: y}}]}\n");
    CODEC_AUTO_JSON json_t *pools = scrape_pools_json(f.manager);
    assert_string_equal(json_string_value(json_array_get(json_object_get(pools, "scrapePools"), 0)),
                        "a");
    CODEC_AUTO_JSON json_t *one = scrape_targets_json(f.manager, "any", "a");
    assert_int_equal(codec_json_int(one, 0, "droppedTargetCounts", "z", NULL), 2);
    assert_int_equal(json_array_size(json_object_get(one, "droppedTargets")), 0);
    CODEC_AUTO_JSON json_t *all = scrape_targets_json(f.manager, "any", NULL);
    assert_int_equal(json_array_size(json_object_get(all, "droppedTargets")), 1);
    assert_string_equal(codec_json_str(first_active(all), "scrapePool", NULL), "a");
    CODEC_AUTO_JSON json_t *active = scrape_targets_json(f.manager, "active", NULL);
    assert_true(json_is_null(json_object_get(active, "droppedTargetCounts")));
    CODEC_AUTO_JSON json_t *other = scrape_targets_json(f.manager, "x", NULL);
    assert_int_equal(json_array_size(json_object_get(other, "activeTargets")), 0);
    finish(&f);
    (void)state;
}

// As a labelmap of all labels of a pod can make. Such a target would have no up.
static void test_a_target_with_too_many_labels_is_none(void **state)
{
    struct fixture f;
    setup(&f);
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_add_str(&text, "scrape_configs:\n- job_name: j\n  static_configs:\n"
                          "  - targets: ['a:1']\n  - targets: ['b:1']\n    labels: {");
    for (int i = 0; i < TSDB_MAX_LABELS; i++)
        gs_buf_addf(&text, "%sl%d: v", i ? ", " : "", i);
    gs_buf_add_str(&text, "}\n  - targets: ['c:1']\n    labels: {l: '");
    for (size_t i = 0; i < TSDB_MAX_LABEL_BYTES; i++)
        gs_buf_add_char(&text, 'v');
    gs_buf_add_str(&text, "'}\n");
    apply(&f, text.data);
    CODEC_AUTO_JSON json_t *targets = scrape_targets_json(f.manager, "any", NULL);
    assert_int_equal(json_array_size(json_object_get(targets, "activeTargets")), 1);
    assert_string_equal(codec_json_str(first_active(targets), "labels", "instance", NULL), "a:1");
    finish(&f);
    (void)state;
}

// An interval of 0 crashed the program. Such labels can come from annotations of pods.
static void test_targets_with_impossible_labels_are_none(void **state)
{
    static const char *const rules[] = {
        "{target_label: __scrape_interval__, replacement: 0s}",
        "{target_label: __scrape_interval__, replacement: x}",
        "{target_label: __scrape_interval__, replacement: '-5s'}",
        "{target_label: __scrape_timeout__, replacement: 0s}",
        "{target_label: __scrape_timeout__, replacement: 1h}",
        "{target_label: __scrape_timeout__, replacement: ''}",
        "{target_label: __address__, replacement: ''}",
        "{target_label: __address__, replacement: a/b}",
    };
    struct fixture f;
    setup(&f);
    for (size_t i = 0; i < GS_ARRAY_LEN(rules); i++) {
        GS_AUTO_FREE char *text = gs_format("scrape_configs:\n- job_name: j\n"
                                            "  static_configs: [{targets: ['a:1']}]\n"
                                            "  relabel_configs: [%s]\n",
                                            rules[i]);
        apply(&f, text);
        CODEC_AUTO_JSON json_t *targets = scrape_targets_json(f.manager, "any", NULL);
        assert_int_equal(json_array_size(json_object_get(targets, "activeTargets")), 0);
        assert_int_equal(codec_json_int(targets, 1, "droppedTargetCounts", "j", NULL), 0);
    }
    apply(&f, "scrape_configs:\n"
              "- job_name: j\n"
              "  static_configs: [{targets: ['a:1']}]\n"
              "  relabel_configs:\n"
              "  - {target_label: __scrape_interval__, replacement: 1d}\n"
              "  - {target_label: __scheme__, replacement: gopher}\n");
    CODEC_AUTO_JSON json_t *targets = scrape_targets_json(f.manager, "any", NULL);
    const json_t *t = first_active(targets);
    assert_string_equal(codec_json_str(t, "scrapeUrl", NULL), "gopher://a:1/metrics");
    assert_string_equal(codec_json_str(t, "scrapeInterval", NULL), "1d");
    finish(&f);
    (void)state;
}

// A label sets only the path, whatever it contains.
static void test_paths_of_labels_are_escaped(void **state)
{
    struct fixture f;
    setup(&f);
    apply(&f, "scrape_configs:\n"
              "- job_name: j\n"
              "  params: {b: ['x y/z'], a: ['1']}\n"
              "  static_configs: [{targets: ['a:1']}]\n"
              "  relabel_configs:\n"
              "  - {target_label: __metrics_path__, replacement: \"m?c=d #%\\r\\nX: y\"}\n");
    CODEC_AUTO_JSON json_t *targets = scrape_targets_json(f.manager, "any", NULL);
    const json_t *t = first_active(targets);
    assert_string_equal(codec_json_str(t, "scrapeUrl", NULL),
                        "http://a:1/m%3Fc=d%20%23%25%0D%0AX:%20y?a=1&b=x+y%2Fz");
    finish(&f);
    (void)state;
}

static char *files_job(const char *dir, const char *file)
{
    return gs_format("global: {scrape_interval: 50ms, scrape_timeout: 50ms}\n"
                     "scrape_configs:\n"
                     "- job_name: files\n"
                     "  file_sd_configs: [{files: ['%s/%s']}]\n",
                     dir, file);
}

static void test_targets_of_files_come_and_go(void **state)
{
    struct fixture f;
    char dir[] = "/tmp/gpuscale-sd-XXXXXX";
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *path = gs_format("%s/t.json", dir);
    setup(&f);
    GS_AUTO_FREE char *config = files_job(dir, "*.json");
    GS_AUTO_FREE char *list = gs_format(
        "[{\"targets\":[\"127.0.0.1:%d\"],\"labels\":{\"k\":\"v\"}}]", http_server_port(f.server));
    assert_ok(gs_file_write_atomic(path, 0644, gs_slice_of(list)));
    apply(&f, config);
    loop_until(&f.loop, value_of(&f, "util", "k", "v") == 7);
    assert_ok(gs_file_write_atomic(path, 0644, GS_SLICE("[]")));
    loop_until(&f.loop, value_of(&f, "util", "k", "v") == -1);
    unlink(path);
    rmdir(dir);
    finish(&f);
    (void)state;
}

// As in Prometheus: numbers in YAML are text; numbers in JSON are errors, and the file is rejected.
static void test_numbers_as_labels_in_files(void **state)
{
    char dir[] = "/tmp/gpuscale-manager-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct fixture f;
    setup(&f);
    GS_AUTO_FREE char *yaml = gs_format("%s/a.yml", dir), *json = gs_format("%s/b.json", dir);
    assert_ok(gs_file_write_atomic(
        yaml, 0644, GS_SLICE("- targets: ['a:1']\n  labels: {n: 1.0, b: true, hex: 0x10}\n")));
    assert_ok(gs_file_write_atomic(json, 0644,
                                   GS_SLICE("[{\"targets\": [\"b:1\"], \"labels\": {\"n\": 5}}]")));
    GS_AUTO_FREE char *text = gs_format(
        "scrape_configs: [{job_name: j, file_sd_configs: [{files: ['%s', '%s']}]}]", yaml, json);
    apply(&f, text);
    json_t *targets = NULL;
    loop_until(&f.loop,
               (json_decref(targets), targets = scrape_targets_json(f.manager, "active", NULL),
                json_array_size(json_object_get(targets, "activeTargets")) > 0));
    assert_int_equal(json_array_size(json_object_get(targets, "activeTargets")), 1);
    const json_t *t = first_active(targets);
    assert_string_equal(codec_json_str(t, "labels", "n", NULL), "1.0");
    assert_string_equal(codec_json_str(t, "labels", "b", NULL), "true");
    assert_string_equal(codec_json_str(t, "labels", "hex", NULL), "0x10");
    json_decref(targets);
    finish(&f);
    assert_int_equal(remove(yaml), 0);
    assert_int_equal(remove(json), 0);
    assert_int_equal(remove(dir), 0);
    (void)state;
}

static void write_targets(struct fixture *f, const char *dir, const char *file, const char *label)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, file);
    GS_AUTO_FREE char *text =
        gs_format("[{\"targets\":[\"127.0.0.1:%d\"],\"labels\":{\"k\":\"%s\"}},"
                  "{\"targets\":[\"localhost:%d\"],\"labels\":{\"both\":\"yes\"}}]",
                  http_server_port(f->server), label, http_server_port(f->server));
    assert_ok(gs_file_write_atomic(path, 0644, gs_slice_of(text)));
}

static size_t series_with(struct fixture *f, const char *label)
{
    const struct tsdb_matcher m[] = {{GS_SLICE("__name__"), GS_SLICE("util"), TSDB_EQ, NULL},
                                     {gs_slice_of(label), GS_SLICE(""), TSDB_NEQ, NULL}};
    struct tsdb_refs refs = {0};
    assert_ok(tsdb_find(f->db, m, 2, 0, INT64_MAX, 0, &refs));
    size_t n = refs.len;
    tsdb_refs_finish(&refs);
    return n;
}

// Targets that only the old list contains are removed. Targets in both lists continue without a
// gap.
static void test_a_reload_to_another_list_of_targets_ends_the_first(void **state)
{
    struct fixture f;
    char dir[] = "/tmp/gpuscale-sd-XXXXXX";
    assert_non_null(mkdtemp(dir));
    setup(&f);
    write_targets(&f, dir, "a.json", "first");
    write_targets(&f, dir, "b.json", "second");
    GS_AUTO_FREE char *first = files_job(dir, "a.json"), *second = files_job(dir, "b.json");
    apply(&f, first);
    loop_until(&f.loop, value_of(&f, "util", "k", "first") == 7);
    loop_until(&f.loop, value_of(&f, "util", "both", "yes") == 7);
    apply(&f, second);
    assert_true(value_of(&f, "util", "both", "yes") == 7);
    loop_until(&f.loop, value_of(&f, "util", "k", "second") == 7);
    assert_true(value_of(&f, "util", "k", "first") == -1);
    assert_true(value_of(&f, "up", "k", "first") == -1);
    loop_until(&f.loop, value_of(&f, "util", "both", "yes") == 7 &&
                            value_of(&f, "util", "k", "second") == 7);
    apply(&f, second); // the same configuration: nothing changes
    assert_true(value_of(&f, "util", "k", "second") == 7);
    assert_int_equal(series_with(&f, "both"), 1);
    GS_AUTO_FREE char *clean = gs_format("rm -r '%s'", dir);
    assert_int_equal(system(clean), 0);
    finish(&f);
    (void)state;
}

static void test_too_many_targets_are_all_down(void **state)
{
    struct fixture f;
    setup(&f);
    apply(&f, "global: {scrape_interval: 50ms, scrape_timeout: 50ms, target_limit: 1}\n"
              "scrape_configs:\n"
              "- job_name: j\n"
              "  static_configs: [{targets: ['127.0.0.1:%d', 'localhost:%d']}]\n");
    loop_until(&f.loop, f.scrapes >= 2);
    assert_true(value_of(&f, "up", "job", "j") == 0);
    assert_int_equal(f.requests, 0);
    CODEC_AUTO_JSON json_t *targets = scrape_targets_json(f.manager, "active", NULL);
    const json_t *t = first_active(targets);
    assert_string_equal(codec_json_str(t, "lastError", NULL),
                        "target_limit exceeded (number of targets: 2, limit: 1)");
    apply(&f, "global: {scrape_interval: 50ms, scrape_timeout: 50ms}\n"
              "scrape_configs:\n"
              "- job_name: j\n"
              "  static_configs: [{targets: ['127.0.0.1:%d', 'localhost:%d']}]\n");
    loop_until(&f.loop, value_of(&f, "up", "job", "j") == 1);
    finish(&f);
    (void)state;
}

#define FAT                                                                                        \
    "global: {scrape_interval: 20ms, scrape_timeout: 20ms}\n"                                      \
    "scrape_configs:\n"                                                                            \
    "- job_name: healthy\n"                                                                        \
    "  static_configs: [{targets: ['127.0.0.1:%d']}]\n"                                            \
    "- job_name: fat\n"                                                                            \
    "  metrics_path: /fat\n"                                                                       \
    "  scrape_interval: 2s\n"                                                                      \
    "  scrape_timeout: 2s\n"                                                                       \
    "  static_configs: [{targets: ['127.0.0.1:%d']}]\n"

// A million series: more than a second of work.
static void make_fat(struct fixture *f)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    for (int i = 0; i < 1000000; i++)
        gs_buf_addf(&text, "fat{n=\"%d\"} 1\n", i);
    assert_ok(codec_gzip(gs_buf_slice(&text), NULL, NULL, &f->fat));
}

static void test_a_fat_target_does_not_hold_up_the_others(void **state)
{
    struct fixture f;
    setup(&f);
    make_fat(&f);
    apply(&f, FAT);
    loop_until(&f.loop, f.fat_requests == 1);
    int before = f.requests;
    loop_until(&f.loop, value_of(&f, "up", "job", "fat") == 1);
    assert_true(f.requests - before >= 3);
    assert_true(value_of(&f, "scrape_samples_scraped", "job", "fat") == 1000000);
    finish(&f);
    (void)state;
}

static void test_a_fat_target_may_go_while_it_is_read(void **state)
{
    struct fixture f;
    setup(&f);
    make_fat(&f);
    for (int i = 0; i < 3; i++) {
        f.fat_requests = 0;
        apply(&f, FAT);
        loop_until(&f.loop, f.fat_requests == 1);
        int before = f.requests;
        loop_until(&f.loop, f.requests - before >= 3);
        assert_true(value_of(&f, "up", "job", "fat") == -1);
        apply(&f, i ? "scrape_configs: []\n" : FAT); // removed, or with another configuration
        assert_true(value_of(&f, "up", "job", "fat") == -1);
        apply(&f, "scrape_configs: []\n");
    }
    apply(&f, FAT);
    f.fat_requests = 0;
    loop_until(&f.loop, f.fat_requests == 1);
    finish(&f);
    (void)state;
}

// A pod with annotations that a monitor selects, too, is scraped once.
static void test_a_job_that_yields_leaves_targets_to_others(void **state)
{
    struct fixture f;
    setup(&f);
    GS_AUTO_FREE char *yaml =
        gs_format("global: {scrape_interval: 50ms, scrape_timeout: 50ms}\nscrape_configs:\n"
                  "- job_name: last\n  static_configs: [{targets: ['127.0.0.1:%d']}]\n",
                  http_server_port(f.server));
    GS_CLEANUP(engine_config_freep) struct engine_config *last = NULL;
    assert_ok(engine_config_parse(gs_slice_of(yaml), "last.yml", ".", &last));
    engine_config_set_yields(last);
    scrape_manager_apply_extra(f.manager, "last", last->scrapes, last->n_scrapes);
    loop_until(&f.loop, value_of(&f, "up", "job", "last") == 1);
    apply(&f, "global: {scrape_interval: 50ms, scrape_timeout: 50ms}\nscrape_configs:\n"
              "- job_name: ours\n  static_configs: [{targets: ['127.0.0.1:%d']}]\n");
    loop_until(&f.loop,
               value_of(&f, "up", "job", "ours") == 1 && value_of(&f, "up", "job", "last") == -1);
    apply(&f, "scrape_configs: []\n");
    loop_until(&f.loop,
               value_of(&f, "up", "job", "last") == 1 && value_of(&f, "up", "job", "ours") == -1);
    finish(&f);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_target_is_scraped_into_the_store),
        cmocka_unit_test(test_targets_have_settled_after_a_scrape_of_each),
        cmocka_unit_test(test_a_failing_target_is_down_and_its_series_end),
        cmocka_unit_test(test_a_reload_keeps_and_ends_targets),
        cmocka_unit_test(test_targets_on_unix_sockets),
        cmocka_unit_test(test_relabelling_drops_targets),
        cmocka_unit_test(test_pools_are_shown_by_name_and_counted_all),
        cmocka_unit_test(test_a_target_with_too_many_labels_is_none),
        cmocka_unit_test(test_targets_with_impossible_labels_are_none),
        cmocka_unit_test(test_paths_of_labels_are_escaped),
        cmocka_unit_test(test_numbers_as_labels_in_files),
        cmocka_unit_test(test_targets_of_files_come_and_go),
        cmocka_unit_test(test_a_reload_to_another_list_of_targets_ends_the_first),
        cmocka_unit_test(test_too_many_targets_are_all_down),
        cmocka_unit_test(test_a_job_that_yields_leaves_targets_to_others),
        cmocka_unit_test(test_a_fat_target_does_not_hold_up_the_others),
        cmocka_unit_test(test_a_fat_target_may_go_while_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
