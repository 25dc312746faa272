// SPDX-License-Identifier: Apache-2.0
// Objects with what the API server of Kubernetes 1.36.3 says of them: all errors of the invalid
// ones, the autoscaling/v1 form of the valid ones, and what comes back from that. A line of
// objects/real-1.36.jsonl each. Today's servers do not know the retired versions: of those
// objects/beta-1.24.jsonl (made by objects/retired) has what the code of 1.24 makes of them.
#include "base/file.h"
#include "base/mem.h"
#include "codec/json.h"
#include "hpa/convert.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILE ((size_t)64 << 20)

static void drop_empty(json_t *v);

// Go leaves out or writes out empty values by the type's tags; they mean the same.
static bool is_empty(const json_t *v)
{
    return json_is_null(v) || (json_is_object(v) && !json_object_size(v)) ||
           (json_is_array(v) && !json_array_size(v)) ||
           (json_is_string(v) && !json_string_length(v)) ||
           (json_is_integer(v) && !json_integer_value(v));
}

// The annotations of older versions are JSON in texts: their fields have no order.
static void open_annotation(json_t *obj, const char *key, const json_t *v)
{
    json_t *parsed = json_is_string(v) && strncmp(key, "autoscaling.alpha", 17) == 0
                         ? json_loads(json_string_value(v), 0, NULL)
                         : NULL;
    if (!parsed)
        return;
    drop_empty(parsed);
    json_object_set_new(obj, key, parsed);
}

static void drop_empty(json_t *v)
{
    const char *key;
    json_t *item;
    void *next;
    for (size_t i = 0; i < json_array_size(v); i++)
        drop_empty(json_array_get(v, i));
    json_object_foreach_safe (v, next, key, item) {
        drop_empty(item);
        if (is_empty(item))
            json_object_del(v, key);
        else
            open_annotation(v, key, item);
    }
}

static void assert_same(const json_t *object, const char *what, const json_t *want, json_t *got)
{
    CODEC_AUTO_JSON json_t *a = json_deep_copy(want);
    json_object_del(a, "apiVersion");
    json_object_del(a, "kind");
    json_object_del(got, "apiVersion");
    json_object_del(got, "kind");
    drop_empty(a);
    drop_empty(got);
    if (json_equal(a, got))
        return;
    char *in = json_dumps(object, JSON_COMPACT), *x = json_dumps(a, JSON_SORT_KEYS);
    char *y = json_dumps(got, JSON_SORT_KEYS);
    fail_msg("%s of %s\n  want: %s\n  got:  %s", what, in, x, y);
}

static bool has_text(const json_t *causes, const json_t *want)
{
    const char *text = json_string_value(want);
    for (size_t i = 0; i < json_array_size(causes); i++) {
        const json_t *c = json_array_get(causes, i);
        GS_AUTO_FREE char *full = gs_format("%s: %s", codec_json_str(c, "field", NULL),
                                            codec_json_str(c, "message", NULL));
        if (gs_streq(full, text))
            return true;
    }
    return false;
}

static void check_errors(const json_t *object, const json_t *want,
                         const struct kube_field_errors *e)
{
    bool same = e->distinct == json_array_size(want);
    for (size_t i = 0; i < json_array_size(want); i++)
        same = same && has_text(e->causes, json_array_get(want, i));
    if (same)
        return;
    char *in = json_dumps(object, JSON_COMPACT), *x = json_dumps(want, 0);
    fail_msg("errors of %s\n  want: %s\n  got:  %s", in, x, e->len ? e->text.data : "none");
}

static void check_conversions(const json_t *object, const json_t *line, const json_t *v2)
{
    CODEC_AUTO_JSON json_t *one = NULL;
    CODEC_AUTO_JSON json_t *back = NULL;
    assert_ok(hpa_from_v2(v2, "v1", &one));
    assert_ok(hpa_to_v2(one, &back));
    hpa_default(back);
    assert_same(object, "back from v1", json_object_get(line, "back"), back);
    assert_same(object, "v1", json_object_get(line, "v1"), one);
}

static void check_line(struct gs_slice text)
{
    CODEC_AUTO_JSON json_t *line = NULL;
    CODEC_AUTO_JSON json_t *v2 = NULL;
    struct kube_field_errors errors = {0};
    assert_ok(codec_json_parse(text, true, &line));
    const json_t *object = json_object_get(line, "object"), *want = json_object_get(line, "errors");
    assert_ok(hpa_to_v2(object, &v2));
    hpa_default(v2);
    hpa_validate(v2, &errors);
    check_errors(object, want, &errors);
    if (!json_array_size(want))
        check_conversions(object, line, v2);
    kube_field_errors_finish(&errors);
}

// --- objects of retired versions: what Kubernetes' own code makes of them ---
static bool has_field(const json_t *fields, const char *field)
{
    for (size_t i = 0; i < json_array_size(fields); i++)
        if (gs_streq(json_string_value(json_array_get(fields, i)), field))
            return true;
    return false;
}

// The texts are those of the newest release, and the fields are the same.
static void check_fields(const json_t *object, const json_t *v2, const json_t *want)
{
    struct kube_field_errors e = {0};
    CODEC_AUTO_JSON json_t *got = json_array();
    hpa_validate(v2, &e);
    for (size_t i = 0; i < json_array_size(e.causes); i++) {
        const char *field = codec_json_str(json_array_get(e.causes, i), "field", NULL);
        if (!has_field(got, field))
            json_array_append_new(got, json_string(field));
    }
    bool same = json_array_size(got) == json_array_size(want);
    for (size_t i = 0; i < json_array_size(got); i++)
        same = same && has_field(want, json_string_value(json_array_get(got, i)));
    kube_field_errors_finish(&e);
    if (same)
        return;
    char *in = json_dumps(object, JSON_COMPACT), *x = json_dumps(want, 0), *y = json_dumps(got, 0);
    fail_msg("fields with errors of %s\n  want: %s\n  got:  %s", in, x, y);
}

static void check_retired(struct gs_slice text)
{
    static const char *const versions[] = {"v1", "v2beta1", "v2beta2"};
    CODEC_AUTO_JSON json_t *line = NULL;
    CODEC_AUTO_JSON json_t *v2 = NULL;
    assert_ok(codec_json_parse(text, true, &line));
    const json_t *object = json_object_get(line, "object");
    assert_ok(hpa_to_v2(object, &v2));
    hpa_default(v2);
    check_fields(object, v2, json_object_get(line, "errors"));
    for (size_t i = 0; i < GS_ARRAY_LEN(versions); i++) {
        CODEC_AUTO_JSON json_t *out = NULL;
        const json_t *want = json_object_get(line, versions[i]);
        if (!want)
            continue;
        assert_ok(hpa_from_v2(v2, versions[i], &out));
        assert_same(object, versions[i], want, out);
    }
    if (json_object_get(line, "v2"))
        assert_same(object, "v2", json_object_get(line, "v2"), v2);
}

static size_t each_line(const char *path, void (*check)(struct gs_slice text))
{
    GS_AUTO_BUF struct gs_buf text = {0};
    assert_ok(gs_file_read(path, MAX_FILE, &text));
    struct gs_slice rest = gs_buf_slice(&text);
    size_t n = 0;
    while (rest.data) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        if (!line.len)
            continue;
        check(line);
        n++;
    }
    return n;
}

static char *corpus(const char *name)
{
    const char *root = getenv("GPUSCALE_SOURCE_ROOT");
    return gs_format("%s/tests/hpa/objects/%s", root ? root : ".", name);
}

static void test_as_the_api_server(void **state)
{
    GS_AUTO_FREE char *path = corpus("real-1.36.jsonl");
    assert_true(each_line(path, check_line) >= 200);
    (void)state;
}

static void test_retired_versions(void **state)
{
    GS_AUTO_FREE char *path = corpus("beta-1.24.jsonl");
    const char *other = getenv("GPUSCALE_RETIRED_OBJECTS"); // more of them
    assert_true(each_line(other ? other : path, check_retired) >= 200);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_the_api_server),
                                       cmocka_unit_test(test_retired_versions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
