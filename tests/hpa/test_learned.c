// SPDX-License-Identifier: Apache-2.0
// What the controller has learned survives its process: in a file, and in a ConfigMap.
#include "base/file.h"
#include "codec/encoding.h"
#include "hpa/convert.h"
#include "hpa_controller/controller.h"
#include "hpa_controller/learned_store.h"

#include "unit.h"

#include "fake_api.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG_MAP  "/api/v1/namespaces/monitoring/configmaps/learned"
#define CONFIG_MAPS "/api/v1/namespaces/monitoring/configmaps"

struct bench {
    struct fake_api api;
    struct kube_cache *pods;
    struct hpa_controller *controller;
    struct hpa_learned_store *store;
    int calls; // of the store
};

static void new_controller(struct bench *b)
{
    const struct hpa_controller_config cfg = {.sync_period_ms = 20, .decide = hpa_config_default()};
    b->pods = kube_cache_new(&b->api.loop, b->api.kube, KUBE_PODS, NULL, NULL);
    b->controller = hpa_controller_new(&b->api.loop, b->api.kube, b->pods, &cfg);
}

static int set_up(void **state)
{
    struct bench *b = gs_alloc(sizeof(*b));
    fake_init(&b->api);
    new_controller(b);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    hpa_learned_store_free(b->store);
    hpa_controller_free(b->controller);
    kube_cache_free(b->pods);
    int rc = fake_finish(&b->api);
    free(b);
    return rc;
}

static void on_call(void *arg)
{
    ((struct bench *)arg)->calls++;
}

static bool is_called(void *arg)
{
    return ((struct bench *)arg)->calls > 0;
}

static bool is_held(void *arg)
{
    return fake_n_held(&((struct bench *)arg)->api) > 0;
}

// --- documents ---

// A service that was saved so long ago, whose replicas run this many requests at a time.
static json_t *service_json(int64_t ago_ms, double slots)
{
    return json_pack("{s:I, s:[{s:s, s:f, s:f}]}", "savedMs", (json_int_t)(gs_unix_ms() - ago_ms),
                     "learned", "identity", "", "slots", slots, "slotsWeight", 100.0);
}

static json_t *document_json(const char *key, int64_t ago_ms, double slots)
{
    return json_pack("{s:i, s:{s:o}}", "version", 1, "services", key, service_json(ago_ms, slots));
}

static double slots_of(const json_t *document, const char *key)
{
    const json_t *service = codec_json_get(document, "services", key, NULL);
    const json_t *learned = json_array_get(json_object_get(service, "learned"), 0);
    return json_number_value(json_object_get(learned, "slots"));
}

static void put_autoscaler(struct bench *b, const char *annotation)
{
    CODEC_AUTO_JSON json_t *in =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:{s:s}}, s:{s:{s:s, s:s, s:s}, s:i}}",
                  "apiVersion", "autoscaling/v2", "kind", "HorizontalPodAutoscaler", "metadata",
                  "namespace", "shop", "name", "web", "uid", "web", "annotations",
                  "gpuscale.dev/slo", annotation, "spec", "scaleTargetRef", "apiVersion", "apps/v1",
                  "kind", "Deployment", "name", "web", "maxReplicas", 10);
    json_t *out = NULL;
    assert_null(hpa_to_v2(in, &out));
    hpa_default(out);
    fake_put(&b->api, b->api.hpas, out);
}

static bool has_claimed(void *arg)
{
    const struct bench *b = arg;
    CODEC_AUTO_JSON json_t *document = hpa_controller_learned(b->controller);
    return codec_json_get(document, "starts", "savedMs", NULL) != NULL;
}

static void test_an_autoscaler_goes_on_with_what_was_learned(void **state)
{
    struct bench *b = *state;
    CODEC_AUTO_JSON json_t *document = document_json("shop/web", 1000, 37);
    json_object_set_new(json_object_get(document, "services"), "shop/later",
                        service_json(3600000, 12));
    json_object_set_new(json_object_get(document, "services"), "shop/gone",
                        service_json(INT64_C(8) * 24 * 3600000, 12));
    assert_null(hpa_controller_restore(b->controller, document));
    put_autoscaler(b, "ttft=1s");
    hpa_controller_start(b->controller);
    assert_true(fake_wait(&b->api, has_claimed, b));
    CODEC_AUTO_JSON json_t *again = hpa_controller_learned(b->controller);
    assert_true(slots_of(again, "shop/web") == 37);
    // Of an autoscaler that has not appeared again, for a week.
    assert_true(slots_of(again, "shop/later") == 12);
    assert_null(codec_json_get(again, "services", "shop/gone", NULL));
    assert_true(codec_json_int(again, 0, "services", "shop/web", "savedMs", NULL) >
                codec_json_int(again, 0, "services", "shop/later", "savedMs", NULL));
}

static void test_other_documents_are_refused(void **state)
{
    struct bench *b = *state;
    CODEC_AUTO_JSON json_t *newer = json_pack("{s:i, s:{}}", "version", 2, "services");
    CODEC_AUTO_JSON json_t *list = json_pack("{s:i, s:[]}", "version", 1, "services");
    assert_error(hpa_controller_restore(b->controller, newer), GS_EINVAL, "version 1");
    assert_error(hpa_controller_restore(b->controller, list), GS_EINVAL, "version 1");
    assert_error(hpa_controller_restore(b->controller, NULL), GS_EINVAL, "version 1");
}

static void test_a_document_that_is_too_large_loses_forecasts_first(void **state)
{
    CODEC_AUTO_JSON json_t *document = document_json("shop/web", 0, 37), *read = NULL;
    CODEC_AUTO_JSON json_t *noise = json_array();
    GS_AUTO_BUF struct gs_buf all = {0}, packed = {0};
    (void)state;
    for (int i = 0; i < 2000; i++)
        json_array_append_new(noise, json_real(sin(i)));
    codec_json_set(document, json_incref(noise), "services", "shop/web", "forecast", NULL);
    json_object_set(document, "starts", noise);
    assert_ok(hpa_learned_pack(document, SIZE_MAX, &all));
    assert_ok(hpa_learned_pack(document, all.len - 1, &packed));
    assert_ok(hpa_learned_unpack(gs_buf_slice(&packed), &read));
    assert_null(codec_json_get(read, "services", "shop/web", "forecast", NULL));
    assert_non_null(json_object_get(read, "starts"));
    assert_ok(hpa_learned_pack(document, packed.len - 1, &packed));
    assert_null(json_object_get(document, "starts"));
    assert_true(slots_of(document, "shop/web") == 37);
    assert_error(hpa_learned_pack(document, 10, &packed), GS_ELIMIT, "at most 10 fit");
}

// --- a file ---

static void test_a_file_is_read_at_once_and_written_at_the_end(void **state)
{
    struct bench *b = *state;
    char dir[] = "/tmp/gpuscale-learned-XXXXXX";
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *path = gs_format("%s/learned", dir);
    const struct hpa_learned_store_config cfg = {
        .loop = &b->api.loop, .controller = b->controller, .path = path};
    GS_AUTO_BUF struct gs_buf packed = {0};
    CODEC_AUTO_JSON json_t *document = document_json("shop/web", 0, 37), *read = NULL;
    assert_ok(hpa_learned_pack(document, SIZE_MAX, &packed));
    assert_ok(gs_file_write_atomic(path, 0600, gs_buf_slice(&packed)));
    b->store = hpa_learned_store_new(&cfg, on_call, b);
    assert_int_equal(b->calls, 1);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of("not gzip")));
    hpa_learned_store_end(b->store, on_call, b);
    assert_int_equal(b->calls, 2);
    gs_buf_finish(&packed);
    assert_ok(gs_file_read(path, 1 << 20, &packed));
    assert_ok(hpa_learned_unpack(gs_buf_slice(&packed), &read));
    assert_true(slots_of(read, "shop/web") == 37);
    gs_remove_tree(dir);
}

static void test_a_broken_file_does_not_stop_the_controller(void **state)
{
    struct bench *b = *state;
    char dir[] = "/tmp/gpuscale-learned-XXXXXX";
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *path = gs_format("%s/learned", dir);
    const struct hpa_learned_store_config cfg = {
        .loop = &b->api.loop, .controller = b->controller, .path = path};
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of("not gzip")));
    b->store = hpa_learned_store_new(&cfg, on_call, b);
    assert_int_equal(b->calls, 1);
    gs_remove_tree(dir);
}

// --- a ConfigMap ---

static void open_config_map(struct bench *b)
{
    const struct hpa_learned_store_config cfg = {.loop = &b->api.loop,
                                                 .controller = b->controller,
                                                 .client = b->api.kube,
                                                 .ns = "monitoring",
                                                 .name = "learned",
                                                 .retry_ms = 1};
    b->store = hpa_learned_store_new(&cfg, on_call, b);
    assert_true(fake_wait(&b->api, is_called, b));
    b->calls = 0;
}

static json_t *config_map_json(const json_t *document)
{
    GS_AUTO_BUF struct gs_buf packed = {0}, text = {0};
    CODEC_AUTO_JSON json_t *copy = json_deep_copy(document);
    assert_ok(hpa_learned_pack(copy, SIZE_MAX, &packed));
    codec_base64_encode(gs_buf_slice(&packed), &text);
    return json_pack("{s:{s:s}}", "binaryData", "learned.json.gz", text.data);
}

static void test_a_config_map_is_read_before_the_start_and_replaced_as_a_whole(void **state)
{
    struct bench *b = *state;
    CODEC_AUTO_JSON json_t *document = document_json("shop/web", 0, 37), *read = NULL;
    GS_AUTO_BUF struct gs_buf packed = {0};
    fake_answer(&b->api, CONFIG_MAP, 200, config_map_json(document));
    open_config_map(b);
    b->api.hold_prefix = CONFIG_MAP;
    hpa_learned_store_end(b->store, on_call, b);
    assert_true(fake_wait(&b->api, is_held, b));
    CODEC_AUTO_JSON json_t *patch = fake_body(b->api.held[0]);
    const char *text = codec_json_str(patch, "binaryData", "learned.json.gz", NULL);
    assert_non_null(text);
    assert_ok(codec_base64_decode(gs_slice_of(text), &packed));
    assert_ok(hpa_learned_unpack(gs_buf_slice(&packed), &read));
    assert_true(slots_of(read, "shop/web") == 37);
    b->api.hold_prefix = NULL;
    fake_release(&b->api);
    assert_true(fake_wait(&b->api, is_called, b));
}

static void test_a_config_map_that_is_absent_is_created(void **state)
{
    struct bench *b = *state;
    open_config_map(b);
    hpa_learned_store_end(b->store, on_call, b);
    assert_true(fake_wait(&b->api, is_called, b));
    assert_int_equal(fake_count_log(&b->api, "POST " CONFIG_MAPS), 1);
}

static void test_a_config_map_that_cannot_be_read_is_not_overwritten(void **state)
{
    struct bench *b = *state;
    fake_answer(&b->api, CONFIG_MAP, 403,
                json_pack("{s:s, s:s}", "kind", "Status", "message", "no"));
    open_config_map(b);
    hpa_learned_store_end(b->store, on_call, b);
    assert_int_equal(b->calls, 1);
    assert_int_equal(fake_count_log(&b->api, "PATCH"), 0);
}

static void fail_reads(struct bench *b)
{
    fake_answer(&b->api, CONFIG_MAP, 503,
                json_pack("{s:s, s:s}", "kind", "Status", "message", "etcd is away"));
}

static bool is_merged(void *arg)
{
    const struct bench *b = arg;
    CODEC_AUTO_JSON json_t *document = hpa_controller_learned(b->controller);
    return slots_of(document, "shop/web") == 37;
}

static void test_a_first_read_that_failed_is_not_overwritten(void **state)
{
    struct bench *b = *state;
    fail_reads(b);
    open_config_map(b); // the controller starts nevertheless
    assert_true(fake_count_log(&b->api, "GET " CONFIG_MAP) >= 3);
    hpa_learned_store_end(b->store, on_call, b);
    assert_true(fake_wait(&b->api, is_called, b));
    assert_int_equal(fake_count_log(&b->api, "PATCH"), 0);
    assert_int_equal(fake_count_log(&b->api, "POST"), 0);
}

static void test_a_late_read_is_merged_before_it_is_written(void **state)
{
    struct bench *b = *state;
    CODEC_AUTO_JSON json_t *document = document_json("shop/web", 0, 37), *read = NULL;
    GS_AUTO_BUF struct gs_buf packed = {0};
    json_object_set_new(json_object_get(document, "services"), "shop/later", service_json(0, 12));
    fail_reads(b);
    open_config_map(b);
    put_autoscaler(b, "ttft=1s");
    hpa_controller_start(b->controller);
    assert_true(fake_wait(&b->api, has_claimed, b)); // it learns, from nothing
    fake_answer(&b->api, CONFIG_MAP, 200, config_map_json(document));
    assert_true(fake_wait(&b->api, is_merged, b));
    b->api.hold_prefix = CONFIG_MAP;
    hpa_learned_store_end(b->store, on_call, b);
    assert_true(fake_wait(&b->api, is_held, b));
    CODEC_AUTO_JSON json_t *patch = fake_body(b->api.held[0]);
    const char *text = codec_json_str(patch, "binaryData", "learned.json.gz", NULL);
    assert_ok(codec_base64_decode(gs_slice_of(text), &packed));
    assert_ok(hpa_learned_unpack(gs_buf_slice(&packed), &read));
    assert_true(slots_of(read, "shop/web") == 37);
    assert_true(slots_of(read, "shop/later") == 12);
    b->api.hold_prefix = NULL;
    fake_release(&b->api);
    assert_true(fake_wait(&b->api, is_called, b));
}

static void test_a_file_that_cannot_be_read_is_not_overwritten(void **state)
{
    struct bench *b = *state;
    char dir[] = "/tmp/gpuscale-learned-XXXXXX";
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *path = gs_format("%s/learned", dir);
    // Larger than what is read.
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(ftruncate(fileno(f), 17 << 20), 0);
    fclose(f);
    const struct hpa_learned_store_config cfg = {
        .loop = &b->api.loop, .controller = b->controller, .path = path};
    b->store = hpa_learned_store_new(&cfg, on_call, b);
    assert_int_equal(b->calls, 1);
    hpa_learned_store_end(b->store, on_call, b);
    assert_int_equal(b->calls, 2);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 17 << 20);
    gs_remove_tree(dir);
}

static void test_the_end_does_not_wait_for_an_api_that_is_away(void **state)
{
    struct bench *b = *state;
    open_config_map(b);
    b->api.hold_prefix = CONFIG_MAP;
    hpa_learned_store_end(b->store, on_call, b);
    assert_true(fake_wait(&b->api, is_called, b));
    assert_int_equal(fake_n_held(&b->api), 0); // the request was cancelled
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_an_autoscaler_goes_on_with_what_was_learned),
        TEST(test_other_documents_are_refused),
        TEST(test_a_document_that_is_too_large_loses_forecasts_first),
        TEST(test_a_file_is_read_at_once_and_written_at_the_end),
        TEST(test_a_broken_file_does_not_stop_the_controller),
        TEST(test_a_config_map_is_read_before_the_start_and_replaced_as_a_whole),
        TEST(test_a_config_map_that_is_absent_is_created),
        TEST(test_a_config_map_that_cannot_be_read_is_not_overwritten),
        TEST(test_a_first_read_that_failed_is_not_overwritten),
        TEST(test_a_late_read_is_merged_before_it_is_written),
        TEST(test_a_file_that_cannot_be_read_is_not_overwritten),
        TEST(test_the_end_does_not_wait_for_an_api_that_is_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
