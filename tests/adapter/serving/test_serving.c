// SPDX-License-Identifier: Apache-2.0
// The adapter's serving certificate: changed files, and the Secret that replicas share.
#include "adapter/serving/serving.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "certificates.h"
#include "codec/encoding.h"
#include "kube/status.h"
#include "net/tls/tls.h"
#include "patience.h"
#include "unit.h"

#include <stdlib.h>

// --- files ---

struct files {
    char folder[40];
    char *cert, *key;
};

static void write_pair(const struct files *f, const struct tls_pair *p)
{
    usleep(20000); // a different modification time
    assert_ok(gs_file_write_atomic(f->key, 0600, gs_slice_of(p->key_pem)));
    assert_ok(gs_file_write_atomic(f->cert, 0644, gs_slice_of(p->cert_pem)));
}

static const char *served(const struct serving *s)
{
    struct http_server_config cfg = {0};
    serving_apply(s, &cfg);
    return cfg.cert_pem;
}

// A valid certificate is not replaced by one that is expired, not yet valid or has another key.
static void test_files(void **state)
{
    struct files f = {.folder = "/tmp/gpuscale-cert-XXXXXX"};
    GS_CLEANUP(tls_pair_finish)
    struct tls_pair good = {0}, better = {0}, expired = {0}, future = {0};
    struct serving *s = NULL;
    make_certificate(-1, 100, &good);
    make_certificate(-1, 200, &better);
    make_certificate(-3, -1, &expired);
    make_certificate(1, 100, &future);
    assert_non_null(mkdtemp(f.folder));
    f.cert = gs_format("%s/crt", f.folder);
    f.key = gs_format("%s/key", f.folder);
    const struct serving_options o = {.cert_file = f.cert, .key_file = f.key, .cert_dir = ""};
    write_pair(&f, &expired); // used if there is no valid one
    assert_ok(serving_new(&o, &s));
    assert_true(serving_expiry(s) < gs_unix_ms() / 1000);
    write_pair(&f, &good);
    serving_poll(s);
    assert_string_equal(served(s), good.cert_pem);
    const struct tls_pair *wrong[] = {&expired, &future};
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        write_pair(&f, wrong[i]);
        serving_poll(s);
        assert_string_equal(served(s), good.cert_pem);
    }
    write_pair(&f, &(struct tls_pair){better.cert_pem, good.key_pem});
    serving_poll(s);
    assert_string_equal(served(s), good.cert_pem);
    write_pair(&f, &better);
    serving_poll(s);
    assert_string_equal(served(s), better.cert_pem);
    assert_true(serving_expiry(s) > gs_unix_ms() / 1000 + 199 * 86400);
    serving_free(s);
    (void)unlink(f.cert);
    (void)unlink(f.key);
    rmdir(f.folder);
    free(f.cert);
    free(f.key);
}

static void keep_line(void *arg, const char *line, size_t len)
{
    gs_buf_add(arg, line, len);
}

// Files of --cert-dir, which the adapter makes itself. Without a certificate it serves no metric.
static void test_damaged_files_of_an_earlier_run_are_named_and_made_again(void **state)
{
    char folder[] = "/tmp/gpuscale-cert-XXXXXX";
    GS_AUTO_BUF struct gs_buf log = {0};
    assert_non_null(mkdtemp(folder));
    GS_AUTO_FREE char *cert = gs_format("%s/apiserver.crt", folder);
    GS_AUTO_FREE char *key = gs_format("%s/apiserver.key", folder);
    const struct serving_options o = {.cert_dir = folder};
    gs_log_set_sink(keep_line, &log);
    for (size_t i = 0; i < 5; i++) {
        struct serving *s = NULL;
        gs_buf_clear(&log);
        if (i)
            assert_int_equal(truncate(i % 2 ? cert : key, i > 2 ? 100 : 0), 0);
        assert_ok(serving_new(&o, &s));
        assert_ok(tls_check_certificates(served(s)));
        serving_free(s);
        bool named = strstr(log.data, "apiserver.crt is damaged") != NULL;
        assert_int_equal(named, i > 0);
    }
    gs_log_set_sink(NULL, NULL);
    (void)unlink(cert);
    (void)unlink(key);
    rmdir(folder);
}

// --- the Secret ---

enum { SERVICES = 2 };

struct fixture {
    uv_loop_t loop;
    struct http_client *http;
    struct kube_client *kube;
    struct serving *serving;
    struct serving_rotation *rotation;
    json_t *secret;
    char *bundles[SERVICES]; // in base64; of v1beta1 and v1beta2 of custom metrics
    bool forbidden;
    struct tls_pair *rival; // another replica that writes the Secret first
    int writes, patches;
};

static void set_data(json_t *secret, const char *key, const char *text)
{
    GS_AUTO_BUF struct gs_buf coded = {0};
    codec_base64_encode(gs_slice_of(text), &coded);
    json_object_set_new(json_object_get(secret, "data"), key, json_string(coded.data));
}

static void set_pair(struct fixture *f, const struct tls_pair *p)
{
    if (!json_object_get(f->secret, "data"))
        json_object_set_new(f->secret, "data", json_object());
    set_data(f->secret, "ca.crt", p->cert_pem); // self-signed
    set_data(f->secret, "tls.crt", p->cert_pem);
    set_data(f->secret, "tls.key", p->key_pem);
}

static void put_secret(struct fixture *f, struct http_exchange *x)
{
    f->writes++;
    if (f->rival) {
        set_pair(f, GS_TAKE(f->rival));
        kube_reply_status(x, kube_status_conflict("secrets", "web-tls", NULL));
        return;
    }
    json_decref(f->secret);
    f->secret = NULL;
    assert_ok(codec_json_parse(http_body(x), false, &f->secret));
    kube_reply_json(x, 200, f->secret);
}

static void apiservice(struct fixture *f, struct http_exchange *x, size_t i)
{
    CODEC_AUTO_JSON json_t *patch = NULL;
    if (gs_streq(http_method(x), "PATCH")) {
        f->patches++;
        assert_ok(codec_json_parse(http_body(x), false, &patch));
        free(f->bundles[i]);
        f->bundles[i] = gs_strdup(codec_json_str(patch, "spec", "caBundle", NULL));
    }
    CODEC_AUTO_JSON json_t *body = json_pack("{s:{s:{s:s, s:s}}}", "spec", "service", "name", "web",
                                             "namespace", i ? "ml" : "other");
    if (f->bundles[i])
        json_object_set_new(json_object_get(body, "spec"), "caBundle", json_string(f->bundles[i]));
    kube_reply_json(x, 200, body);
}

static void cluster(void *arg, struct http_exchange *x)
{
    struct fixture *f = arg;
    const char *path = http_path(x);
    if (f->forbidden)
        kube_reply_failure(x, 403, "Forbidden", "secrets \"web-tls\" is forbidden");
    else if (gs_streq(path, "/api/v1/namespaces/ml/secrets/web-tls") &&
             gs_streq(http_method(x), "PUT"))
        put_secret(f, x);
    else if (gs_streq(path, "/api/v1/namespaces/ml/secrets/web-tls"))
        kube_reply_json(x, 200, f->secret);
    else if (gs_ends(path, "/v1beta1.custom.metrics.k8s.io"))
        apiservice(f, x, 0);
    else if (gs_ends(path, "/v1beta2.custom.metrics.k8s.io"))
        apiservice(f, x, 1);
    else
        kube_reply_status(x, kube_status_not_found("apiservices", "none"));
}

static void start(struct fixture *f)
{
    uv_loop_init(&f->loop);
    f->http = http_client_new_loopback(&f->loop, cluster, f, NULL);
    f->kube = kube_client_new(f->http);
    f->secret = json_pack("{s:{s:s}}", "metadata", "name", "web-tls");
    const struct serving_options o = {.cert_dir = "/nonexistent", .handed = true};
    assert_ok(serving_new(&o, &f->serving));
    const struct serving_rotation_options r = {
        .kube = f->kube, .serving = f->serving, .service = "ml/web", .period_ms = 10};
    f->rotation = serving_rotation_new(&f->loop, &r);
    assert_non_null(serving_rotation_error(f->rotation));
}

static void stop(struct fixture *f)
{
    serving_rotation_free(f->rotation);
    serving_free(f->serving);
    kube_client_free(f->kube);
    http_client_free(f->http);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    json_decref(f->secret);
    for (size_t i = 0; i < SERVICES; i++)
        free(f->bundles[i]);
}

static char *text_of(const char *base64)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    if (base64)
        assert_ok(codec_base64_decode(gs_slice_of(base64), &out));
    return gs_buf_take(&out);
}

// The Secret's certificate is served, and the adapter's APIService trusts its CA.
static bool settled(const struct fixture *f)
{
    GS_AUTO_FREE char *cert = text_of(codec_json_str(f->secret, "data", "tls.crt", NULL));
    GS_AUTO_FREE char *ca = text_of(codec_json_str(f->secret, "data", "ca.crt", NULL));
    GS_AUTO_FREE char *bundle = text_of(f->bundles[1]);
    return *cert && gs_streq(served(f->serving), cert) && strstr(bundle, ca);
}

static void settle(struct fixture *f)
{
    int64_t end = gs_mono_ns() + WAIT_NS;
    while (!settled(f) && gs_mono_ns() < end)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_true(settled(f));
}

static void test_secret(void **state)
{
    struct fixture f = {0};
    GS_CLEANUP(tls_pair_finish) struct tls_pair ending = {0}, foreign = {0};
    start(&f);
    settle(&f);
    assert_null(serving_rotation_error(f.rotation));
    assert_int_equal(f.writes, 1);
    assert_null(f.bundles[0]); // it belongs to another Service
    assert_true(serving_expiry(f.serving) > gs_unix_ms() / 1000 + 360 * 86400);
    // A changed bundle is replaced. Trusted CAs stay trusted.
    make_certificate(-1, 100, &foreign);
    GS_AUTO_BUF struct gs_buf coded = {0};
    codec_base64_encode(gs_slice_of(foreign.cert_pem), &coded);
    free(f.bundles[1]);
    f.bundles[1] = gs_strdup(coded.data);
    settle(&f);
    GS_AUTO_FREE char *bundle = text_of(f.bundles[1]);
    assert_non_null(strstr(bundle, foreign.cert_pem));
    assert_int_equal(f.writes, 1);
    // A certificate that is about to expire is renewed.
    make_certificate(-100, 10, &ending);
    set_pair(&f, &ending);
    int64_t end = gs_mono_ns() + WAIT_NS;
    while ((f.writes < 2 || !settled(&f)) && gs_mono_ns() < end)
        uv_run(&f.loop, UV_RUN_ONCE);
    settle(&f);
    assert_int_equal(f.writes, 2);
    assert_true(serving_expiry(f.serving) > gs_unix_ms() / 1000 + 360 * 86400);
    stop(&f);
}

// If two replicas find an empty Secret, the second serves the certificate of the first.
static void test_two_replicas(void **state)
{
    struct fixture f = {0};
    GS_CLEANUP(tls_pair_finish) struct tls_pair rival = {0};
    make_certificate(-1, 300, &rival);
    f.rival = &rival;
    start(&f);
    settle(&f);
    assert_string_equal(served(f.serving), rival.cert_pem);
    assert_int_equal(f.writes, 1);
    stop(&f);
}

static void test_forbidden(void **state)
{
    struct fixture f = {.forbidden = true};
    start(&f);
    int64_t end = gs_mono_ns() + WAIT_NS;
    while (!strstr(serving_rotation_error(f.rotation), "Secret ml/web-tls cannot be read: ") &&
           gs_mono_ns() < end)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_non_null(strstr(serving_rotation_error(f.rotation), "is forbidden"));
    stop(&f);
    assert_error(serving_check_service("web"), GS_EINVAL, "want NAMESPACE/SERVICE");
    assert_error(serving_check_service("a/b/c"), GS_EINVAL, "want NAMESPACE/SERVICE");
    assert_ok(serving_check_service("ml/web"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_damaged_files_of_an_earlier_run_are_named_and_made_again),
        cmocka_unit_test(test_secret),
        cmocka_unit_test(test_two_replicas),
        cmocka_unit_test(test_forbidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
