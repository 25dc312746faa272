// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"
#include "codec/json.h"
#include "metrics/gpu_owner.h"

#include <stdlib.h>

static struct gs_slice json_label(const void *series, const char *name)
{
    const json_t *v = json_object_get(series, name);
    return gs_slice_make(json_string_value(v), json_string_length(v));
}

static struct metrics_gpu_series series_of(const json_t *labels)
{
    return (struct metrics_gpu_series){json_label, labels};
}

static void check_case(const json_t *c)
{
    const struct metrics_gpu_series s = series_of(json_object_get(c, "labels"));
    const json_t *of = json_object_get(c, "target");
    const struct metrics_gpu_target target = {codec_json_str(of, "namespace", NULL),
                                              codec_json_str(of, "pod", NULL),
                                              codec_json_str(of, "node", NULL)};
    const struct metrics_gpu_target *known = json_is_object(of) ? &target : NULL;
    struct metrics_gpu_pod owner = metrics_gpu_owner(&s, known);
    GS_AUTO_FREE char *node = gs_slice_dup(metrics_gpu_node(&s, known));
    GS_AUTO_FREE char *text = gs_format(GS_SLICE_FMT "%s" GS_SLICE_FMT, GS_SLICE_ARG(owner.ns),
                                        owner.pod.len ? "/" : "", GS_SLICE_ARG(owner.pod));
    if (!gs_streq(text, codec_json_str(c, "owner", NULL)) ||
        !gs_streq(node, codec_json_str(c, "node", NULL)))
        fail_msg("%s: owner \"%s\", node \"%s\"", codec_json_str(c, "name", NULL), text, node);
}

// The web interface reads the same cases (tests/web/gpu_owner.sh).
static void test_cases(void **state)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    CODEC_AUTO_JSON json_t *cases = NULL;
    GS_AUTO_FREE char *path =
        gs_format("%s/tests/metrics/gpu_owner.json", getenv("GPUSCALE_SOURCE_ROOT"));
    assert_ok(gs_file_read(path, 1 << 20, &text));
    assert_ok(codec_json_parse(gs_buf_slice(&text), false, &cases));
    assert_true(json_array_size(cases) > 10);
    size_t i;
    const json_t *c;
    json_array_foreach (cases, i, c)
        check_case(c);
}

static void test_targets_are_found_by_job_and_instance(void **state)
{
    CODEC_AUTO_JSON json_t *up = json_pack("{s:s, s:s, s:s, s:s}", "job", "j", "instance", "a:1",
                                           "namespace", "gpu", "pod", "dcgm-1");
    CODEC_AUTO_JSON json_t *host = json_pack("{s:s, s:s}", "job", "j", "instance", "b:1");
    CODEC_AUTO_JSON json_t *info =
        json_pack("{s:s, s:s, s:s}", "namespace", "gpu", "pod", "dcgm-1", "node", "n1");
    const struct metrics_gpu_series of_up = series_of(up), of_host = series_of(host),
                                    of_info = series_of(info);
    struct metrics_gpu_targets *t = metrics_gpu_targets_new();
    assert_null(metrics_gpu_target_of(t, &of_up));
    assert_null(metrics_gpu_target_of(NULL, &of_up));
    metrics_gpu_targets_add(t, &of_up);
    metrics_gpu_targets_add(t, &of_host);
    assert_string_equal(metrics_gpu_target_of(t, &of_up)->node, "");
    metrics_gpu_targets_add_pod(t, &of_info);
    assert_string_equal(metrics_gpu_target_of(t, &of_up)->pod, "dcgm-1");
    assert_string_equal(metrics_gpu_target_of(t, &of_up)->node, "n1");
    assert_null(metrics_gpu_target_of(t, &of_host));
    metrics_gpu_targets_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_targets_are_found_by_job_and_instance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
