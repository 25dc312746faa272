// SPDX-License-Identifier: Apache-2.0
#include "requests.h"

#include "expander/expander_private.h"

static const char pools_yaml[] =
    "pools:\n"
    "- {name: gpu-1, max: 8, price: 1.0, startup: 60s, machine: {gpus: 1}}\n"
    "- {name: gpu-4, max: 8, price: 3.5, startup: 30s, machine: {gpus: 4, type: four-gpus}}\n";

struct fixture {
    struct nodes_pools pools;
    struct expander expander;
    struct gs_buf request, answer, groups;
    char *why;
    json_t *pods[4];
};

static void setup(struct fixture *f, enum nodes_policy policy)
{
    *f = (struct fixture){.expander = {.policy = policy}};
    assert_ok(nodes_pools_parse(&f->pools, gs_slice_of(pools_yaml), "pools.yaml", NULL));
    f->expander.pools = &f->pools;
    f->expander.record = expander_record_new(3);
    for (size_t i = 0; i < GS_ARRAY_LEN(f->pods); i++) {
        GS_AUTO_FREE char *name = gs_format("pod-%zu", i);
        f->pods[i] = make_pod(name, 1);
    }
}

static void teardown(struct fixture *f)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(f->pods); i++)
        json_decref(f->pods[i]);
    expander_record_free(f->expander.record);
    nodes_pools_finish(&f->pools);
    gs_buf_finish(&f->request);
    gs_buf_finish(&f->answer);
    gs_buf_finish(&f->groups);
    free(f->why);
}

static enum expander_result ask(struct fixture *f)
{
    gs_buf_clear(&f->answer);
    gs_buf_clear(&f->groups);
    free(GS_TAKE(f->why));
    enum expander_result result =
        expander_answer(&f->expander, gs_buf_slice(&f->request), &f->answer, &f->why);
    read_answer(gs_buf_slice(&f->answer), &f->groups);
    return result;
}

// One pod with one GPU: a node with four would leave three unused.
static void make_options(struct fixture *f, enum release release)
{
    const struct requested options[] = {
        {"gpu-4", 1, 4, .pods = (const json_t *const *)f->pods, .n_pods = 1},
        {"gpu-1", 1, 1, .pods = (const json_t *const *)f->pods, .n_pods = 1},
    };
    gs_buf_clear(&f->request);
    make_request(release, options, GS_ARRAY_LEN(options), &f->request);
}

static json_t *last_decision(const struct fixture *f)
{
    CODEC_AUTO_JSON json_t *all = expander_record_json(f->expander.record, 1);
    return json_incref(json_array_get(json_object_get(all, "items"), 0));
}

static void test_all_releases_get_the_same_choice(void **state)
{
    static const struct {
        enum release release;
        const char *name;
    } cases[] = {{RELEASE_1_33, "up to 1.33"}, {RELEASE_1_34, "1.34"}, {RELEASE_1_35, "from 1.35"}};
    struct fixture f;
    setup(&f, NODES_POLICY_COST);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        make_options(&f, cases[i].release);
        assert_int_equal(ask(&f), EXPANDER_CHOSEN);
        assert_string_equal(f.groups.data, "gpu-1;");
        CODEC_AUTO_JSON json_t *d = last_decision(&f);
        assert_string_equal(codec_json_str(d, "clusterAutoscaler", NULL), cases[i].name);
        assert_string_equal(codec_json_str(d, "chosen", NULL), "gpu-1");
        assert_int_equal(codec_json_int(d, 0, "pods", NULL), 1); // not twice
        assert_int_equal(json_array_size(json_object_get(d, "options")), 2);
        assert_non_null(strstr(codec_json_str(d, "text", NULL), "gpu-1"));
    }
    teardown(&f);
}

static void test_policies(void **state)
{
    struct fixture f;
    setup(&f, NODES_POLICY_SPEED);
    make_options(&f, RELEASE_1_35);
    assert_int_equal(ask(&f), EXPANDER_CHOSEN);
    assert_string_equal(f.groups.data, "gpu-4;");
    f.expander.policy = NODES_POLICY_PACKING;
    assert_int_equal(ask(&f), EXPANDER_CHOSEN);
    assert_string_equal(f.groups.data, "gpu-1;");
    f.expander.pools = NULL; // GPUs are known from the templates
    assert_int_equal(ask(&f), EXPANDER_CHOSEN);
    assert_string_equal(f.groups.data, "gpu-1;");
    teardown(&f);
}

static void test_pools_of_node_groups(void **state)
{
    struct fixture f;
    setup(&f, NODES_POLICY_COST);
    static const struct {
        const char *group, *label, *value, *pool;
    } cases[] = {
        {"gpu-1", NULL, NULL, "gpu-1"},
        {"https://example.com/zones/z/instanceGroups/gpu-4", NULL, NULL, "gpu-4"},
        {"gke-c-gpu-1-0a1b2c3d-grp", "cloud.google.com/gke-nodepool", "gpu-1", "gpu-1"},
        {"eks-1", "eks.amazonaws.com/nodegroup", "gpu-4", "gpu-4"},
        {"asg", "node.kubernetes.io/instance-type", "four-gpus", "gpu-4"},
        {"asg", "node.kubernetes.io/instance-type", "other", NULL},
        {"", NULL, NULL, NULL},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        const struct requested r = {
            .group = cases[i].group, .label_key = cases[i].label, .label_value = cases[i].value};
        CODEC_AUTO_JSON json_t *node = make_template(&r);
        const struct nodes_pool *p = expander_pool_of(&f.pools, gs_slice_of(cases[i].group), node);
        assert_true(gs_streq(p ? p->name : NULL, cases[i].pool) || (!p && !cases[i].pool));
    }
    teardown(&f);
}

static void test_problems_do_not_prevent_a_scale_up(void **state)
{
    struct fixture f;
    GS_AUTO_BUF struct gs_buf option = {0};
    setup(&f, NODES_POLICY_COST);
    make_options(&f, RELEASE_1_35);
    codec_proto_add_bytes(&option, 1, GS_SLICE("broken"));
    codec_proto_add_varint(&option, 2, 1);
    codec_proto_add_bytes(&option, 5, GS_SLICE("\xff"));
    codec_proto_add_bytes(&f.request, 1, gs_buf_slice(&option));
    assert_int_equal(ask(&f), EXPANDER_ALL);
    assert_string_equal(f.groups.data, "gpu-4;gpu-1;broken;");
    CODEC_AUTO_JSON json_t *d = last_decision(&f);
    assert_string_equal(codec_json_str(d, "answer", NULL), "all");
    assert_non_null(codec_json_str(d, "problem", NULL));

    // Options without pods, as of a Cluster Autoscaler that could not write them.
    const struct requested empty = {"lonely", 2, 1};
    gs_buf_clear(&f.request);
    make_request(RELEASE_1_35, &empty, 1, &f.request);
    assert_int_equal(ask(&f), EXPANDER_ALL);
    assert_string_equal(f.groups.data, "lonely;");
    teardown(&f);
}

static void test_many_options_are_summarized(void **state)
{
    struct fixture f;
    char names[300][16];
    struct requested options[GS_ARRAY_LEN(names)];
    setup(&f, NODES_POLICY_PACKING);
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        (void)snprintf(names[i], sizeof(names[i]), "group-%zu", i);
        options[i] = (struct requested){.group = names[i],
                                        .nodes = 1,
                                        .gpus_per_node = i == 250 ? 1 : 8,
                                        .pods = (const json_t *const *)f.pods,
                                        .n_pods = 1};
    }
    make_request(RELEASE_1_35, options, GS_ARRAY_LEN(options), &f.request);
    assert_int_equal(ask(&f), EXPANDER_CHOSEN);
    assert_string_equal(f.groups.data, "group-250;");
    CODEC_AUTO_JSON json_t *d = last_decision(&f);
    const json_t *shown = json_object_get(d, "options");
    assert_int_equal(json_array_size(shown), 200);
    assert_string_equal(codec_json_str(json_array_get(shown, 0), "group", NULL), "group-250");
    assert_int_equal(codec_json_int(d, 0, "optionsNotShown", NULL), 100);
    assert_true(strlen(codec_json_str(d, "text", NULL)) < 1000);
    teardown(&f);
}

static void test_too_large_requests(void **state)
{
    struct fixture f;
    setup(&f, NODES_POLICY_COST);
    for (int i = 0; i <= EXPANDER_MAX_OPTIONS; i++) {
        GS_AUTO_BUF struct gs_buf option = {0};
        codec_proto_add_bytes(&option, 1, GS_SLICE("g"));
        codec_proto_add_bytes(&f.request, 1, gs_buf_slice(&option));
    }
    assert_int_equal(ask(&f), EXPANDER_ALL);
    assert_int_equal(f.groups.len, 2 * (EXPANDER_MAX_OPTIONS + 1));
    teardown(&f);
}

static void test_unreadable_requests_are_refused(void **state)
{
    struct fixture f;
    setup(&f, NODES_POLICY_COST);
    make_options(&f, RELEASE_1_34);
    f.request.len -= 3;
    assert_int_equal(ask(&f), EXPANDER_REFUSED);
    assert_non_null(strstr(f.why, "ends in the middle"));
    assert_int_equal(f.answer.len, 0);
    gs_buf_clear(&f.request);
    const struct requested odd = {"delete\x7f", 1, 1, .pods = (const json_t *const *)f.pods,
                                  .n_pods = 1};
    make_request(RELEASE_1_35, &odd, 1, &f.request);
    assert_int_equal(ask(&f), EXPANDER_REFUSED);
    assert_non_null(strstr(f.why, "not printable"));
    gs_buf_clear(&f.request); // no option at all
    assert_int_equal(ask(&f), EXPANDER_CHOSEN);
    assert_int_equal(f.answer.len, 0);
    teardown(&f);
}

static void test_decisions_and_metrics(void **state)
{
    struct fixture f;
    GS_AUTO_BUF struct gs_buf text = {0};
    setup(&f, NODES_POLICY_COST);
    make_options(&f, RELEASE_1_35);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ask(&f), EXPANDER_CHOSEN);
    CODEC_AUTO_JSON json_t *all = expander_record_json(f.expander.record, SIZE_MAX);
    assert_int_equal(json_array_size(json_object_get(all, "items")), 3);
    expander_record_metrics(f.expander.record, &text);
    static const char *const lines[] = {
        "gpuscale_expander_requests_total{result=\"chosen\"} 5\n",
        "gpuscale_expander_requests_total{result=\"all\"} 0\n",
        "gpuscale_expander_choices_total{group=\"gpu-1\"} 5\n",
        "gpuscale_expander_options_total{group=\"gpu-4\"} 5\n",
        "gpuscale_expander_option_stranded_gpus{group=\"gpu-4\"} 3\n",
        "gpuscale_expander_option_price_per_hour{group=\"gpu-4\"} 3.5\n",
        "gpuscale_expander_option_expected_seconds{group=\"gpu-1\"} 60\n",
        "gpuscale_expander_decision_duration_seconds_count 5\n",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(lines); i++)
        if (!strstr(text.data, lines[i]))
            fail_msg("no line %s in:\n%s", lines[i], text.data);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_releases_get_the_same_choice),
        cmocka_unit_test(test_policies),
        cmocka_unit_test(test_pools_of_node_groups),
        cmocka_unit_test(test_problems_do_not_prevent_a_scale_up),
        cmocka_unit_test(test_many_options_are_summarized),
        cmocka_unit_test(test_too_large_requests),
        cmocka_unit_test(test_unreadable_requests_are_refused),
        cmocka_unit_test(test_decisions_and_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
