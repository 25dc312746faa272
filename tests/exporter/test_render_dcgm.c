// SPDX-License-Identifier: Apache-2.0
// Lines of what only DCGM has. The labels are those that dcgm-exporter 4.8.2 wrote on simulated
// hardware.
#include "render_fixture.h"

#include "base/clock.h"
#include "exporter/exporter_private.h"

#define ROWS                                                                                       \
    "DCGM_FI_DRIVER_VERSION, label, driver.\n"                                                     \
    "DCGM_FI_DEV_SERIAL, label, serial.\n"                                                         \
    "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT, gauge, temperature.\n"                              \
    "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX, counter, sent.\n"                                    \
    "DCGM_FI_DEV_CPU_UTIL_TOTAL, gauge, used.\n"                                                   \
    "DCGM_FI_PROF_HOSTMEM_CACHE_HIT, gauge, cache.\n"
enum { TEMPERATURE = 858, LINK_TX = 780, CPU_UTIL = 1100, HOST_CACHE = 1080 };
enum { GPU, GPU_I, SWITCH, LINK_OF_GPU, LINK_OF_SWITCH, CPU, CORE, ENTITIES };

#define MACHINE ",hostname=\"n1\",DCGM_FI_DRIVER_VERSION=\"570.1\"} "

static const struct dcgm_entity entities[ENTITIES] = {
    [GPU] = {DCGM_ENTITY_GPU, 5, DCGM_SOURCE_NO_PARENT, .uuid = "GPU-2"},
    [GPU_I] = {DCGM_ENTITY_GPU_I, 35, GPU, 7, .uuid = "GPU-2"},
    [SWITCH] = {DCGM_ENTITY_SWITCH, 3, DCGM_SOURCE_NO_PARENT},
    [LINK_OF_GPU] = {DCGM_ENTITY_LINK, DCGM_LINK_ID(DCGM_ENTITY_GPU, 4, 5), GPU,
                     .link_state = DCGM_LINK_UP, .uuid = "GPU-2"},
    [LINK_OF_SWITCH] = {DCGM_ENTITY_LINK, DCGM_LINK_ID(DCGM_ENTITY_SWITCH, 17, 3), SWITCH,
                        .link_state = DCGM_LINK_UP},
    [CPU] = {DCGM_ENTITY_CPU, 1, DCGM_SOURCE_NO_PARENT},
    [CORE] = {DCGM_ENTITY_CPU_CORE, 72, CPU},
};

static void add(struct dcgm_latest *l, uint32_t entity, uint16_t field, struct gpu_value v)
{
    struct dcgm_value *to = &l->values[l->n_values++];
    *to = (struct dcgm_value){.entity = entity, .field = field, .type = 'i', .i = v.i};
    if (v.is_double) {
        to->type = 'd';
        to->d = v.d;
    }
    to->ts_us = l->unix_us;
}

static struct gpu_value real(double v)
{
    return (struct gpu_value){.validity = GPU_VALID, .is_double = true, .d = v};
}

static int set_up_dcgm(void **state)
{
    setup(state);
    struct fixture *f = *state;
    struct dcgm_latest *l = f->sample->dcgm = dcgm_latest_new(ENTITIES, 16, 0);
    memcpy(l->entities, entities, sizeof(entities));
    l->unix_us = INT64_C(1700000000000000);
    l->mono_ns = f->sample->mono_ns = 5 * GS_NS_PER_SEC;
    l->interval_ns = GS_NS_PER_SEC;
    l->n_values = 0;
    add(l, SWITCH, TEMPERATURE, integer(41));
    add(l, LINK_OF_GPU, LINK_TX, integer(100));
    add(l, LINK_OF_SWITCH, LINK_TX, integer(200));
    add(l, CPU, CPU_UTIL, real(0.5));
    add(l, CORE, CPU_UTIL, real(0.25));
    return 0;
}

static const char *page_with(struct fixture *f, const char *devices, const char *switches,
                             const char *cpus)
{
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
    assert_null(exporter_counters_parse_with(GS_SLICE(ROWS), true, &c));
    const struct exporter_render_names with = {.hostname_label = "hostname",
                                               .hostname = "n1",
                                               .counters = &c,
                                               .devices = devices,
                                               .switches = switches,
                                               .cpus = cpus};
    gs_buf_clear(&f->text);
    gs_buf_add(&f->text, "", 0);
    exporter_render_gpus(&with, f->sample, f->map, NULL, &f->text);
    return f->text.data ? f->text.data : "";
}

static size_t occurrences(const char *page, const char *part)
{
    size_t n = 0;
    while ((page = strstr(page, part))) {
        page += strlen(part);
        n++;
    }
    return n;
}

static void test_labels_of_each_kind(void **state)
{
    const char *page = page_with(*state, NULL, NULL, NULL);
    assert_has(page,
               "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{nvswitch=\"nvswitch3\"" MACHINE "41\n");
    assert_has(page, "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX{nvlink=\"5\",gpu=\"1\","
                     "gpu_uuid=\"GPU-2\",pci_bus_id=\"00000000:3C:00.0\",device=\"nvidia1\","
                     "model_name=\"NVIDIA H100\"" MACHINE "100\n");
    assert_has(page, "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX{nvlink=\"17\","
                     "nvswitch=\"nvswitch3\"" MACHINE "200\n");
    assert_has(page, "DCGM_FI_DEV_CPU_UTIL_TOTAL{cpu=\"1\"" MACHINE "0.500000\n");
    assert_has(page, "DCGM_FI_DEV_CPU_UTIL_TOTAL{cpucore=\"72\",cpu=\"1\"" MACHINE "0.250000\n");
}

static void test_links_have_the_pod_of_their_gpu(void **state)
{
    struct fixture *f = *state;
    const struct pod_row rows[] = {{"ns", "p", "c", "nvidia.com/gpu", "GPU-2"}};
    give(f, rows, 1);
    const char *page = page_with(f, NULL, NULL, NULL);
    assert_has(page, "model_name=\"NVIDIA H100\",hostname=\"n1\","
                     "DCGM_FI_DRIVER_VERSION=\"570.1\",container=\"c\",namespace=\"ns\","
                     "pod=\"p\"} 100\n");
    assert_has(page, "{nvlink=\"17\",nvswitch=\"nvswitch3\"" MACHINE "200\n");
}

static void test_a_family_has_one_header(void **state)
{
    const char *page = page_with(*state, NULL, NULL, NULL);
    assert_int_equal(occurrences(page, "# TYPE DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX"), 1);
    assert_int_equal(occurrences(page, "# HELP DCGM_FI_DEV_CPU_UTIL_TOTAL used."), 1);
}

static void test_a_gpu_has_its_own_labels(void **state)
{
    struct fixture *f = *state;
    add(f->sample->dcgm, GPU, HOST_CACHE, integer(7));
    assert_has(
        page_with(f, NULL, NULL, NULL),
        "DCGM_FI_PROF_HOSTMEM_CACHE_HIT{gpu=\"1\",UUID=\"GPU-2\","
        "pci_bus_id=\"00000000:3C:00.0\",device=\"nvidia1\",modelName=\"NVIDIA H100\"" MACHINE
        "7\n");
    assert_has_not(page_with(f, "g:0", NULL, NULL), "PROF_HOSTMEM_CACHE_HIT");
}

static void test_values_without_a_line(void **state)
{
    struct fixture *f = *state;
    f->sample->dcgm->values[0].i = DCGM_BLANK_INT64;
    f->sample->dcgm->values[3].status = DCGM_NOT_WATCHED;
    f->sample->dcgm->entities[LINK_OF_SWITCH].link_state = DCGM_LINK_DOWN;
    const char *page = page_with(f, NULL, NULL, NULL);
    assert_has_not(page, "TEMPERATURE"); // and no header either
    assert_has_not(page, "{cpu=\"1\"");
    assert_has(page, "{cpucore=\"72\"");
    assert_has_not(page, "nvlink=\"17\"");
}

static void test_old_values_have_no_line(void **state)
{
    struct fixture *f = *state;
    f->sample->mono_ns += 10 * GS_NS_PER_SEC;
    assert_has_not(page_with(f, NULL, NULL, NULL), "DCGM_FI_DEV_CPU_UTIL_TOTAL");
}

static void test_no_read_has_no_line(void **state)
{
    struct fixture *f = *state;
    dcgm_latest_free(f->sample->dcgm);
    f->sample->dcgm = NULL;
    assert_has_not(page_with(f, NULL, NULL, NULL), "DCGM_FI_DEV_CPU_UTIL_TOTAL");
}

static void test_selected_devices(void **state)
{
    assert_has_not(page_with(*state, NULL, "g", NULL), "nvlink=\"17\"");
    assert_has(page_with(*state, NULL, "g", NULL), "{nvswitch=\"nvswitch3\"");
    assert_has(page_with(*state, NULL, "g:3+i:0-17", NULL), "nvlink=\"17\"");
    assert_has_not(page_with(*state, NULL, "g:3+i:0-16", NULL), "nvlink=\"17\"");
    assert_has_not(page_with(*state, NULL, "g:0-2+i", NULL), "nvswitch3");
    assert_has(page_with(*state, "g:1", "g:0", NULL), "nvlink=\"5\"");
    assert_has_not(page_with(*state, "g:0", NULL, NULL), "nvlink=\"5\"");
    assert_has(page_with(*state, NULL, NULL, "g:1+i:72"), "cpucore=\"72\"");
    assert_has_not(page_with(*state, NULL, NULL, "g:0+i"), "cpu=\"1\"");
    assert_has_not(page_with(*state, NULL, NULL, "g:1"), "cpucore=\"72\"");
}

// A link of a GPU that NVML does not list is not this container's.
static void test_a_gpu_that_nvml_lacks_has_no_line(void **state)
{
    struct fixture *f = *state;
    set_text(f->sample->dcgm->entities[LINK_OF_GPU].uuid, 96, "GPU-9");
    set_text(f->sample->dcgm->entities[GPU].uuid, 96, "GPU-9");
    assert_has_not(page_with(f, NULL, NULL, NULL), "nvlink=\"5\"");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up_dcgm, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_labels_of_each_kind),
        CASE(test_links_have_the_pod_of_their_gpu),
        CASE(test_a_family_has_one_header),
        CASE(test_a_gpu_has_its_own_labels),
        CASE(test_values_without_a_line),
        CASE(test_old_values_have_no_line),
        CASE(test_no_read_has_no_line),
        CASE(test_selected_devices),
        CASE(test_a_gpu_that_nvml_lacks_has_no_line),
    };
#undef CASE
    return cmocka_run_group_tests(tests, NULL, NULL);
}
