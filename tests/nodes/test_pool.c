// SPDX-License-Identifier: Apache-2.0
#include "nodes_fixture.h"

#include "nodes/pool.h"
#include "nodes/simulation.h"

static struct gs_error *parse(struct nodes_pools *p, const char *text)
{
    return nodes_pools_parse(p, gs_slice_of(text), "pools.yaml", NULL);
}

static void test_a_file_gives_all_fields(void **state)
{
    struct nodes_pools p = {0};
    assert_ok(parse(&p,
                    "currency: EUR\n"
                    "pools:\n"
                    "- name: t4-4\n"
                    "  min: 1\n"
                    "  max: 8\n"
                    "  machine: {type: n1, cpu: 15500m, memory: 60Gi, pods: 32, gpus: 4,\n"
                    "    model: Tesla T4, resources: {ephemeral-storage: 100Gi}}\n"
                    "  labels: {team: a}\n"
                    "  taints: [nvidia.com/gpu=present:NoSchedule, {key: k, effect: NoExecute}]\n"
                    "  zone: us-central1-c\n"
                    "  price: 2.48\n"
                    "  spot: true\n"
                    "  startup: {p50: 40s, p90: 2m, driver: 10s}\n"
                    "  priority: -3\n"
                    "  fail: capacity:30%\n"
                    "- {name: cpu, max: 1}\n"));
    assert_int_equal(p.len, 2);
    const struct nodes_pool *t = nodes_pools_find(&p, "t4-4");
    assert_int_equal(t->min, 1);
    assert_int_equal(t->max, 8);
    assert_int_equal(t->gpus, 4);
    assert_int_equal(t->cpu_milli, 15500);
    assert_true(t->memory_bytes == INT64_C(60) << 30);
    assert_int_equal(t->max_pods, 32);
    assert_string_equal(t->currency, "EUR");
    assert_true(t->has_price && t->price == 2.48 && t->spot);
    assert_int_equal(t->startup_ms, 40000);
    assert_int_equal(t->startup_p90_ms, 120000);
    assert_int_equal(t->simulation->boot_ms, 30000);
    assert_int_equal(t->simulation->driver_ms, 10000);
    assert_int_equal(t->priority, -3);
    assert_int_equal(t->simulation->failure, NODES_FAILURE_CAPACITY);
    assert_true(t->simulation->fail_share == 0.3);
    assert_string_equal(t->where, "pools.yaml:3:3");
    assert_int_equal(t->n_taints, 2);
    assert_string_equal(t->taints[1].value, "");
    CODEC_AUTO_JSON json_t *node = nodes_pool_template(t, "x");
    GS_AUTO_FREE char *text = codec_json_text(node);
    assert_string_equal(
        text,
        "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"x\",\"labels\":{"
        "\"kubernetes.io/hostname\":\"x\",\"kubernetes.io/os\":\"linux\",\"kubernetes.io/arch\":"
        "\"amd64\",\"gpuscale.dev/pool\":\"t4-4\",\"cloud.google.com/gke-nodepool\":\"t4-4\","
        "\"node.kubernetes.io/instance-type\":\"n1\",\"topology.kubernetes.io/zone\":"
        "\"us-central1-c\",\"cloud.google.com/gke-spot\":\"true\",\"gpuscale.dev/price\":\"2.48\","
        "\"nvidia.com/gpu.present\":\"true\",\"nvidia.com/gpu.count\":\"4\",\"nvidia.com/"
        "gpu.product\":\"Tesla-T4\",\"team\":"
        "\"a\"}},\"spec\":{\"providerID\":\"gpuscale://t4-4/x\",\"taints\":[{\"key\":"
        "\"nvidia.com/gpu\",\"value\":\"present\",\"effect\":\"NoSchedule\"},{\"key\":\"k\","
        "\"effect\":\"NoExecute\"}]},\"status\":{\"capacity\":{\"cpu\":\"15500m\",\"memory\":"
        "\"60Gi\",\"pods\":\"32\",\"nvidia.com/gpu\":\"4\",\"ephemeral-storage\":\"107374182400\"},"
        "\"allocatable\":{\"cpu\":\"15500m\",\"memory\":\"60Gi\",\"pods\":\"32\","
        "\"nvidia.com/gpu\":\"4\",\"ephemeral-storage\":\"107374182400\"},\"conditions\":[{"
        "\"type\":\"Ready\",\"status\":\"True\",\"lastTransitionTime\":\"1970-01-01T00:00:00Z\","
        "\"reason\":\"KubeletReady\",\"message\":\"kubelet is posting ready status\"}]}}");
    nodes_pools_finish(&p);
}

static void test_wrong_files_have_positions(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"[]", "pools.yaml:1:1: want a mapping with pools"},
        {"{currency: USD}", "pools.yaml:1:1: pools are missing"},
        {"pools: 3", "pools.yaml:1:8: pools: want a list of pools"},
        {"pools:\n- name: a\n  maximum: 3\n", "pools.yaml:3:12: unknown field \"maximum\" in pool"},
        {"pools:\n- name: a\n  prise: 3\n",
         "pools.yaml:3:10: unknown field \"prise\" in pool, did you mean \"price\"?"},
        {"pools:\n- {name: a, max: 2}\n- {name: a, max: 2}\n",
         "pools.yaml:3:3: pool a exists already: pools.yaml:2:3"},
        {"pools:\n- {max: 2}\n", "a pool needs a name"},
        {"pools:\n- {name: A_b}\n", "pools.yaml:2:3: pool name \"A_b\": "},
        {"pools:\n- {name: a, min: 3, max: 2}\n", "pools.yaml:2:3: pool a: min 3 is above max 2"},
        {"pools:\n- {name: a, max: 2000000}\n", "max is above 15000"},
        {"pools:\n- {name: a, price: free}\n", "\"free\" is not a price per hour such as 2.48"},
        {"pools:\n- {name: a, machine: {cpu: 4x}}\n",
         "pools.yaml:2:28: \"4x\" is not a quantity such as 4 or 500m"},
        {"pools:\n- {name: a, machine: {memory: lots}}\n",
         "\"lots\" is not a quantity such as 64Gi"},
        {"pools:\n- {name: a, taints: [x=y]}\n", "taint \"x=y\": want KEY=VALUE:EFFECT"},
        {"pools:\n- {name: a, labels: {a b: c}}\n", "label a b=c: "},
        {"pools:\n- {name: a, startup: {p50: 2m, p90: 1m}}\n", "the p90 of the start-up is below"},
        {"pools:\n- {name: a, startup: {p50: 2s, boot: 1m}}\n", "take longer than all of it"},
        {"pools:\n- {name: a, fail: sometimes}\n", "fail: \"sometimes\": want capacity"},
        {"pools:\n- {name: a, machine: {gpus: 1000}}\n", "more than 256 GPUs"},
        {"pools:\n- {name: a, machine: {resources: {cpu: 3}}}\n", "resource cpu has its own field"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct nodes_pools p = {0};
        assert_error(parse(&p, rows[i].text), GS_EINVAL, rows[i].error);
        assert_int_equal(p.len, 0);
        nodes_pools_finish(&p);
    }
}

static void test_an_option_gives_a_pool(void **state)
{
    struct nodes_pools p = {0};
    assert_ok(nodes_pools_add_option(
        &p, "t4-1=0..8x1,startup=40s,price=2.48,model=Tesla T4,taint=nvidia.com/gpu=present:"
            "NoSchedule,label=team=a,spot,cpu=4,memory=16Gi,zone=z,fail=never-ready:2,resource="
            "example.com/x=3,p90=50s,priority=7"));
    assert_ok(nodes_pools_add_option(&p, "cpu=3x0"));
    const struct nodes_pool *t = &p.items[0];
    assert_int_equal(t->min, 0);
    assert_int_equal(t->max, 8);
    assert_int_equal(t->gpus, 1);
    assert_string_equal(t->gpu_model, "Tesla T4");
    assert_string_equal(t->taints[0].key, "nvidia.com/gpu");
    assert_string_equal(t->labels[0].value, "a");
    assert_int_equal(t->simulation->fail_count, 2);
    assert_int_equal(t->simulation->boot_ms + t->simulation->driver_ms + t->simulation->gpu_ms,
                     40000);
    assert_true(t->simulation->driver_ms > 0 && t->simulation->gpu_ms > 0);
    assert_int_equal(p.items[1].min, 3);
    assert_int_equal(p.items[1].max, 3);
    assert_int_equal(p.items[1].cpu_milli, 4000);
    assert_false(p.items[1].has_price);
    nodes_pools_finish(&p);
}

static void test_wrong_options(void **state)
{
    static const char *const rows[][2] = {
        {"", "--pool : want NAME=MIN..MAXxGPUS"},
        {"a", "--pool a: want NAME=MIN..MAXxGPUS"},
        {"a=1..", "want NAME=MIN..MAXxGPUS"},
        {"a=1..2", "want NAME=MIN..MAXxGPUS"},
        {"a=-1..2x1", "want NAME=MIN..MAXxGPUS"},
        {"a=3..2x1", "min 3 is above max 2"},
        {"a=0..2x1,prise=3", "unknown key \"prise\", did you mean \"price\"?"},
        {"a=0..2x1,price", "price needs a value"},
        {"a=0..2x1,spot=maybe", "spot: \"maybe\" is not true or false"},
        {"a=0..2x1,startup=40", "(key startup; want a unit: 40s)"},
        {"a=0..2x1,startup=soon", "not a valid duration string: \"soon\""},
        {"a=0..2x999", "more than 256 GPUs"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct nodes_pools p = {0};
        assert_error(nodes_pools_add_option(&p, rows[i][0]), GS_EINVAL, rows[i][1]);
        nodes_pools_finish(&p);
    }
}

static void test_gpu_machines_without_a_taint_are_reported(void **state)
{
    struct nodes_pools p = {0};
    struct nodes_findings f = {0};
    (void)state;
    assert_ok(parse(&p, "pools:\n"
                        "- {name: cpu, max: 2}\n"
                        "- {name: kept, max: 2, machine: {gpus: 1}, taints: "
                        "[nvidia.com/gpu=present:NoSchedule]}\n"
                        "- {name: soft, max: 2, machine: {gpus: 1}, taints: "
                        "[nvidia.com/gpu=present:PreferNoSchedule]}\n"
                        "- {name: open, max: 2, machine: {gpus: 1}}\n"));
    nodes_pools_check(&p, false, &f);
    assert_int_equal(f.len, 2);
    assert_non_null(strstr(f.items[0].text, "pool soft has GPUs and no taint"));
    assert_int_equal(f.items[1].severity, NODES_WARNING);
    assert_non_null(strstr(f.items[1].text, "pool open has GPUs and no taint"));
    assert_non_null(strstr(f.items[1].text, "the taint nvidia.com/gpu=present:NoSchedule"));
    nodes_findings_finish(&f);
    nodes_pools_finish(&p);
}

static void test_checks_find_what_cannot_work(void **state)
{
    struct nodes_pools p = {0};
    struct nodes_findings f = {0};
    assert_ok(parse(&p,
                    "pools:\n"
                    "- {name: a, max: 2, labels: {cloud.google.com/gke-accelerator: x}}\n"
                    "- {name: b, max: 2, price: 1, taints: [nvidia.com/gpu=present:NoSchedule]}\n"
                    "- {name: c, max: 0, price: 1, currency: EUR, machine: {gpus: 1}}\n"));
    nodes_pools_check(&p, true, &f);
    assert_int_equal(f.len, 5);
    assert_int_equal(f.items[0].severity, NODES_ERROR);
    assert_string_equal(f.items[0].text,
                        "pools.yaml:2:3: pool a has the GPU label cloud.google.com/gke-accelerator "
                        "but no GPUs: its nodes would never count as ready; set machine.gpus or "
                        "remove the label");
    assert_non_null(strstr(f.items[1].text, "pool a has no price"));
    assert_non_null(strstr(f.items[2].text, "do not tolerate it"));
    assert_non_null(strstr(f.items[3].text, "max is 0"));
    assert_non_null(strstr(f.items[4].text, "is in EUR, that of pool b in USD"));
    nodes_findings_finish(&f);
    nodes_pools_finish(&p);
}

struct more {
    const char *create;
};

static void test_a_command_adds_keys(void **state)
{
    static const struct codec_field fields[] = {
        {"create", CODEC_FIELD_TEXT, offsetof(struct more, create), NULL},
        {0},
    };
    const struct nodes_pools_extra extra = {.fields = fields, .size = sizeof(struct more)};
    struct nodes_pools p = {0};
    assert_ok(
        nodes_pools_parse(&p, GS_SLICE("pools: [{name: a, max: 1, create: ./up}]"), "f", &extra));
    assert_string_equal(((struct more *)p.items[0].extra)->create, "./up");
    nodes_pools_finish(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_gives_all_fields),
        cmocka_unit_test(test_wrong_files_have_positions),
        cmocka_unit_test(test_an_option_gives_a_pool),
        cmocka_unit_test(test_wrong_options),
        cmocka_unit_test(test_checks_find_what_cannot_work),
        cmocka_unit_test(test_gpu_machines_without_a_taint_are_reported),
        cmocka_unit_test(test_a_command_adds_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
