// SPDX-License-Identifier: Apache-2.0
// Alert templates: the results of Prometheus' package, and limits.
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"
#include "template/template.h"

#include <stdlib.h>

static const struct metrics_label labels[] = {
    {GS_SLICE("gpu"), GS_SLICE("0")},
    {GS_SLICE("instance"), GS_SLICE("host.example.com:9400")},
    {GS_SLICE("pod"), GS_SLICE("web-1")}};
static const struct metrics_label external[] = {{GS_SLICE("cluster"), GS_SLICE("c1")}};

static struct gs_error *query(void *arg, struct gs_slice expr, struct gs_arena *arena,
                              struct template_sample **ret, size_t *ret_n)
{
    static const struct metrics_label b[] = {{GS_SLICE("__name__"), GS_SLICE("m")},
                                             {GS_SLICE("pod"), GS_SLICE("b")}};
    static const struct metrics_label a[] = {{GS_SLICE("__name__"), GS_SLICE("m")},
                                             {GS_SLICE("pod"), GS_SLICE("a")}};
    if (gs_slice_eq_str(expr, "bad"))
        return gs_error_new(GS_EINVAL, "it is bad");
    struct template_sample *items = gs_arena_alloc(arena, 2 * sizeof(*items));
    items[0] = (struct template_sample){b, 2, 11};
    items[1] = (struct template_sample){a, 2, 21.5};
    *ret = items;
    *ret_n = gs_slice_eq_str(expr, "none") ? 0 : 2;
    return NULL;
}

static const struct template_data data = {.labels = labels,
                                          .n_labels = 3,
                                          .external_labels = external,
                                          .n_external_labels = 1,
                                          .external_url = "http://prom.example:9090/base",
                                          .value = 1234.5678,
                                          .query = query};

static char *expand(const char *text)
{
    struct template_program *t = NULL;
    GS_AUTO_BUF struct gs_buf out = {0};
    const char *doing = "parsing";
    struct gs_error *err = template_parse(gs_slice_of(text), "__alert_Test", &t);
    if (!err) {
        doing = "executing";
        err = template_expand(t, &data, &out);
    }
    if (err) {
        gs_buf_clear(&out);
        gs_buf_addf(&out, "<error expanding template: error %s template __alert_Test: %s>", doing,
                    gs_error_message(err));
    }
    gs_error_free(err);
    template_free(t);
    return gs_buf_take(&out);
}

static char *unescape(struct gs_slice line)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    for (size_t i = 0; i < line.len; i++) {
        bool newline = line.data[i] == '\\' && i + 1 < line.len && line.data[i + 1] == 'n';
        gs_buf_add_char(&out, newline ? '\n' : line.data[i]);
        i += newline;
    }
    return gs_buf_take(&out);
}

static void test_as_prometheus(void **state)
{
    GS_AUTO_FREE char *path =
        gs_format("%s/tests/template/templates.txt", getenv("GPUSCALE_SOURCE_ROOT"));
    GS_AUTO_BUF struct gs_buf file = {0};
    assert_ok(gs_file_read(path, 1 << 20, &file));
    struct gs_slice rest = gs_buf_slice(&file);
    int cases = 0;
    while (rest.len) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        if (gs_slice_starts(line, "# "))
            continue;
        GS_AUTO_FREE char *text = unescape(line);
        GS_AUTO_FREE char *want = unescape(gs_slice_cut(&rest, '\n'));
        GS_AUTO_FREE char *got = expand(text);
        if (strcmp(got, want) != 0)
            fail_msg("template: %s\nwant: %s\ngot:  %s", text, want, got);
        cases++;
    }
    assert_true(cases > 130);
}

static void assert_limited(const char *text, const char *reason)
{
    GS_AUTO_FREE char *got = expand(text);
    if (!strstr(got, reason))
        fail_msg("\"%.200s\" does not say \"%s\"", got, reason);
}

static void test_limits(void **state)
{
    assert_limited("{{ range 1000000 }}{{ end }}", "too many steps");
    assert_limited("{{ $x := \"0123456789\" }}{{ range 9 }}{{ $x = print $x $x }}{{ end }}"
                   "{{ reReplaceAll \"x\" \"\" $x }}",
                   "a regular expression reads at most 4096 bytes");
    assert_limited("{{ range 90000 }}0123456789{{ end }}", "the text is longer than");
    assert_limited("{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}",
                   "exceeded maximum template depth");
    assert_limited("{{ $x := \"0123456789\" }}{{ range 60 }}{{ $x = print $x $x }}{{ end }}",
                   "the text is too long");
    GS_AUTO_BUF struct gs_buf deep = {0};
    gs_buf_add_str(&deep, "{{ ");
    for (int i = 0; i < 5000; i++)
        gs_buf_add_char(&deep, '(');
    assert_limited(deep.data, "nested too deeply");
    gs_buf_clear(&deep);
    for (int i = 0; i < 5000; i++)
        gs_buf_add_str(&deep, "{{if 1}}");
    assert_limited(deep.data, "nested too deeply");
    gs_buf_clear(&deep);
    for (int i = 0; i < 70000; i++)
        gs_buf_add_char(&deep, 'x');
    gs_buf_add_str(&deep, "{{ 1 }}");
    assert_limited(deep.data, "longer than");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_prometheus),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
