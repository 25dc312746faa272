// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"
#include "base/mem.h"
#include "kube/engine_url.h"
#include "unit.h"

#include <stdlib.h>

static char path[] = "/tmp/gpuscale-engine-url-XXXXXX";

static int setup(void **state)
{
    static const char text[] =
        "current-context: a\ncontexts:\n- {name: a, context: {cluster: a}}\n"
        "- {name: b, context: {cluster: b}}\n- {name: c, context: {cluster: c}}\nclusters:\n"
        "- name: a\n  cluster: {server: 'https://a', extensions: [{name: x, extension: {engineURL: "
        "no}}, {name: gpuscale, extension: {engineURL: 'http://of-a'}}]}\n"
        "- name: b\n  cluster: {server: 'https://b', extensions: [{name: gpuscale, extension: "
        "{engineURL: 'http://of-b'}}]}\n"
        "- name: c\n  cluster: {server: 'https://c', extensions: [{name: gpuscale, extension: "
        "{engineURL: [1]}}]}\n";
    int fd = mkstemp(path);
    if (fd < 0)
        return -1;
    close(fd);
    unsetenv("GPUSCALE_URL");
    unsetenv("PROMETHEUS_URL");
    setenv("KUBECONFIG", path, 1);
    gs_error_free(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
    return 0;
}

static int teardown(void **state)
{
    return unlink(path);
}

static void assert_url(const char *flag, const char *context, const char *want, const char *reason)
{
    struct kube_engine_url u;
    kube_engine_url_find(flag, NULL, context, &u);
    assert_string_equal(u.url, want);
    if (reason)
        assert_non_null(strstr(kube_engine_url_reason(&u), reason));
    else
        assert_null(kube_engine_url_reason(&u));
    kube_engine_url_finish(&u);
}

static void test_the_first_that_is_set_is_used(void **state)
{
    assert_url(NULL, NULL, "http://of-a", "of the kubeconfig");
    assert_url(NULL, "b", "http://of-b", "of the kubeconfig");
    setenv("PROMETHEUS_URL", "http://theirs", 1);
    assert_url(NULL, NULL, "http://theirs", "of $PROMETHEUS_URL");
    setenv("GPUSCALE_URL", "http://ours", 1);
    assert_url(NULL, NULL, "http://ours", "of $GPUSCALE_URL");
    assert_url("http://ours", NULL, "http://ours", "of $GPUSCALE_URL");
    assert_url("http://flag", NULL, "http://flag", NULL);
    setenv("GPUSCALE_URL", "", 1);
    setenv("PROMETHEUS_URL", "", 1);
    assert_url("", NULL, "http://of-a", "of the kubeconfig");
}

static void test_without_any_it_is_the_default(void **state)
{
    assert_url(NULL, "c", KUBE_ENGINE_DEFAULT_URL, "the default");
    assert_url(NULL, "no such context", KUBE_ENGINE_DEFAULT_URL, "the default");
    setenv("KUBECONFIG", "/nonexistent", 1);
    assert_url(NULL, NULL, KUBE_ENGINE_DEFAULT_URL, "the default");
}

// A cluster that cannot be reached is no reason to fail, but is named.
static void test_the_search_for_a_service_is_named(void **state)
{
    struct kube_engine_url u;
    setenv("KUBECONFIG", "/nonexistent", 1);
    assert_ok(kube_engine_url_locate(NULL, NULL, NULL, &u));
    GS_AUTO_FREE char *none = kube_engine_url_source(&u);
    assert_string_equal(none, "source: " KUBE_ENGINE_DEFAULT_URL " (the default)");
    kube_engine_url_finish(&u);
    setenv("KUBECONFIG", path, 1);
    assert_ok(kube_engine_url_locate(NULL, NULL, "no such context", &u));
    GS_AUTO_FREE char *wrong = kube_engine_url_source(&u);
    assert_non_null(strstr(wrong, "(the default; kubeconfig: "));
    assert_non_null(strstr(wrong, "context \"no such context\" does not exist"));
    assert_int_equal(u.origin, KUBE_ENGINE_OF_DEFAULT);
    assert_null(kube_engine_url_settings(&u));
    kube_engine_url_finish(&u);
    assert_ok(kube_engine_url_locate("http://flag", NULL, NULL, &u));
    assert_null(kube_engine_url_source(&u));
    kube_engine_url_finish(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_that_is_set_is_used),
        cmocka_unit_test(test_without_any_it_is_the_default),
        cmocka_unit_test(test_the_search_for_a_service_is_named),
    };
    return cmocka_run_group_tests_name("engine_url", tests, setup, teardown);
}
