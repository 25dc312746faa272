// SPDX-License-Identifier: Apache-2.0
#include "hpa_controller/controller_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake_api.h"

#define CLUSTER "kube-controller-manager"
#define OURS    "gpuscale-hpa"

struct bench {
    struct fake_api api;
    struct hpa_ownership *claims;
    int changes;
    json_t *object;
};

static void changed(void *arg, const char *ns, const char *name)
{
    struct bench *b = arg;
    assert_string_equal(ns, "shop");
    assert_string_equal(name, "web");
    b->changes++;
}

// --- objects ---
// Writers of the status: pairs of manager and second, ended by NULL.
static json_t *object(const char *first, ...)
{
    json_t *o =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:[]}, s:{s:[{s:s, s:s, s:s, s:s}]}}", "apiVersion",
                  "autoscaling/v2", "kind", "HorizontalPodAutoscaler", "metadata", "namespace",
                  "shop", "name", "web", "uid", "u", "managedFields", "status", "conditions",
                  "type", "AbleToScale", "status", "True", "reason", "R", "message", "M");
    json_t *fields = json_object_get(json_object_get(o, "metadata"), "managedFields");
    va_list ap;
    va_start(ap, first);
    for (const char *who = first; who; who = va_arg(ap, const char *)) {
        GS_AUTO_FREE char *time = gs_format("2026-01-02T03:04:%02dZ", va_arg(ap, int));
        json_array_append_new(fields, json_pack("{s:s, s:s, s:s}", "manager", who, "time", time,
                                                "subresource", "status"));
    }
    va_end(ap);
    return o;
}

// Steals it.
static bool see(struct bench *b, json_t *o)
{
    json_decref(b->object);
    b->object = o;
    return hpa_ownership_update(b->claims, o);
}

// --- fixture ---
static void begin(struct bench *b, bool trusted, int wait_ms, int again_ms)
{
    const struct hpa_ownership_config cfg = {.manager = OURS,
                                             .wait_ms = wait_ms,
                                             .again_ms = again_ms,
                                             .trusted = trusted,
                                             .changed = changed,
                                             .arg = b};
    *b = (struct bench){0};
    fake_init(&b->api);
    fake_put(&b->api, b->api.hpas, object(NULL));
    b->claims = hpa_ownership_new(&b->api.loop, b->api.kube, &cfg);
}

static void end(struct bench *b)
{
    hpa_ownership_free(b->claims);
    assert_int_equal(fake_finish(&b->api), 0);
    json_decref(b->object);
}

static bool has_changed(void *arg)
{
    return ((struct bench *)arg)->changes > 0;
}

static bool was_asked(void *arg)
{
    return fake_count_log(&((struct bench *)arg)->api, "PUT") > 0;
}

static bool was_told(void *arg)
{
    return fake_has_event(&((struct bench *)arg)->api, "ControlledByAnother", CLUSTER);
}

// --- tests ---
static void test_a_new_object_is_waited_for(void **state)
{
    struct bench b;
    begin(&b, false, 300, 10000);
    assert_false(see(&b, object(NULL)));
    assert_false(see(&b, object("kubectl-edit", 5, NULL)));
    assert_true(fake_wait(&b.api, has_changed, &b));
    assert_true(see(&b, b.object ? json_incref(b.object) : NULL));
    assert_false(was_asked(&b));
    end(&b);
    (void)state;
}

static void test_a_new_object_of_another(void **state)
{
    struct bench b;
    begin(&b, false, 300, 600);
    assert_false(see(&b, object(NULL)));
    assert_false(see(&b, object(CLUSTER, 10, NULL)));
    assert_true(fake_wait(&b.api, was_told, &b));
    assert_false(was_asked(&b));
    // It is probed later, when the other controller has stopped.
    assert_true(fake_wait(&b.api, was_asked, &b));
    assert_int_equal(b.changes, 0);
    const json_t *stored = json_object_get(b.api.hpas, "shop/web");
    assert_string_equal(codec_json_str(kube_condition(stored, "AbleToScale"), "reason", NULL),
                        "Asked");
    assert_false(see(&b, object(CLUSTER, 10, OURS, 20, NULL)));
    assert_true(fake_wait(&b.api, has_changed, &b));
    assert_true(see(&b, object(CLUSTER, 10, OURS, 20, NULL)));
    end(&b);
    (void)state;
}

static void test_an_object_at_rest_is_asked(void **state)
{
    struct bench b;
    begin(&b, false, 10000, 10000);
    assert_false(see(&b, object(CLUSTER, 10, NULL)));
    assert_true(fake_wait(&b.api, was_asked, &b));
    assert_false(see(&b, object(CLUSTER, 10, OURS, 20, NULL)));
    assert_false(was_told(&b));
    assert_false(see(&b, object(CLUSTER, 21, NULL))); // it corrects the message
    assert_true(fake_wait(&b.api, was_told, &b));
    end(&b);
    (void)state;
}

static void test_an_answer_within_the_same_second(void **state)
{
    struct bench b;
    begin(&b, false, 300, 10000);
    assert_false(see(&b, object(CLUSTER, 10, NULL)));
    assert_false(see(&b, object(CLUSTER, 10, OURS, 10, NULL)));
    assert_false(see(&b, object(CLUSTER, 10, NULL))); // our field is theirs again
    assert_true(fake_wait(&b.api, was_told, &b));
    assert_int_equal(b.changes, 0);
    end(&b);
    (void)state;
}

static void test_ours_goes_on_until_another_writes(void **state)
{
    struct bench b;
    begin(&b, false, 10000, 10000);
    assert_true(see(&b, object(CLUSTER, 10, OURS, 20, NULL)));
    assert_true(see(&b, object(CLUSTER, 10, OURS, 30, "kubectl", 40, NULL)));
    assert_false(see(&b, object(CLUSTER, 31, OURS, 30, NULL)));
    assert_false(see(&b, object(CLUSTER, 31, OURS, 30, NULL)));
    // Labelled again, or another object of that name: starts from the beginning.
    hpa_ownership_forget(b.claims, b.object);
    assert_true(see(&b, object(CLUSTER, 31, OURS, 40, NULL)));
    json_t *other = object(NULL);
    codec_json_set(other, json_string("v"), "metadata", "uid", NULL);
    assert_false(see(&b, other));
    end(&b);
    (void)state;
}

static void test_trusted_is_at_once(void **state)
{
    struct bench b;
    begin(&b, true, 10000, 10000);
    assert_true(see(&b, object(CLUSTER, 10, NULL)));
    assert_false(see(&b, object(CLUSTER, 11, NULL)));
    end(&b);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_object_is_waited_for),
        cmocka_unit_test(test_a_new_object_of_another),
        cmocka_unit_test(test_an_object_at_rest_is_asked),
        cmocka_unit_test(test_an_answer_within_the_same_second),
        cmocka_unit_test(test_ours_goes_on_until_another_writes),
        cmocka_unit_test(test_trusted_is_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
