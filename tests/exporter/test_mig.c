// SPDX-License-Identifier: Apache-2.0
// Pages of all fields on GPUs that are divided by MIG: a MIG device has a few values of its own,
// and its GPU's for the rest. Run it under AddressSanitizer, too.
#include "render_fixture.h"

#include "base/log.h"
#include "exporter/render.h"
#include "nvmlsim/sim.h"
#include "patience.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static bool is_own(enum gpu_field f)
{
    bool profiling = f >= GPU_F_PROF_GR_ENGINE_ACTIVE && f <= GPU_F_PROF_C2C_RX_DATA;
    bool bytes = f >= GPU_F_FB_TOTAL_BYTES && f <= GPU_F_FB_RESERVED_BYTES;
    return profiling || bytes || f == GPU_F_FB_TOTAL || f == GPU_F_FB_FREE || f == GPU_F_FB_USED ||
           f == GPU_F_FB_RESERVED || f == GPU_F_FB_USED_PERCENT;
}

static struct gpu_value as_kind(enum gpu_field f, int v)
{
    bool is_double = gpu_field_info(f)->kind == GPU_DOUBLE;
    struct gpu_value value = {.validity = GPU_VALID, .is_double = is_double};
    if (is_double)
        value.d = v;
    else
        value.i = v;
    return value;
}

// The number of the field on the GPU; 1000 more on the MIG device.
static void fill(struct gpu_device *d, struct gpu_instance *in)
{
    for (enum gpu_field f = 0; f < GPU_F_COUNT; f++)
        d->fields[f] = as_kind(f, (int)f);
    for (size_t i = 0; i < GPU_PROF_COUNT; i++)
        in->prof[i] = as_kind(GPU_F_PROF_FIRST + i, 1000 + (int)(GPU_F_PROF_FIRST + i));
    in->fb.total = as_kind(GPU_F_FB_TOTAL, 1000 + GPU_F_FB_TOTAL);
    in->fb.free = as_kind(GPU_F_FB_FREE, 1000 + GPU_F_FB_FREE);
    in->fb.used = as_kind(GPU_F_FB_USED, 1000 + GPU_F_FB_USED);
    in->fb.reserved = as_kind(GPU_F_FB_RESERVED, 1000 + GPU_F_FB_RESERVED);
    in->fb.total_bytes = as_kind(GPU_F_FB_TOTAL_BYTES, 1000 + GPU_F_FB_TOTAL_BYTES);
    in->fb.free_bytes = as_kind(GPU_F_FB_FREE_BYTES, 1000 + GPU_F_FB_FREE_BYTES);
    in->fb.used_bytes = as_kind(GPU_F_FB_USED_BYTES, 1000 + GPU_F_FB_USED_BYTES);
    in->fb.reserved_bytes = as_kind(GPU_F_FB_RESERVED_BYTES, 1000 + GPU_F_FB_RESERVED_BYTES);
    in->fb.used_ratio = as_kind(GPU_F_FB_USED_PERCENT, 1000 + GPU_F_FB_USED_PERCENT);
}

// The samples of each field.
struct seen {
    size_t of[GPU_F_COUNT];
    double value[GPU_F_COUNT];
};

static bool take_value(void *arg, const struct metrics_sample *s)
{
    struct seen *seen = arg;
    GS_AUTO_FREE char *name = gs_slice_dup(s->name);
    enum gpu_field f = gpu_field_by_name(name);
    if (f == GPU_F_COUNT)
        return true;
    seen->of[f]++;
    seen->value[f] = s->value;
    return true;
}

static void read_page(const struct gs_buf *page, struct seen *ret)
{
    *ret = (struct seen){0};
    struct gs_error *err = metrics_parse_text(gs_buf_slice(page), NULL, take_value, ret);
    if (err)
        fail_msg("%s in:\n%s", gs_error_message(err), page->data);
}

static void test_values_are_its_own_or_those_of_its_gpu(void **state)
{
    struct fixture *f = *state;
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters all = {0};
    struct gpu_device *d = &f->sample->gpus->devices[0];
    f->sample->gpus->n_devices = 1;
    d->n_instances = 1;
    d->instances = gs_alloc_array(1, sizeof(*d->instances));
    d->instances[0].gpu_instance_id = 7;
    set_text(d->instances[0].uuid, 96, "MIG-1");
    set_text(d->instances[0].profile, 32, "1g.10gb");
    fill(d, d->instances);
    all_counters(&all);
    const struct exporter_render_names with = {.hostname_label = "hostname", .counters = &all};
    exporter_render_gpus(&with, f->sample, NULL, NULL, &f->text);
    struct seen seen;
    read_page(&f->text, &seen);
    for (enum gpu_field k = 0; k < GPU_F_COUNT; k++) {
        if (gpu_field_info(k)->kind == GPU_TEXT)
            continue;
        int want = (int)k + (is_own(k) ? 1000 : 0);
        if (seen.of[k] != 1 || seen.value[k] != want)
            fail_msg("%s: %zu lines, the last is %f; want one of %d", gpu_field_name(k), seen.of[k],
                     seen.value[k], want);
    }
}

// --- simulated GPUs ---

struct divided {
    char name[64];
    struct nvmlsim *sim;
    struct exporter_counters all;
    struct gpu_backend *backend;
};

static void divide(const char *spec_text, const char *const profiles[2], struct divided *ret)
{
    struct nvmlsim_spec spec;
    GS_AUTO_FREE char *library = gs_format("%s/src/simulation/nvmlsim/libgpuscale-nvmlsim.so",
                                           getenv("GPUSCALE_BUILD_ROOT"));
    snprintf(ret->name, sizeof(ret->name), "/gpuscale-test-mig-%d", getpid());
    assert_ok(nvmlsim_spec_parse(spec_text, &spec));
    for (int i = 0; i < 2; i++)
        strcpy(spec.gpus[0].mig[i].profile, profiles[i]);
    spec.gpus[0].n_mig = 2;
    assert_ok(nvmlsim_create(ret->name, &spec, &ret->sim));
    setenv(NVMLSIM_ENV, ret->name, 1);
    all_counters(&ret->all);
    bool wanted[GPU_F_COUNT];
    exporter_counters_wanted(&ret->all, wanted);
    const struct gpu_backend_config cfg = {.library = library,
                                           .simulated_only = true,
                                           .wanted = wanted,
                                           .patience_ns = WAIT_NS,
                                           .hung_after_ns = WAIT_NS};
    assert_ok(gpu_backend_open(&cfg, &ret->backend));
}

static void undivide(struct divided *d)
{
    gpu_backend_close(d->backend);
    exporter_counters_finish(&d->all);
    nvmlsim_detach(d->sim);
    gs_error_free(nvmlsim_unlink(d->name));
}

static struct exporter_sample *take(struct divided *d)
{
    struct exporter_sample *s = gs_alloc(sizeof(*s));
    assert_ok(gpu_backend_sample(d->backend, &s->gpus));
    s->owners = gs_alloc_array(s->gpus->n_devices + 1, sizeof(*s->owners));
    return s;
}

static bool is_integral(double v)
{
    return v == floor(v);
}

// What the page says of the fields of each MIG device lies within what a board can say.
static bool check_plausible(void *arg, const struct metrics_sample *s)
{
    GS_AUTO_FREE char *name = gs_slice_dup(s->name);
    enum gpu_field f = gpu_field_by_name(name);
    (void)arg;
    if (f == GPU_F_COUNT)
        return true;
    bool ratio = gs_streq(gpu_field_info(f)->unit, "ratio");
    if (!isfinite(s->value) || fabs(s->value) > 1e12 || (ratio && (s->value < 0 || s->value > 1)) ||
        (gpu_field_info(f)->kind == GPU_INTEGER && !is_integral(s->value)))
        fail_msg("%s is %.17g", name, s->value);
    return true;
}

static const char *const two_instances[] = {"1g.10gb", "3g.40gb"};

static void all_fields_of(const char *board)
{
    struct divided d = {0};
    divide(board, two_instances, &d);
    const struct exporter_render_names with = {.hostname_label = "hostname", .counters = &d.all};
    struct exporter_renderer *renderer = exporter_renderer_new(&with);
    for (int pass = 0; pass < 3; pass++) {
        struct exporter_sample *s = take(&d);
        GS_AUTO_BUF struct gs_buf page = {0};
        const struct exporter_render_input in = {.sample = s};
        assert_int_equal(s->gpus->devices[0].n_instances, 2);
        exporter_renderer_page(renderer, &in, &page);
        assert_has(page.data, "GPU_I_PROFILE=\"1g.10gb\"");
        struct gs_error *err = metrics_parse_text(gs_buf_slice(&page), NULL, check_plausible, NULL);
        if (err)
            fail_msg("%s in:\n%s", gs_error_message(err), page.data);
        exporter_sample_free(s);
        usleep(110000); // performance counters need two samples
    }
    exporter_renderer_free(renderer);
    undivide(&d);
}

static void test_page_of_all_fields_of_simulated_devices(void **state)
{
    (void)state;
    all_fields_of("1xH100-80GB-HBM3");
    all_fields_of("1xA100-SXM4-80GB"); // it has no performance counters by NVML
}

// --- compute instances ---

// The same name and labels twice makes Prometheus drop a sample.
static void assert_no_series_twice(const struct gs_buf *page)
{
    struct gs_slice rest = gs_buf_slice(page);
    GS_AUTO_BUF struct gs_buf before = {0};
    gs_buf_add_char(&before, '\n');
    while (rest.len) {
        GS_AUTO_FREE char *line = gs_slice_dup(gs_slice_cut(&rest, '\n'));
        char *space = strrchr(line, ' ');
        if (line[0] == '#' || !space)
            continue;
        space[1] = '\0';
        GS_AUTO_FREE char *key = gs_format("\n%s", line);
        if (strstr(before.data, key))
            fail_msg("twice: %s in:\n%s", line, page->data);
        gs_buf_addf(&before, "%s\n", line);
    }
}

static void test_compute_instances_have_lines_of_their_own(void **state)
{
    static const char *const one_instance[] = {"1c.3g.40gb", "2c.3g.40gb"};
    struct divided d = {0};
    (void)state;
    divide("1xH100-80GB-HBM3", one_instance, &d);
    struct exporter_sample *s = take(&d);
    const struct gpu_instance *in = s->gpus->devices[0].instances;
    assert_int_equal(in[0].gpu_instance_id, in[1].gpu_instance_id);
    assert_int_equal(in[0].compute_instance_id, 0);
    assert_int_equal(in[1].compute_instance_id, 1);
    assert_string_equal(in[1].profile, "2c.3g.40gb");
    assert_int_equal(in[0].memory_total, in[1].memory_total); // they share it
    GS_AUTO_FREE char *old_id =
        gs_format("MIG-%s/%u/1", s->gpus->devices[0].uuid, in[1].gpu_instance_id);
    const struct pod_row rows[] = {
        {"ns", "first", "c", "nvidia.com/mig-1c.3g.40gb", in[0].uuid},
        {"ns", "second", "c", "nvidia.com/mig-2c.3g.40gb", old_id},
    };
    GS_AUTO_BUF struct gs_buf bytes = {0}, page = {0};
    pack_list(rows, 2, &bytes);
    struct exporter_device_map *map = NULL;
    assert_ok(exporter_device_map_parse(gs_buf_slice(&bytes), NULL, 0, NULL, &map));
    // A process on each of them.
    struct gpu_device *gpu = &s->gpus->devices[0];
    gpu->n_processes = 2;
    gpu->processes = gs_alloc_array(2, sizeof(*gpu->processes));
    s->owners[0] = gs_alloc_array(2, sizeof(**s->owners));
    for (uint32_t i = 0; i < 2; i++) {
        gpu->processes[i] = (struct gpu_process){.pid = 100 + i,
                                                 .has_memory = true,
                                                 .compute = true,
                                                 .gpu_instance = in[0].gpu_instance_id,
                                                 .compute_instance = i};
        of_pod(&s->owners[0][i], "ns", i ? "second" : "first", "c");
    }
    const struct exporter_render_names with = {.hostname_label = "hostname", .counters = &d.all};
    exporter_render_gpus(&with, s, map, NULL, &page);
    assert_no_series_twice(&page);
    for (int i = 0; i < 2; i++) {
        GS_AUTO_FREE char *own = gs_format(",GPU_CI_ID=\"%d\",DCGM_FI", i);
        GS_AUTO_FREE char *process =
            gs_format("DCGM_CUSTOM_PROCESS_MEM_USED{AllocateMode=\"exclusive\",ContainerName=\"c\","
                      "GPU_CI_ID=\"%d\",GPU_I_ID=\"%u\",GPU_I_PROFILE=\"%s\",NamespaceName=\"ns\","
                      "PodName=\"%s\",ProcessId=\"%d\"",
                      i, in[i].gpu_instance_id, one_instance[i], i ? "second" : "first", 100 + i);
        assert_has(page.data, own);
        assert_has(page.data, process);
    }
    // Each has its pod, also by the id that drivers before R470 have.
    for (int i = 0; i < 2; i++) {
        GS_AUTO_FREE char *ci = gs_format("GPU_CI_ID=\"%d\"", i);
        const char *line = strstr(page.data, "\nDCGM_FI_DEV_GPU_TEMP{");
        line = line ? strstr(line, ci) : NULL;
        assert_non_null(line);
        GS_AUTO_FREE char *rest = gs_slice_dup(gs_slice_make(line, strcspn(line, "\n")));
        assert_has(rest, i ? "pod=\"second\"" : "pod=\"first\"");
    }
    exporter_device_map_free(map);
    exporter_sample_free(s);
    undivide(&d);
}

static void test_cuda_version_is_that_of_the_driver(void **state)
{
    struct divided d = {0};
    (void)state;
    divide("1xH100-80GB-HBM3", two_instances, &d);
    struct exporter_sample *s = take(&d);
    GS_AUTO_BUF struct gs_buf page = {0};
    const struct exporter_render_names with = {.hostname_label = "hostname", .counters = &d.all};
    exporter_render_gpus(&with, s, NULL, NULL, &page);
    struct seen seen;
    read_page(&page, &seen);
    assert_int_equal(seen.value[GPU_F_CUDA_DRIVER_VERSION], 12080);
    exporter_sample_free(s);
    undivide(&d);
}

// --- what the log says is absent ---

static void keep_line(void *arg, const char *line, size_t len)
{
    gs_buf_add(arg, line, len);
}

// A MIG device may have what its GPU does not tell, and the other way round.
static void test_log_names_what_has_no_line(void **state)
{
    struct fixture *f = *state;
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters some = {0};
    struct gpu_device *d = &f->sample->gpus->devices[0];
    f->sample->gpus->n_devices = 1;
    d->n_instances = 1;
    d->instances = gs_alloc_array(1, sizeof(*d->instances));
    fill(d, d->instances);
    d->fields[GPU_F_FB_USED].validity = GPU_NO_PERMISSION; // not for an ordinary user
    d->fields[GPU_F_GPU_UTIL].validity = GPU_NOT_SUPPORTED;
    d->fields[GPU_F_XID_ERRORS].validity = GPU_NOT_SUPPORTED;
    d->instances[0].prof[GPU_F_PROF_PCIE_TX_BYTES - GPU_F_PROF_FIRST].validity = GPU_NOT_SUPPORTED;
    d->process_util = GPU_VALID;
    assert_ok(exporter_counters_parse(gs_slice_of("DCGM_FI_DEV_FB_USED, gauge, h\n"
                                                  "DCGM_FI_DEV_GPU_UTIL, gauge, h\n"
                                                  "DCGM_FI_PROF_PCIE_TX_BYTES, gauge, h\n"
                                                  "DCGM_EXP_GPU_HEALTH_STATUS, gauge, h\n"),
                                      &some));
    GS_AUTO_BUF struct gs_buf log = {0};
    gs_log_set_sink(keep_line, &log);
    exporter_log_unsupported_fields(
        &(struct exporter_unsupported_fields){.counters = &some, .gpus = f->sample->gpus});
    gs_log_set_sink(NULL, NULL);
    assert_has(log.data, "no GPU supports 2 of the metrics (not supported): DCGM_FI_DEV_GPU_UTIL, "
                         "DCGM_FI_PROF_PCIE_TX_BYTES");
    assert_has_not(log.data, "DCGM_FI_DEV_FB_USED");
    assert_has_not(log.data, "HEALTH");
    gs_buf_clear(&log);
    gs_log_set_sink(keep_line, &log);
    exporter_log_unsupported_fields(&(struct exporter_unsupported_fields){
        .counters = &some, .devices = "g", .gpus = f->sample->gpus});
    gs_log_set_sink(NULL, NULL);
    assert_has(log.data, "(no permission): DCGM_FI_DEV_FB_USED");
    assert_has_not(log.data, "PCIE_TX");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values_are_its_own_or_those_of_its_gpu, setup,
                                        teardown),
        cmocka_unit_test(test_page_of_all_fields_of_simulated_devices),
        cmocka_unit_test(test_compute_instances_have_lines_of_their_own),
        cmocka_unit_test(test_cuda_version_is_that_of_the_driver),
        cmocka_unit_test_setup_teardown(test_log_names_what_has_no_line, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
