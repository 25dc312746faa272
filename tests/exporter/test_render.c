// SPDX-License-Identifier: Apache-2.0
#include "render_fixture.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exporter/sampler.h"

static void test_page_as_dcgm_exporter_writes_it(void **state)
{
    struct fixture *f = *state;
    const struct pod_row rows[] = {{"ns", "p", "c", "nvidia.com/gpu", "GPU-1"}};
    give(f, rows, 1);
    const char *want =
        "# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).\n"
        "# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"
        "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-1\",pci_bus_id=\"00000000:3B:00.0\","
        "device=\"nvidia0\",modelName=\"NVIDIA H100\",hostname=\"n1\","
        "DCGM_FI_DRIVER_VERSION=\"570.1\",container=\"c\",namespace=\"ns\",pod=\"p\"} 41\n"
        "DCGM_FI_DEV_GPU_TEMP{gpu=\"1\",UUID=\"GPU-2\",pci_bus_id=\"00000000:3C:00.0\","
        "device=\"nvidia1\",modelName=\"NVIDIA H100\",hostname=\"n1\","
        "DCGM_FI_DRIVER_VERSION=\"570.1\"} 42\n"
        "# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).\n"
        "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n";
    const char *page = text(f);
    assert_memory_equal(page, want, strlen(want));
    assert_has(page, "} 70.123000\n");
    assert_has(page,
               "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED{AllocateMode=\"exclusive\","
               "ContainerName=\"c\",NamespaceName=\"ns\",NodeName=\"node-1\",PodName=\"p\","
               "UUID=\"GPU-1\",device=\"nvidia0\",gpu=\"0\",modelName=\"NVIDIA H100\"} 16384\n");
}

static void test_absent_is_not_zero(void **state)
{
    struct fixture *f = *state;
    struct gpu_device *d = f->sample->gpus->devices;
    for (int v = GPU_UNKNOWN; v <= GPU_FAILED; v++) {
        if (v == GPU_VALID)
            continue;
        d[0].fields[GPU_F_GPU_UTIL].validity = d[1].fields[GPU_F_GPU_UTIL].validity = v;
        assert_has_not(text(f), "DCGM_FI_DEV_GPU_UTIL"); // and no header either
    }
    d[1].fields[GPU_F_GPU_UTIL] = integer(0);
    assert_has(text(f), "DCGM_FI_DEV_GPU_UTIL{gpu=\"1\"");
}

static void test_families_are_in_the_order_of_their_ids(void **state)
{
    struct fixture *f = *state;
    for (int k = 0; k < GPU_F_COUNT; k++)
        f->sample->gpus->devices[0].fields[k] = integer(k);
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters all = {0};
    GS_AUTO_BUF struct gs_buf csv = {0};
    for (int k = GPU_F_COUNT - 1; k >= 0; k--) // the file's order does not matter
        if (gpu_field_info(k)->kind != GPU_TEXT)
            gs_buf_addf(&csv, "%s, %s, help of it\n", gpu_field_name(k), gpu_field_info(k)->type);
    assert_null(exporter_counters_parse(gs_buf_slice(&csv), &all));
    const struct exporter_render_names with = {
        .hostname_label = "hostname", .hostname = "n1", .counters = &all};
    gs_buf_clear(&f->text);
    exporter_render_gpus(&with, f->sample, NULL, NULL, &f->text);
    const char *at = f->text.data;
    int last = 0;
    for (int k = 0; k < GPU_F_COUNT; k++) {
        assert_true(gpu_field_info(k)->id > last);
        last = gpu_field_info(k)->id;
        if (gpu_field_info(k)->kind == GPU_TEXT)
            continue;
        char header[160];
        snprintf(header, sizeof(header), "# HELP %s help of it\n# TYPE %s %s\n", gpu_field_name(k),
                 gpu_field_name(k), gpu_field_info(k)->type);
        at = strstr(at, header);
        assert_non_null(at);
    }
}

static void test_small_numbers_are_not_zero(void **state)
{
    struct fixture *f = *state;
    struct gpu_value *power = &f->sample->gpus->devices[0].fields[GPU_F_POWER_USAGE];
    *power = (struct gpu_value){.validity = GPU_VALID, .is_double = true, .d = 2e-12};
    assert_has(text(f), "} 2e-12\n");
    power->d = 0;
    assert_has(text(f), "} 0.000000\n");
    power->d = 2.5e-6;
    assert_has(text(f), "} 0.000003\n");
}

static void test_label_values_are_escaped(void **state)
{
    struct fixture *f = *state;
    set_text(f->sample->gpus->devices[0].name, 96, "A \"quoted\"\\ name\nover two lines");
    assert_has(text(f), "modelName=\"A \\\"quoted\\\"\\\\ name\\nover two lines\"");
}

static void test_shared_gpu_has_no_pod_labels_but_its_processes_have(void **state)
{
    struct fixture *f = *state;
    const struct pod_row rows[] = {
        {"ns", "a", "c", "nvidia.com/gpu", "GPU-1::0"},
        {"ns", "b", "c", "nvidia.com/gpu", "GPU-1::1"},
    };
    give(f, rows, 2);
    of_pod(add_process(f, 0, 11, 60, 100), "ns", "a", "c");
    of_pod(add_process(f, 0, 12, 20, 200), "ns", "b", "c");
    const char *page = text(f);
    assert_has_not(page, "570.1\",container=");
    assert_has(page, "DCGM_CUSTOM_PROCESS_SM_UTIL{AllocateMode=\"share\",ContainerName=\"c\","
                     "NamespaceName=\"ns\",NodeName=\"node-1\",PodName=\"a\",ProcessId=\"11\","
                     "ProcessName=\"python3\",ProcessType=\"C\",UUID=\"GPU-1\",device=\"nvidia0\","
                     "gpu=\"0\",modelName=\"NVIDIA H100\"} 60\n");
    assert_has(page, "PodName=\"b\",ProcessId=\"12\"");
    // It is not known how many shares there are.
    assert_has_not(page, "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED");

    GS_AUTO_BUF struct gs_buf bytes = {0};
    pack_allocatable("nvidia.com/gpu", "GPU-1::0 GPU-1::1 GPU-1::2 GPU-1::3", &bytes);
    assert_null(exporter_device_replicas_parse(gs_buf_slice(&bytes), NULL, 0, &f->replicas));
    assert_has(text(f), "PodName=\"b\",UUID=\"GPU-1\",device=\"nvidia0\",gpu=\"0\","
                        "modelName=\"NVIDIA H100\"} 4096\n");
}

static void test_virtual_gpus_have_a_line_for_each_pod(void **state)
{
    struct fixture *f = *state;
    const struct pod_row rows[] = {
        {"ns", "a", "c", "nvidia.com/gpu", "GPU-1::0"},
        {"ns", "b", "c", "nvidia.com/gpu", "GPU-1::3"},
    };
    give(f, rows, 2);
    of_pod(add_process(f, 0, 11, 60, 100), "ns", "a", "c");
    of_pod(add_process(f, 0, 12, 50, 200), "ns", "a", "c");
    struct gpu_device *d = &f->sample->gpus->devices[0];
    d->fields[GPU_F_GPU_UTIL] = integer(90);
    d->fields[GPU_F_FB_USED] = integer(999);
    exporter_clamp_process_usage(f->sample);
    const struct exporter_render_names with = {
        .hostname_label = "hostname", .hostname = "n1", .virtual_gpus = true};
    gs_buf_clear(&f->text);
    exporter_render_gpus(&with, f->sample, f->map, NULL, &f->text);
    const char *page = f->text.data;
    assert_has(page, "container=\"c\",namespace=\"ns\",pod=\"b\",vgpu=\"3\"} 41\n"); // temperature
    assert_has(page, "DCGM_FI_DRIVER_VERSION=\"570.1\"} 90\n");                      // the device
    assert_has(page, "pod=\"a\",vgpu=\"0\"} 90\n"); // 110, but never above the whole
    assert_has(page, "pod=\"a\",vgpu=\"0\"} 300\n");
    // All processes are known, and none is its: 0 is a fact.
    assert_has(page, "\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\",");
    assert_has(page, "pod=\"b\",vgpu=\"3\"} 0\n");
}

// They have the values of the older fields, as ratio and in bytes.
static void test_virtual_gpus_have_base_units(void **state)
{
    struct fixture *f = *state;
    const struct pod_row rows[] = {{"ns", "a", "c", "nvidia.com/gpu", "GPU-1::0"}};
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters counters = {0};
    give(f, rows, 1);
    of_pod(add_process(f, 0, 11, 40, 100), "ns", "a", "c");
    struct gpu_device *d = &f->sample->gpus->devices[0];
    d->fields[GPU_F_GPU_UTIL_RATIO] =
        (struct gpu_value){.validity = GPU_VALID, .is_double = true, .d = 0.6};
    d->fields[GPU_F_FB_USED_BYTES] = integer(999);
    assert_null(exporter_counters_parse(gs_slice_of("DCGM_FI_DEV_GPU_UTIL_RATIO, gauge, a\n"
                                                    "DCGM_FI_DEV_FB_USED_BYTES, gauge, b\n"),
                                        &counters));
    const struct exporter_render_names with = {.virtual_gpus = true, .counters = &counters};
    gs_buf_clear(&f->text);
    exporter_render_gpus(&with, f->sample, f->map, NULL, &f->text);
    assert_has(f->text.data, "pod=\"a\",vgpu=\"0\"} 0.4");
    assert_has(f->text.data, "pod=\"a\",vgpu=\"0\"} 104857600\n");
}

// Its values are those of the only pod that has a part of it, if that is proved.
static void test_only_holder_of_a_shared_gpu(void **state)
{
    struct fixture *f = *state;
    const struct pod_row rows[] = {
        {"ns", "a", "c", "nvidia.com/gpu", "GPU-1::0"},
        {"ns", "b", "c", "nvidia.com/gpu", "GPU-1::1"},
    };
    static const char temperature[] =
        "DCGM_FI_DRIVER_VERSION=\"570.1\",container=\"c\",namespace=\"ns\",pod=\"a\"} 41\n";
    struct gpu_device *d = &f->sample->gpus->devices[0];
    give(f, rows, 1);
    assert_has_not(text(f), temperature); // no list of processes
    d->processes_valid = true;
    assert_has(text(f), temperature);
    of_pod(add_process(f, 0, 11, 60, 100), "ns", "a", "c");
    assert_has(text(f), temperature);
    assert_has(text(f), "DCGM_CUSTOM_PROCESS_SM_UTIL{AllocateMode=\"share\",");
    struct exporter_owner *other = add_process(f, 0, 12, 10, 100); // of the host
    assert_has_not(text(f), temperature);
    of_pod(&f->sample->owners[0][1], "ns", "b", "c"); // that the kubelet does not list yet
    assert_has_not(text(f), temperature);
    *other = (struct exporter_owner){.kind = EXPORTER_OWNER_GONE};
    assert_has_not(text(f), temperature);
    of_pod(other, "ns", "a", "c");
    assert_has(text(f), temperature);
    give(f, rows, 2);
    assert_has_not(text(f), temperature);
}

// Whose a process is, or whether there are more, is not known: no pod is said to be idle.
static void test_pods_are_idle_only_if_all_processes_are_known(void **state)
{
    struct fixture *f = *state;
    const struct pod_row rows[] = {
        {"ns", "a", "c", "nvidia.com/gpu", "GPU-1::0"},
        {"ns", "b", "c", "nvidia.com/gpu", "GPU-1::3"},
        {"ns", "b", "d", "nvidia.com/gpu", "GPU-1::4"},
    };
    const struct exporter_render_names with = {.virtual_gpus = true};
    static const char *const idle[] = {
        "container=\"c\",namespace=\"ns\",pod=\"b\",vgpu=\"3\"} 0\n",
        "container=\"d\",namespace=\"ns\",pod=\"b\",vgpu=\"4\"} 0\n"};
    struct gpu_device *d = &f->sample->gpus->devices[0];
    give(f, rows, 3);
    of_pod(add_process(f, 0, 11, 60, 100), "ns", "a", "c");
    add_process(f, 0, 12, 0, 100); // of the host
    d->fields[GPU_F_GPU_UTIL] = integer(60);
    d->fields[GPU_F_FB_USED] = integer(999);
    struct exporter_owner *host = &f->sample->owners[0][1];
    for (int i = 0; i < 7; i++) {
        *host = (struct exporter_owner){.kind = i == 1   ? EXPORTER_OWNER_GONE
                                                : i == 2 ? EXPORTER_OWNER_UNREADABLE
                                                : i == 3 ? EXPORTER_OWNER_POD // without a name
                                                         : EXPORTER_OWNER_HOST};
        if (i == 4) // of which container of the pod?
            of_pod(host, "ns", "b", "");
        if (i == 6) // its clients may not be listed
            set_text(host->process_name, sizeof(host->process_name), "nvidia-cuda-mps");
        d->processes_valid = i != 5;
        gs_buf_clear(&f->text);
        exporter_render_gpus(&with, f->sample, f->map, NULL, &f->text);
        for (int k = 0; k < 2; k++) {
            if (i == 0)
                assert_has(f->text.data, idle[k]);
            else
                assert_has_not(f->text.data, idle[k]);
        }
    }
    d->processes_valid = true;
    f->sample->gpus->devices[1].processes_valid = true;
}

static bool pod_facts(void *arg, const char *ns, const char *pod, struct exporter_render_pod *ret)
{
    *ret = (struct exporter_render_pod){"uid-1", ",app=\"web\",tier=\"x\""};
    return strcmp(pod, "a") == 0;
}

static void test_labels_and_uid_of_pods(void **state)
{
    struct fixture *f = *state;
    const struct pod_row rows[] = {{"ns", "a", "c", "nvidia.com/gpu", "GPU-1"}};
    give(f, rows, 1);
    const struct exporter_render_names with = {.hostname_label = "hostname",
                                               .hostname = "n1",
                                               .replace_blanks = true,
                                               .pod = pod_facts,
                                               .devices = "g:0"};
    gs_buf_clear(&f->text);
    exporter_render_gpus(&with, f->sample, f->map, NULL, &f->text);
    assert_has(f->text.data, "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-1\",pci_bus_id=\"00000000:"
                             "3B:00.0\",device=\"nvidia0\",modelName=\"NVIDIA-H100\",hostname="
                             "\"n1\",DCGM_FI_DRIVER_VERSION=\"570.1\",app=\"web\",tier=\"x\","
                             "container=\"c\",namespace=\"ns\",pod=\"a\",pod_uid=\"uid-1\"} 41\n");
    assert_has_not(f->text.data, "gpu=\"1\"");
    assert_true(exporter_render_devices_valid("i:1,3-5"));
    assert_false(exporter_render_devices_valid("i:1,"));
    assert_false(exporter_render_devices_valid("x"));
}

static void test_processes_of_nobody(void **state)
{
    struct fixture *f = *state;
    add_process(f, 0, 11, 5, 1); // of the host
    add_process(f, 0, 12, 5, 1)->kind = EXPORTER_OWNER_GONE;
    of_pod(add_process(f, 1, 13, 5, 1), "ns", "thief", "c"); // in a pod that was given no GPU
    const char *page = text(f);
    assert_has(page, "SM_UTIL{AllocateMode=\"none\",NodeName=\"node-1\",ProcessId=\"11\"");
    assert_has_not(page, "ProcessId=\"12\"");
    assert_has(page, "SM_UTIL{AllocateMode=\"none\",ContainerName=\"c\",NamespaceName=\"ns\","
                     "NodeName=\"node-1\",PodName=\"thief\",ProcessId=\"13\"");
}

static void test_nameless_processes_belong_to_who_alone_holds_the_gpu(void **state)
{
    struct fixture *f = *state;
    const struct pod_row rows[] = {
        {"ns", "alone", "c", "nvidia.com/gpu", "GPU-1"},
        {"ns", "one", "c", "nvidia.com/gpu", "GPU-2::0"},
        {"ns", "two", "c", "nvidia.com/gpu", "GPU-2::1"},
    };
    give(f, rows, 3);
    add_process(f, 0, 11, 5, 1)->kind = EXPORTER_OWNER_POD; // the UID is known, no name
    *add_process(f, 0, 12, 6, 1) =
        (struct exporter_owner){.kind = EXPORTER_OWNER_GONE}; // no hostPID
    add_process(f, 1, 13, 7, 1)->kind = EXPORTER_OWNER_GONE;
    add_process(f, 1, 14, 8, 1)->kind = EXPORTER_OWNER_POD;
    const char *page = text(f);
    assert_has(page, "PodName=\"alone\",ProcessId=\"11\"");
    assert_has(page, "PodName=\"alone\",ProcessId=\"12\",ProcessType");
    assert_has_not(page, "ProcessId=\"13\"");
    assert_has(page, "AllocateMode=\"none\",NodeName=\"node-1\",ProcessId=\"14\"");
}

static void test_values_that_a_process_lacks(void **state)
{
    struct fixture *f = *state;
    add_process(f, 0, 11, 5, 1);
    f->sample->gpus->devices[0].processes[0].has_util = false;
    assert_has_not(text(f), "PROCESS_SM_UTIL");
    assert_has(text(f), "PROCESS_MEM_USED");
    f->sample->gpus->devices[0].processes[0].has_util = true;
    f->sample->gpus->devices[0].processes[0].has_memory = false;
    assert_has(text(f), "PROCESS_SM_UTIL");
    assert_has_not(text(f), "PROCESS_MEM_USED");
}

static void test_mig_devices_stand_for_their_gpu(void **state)
{
    struct fixture *f = *state;
    struct gpu_device *d = &f->sample->gpus->devices[0];
    d->n_instances = 2;
    d->instances = gs_alloc_array(2, sizeof(*d->instances));
    for (uint32_t i = 0; i < 2; i++) {
        struct gpu_instance *in = &d->instances[i];
        in->gpu_instance_id = 7 + i;
        in->memory_total = (uint64_t)5 << 30;
        snprintf(in->uuid, sizeof(in->uuid), "MIG-%u", i);
        set_text(in->profile, sizeof(in->profile), "1g.5gb");
        in->fb.used = integer(100 + i);
    }
    d->fields[GPU_F_FB_USED] = integer(999);
    const struct pod_row rows[] = {{"ns", "p", "c", "nvidia.com/mig-1g.5gb", "MIG-1"}};
    give(f, rows, 1);
    of_pod(add_process(f, 0, 11, 5, 1), "ns", "p", "c");
    d->processes[0].gpu_instance = 8;
    const char *page = text(f);
    assert_has(page, "modelName=\"NVIDIA H100\",GPU_I_PROFILE=\"1g.5gb\",GPU_I_ID=\"7\","
                     "hostname=\"n1\",DCGM_FI_DRIVER_VERSION=\"570.1\"} 100\n");
    assert_has(page, "GPU_I_ID=\"8\",hostname=\"n1\",DCGM_FI_DRIVER_VERSION=\"570.1\","
                     "container=\"c\",namespace=\"ns\",pod=\"p\"} 101\n");
    assert_has_not(page, "} 999\n");
    assert_has(page, "PROCESS_MEM_USED{AllocateMode=\"exclusive\",ContainerName=\"c\","
                     "GPU_I_ID=\"8\",GPU_I_PROFILE=\"1g.5gb\",NamespaceName=\"ns\"");
    assert_has(page, "MEM_ALLOCATED{AllocateMode=\"exclusive\"");
    assert_has(page, "} 5120\n");
}

static void test_xid_in_words(void **state)
{
    struct fixture *f = *state;
    const struct pod_row rows[] = {{"ns", "p", "c", "nvidia.com/gpu", "GPU-1"}};
    give(f, rows, 1);
    f->sample->gpus->devices[0].fields[GPU_F_XID_ERRORS] = integer(79);
    f->sample->gpus->devices[1].fields[GPU_F_XID_ERRORS] = integer(0);
    const char *page = text(f);
    assert_has(page, ",container=\"c\",err_code=\"79\",err_msg=\"GPU has fallen off the bus\","
                     "namespace=\"ns\",pod=\"p\"} 79\n");
    assert_has(page, ",err_code=\"0\",err_msg=\"No Error\"} 0\n");
    assert_string_equal(exporter_render_xid_text(123456), "Unknown Error");
}

static void test_events_since_the_start(void **state)
{
    struct fixture *f = *state;
    struct gpu_device *devices = f->sample->gpus->devices;
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters totals = {0};
    assert_null(
        exporter_counters_parse(gs_slice_of("DCGM_EXP_XID_ERRORS_TOTAL, counter, XIDs.\n"
                                            "DCGM_EXP_CLOCK_EVENTS_TOTAL, counter, Events.\n"),
                                &totals));
    const struct exporter_render_names with = {.counters = &totals};
    for (int i = 0; i < 2; i++)
        devices[i].fields[GPU_F_XID_ERRORS] = integer(0);
    devices[1].has_clock_events = true;
    devices[1].clock_totals[2] = 7;
    gs_buf_clear(&f->text);
    exporter_render_gpus(&with, f->sample, NULL, NULL, &f->text);
    assert_has_not(f->text.data, "DCGM_EXP_XID_ERRORS_TOTAL"); // no line, no header
    assert_has(f->text.data, "# TYPE DCGM_EXP_CLOCK_EVENTS_TOTAL counter\n"
                             "DCGM_EXP_CLOCK_EVENTS_TOTAL{gpu=\"1\",");
    assert_has(f->text.data, ",clock_event=\"gpu_idle\"} 0\n");
    assert_has(f->text.data, ",clock_event=\"power_cap\"} 7\n");
    devices[0].xid_totals[0] = (struct gpu_xid_count){.xid = 31, .count = 2};
    devices[0].n_xid_totals = 1;
    gs_buf_clear(&f->text);
    exporter_render_gpus(&with, f->sample, NULL, NULL, &f->text);
    assert_has(f->text.data, "# HELP DCGM_EXP_XID_ERRORS_TOTAL XIDs.\n"
                             "# TYPE DCGM_EXP_XID_ERRORS_TOTAL counter\n"
                             "DCGM_EXP_XID_ERRORS_TOTAL{gpu=\"0\",");
    assert_has(f->text.data, ",xid=\"31\"} 2\n");
}

// They have happened, whatever has become of the GPU since.
static void test_events_outlive_the_gpu(void **state)
{
    struct fixture *f = *state;
    struct gpu_device *d = f->sample->gpus->devices;
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters events = {0};
    assert_null(
        exporter_counters_parse(gs_slice_of("DCGM_FI_DEV_XID_ERRORS, gauge, Last.\n"
                                            "DCGM_EXP_XID_ERRORS_COUNT, gauge, XIDs.\n"
                                            "DCGM_EXP_XID_ERRORS_TOTAL, counter, XIDs.\n"
                                            "DCGM_EXP_CLOCK_EVENTS_COUNT, gauge, Events.\n"
                                            "DCGM_EXP_CLOCK_EVENTS_TOTAL, counter, Events.\n"),
                                &events));
    const struct exporter_render_names with = {.counters = &events, .xid_window_ms = 300000};
    for (int i = 0; i < 2; i++) {
        d[i].fields[GPU_F_CLOCKS_EVENT_REASONS].validity = i ? GPU_HUNG : GPU_LOST;
        d[i].fields[GPU_F_XID_ERRORS] = integer(79);
        d[i].xids[0] = d[i].xid_totals[0] = (struct gpu_xid_count){.xid = 79, .count = 1};
        d[i].n_xids = d[i].n_xid_totals = 1;
        d[i].has_clock_events = true;
        d[i].clock_totals[2] = 7;
    }
    d[0].lost = true;
    d[1].hung = true;
    gs_buf_clear(&f->text);
    exporter_render_gpus(&with, f->sample, NULL, NULL, &f->text);
    for (int i = 0; i < 2; i++) {
        static const char *const families[] = {
            "DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_XID_ERRORS_TOTAL",
            "DCGM_EXP_CLOCK_EVENTS_TOTAL"};
        for (size_t k = 0; k < GS_ARRAY_LEN(families); k++) {
            char line[80];
            snprintf(line, sizeof(line), "\n%s{gpu=\"%d\",", families[k], i);
            assert_has(f->text.data, line);
        }
    }
    assert_has(f->text.data, "DCGM_EXP_CLOCK_EVENTS_COUNT{gpu=\"0\",");
    // Samples of the window cannot be counted while a call does not return.
    assert_has_not(f->text.data, "DCGM_EXP_CLOCK_EVENTS_COUNT{gpu=\"1\",");
}

// The page waited until somebody opened the other end.
static void test_a_fifo_among_the_job_files_is_passed_over(void **state)
{
    struct fixture *f = *state;
    char dir[] = "/tmp/gpuscale-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *fifo = gs_format("%s/0", dir), *jobs = gs_format("%s/1", dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    FILE *file = fopen(jobs, "w");
    fputs("job-7\n", file);
    fclose(file);
    for (int i = 0; i < 2; i++)
        f->sample->gpus->devices[i].fields[GPU_F_GPU_TEMP] = integer(40 + i);
    const struct exporter_render_names with = {.hpc_dir = dir};
    gs_buf_clear(&f->text);
    exporter_render_gpus(&with, f->sample, NULL, NULL, &f->text);
    assert_has(f->text.data, ",hpc_job=\"job-7\"} 41\n");
    assert_has(f->text.data, "\"} 40\n");
    unlink(fifo);
    unlink(jobs);
    rmdir(dir);
}

static void test_host_name_labels(void **state)
{
    struct fixture *f = *state;
    const struct exporter_render_names old = {"Hostname", "n1", "n1"}, none = {NULL, "n1", "n1"};
    exporter_render_gpus(&old, f->sample, NULL, NULL, &f->text);
    assert_has(f->text.data, ",Hostname=\"n1\",");
    gs_buf_clear(&f->text);
    exporter_render_gpus(&none, f->sample, NULL, NULL, &f->text);
    assert_has_not(f->text.data, "ostname=");
}

static void test_self_metrics(void **state)
{
    struct fixture *f = *state;
    struct gpu_call_errors *errors = gs_alloc(sizeof(*errors));
    *errors = (struct gpu_call_errors){"nvmlDeviceGetPowerUsage", 15, 3};
    f->sample->gpus->errors = errors;
    f->sample->gpus->n_errors = 1;
    f->sample->gpus->devices[1].lost = true;
    f->sample->gpus->duration_us = 2500;
    f->sample->mono_ns = 1000000000;
    struct exporter_attribution_status status = {.up = true, .ok = 4, .problem = ""};
    struct exporter_render_self self = {
        .sample = f->sample,
        .simulated = true,
        .has_opened = true,
        .fresh = true,
        .now_ns = 1500000000,
        .attribution = &status,
    };
    exporter_render_self(&self, &f->text);
    size_t n = 0;
    assert_null(metrics_parse_text(gs_buf_slice(&f->text), NULL, count, &n));
    const char *page = f->text.data;
    assert_has(page, "simulated=\"true\"} 1\n");
    assert_has(page, "gpuscale_exporter_simulated 1\n");
    assert_has(page, "gpuscale_exporter_sample_age_seconds 0.5\n");
    assert_has(page, "gpuscale_exporter_sample_duration_seconds 0.0025\n");
    assert_has(page, "gpuscale_exporter_gpu_lost{gpu=\"1\",UUID=\"GPU-2\"} 1\n");
    assert_has(page, "gpuscale_exporter_nvml_errors_total{call=\"nvmlDeviceGetPowerUsage\","
                     "code=\"15\",error=\"GPU_IS_LOST\"} 3\n");
    assert_has(page, "gpuscale_exporter_podresources_up 1\n");
    assert_has(page, "gpuscale_exporter_attributions_total{result=\"pod\"} 0\n");

    gs_buf_clear(&f->text);
    set_text(f->sample->gpus->devices[0].name, 96, "<script>");
    exporter_render_index(&self, &f->text);
    assert_has(f->text.data, "SIMULATED");
    assert_has(f->text.data, "&lt;script&gt;");
    assert_has(f->text.data, "DCGM_FI_DEV_FB_USED: not supported");
}

// What a renderer keeps from page to page it makes anew when it has become another: text()
// compares.
static void test_what_is_kept_follows_changes(void **state)
{
    struct fixture *f = *state;
    struct gpu_device *d = f->sample->gpus->devices;
    const struct pod_row first[] = {{"ns", "p", "c", "nvidia.com/gpu", "GPU-1"}};
    const struct pod_row second[] = {{"ns", "q", "c", "nvidia.com/gpu", "GPU-1"},
                                     {"ns", "p", "c", "nvidia.com/gpu", "GPU-2"}};
    d[0].fields[GPU_F_XID_ERRORS] = integer(0);
    text(f);
    give(f, first, 1);
    assert_has(text(f), "pod=\"p\"} 41\n");
    give(f, second, 2);
    assert_has(text(f), "pod=\"q\"} 41\n");
    d[0].fields[GPU_F_XID_ERRORS] = integer(79);
    assert_has(text(f), "err_code=\"79\"");
    struct exporter_owner *o = add_process(f, 0, 41, 10, 100);
    assert_has(text(f), "ProcessId=\"41\"");
    of_pod(o, "ns", "q", "c");
    assert_has(text(f), "PodName=\"q\",ProcessId=\"41\"");
    add_process(f, 0, 42, 20, 100);
    d[0].processes[0].pid = 40;
    assert_has(text(f), "ProcessId=\"40\"");
    d[0].n_processes = 1;
    assert_has_not(text(f), "ProcessId=\"42\"");
    set_text(f->sample->gpus->driver_version, 80, "580.2");
    assert_has(text(f), "DCGM_FI_DRIVER_VERSION=\"580.2\"");
    assert_has_not(text(f), "570.1");
    set_text(d[1].uuid, sizeof(d[1].uuid), "GPU-3"); // another board at this place
    assert_has(text(f), "UUID=\"GPU-3\"");
    d[1].instances = gs_alloc(sizeof(*d[1].instances));
    d[1].n_instances = 1;
    d[1].instances[0].gpu_instance_id = 7;
    set_text(d[1].instances[0].profile, 32, "1g.10gb");
    assert_has(text(f), "GPU_I_ID=\"7\"");
    set_text(d[1].instances[0].profile, 32, "2g.20gb");
    assert_has(text(f), "2g.20gb");
    f->sample->gpus->n_devices = 1;
    assert_has_not(text(f), "GPU-3");
    f->sample->gpus->n_devices = 2;
    d[0].lost = true;
    text(f);
    d[1].n_instances = 0;
    text(f);
}

struct told_pod {
    uint64_t version;
    const char *uid;
};

static bool tell_pod(void *arg, const char *ns, const char *pod, struct exporter_render_pod *ret)
{
    *ret = (struct exporter_render_pod){((struct told_pod *)arg)->uid, ""};
    return true;
}

static uint64_t tell_version(void *arg)
{
    return ((struct told_pod *)arg)->version;
}

static void test_kept_labels_of_pods_have_a_version(void **state)
{
    struct fixture *f = *state;
    struct told_pod pod = {1, "uid-1"};
    const struct exporter_render_names with = {
        .pod = tell_pod, .pod_version = tell_version, .pod_arg = &pod};
    const struct pod_row rows[] = {{"ns", "p", "c", "nvidia.com/gpu", "GPU-1"}};
    give(f, rows, 1);
    f->renderer = exporter_renderer_new(&with);
    const struct exporter_render_input in = {.sample = f->sample, .map = f->map, .map_version = 1};
    exporter_renderer_page(f->renderer, &in, &f->kept);
    assert_has(f->kept.data, "pod_uid=\"uid-1\"");
    pod = (struct told_pod){2, "uid-2"};
    gs_buf_clear(&f->kept);
    exporter_renderer_page(f->renderer, &in, &f->kept);
    assert_has(f->kept.data, "pod_uid=\"uid-2\"");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_page_as_dcgm_exporter_writes_it),
        TEST(test_absent_is_not_zero),
        TEST(test_families_are_in_the_order_of_their_ids),
        TEST(test_small_numbers_are_not_zero),
        TEST(test_label_values_are_escaped),
        TEST(test_shared_gpu_has_no_pod_labels_but_its_processes_have),
        TEST(test_virtual_gpus_have_a_line_for_each_pod),
        TEST(test_virtual_gpus_have_base_units),
        TEST(test_only_holder_of_a_shared_gpu),
        TEST(test_pods_are_idle_only_if_all_processes_are_known),
        TEST(test_labels_and_uid_of_pods),
        TEST(test_processes_of_nobody),
        TEST(test_nameless_processes_belong_to_who_alone_holds_the_gpu),
        TEST(test_values_that_a_process_lacks),
        TEST(test_mig_devices_stand_for_their_gpu),
        TEST(test_xid_in_words),
        TEST(test_events_since_the_start),
        TEST(test_events_outlive_the_gpu),
        TEST(test_a_fifo_among_the_job_files_is_passed_over),
        TEST(test_host_name_labels),
        TEST(test_self_metrics),
        TEST(test_what_is_kept_follows_changes),
        TEST(test_kept_labels_of_pods_have_a_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
