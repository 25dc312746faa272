// SPDX-License-Identifier: Apache-2.0
// What nvidia-smi prints of a sample: the values, and the GPUs that a container sees.
#include "base/mem.h"
#include "base/slice.h"
#include "smi/smi_private.h"
#include "unit.h"

static struct gpu_value integer(int64_t i)
{
    return (struct gpu_value){.validity = GPU_VALID, .i = i};
}

// Two GPUs; the second has two MIG devices, and was lost.
struct fixture {
    struct gpu_snapshot snapshot;
    struct gpu_device devices[2];
    struct gpu_process process;
    struct gpu_instance instances[2];
};

static void fill_device(struct gpu_device *d, unsigned index, const char *uuid, const char *bus_id)
{
    d->index = index;
    snprintf(d->uuid, sizeof(d->uuid), "%s", uuid);
    snprintf(d->name, sizeof(d->name), "Tesla T4");
    snprintf(d->pci_bus_id, sizeof(d->pci_bus_id), "%s", bus_id);
    for (size_t f = 0; f < GPU_F_COUNT; f++)
        d->fields[f].validity = GPU_NOT_SUPPORTED;
}

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    fill_device(&f->devices[0], 0, "GPU-a", "00000000:10:00.0");
    fill_device(&f->devices[1], 1, "GPU-b", "00000000:18:00.0");
    f->devices[0].fields[GPU_F_GPU_UTIL] = integer(48);
    f->devices[0].fields[GPU_F_FB_USED] = integer(128);
    f->devices[0].fields[GPU_F_FB_TOTAL] = integer(15360);
    f->devices[0].fields[GPU_F_PSTATE] = integer(0);
    f->devices[0].fields[GPU_F_POWER_USAGE] =
        (struct gpu_value){.validity = GPU_VALID, .is_double = true, .d = 26.5};
    f->devices[1].fields[GPU_F_GPU_UTIL].validity = GPU_LOST;
    f->process = (struct gpu_process){.pid = 4000000,
                                      .has_memory = true,
                                      .memory_bytes = 5 << 20,
                                      .compute = true,
                                      .gpu_instance = GPU_NO_INSTANCE,
                                      .compute_instance = GPU_NO_INSTANCE};
    f->devices[0].processes = &f->process;
    f->devices[0].n_processes = 1;
    strcpy(f->instances[0].uuid, "MIG-1");
    strcpy(f->instances[1].uuid, "MIG-2");
    strcpy(f->instances[0].profile, "1g.10gb");
    strcpy(f->instances[1].profile, "3g.40gb");
    f->devices[1].instances = f->instances;
    f->devices[1].n_instances = 2;
    strcpy(f->snapshot.driver_version, "570.124.06-simulated");
    f->snapshot.cuda_version = 12080;
    f->snapshot.devices = f->devices;
    f->snapshot.n_devices = 2;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static void assert_list(const struct fixture *f, const char *visible, const char *id,
                        const char *want)
{
    struct smi_view v;
    GS_AUTO_BUF struct gs_buf out = {0};
    smi_view_init(&v, &f->snapshot, visible, id);
    smi_print_list(&v, &out);
    assert_string_equal(out.len ? out.data : "", want);
}

static void test_visible_gpus(void **state)
{
    const struct fixture *f = *state;
    static const char all[] = "GPU 0: Tesla T4 (UUID: GPU-a)\n"
                              "GPU 1: Tesla T4 (UUID: GPU-b)\n"
                              "  MIG 1g.10gb         Device  0: (UUID: MIG-1)\n"
                              "  MIG 3g.40gb         Device  1: (UUID: MIG-2)\n";
    assert_list(f, NULL, NULL, all);
    assert_list(f, "all", NULL, all);
    assert_list(f, "void", NULL, "");
    assert_list(f, "", NULL, "");
    assert_list(f, "GPU-a", NULL, "GPU 0: Tesla T4 (UUID: GPU-a)\n");
    // A container numbers its GPUs from 0.
    assert_list(f, "GPU-x,MIG-2", NULL,
                "GPU 0: Tesla T4 (UUID: GPU-b)\n  MIG 3g.40gb         Device  0: (UUID: MIG-2)\n");
    assert_list(f, NULL, "00000000:10:00.0", "GPU 0: Tesla T4 (UUID: GPU-a)\n");
    assert_list(f, "GPU-a", "1", "");
}

static void assert_query(const struct fixture *f, const struct smi_options *o, const char *want)
{
    struct smi_view v;
    GS_AUTO_BUF struct gs_buf out = {0};
    smi_view_init(&v, &f->snapshot, NULL, NULL);
    GS_AUTO_ERROR struct gs_error *err = smi_print_query(&v, o, true, &out);
    assert_string_equal(err ? gs_error_message(err) : out.len ? out.data : "", want);
}

static void test_queries(void **state)
{
    const struct fixture *f = *state;
    struct smi_options o = {.query_gpu = "index, gpu_name,utilization.gpu,memory.used,power.draw,"
                                         "pstate,fan.speed",
                            .format = "csv"};
    assert_query(f, &o,
                 "index, gpu_name, utilization.gpu [%], memory.used [MiB], power.draw [W], pstate, "
                 "fan.speed [%]\n"
                 "0, Tesla T4, 48 %, 128 MiB, 26.50 W, P0, [N/A]\n"
                 "1, Tesla T4, [GPU is lost], [N/A], [N/A], [N/A], [N/A]\n");
    o = (struct smi_options){.query_gpu = "utilization.gpu", .format = "csv,noheader,nounits"};
    assert_query(f, &o, "48\n[GPU is lost]\n");
    o = (struct smi_options){.query_apps = "pid,process_name,used_memory,gpu_uuid",
                             .format = "csv,noheader"};
    assert_query(f, &o, "4000000, [Not Found], 5 MiB, GPU-a\n");
}

static void test_wrong_queries(void **state)
{
    const struct fixture *f = *state;
    struct smi_options o = {.query_gpu = "index,fo", .format = "csv"};
    assert_query(f, &o, "Field \"fo\" is not a valid field to query.");
    o = (struct smi_options){.query_gpu = ",", .format = "csv"};
    assert_query(f, &o, "Field \"\" is not a valid field to query.");
    o = (struct smi_options){.query_gpu = "index"};
    assert_query(f, &o, "\"--format=\" is not specified; please specify csv");
    o = (struct smi_options){.query_gpu = "index", .format = "csv,json"};
    assert_query(f, &o, "\"json\" is not a format; csv, noheader and nounits are");
}

static void test_the_table(void **state)
{
    const struct fixture *f = *state;
    struct smi_view v;
    GS_AUTO_BUF struct gs_buf out = {0};
    smi_view_init(&v, &f->snapshot, "GPU-a", NULL);
    smi_print_table(&v, &out);
    const char *after_date = strchr(out.data, '\n') + 1;
    assert_string_equal(after_date, "+-------------------------------------------------------------"
                                    "----------------------------+\n"
                                    "| NVIDIA-SMI 570.124.06-simulated Driver Version: "
                                    "570.124.06-simulated CUDA Version: 12.8 |\n"
                                    "|-----------------------------------------+-------------------"
                                    "-----+----------------------+\n"
                                    "| GPU  Name                 Persistence-M | Bus-Id          "
                                    "Disp.A | Volatile Uncorr. ECC |\n"
                                    "| Fan  Temp   Perf          Pwr:Usage/Cap |           "
                                    "Memory-Usage | GPU-Util  Compute M. |\n"
                                    "|                                         |                   "
                                    "     |               MIG M. |\n"
                                    "|=========================================+==================="
                                    "=====+======================|\n"
                                    "|   0  Tesla T4                      N/A  |   "
                                    "00000000:10:00.0 Off |                  N/A |\n"
                                    "| N/A   N/A    P0            26W /    N/A |     128MiB /  "
                                    "15360MiB |     48%          N/A |\n"
                                    "|                                         |                   "
                                    "     |                  N/A |\n"
                                    "+-----------------------------------------+-------------------"
                                    "-----+----------------------+\n"
                                    "\n"
                                    "+-------------------------------------------------------------"
                                    "----------------------------+\n"
                                    "| Processes:                                                  "
                                    "                            |\n"
                                    "|  GPU   GI   CI              PID   Type   Process name       "
                                    "                 GPU Memory |\n"
                                    "|        ID   ID                                              "
                                    "                 Usage      |\n"
                                    "|============================================================="
                                    "============================|\n"
                                    "|    0   N/A  N/A          4000000      C   [Not Found]       "
                                    "                       5MiB |\n"
                                    "+-------------------------------------------------------------"
                                    "----------------------------+\n");
}

static void test_rows_of_hostile_names_keep_their_width(void **state)
{
    struct fixture *f = *state;
    struct smi_view v;
    GS_AUTO_BUF struct gs_buf out = {0};
    memset(f->devices[0].name, 'x', sizeof(f->devices[0].name) - 1);
    memset(f->snapshot.driver_version, 'y', sizeof(f->snapshot.driver_version) - 1);
    f->devices[0].fields[GPU_F_FB_USED] = integer(INT64_MAX);
    f->devices[0].fields[GPU_F_PSTATE] = integer(INT64_MIN);
    f->process.memory_bytes = UINT64_MAX;
    smi_view_init(&v, &f->snapshot, NULL, NULL);
    smi_print_table(&v, &out);
    const char *line = strchr(out.data, '\n') + 1;
    for (const char *end; (end = strchr(line, '\n')); line = end + 1)
        assert_true(end == line || end - line == 91);
    smi_print_details(&v, &out);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_visible_gpus),
        T(test_queries),
        T(test_wrong_queries),
        T(test_the_table),
        T(test_rows_of_hostile_names_keep_their_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
