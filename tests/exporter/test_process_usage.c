// SPDX-License-Identifier: Apache-2.0
// What pods have of a shared GPU: never more than the GPU itself, and with the way it came about.
#include "render_fixture.h"

#include "exporter/sampler.h"

static struct gpu_process *process(struct fixture *f, size_t i)
{
    return &f->sample->gpus->devices[0].processes[i];
}

static void test_sums_stay_below_the_device(void **state)
{
    struct fixture *f = *state;
    struct gpu_device *d = &f->sample->gpus->devices[0];
    add_process(f, 0, 11, 60, 4000);
    add_process(f, 0, 12, 50, 3000);
    add_process(f, 0, 13, 0, 5000);
    for (size_t i = 0; i < 3; i++)
        process(f, i)->enc_util = 40;
    d->fields[GPU_F_GPU_UTIL] = integer(91);
    d->fields[GPU_F_FB_USED] = integer(6001);
    exporter_clamp_process_usage(f->sample);
    // In proportion, and exactly the whole together.
    assert_int_equal(process(f, 0)->sm_util, 49);
    assert_int_equal(process(f, 1)->sm_util, 42);
    assert_int_equal(process(f, 2)->sm_util, 0);
    uint64_t mib = 0, enc = 0;
    for (size_t i = 0; i < 3; i++) {
        mib += process(f, i)->memory_bytes >> 20;
        enc += process(f, i)->enc_util;
        assert_true(process(f, i)->memory_estimated);
    }
    assert_int_equal(mib, 6001);
    assert_int_equal(enc, 100); // the encoder's own value is not known here
    assert_int_equal(process(f, 0)->memory_bytes >> 20, 2000);
}

static void test_what_fits_stays_as_the_driver_tells_it(void **state)
{
    struct fixture *f = *state;
    struct gpu_device *d = &f->sample->gpus->devices[0];
    add_process(f, 0, 11, 60, 4000);
    add_process(f, 0, 12, 31, 2001);
    d->fields[GPU_F_GPU_UTIL] = integer(91);
    d->fields[GPU_F_FB_USED] = integer(6001);
    exporter_clamp_process_usage(f->sample);
    assert_int_equal(process(f, 0)->sm_util, 60);
    assert_int_equal(process(f, 1)->memory_bytes >> 20, 2001);
    assert_false(process(f, 0)->util_estimated || process(f, 1)->memory_estimated);
}

static void test_nonsense_of_the_driver(void **state)
{
    struct fixture *f = *state;
    struct gpu_device *d = &f->sample->gpus->devices[0];
    add_process(f, 0, 11, UINT32_MAX, 0);
    add_process(f, 0, 12, UINT32_MAX, 0);
    process(f, 0)->memory_bytes = process(f, 1)->memory_bytes = UINT64_MAX;
    d->fields[GPU_F_GPU_UTIL] = integer(-5);
    d->fields[GPU_F_FB_USED] = integer(7);
    exporter_clamp_process_usage(f->sample);
    assert_int_equal(process(f, 0)->sm_util + process(f, 1)->sm_util, 100);
    assert_int_equal((process(f, 0)->memory_bytes + process(f, 1)->memory_bytes) >> 20, 7);
    d->fields[GPU_F_GPU_UTIL] = integer(INT64_MAX);
    d->fields[GPU_F_FB_USED] = integer(INT64_MIN);
    exporter_clamp_process_usage(f->sample);
    assert_int_equal(process(f, 0)->sm_util + process(f, 1)->sm_util, 100);
}

static void test_memory_of_mig_devices_counts_for_itself(void **state)
{
    struct fixture *f = *state;
    struct gpu_device *d = &f->sample->gpus->devices[0];
    d->instances = gs_alloc_array(2, sizeof(*d->instances));
    d->n_instances = 2;
    for (uint32_t i = 0; i < 2; i++) {
        d->instances[i].gpu_instance_id = 7 + i;
        d->instances[i].fb.used = integer(i ? 1000 : 50);
        add_process(f, 0, 11 + i, 0, 100);
        process(f, i)->gpu_instance = 7 + i;
    }
    exporter_clamp_process_usage(f->sample);
    assert_int_equal(process(f, 0)->memory_bytes >> 20, 50);
    assert_int_equal(process(f, 1)->memory_bytes >> 20, 100);
}

// Where the activity of MPS clients is booked on the server they get equal parts of it.
static void test_mps_server(void **state)
{
    struct fixture *f = *state;
    struct exporter_owner *server = add_process(f, 0, 10, 71, 30);
    set_text(server->process_name, sizeof(server->process_name), "nvidia-cuda-mps");
    add_process(f, 0, 11, 0, 100);
    add_process(f, 0, 12, 0, 100);
    add_process(f, 0, 13, 5, 100); // no client of it
    process(f, 1)->mps = process(f, 2)->mps = true;
    exporter_clamp_process_usage(f->sample);
    assert_int_equal(process(f, 0)->sm_util, 0);
    assert_int_equal(process(f, 1)->sm_util, 35);
    assert_int_equal(process(f, 2)->sm_util, 36);
    assert_int_equal(process(f, 3)->sm_util, 5);
    assert_true(process(f, 1)->util_estimated);
    assert_false(process(f, 3)->util_estimated);
    // A driver that tells the clients' own is believed.
    process(f, 0)->sm_util = 40;
    process(f, 1)->sm_util = 30;
    process(f, 2)->sm_util = 0;
    exporter_clamp_process_usage(f->sample);
    assert_int_equal(process(f, 1)->sm_util, 30);
    assert_int_equal(process(f, 2)->sm_util, 0);
}

#define HOW "gpuscale_exporter_pod_attribution{gpu=\"0\",UUID=\"GPU-1\","

static void test_each_pod_says_how(void **state)
{
    struct fixture *f = *state;
    struct gpu_device *d = &f->sample->gpus->devices[0];
    const struct pod_row shared[] = {{"ns", "a", "c", "nvidia.com/gpu", "GPU-1::0"},
                                     {"ns", "b", "c", "nvidia.com/gpu", "GPU-1::1"}};
    give(f, shared, 2);
    of_pod(add_process(f, 0, 11, 60, 100), "ns", "a", "c");
    of_pod(add_process(f, 0, 12, 20, 200), "ns", "b", "c");
    const char *page = text(f);
    assert_has(page, HOW "container=\"c\",namespace=\"ns\",pod=\"a\",value=\"utilization\","
                         "attribution=\"attributed\"} 1\n");
    assert_has(page, HOW "container=\"c\",namespace=\"ns\",pod=\"b\",value=\"memory\","
                         "attribution=\"attributed\"} 1\n");
    // Cut down to the device's value: no longer the driver's own reading.
    d->fields[GPU_F_GPU_UTIL] = integer(40);
    exporter_clamp_process_usage(f->sample);
    page = text(f);
    assert_has(page, "pod=\"a\",value=\"utilization\",attribution=\"estimate\"} 1\n");
    assert_has(page, "pod=\"a\",value=\"memory\",attribution=\"attributed\"} 1\n");
    // Alone on it: the device's lines are its own.
    const struct pod_row whole[] = {{"ns", "a", "c", "nvidia.com/gpu", "GPU-1"}};
    give(f, whole, 1);
    page = text(f);
    assert_has(page, "pod=\"a\",value=\"utilization\",attribution=\"exclusive\"} 1\n");
    assert_has(page, "pod=\"a\",value=\"memory\",attribution=\"exclusive\"} 1\n");
    d->lost = true;
    d->n_processes = 0;
    assert_has_not(text(f), "gpuscale_exporter_pod_attribution");
}

static const char *page_at(struct fixture *f, int64_t map_requested_ns)
{
    const struct exporter_render_input in = {.sample = f->sample,
                                             .map = f->map,
                                             .map_version = f->map_version,
                                             .map_requested_ns = map_requested_ns};
    gs_buf_clear(&f->kept);
    if (!f->renderer)
        f->renderer = exporter_renderer_new(&names);
    exporter_renderer_page(f->renderer, &in, &f->kept);
    return f->kept.data;
}

#define FOREIGN "DCGM_CUSTOM_ILLEGAL_PROCESS_SM_UTIL{AllocateMode=\"none\""

static void test_who_was_not_given_the_gpu(void **state)
{
    struct fixture *f = *state;
    const struct pod_row rows[] = {{"ns", "a", "c", "nvidia.com/gpu", "GPU-1"}};
    give(f, rows, 1);
    of_pod(add_process(f, 0, 11, 60, 100), "ns", "a", "c");
    struct exporter_owner *o = add_process(f, 0, 12, 20, 200);
    of_pod(o, "ns", "b", "c");
    o->seen_ns = 1000;
    // The kubelet was asked before the process was there: it may have been given the GPU since.
    const char *page = page_at(f, 999);
    assert_has_not(page, "ILLEGAL");
    assert_has(page, "pod=\"a\",value=\"memory\",attribution=\"exclusive\"} 1\n");
    page = page_at(f, 1001);
    assert_has(page, FOREIGN ",ContainerName=\"c\",NamespaceName=\"ns\",NodeName=\"node-1\","
                             "PodName=\"b\",ProcessId=\"12\",ProcessName=\"python3\"");
    assert_has(page, "DCGM_CUSTOM_ILLEGAL_PROCESS_MEM_USED{");
    assert_has(page, "DCGM_CUSTOM_PROCESS_SM_UTIL{AllocateMode=\"exclusive\"");
    // The device's values are not only those of the pod that has it.
    assert_has(page, "pod=\"a\",value=\"memory\",attribution=\"estimate\"} 1\n");
    assert_has(page, "pod=\"b\",value=\"memory\",attribution=\"attributed\"} 1\n");
    assert_has_not(page, FOREIGN ",ContainerName=\"c\",NamespaceName=\"ns\",NodeName=\"node-1\","
                                 "PodName=\"a\"");
}

// A pod whose share could not be found is no intruder.
static void test_unknown_shares_are_no_intruders(void **state)
{
    struct fixture *f = *state;
    const struct pod_row rows[] = {
        {"ns", "a", "c", "nvidia.com/gpu", "GPU-11111111-2222-3333-4444-555555555555-3"}};
    give(f, rows, 1);
    struct exporter_owner *o = add_process(f, 0, 11, 60, 100);
    of_pod(o, "ns", "a", "c");
    o->seen_ns = 1000;
    assert_has_not(page_at(f, 1001), "ILLEGAL");
    assert_has(f->kept.data, "DCGM_CUSTOM_PROCESS_SM_UTIL{AllocateMode=\"none\"");
}

// Two containers of a pod have replicas; which of them the process is in is not known.
static void test_container_is_not_guessed(void **state)
{
    struct fixture *f = *state;
    const struct pod_row rows[] = {{"ns", "a", "c", "nvidia.com/gpu", "GPU-1::0"},
                                   {"ns", "a", "d", "nvidia.com/gpu", "GPU-1::1"}};
    give(f, rows, 2);
    of_pod(add_process(f, 0, 11, 60, 100), "ns", "a", "");
    const char *page = text(f);
    assert_has_not(page,
                   "ContainerName=\"c\",NamespaceName=\"ns\",NodeName=\"node-1\",PodName=\"a\","
                   "ProcessId");
    assert_has(page, "NamespaceName=\"ns\",NodeName=\"node-1\",PodName=\"a\",ProcessId=\"11\"");
}

static void test_what_containers_were_given(void **state)
{
    struct fixture *f = *state;
    const struct pod_row rows[] = {{"ns", "a", "c", "nvidia.com/gpu", "GPU-1"}};
    give(f, rows, 1);
    assert_has(text(f),
               "DCGM_CUSTOM_CONTAINER_CP_ALLOCATED{AllocateMode=\"exclusive\","
               "ContainerName=\"c\",NamespaceName=\"ns\",NodeName=\"node-1\",PodName=\"a\","
               "UUID=\"GPU-1\",device=\"nvidia0\",gpu=\"0\",modelName=\"NVIDIA H100\"} "
               "1.000000\n");
    const struct pod_row shared[] = {{"ns", "a", "c", "nvidia.com/gpu", "GPU-1::0"}};
    give(f, shared, 1);
    assert_has_not(text(f), "CP_ALLOCATED"); // no limit is none
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_sums_stay_below_the_device),
        TEST(test_what_fits_stays_as_the_driver_tells_it),
        TEST(test_nonsense_of_the_driver),
        TEST(test_memory_of_mig_devices_counts_for_itself),
        TEST(test_mps_server),
        TEST(test_each_pod_says_how),
        TEST(test_who_was_not_given_the_gpu),
        TEST(test_unknown_shares_are_no_intruders),
        TEST(test_container_is_not_guessed),
        TEST(test_what_containers_were_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
