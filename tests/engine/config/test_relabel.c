// SPDX-License-Identifier: Apache-2.0
// relabel_configs: each action. The expected results are those of a real Prometheus.
#include "engine/config/config.h"

#include "base/mem.h"
#include "unit.h"

static const char start[] = "__address__=host:9400,a=one,b=ÄBC,c=one,job=gpu";

static void set_all(struct engine_config_label_builder *b, const char *text)
{
    GS_AUTO_FREE char *copy = gs_strdup(text);
    char *rest = copy, *pair;
    while ((pair = strsep(&rest, ","))) {
        char *value = strchr(pair, '=');
        *value++ = '\0';
        engine_config_labels_set(b, gs_slice_of(pair), gs_slice_of(value));
    }
}

static char *relabel(const char *rules)
{
    struct engine_config *c;
    struct engine_config_label_builder b = {0};
    struct gs_buf out = {0};
    GS_AUTO_FREE char *text =
        gs_format("scrape_configs:\n- job_name: j\n  relabel_configs: [%s]\n", rules);
    assert_ok(engine_config_parse(gs_slice_of(text), "p.yml", ".", &c));
    set_all(&b, start);
    bool kept = engine_config_relabel(&c->scrapes[0].relabel, &b);
    for (size_t i = 0; kept && i < b.len; i++)
        gs_buf_addf(&out, "%s" GS_SLICE_FMT "=" GS_SLICE_FMT, i ? "," : "",
                    GS_SLICE_ARG(b.items[i].name), GS_SLICE_ARG(b.items[i].value));
    if (!kept)
        gs_buf_add_str(&out, "dropped");
    engine_config_labels_finish(&b);
    engine_config_free(c);
    return gs_buf_take(&out);
}

static void test_every_action(void **state)
{
    static const char *const cases[][2] = {
        {"{source_labels: [a, job], target_label: x}",
         "__address__=host:9400,a=one,b=ÄBC,c=one,job=gpu,x=one;gpu"},
        {"{source_labels: [a, job], separator: '', regex: '(o)(.*)', target_label: '${1}_x', "
         "replacement: '$2$$'}",
         "__address__=host:9400,a=one,b=ÄBC,c=one,job=gpu,o_x=negpu$"},
        // Regular expressions are anchored: no match, no change.
        {"{source_labels: [a], regex: on, target_label: x}",
         "__address__=host:9400,a=one,b=ÄBC,c=one,job=gpu"},
        // An empty result removes the label.
        {"{source_labels: [nothing], target_label: a}",
         "__address__=host:9400,b=ÄBC,c=one,job=gpu"},
        {"{target_label: a, replacement: ''}", "__address__=host:9400,b=ÄBC,c=one,job=gpu"},
        {"{source_labels: [a], target_label: my.dotted}",
         "__address__=host:9400,a=one,b=ÄBC,c=one,job=gpu,my.dotted=one"},
        {"{source_labels: [a], regex: 'o.*', action: keep}", start},
        {"{source_labels: [a], regex: 'x.*', action: keep}", "dropped"},
        {"{source_labels: [a], regex: 'o.*', action: drop}", "dropped"},
        {"{source_labels: [a], target_label: c, action: keepequal}", start},
        {"{source_labels: [a], target_label: b, action: keepequal}", "dropped"},
        {"{source_labels: [a], target_label: c, action: dropequal}", "dropped"},
        {"{source_labels: [a], target_label: b, action: dropequal}", start},
        {"{source_labels: [__address__], modulus: 1000, target_label: h, action: hashmod}",
         "__address__=host:9400,a=one,b=ÄBC,c=one,h=663,job=gpu"},
        {"{regex: '([abc])', replacement: 'm_$1', action: labelmap}",
         "__address__=host:9400,a=one,b=ÄBC,c=one,job=gpu,m_a=one,m_b=ÄBC,m_c=one"},
        {"{regex: '[abc]', action: labeldrop}", "__address__=host:9400,job=gpu"},
        {"{regex: '[abc]', action: labelkeep}", "a=one,b=ÄBC,c=one"},
        {"{source_labels: [a], target_label: x, action: Uppercase}",
         "__address__=host:9400,a=one,b=ÄBC,c=one,job=gpu,x=ONE"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *got = relabel(cases[i][0]);
        assert_string_equal(got, cases[i][1]);
    }
    (void)state;
}

// Each rule doubles the label, its name, or the number of labels.
static void test_rules_that_grow_labels(void **state)
{
    static const char *const rules[] = {
        "{source_labels: [a, a], separator: '', target_label: a}",
        "{source_labels: [a], regex: '(.*)', target_label: a, replacement: '$1$1'}",
        "{regex: '(a+)', action: labelmap, replacement: '$1$1'}",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rules); i++) {
        GS_AUTO_BUF struct gs_buf few = {0}, many = {0};
        for (int k = 0; k < 40; k++)
            gs_buf_addf(&many, "%s%s", k ? "," : "", rules[i]);
        for (int k = 0; k < 5; k++)
            gs_buf_addf(&few, "%s%s", k ? "," : "", rules[i]);
        GS_AUTO_FREE char *small = relabel(few.data), *large = relabel(many.data);
        assert_string_not_equal(small, "dropped");
        assert_string_equal(large, "dropped");
    }
    (void)state;
}

// A value that was discovered or scraped is not made, however long it is.
static void test_long_values_can_be_copied(void **state)
{
    struct engine_config *c;
    struct engine_config_label_builder b = {0};
    static const char text[] = "scrape_configs:\n- job_name: j\n  relabel_configs:\n"
                               "  - {source_labels: [a], target_label: b}\n"
                               "  - {regex: a, replacement: c, action: labelmap}\n";
    GS_AUTO_FREE char *value = gs_alloc(200001);
    memset(value, 'x', 200000);
    assert_ok(engine_config_parse(gs_slice_of(text), "p.yml", ".", &c));
    engine_config_labels_set(&b, GS_SLICE("a"), gs_slice_of(value));
    assert_true(engine_config_relabel(&c->scrapes[0].relabel, &b));
    assert_string_equal(engine_config_labels_get(&b, GS_SLICE("b")).data, value);
    assert_string_equal(engine_config_labels_get(&b, GS_SLICE("c")).data, value);
    engine_config_labels_finish(&b);
    engine_config_free(c);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_action),
                                       cmocka_unit_test(test_rules_that_grow_labels),
                                       cmocka_unit_test(test_long_values_can_be_copied)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
