// SPDX-License-Identifier: Apache-2.0
// Whole pages of simulated GPUs in each mode, compared with files in golden/. Set GOLDEN_UPDATE=1
// to write them anew; then read the difference.
#include "patience.h"
#include "unit.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "codec/json.h"
#include "exporter/render.h"
#include "nvmlsim/sim.h"
#include "podresources_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct golden {
    const char *file, *spec;
    const char *counters; // a built-in file's name, or CSV text
    struct exporter_render_names names;
    // Of GPU 0 or its first MIG device; $ is its UUID.
    const char *resource, *ids[2];
    // Of both pods; $ as above.
    const char *annotation, *value;
    const char *device; // of a claim instead of ids
};

static void replace_all(struct gs_buf *text, const char *from, const char *to)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    size_t n = strlen(from);
    for (const char *p = text->data; *p;) {
        if (n && strncmp(p, from, n) == 0) {
            gs_buf_add_str(&out, to);
            p += n;
        } else {
            gs_buf_add_char(&out, *p++);
        }
    }
    gs_buf_clear(text);
    gs_buf_add_slice(text, gs_buf_slice(&out));
}

// Energy and power go on with the time.
static void mask_values(struct gs_buf *text)
{
    static const char *const names[] = {"ENERGY", "energy"};
    GS_AUTO_BUF struct gs_buf out = {0};
    struct gs_slice rest = gs_buf_slice(text);
    while (rest.len) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        GS_AUTO_FREE char *copy = gs_slice_dup(line);
        bool mask = false;
        for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
            mask |= copy[0] != '#' && strstr(copy, names[i]);
        char *space = strrchr(copy, ' ');
        if (mask && space)
            strcpy(space + 1, "*");
        gs_buf_addf(&out, "%s\n", copy);
    }
    gs_buf_clear(text);
    gs_buf_add_slice(text, gs_buf_slice(&out));
}

static struct gpu_snapshot *sample_twice(const struct exporter_counters *counters)
{
    GS_AUTO_FREE char *library = gs_format("%s/src/simulation/nvmlsim/libgpuscale-nvmlsim.so",
                                           getenv("GPUSCALE_BUILD_ROOT"));
    bool wanted[GPU_F_COUNT];
    exporter_counters_wanted(counters, wanted);
    struct gpu_backend_config cfg = {.library = library,
                                     .simulated_only = true,
                                     .wanted = wanted,
                                     .patience_ns = WAIT_NS,
                                     .hung_after_ns = WAIT_NS};
    struct gpu_backend *backend = NULL;
    struct gpu_snapshot *first = NULL, *s = NULL;
    assert_ok(gpu_backend_open(&cfg, &backend));
    assert_ok(gpu_backend_sample(backend, &first));
    usleep(120000); // performance counters need two samples
    assert_ok(gpu_backend_sample(backend, &s));
    gpu_snapshot_free(first);
    gpu_backend_close(backend);
    return s;
}

// --- what the API server tells ---

struct api {
    json_t *pod;
    const struct gpu_device *gpu;
};

static const json_t *api_pod(void *arg, const char *ns, const char *name)
{
    (void)ns, (void)name;
    return ((struct api *)arg)->pod;
}

static bool api_slice(void *arg, const char *pool, const char *device,
                      struct exporter_device_slice *ret)
{
    const struct gpu_device *d = ((struct api *)arg)->gpu;
    (void)pool;
    *ret = (struct exporter_device_slice){d->uuid, "", ""};
    if (strstr(device, "mig"))
        *ret =
            (struct exporter_device_slice){d->instances[0].uuid, d->uuid, d->instances[0].profile};
    return true;
}

// "$" is the UUID of the GPU or of its first MIG device, "%" the GPU's.
static void fill_in(const struct gpu_device *d, const char *text, struct gs_buf *ret)
{
    gs_buf_add_str(ret, text ? text : "");
    replace_all(ret, "$", d->n_instances ? d->instances[0].uuid : d->uuid);
    replace_all(ret, "%", d->uuid);
}

static void make_map(const struct golden *g, const struct gpu_snapshot *s,
                     struct exporter_device_map **ret)
{
    const struct gpu_device *d = &s->devices[0];
    struct gs_buf ids[2] = {{0}, {0}};
    GS_AUTO_BUF struct gs_buf bytes = {0}, value = {0};
    struct pod_row rows[2];
    size_t n = 0;
    for (; n < 2 && g->ids[n]; n++) {
        fill_in(d, g->ids[n], &ids[n]);
        rows[n] =
            (struct pod_row){"default", n ? "pod-b" : "pod-a", "main", g->resource, ids[n].data};
    }
    if (g->device)
        rows[n++] = (struct pod_row){.ns = "default",
                                     .pod = "pod-a",
                                     .container = "main",
                                     .claim = "gpu-of-a",
                                     .pool = "n1",
                                     .device = g->device};
    pack_list(rows, n, &bytes);
    fill_in(d, g->value, &value);
    CODEC_AUTO_JSON json_t *pod = json_pack("{s:{s:{s:s}},s:{s:[{s:s}]}}", "metadata",
                                            "annotations", g->annotation ? g->annotation : "none",
                                            value.data, "spec", "containers", "name", "main");
    struct api api = {pod, d};
    const struct exporter_device_sources sources = {api_pod, api_slice, &api};
    assert_ok(exporter_device_map_parse(gs_buf_slice(&bytes), NULL, 0, &sources, ret));
    assert_int_equal(exporter_device_map_gaps(*ret)->pods + exporter_device_map_gaps(*ret)->claims,
                     0);
    gs_buf_finish(&ids[0]);
    gs_buf_finish(&ids[1]);
}

static void hide_uuids(const struct gpu_snapshot *s, struct gs_buf *page)
{
    for (size_t i = 0; i < s->n_devices; i++) {
        char to[64];
        snprintf(to, sizeof(to), "GPU-%zu", i);
        replace_all(page, s->devices[i].uuid, to);
        for (size_t k = 0; k < s->devices[i].n_instances; k++) {
            snprintf(to, sizeof(to), "MIG-%zu-%zu", i, k);
            replace_all(page, s->devices[i].instances[k].uuid, to);
        }
    }
}

static void compare(const struct golden *g, const struct gs_buf *page)
{
    const char *root = getenv("GPUSCALE_SOURCE_ROOT");
    GS_AUTO_FREE char *path = gs_format("%s/tests/exporter/golden/%s.txt", root, g->file);
    GS_AUTO_FREE char *user = gs_format("%s/tests/exporter/golden/%s.user.txt", root, g->file);
    // NVML gives the memory of a GPU in MIG mode as a whole to root alone.
    if (geteuid() != 0 && access(user, R_OK) == 0) {
        free(path);
        path = GS_TAKE(user);
    }
    if (getenv("GOLDEN_UPDATE"))
        assert_ok(gs_file_write_atomic(path, 0644, gs_buf_slice(page)));
    GS_AUTO_BUF struct gs_buf want = {0};
    assert_ok(gs_file_read(path, 1024 * 1024, &want));
    if (!gs_streq(want.data, page->data))
        fail_msg("%s is not what comes out:\n%s", path, page->data);
}

static void run(const struct golden *g)
{
    struct nvmlsim_spec spec;
    struct nvmlsim *sim = NULL;
    char name[64];
    snprintf(name, sizeof(name), "/gpuscale-test-golden-%d", getpid());
    assert_ok(nvmlsim_spec_parse(g->spec, &spec));
    bool mig = strstr(g->file, "mig") != NULL;
    if (mig) {
        strcpy(spec.gpus[0].mig[0].profile, "1g.10gb");
        strcpy(spec.gpus[0].mig[1].profile, "2g.20gb");
        spec.gpus[0].n_mig = 2;
    }
    assert_ok(nvmlsim_create(name, &spec, &sim));
    setenv(NVMLSIM_ENV, name, 1);
    struct exporter_counters counters;
    if (!exporter_counters_builtin(g->counters, &counters))
        assert_ok(exporter_counters_parse(gs_slice_of(g->counters), &counters));
    struct exporter_sample *sample = gs_alloc(sizeof(*sample));
    sample->gpus = sample_twice(&counters);
    sample->owners = gs_alloc_array(sample->gpus->n_devices, sizeof(*sample->owners));
    struct exporter_device_map *map = NULL;
    make_map(g, sample->gpus, &map);
    struct exporter_health *health = exporter_health_new();
    exporter_health_update(health, sample->gpus, gs_mono_ns());
    struct exporter_render_names names = g->names;
    names.hostname_label = "hostname";
    names.hostname = names.node_name = "n1";
    names.counters = &counters;
    GS_AUTO_BUF struct gs_buf page = {0};
    struct exporter_renderer *renderer = exporter_renderer_new(&names);
    const struct exporter_render_input in = {.sample = sample, .map = map, .health = health};
    exporter_renderer_page(renderer, &in, &page);
    exporter_renderer_free(renderer);
    exporter_health_free(health);
    hide_uuids(sample->gpus, &page);
    mask_values(&page);
    compare(g, &page);
    exporter_device_map_free(map);
    exporter_sample_free(sample);
    exporter_counters_finish(&counters);
    nvmlsim_detach(sim);
    gs_error_free(nvmlsim_unlink(name));
}

static void test_all_modes(void **state)
{
    static const char few[] = "DCGM_FI_DEV_MEM_CLOCK, gauge, Memory clock.\n"
                              "DCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %).\n"
                              "DCGM_FI_DEV_FB_USED, gauge, Framebuffer memory used (in MiB).\n"
                              "DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, Engine.\n";
    static const char many[] = "DCGM_FI_DEV_GPU_TEMP, gauge, Temperature.\n"
                               "DCGM_FI_DEV_BRAND, label, Brand.\n"
                               "DCGM_FI_DEV_PSTATE, gauge, State.\n"
                               "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL, counter, Errors.\n"
                               "DCGM_FI_DEV_POWER_MGMT_LIMIT, gauge, Limit.\n"
                               "DCGM_FI_DEV_CLOCKS_EVENT_REASONS, gauge, Why.\n"
                               "DCGM_FI_DEV_BAR1_TOTAL, gauge, BAR1.\n"
                               "DCGM_FI_DEV_PCIE_LINK_GEN, gauge, PCIe.\n"
                               "DCGM_FI_DEV_POWER_VIOLATION, counter, Throttled.\n"
                               "DCGM_EXP_XID_ERRORS_COUNT, gauge, XIDs.\n";
    static const char pairs[] = "DCGM_FI_DEV_NVLINK_P2P_STATUS, gauge, Who.\n"
                                "DCGM_EXP_GPU_HEALTH_STATUS, gauge, Health.\n"
                                "DCGM_EXP_P2P_STATUS, gauge, Links.\n";
    static const struct golden rows[] = {
        {"plain",
         "1xTesla-T4,1xH100-80GB-HBM3",
         "default-counters.csv",
         {0},
         "nvidia.com/gpu",
         {"$"}},
        {"1x-names",
         "1xH100-80GB-HBM3",
         "1.x-compatibility-metrics.csv",
         {0},
         "nvidia.com/gpu",
         {"$"}},
        {"old-namespace",
         "1xTesla-T4",
         few,
         {.old_namespace = true, .replace_blanks = true},
         "nvidia.com/gpu",
         {"$"}},
        {"many-fields",
         "1xA100-SXM4-80GB",
         many,
         {.xid_window_ms = 300000},
         "nvidia.com/gpu",
         {NULL}},
        {"peer-to-peer", "2xH100-80GB-HBM3,1xTesla-T4", pairs, {0}, "nvidia.com/gpu", {"$"}},
        {"mig", "1xH100-80GB-HBM3", "default-counters.csv", {0}, "nvidia.com/mig-1g.10gb", {"$"}},
        {"mig-old-id", "1xA100-SXM4-80GB", few, {0}, "nvidia.com/gpu", {"MIG-%/7/0"}},
        {"mig-gpus-only", "1xA100-SXM4-80GB", few, {.devices = "g"}, "nvidia.com/gpu", {"$"}},
        {"time-slices", "1xTesla-T4", few, {0}, "nvidia.com/gpu", {"$::0", "$::1"}},
        {"time-slices-virtual",
         "1xTesla-T4",
         few,
         {.virtual_gpus = true},
         "nvidia.com/gpu.shared",
         {"$::0", "$::1"}},
        {"gke", "1xTesla-T4", few, {0}, "nvidia.com/gpu", {"nvidia0"}},
        {"gke-sharing",
         "1xTesla-T4",
         few,
         {.virtual_gpus = true},
         "nvidia.com/gpu",
         {"nvidia0/vgpu0", "nvidia0/vgpu1"}},
        {"mig-gke-sharing",
         "1xA100-SXM4-80GB",
         few,
         {.virtual_gpus = true},
         "nvidia.com/gpu",
         {"nvidia0/gi7/vgpu0", "nvidia0/gi7/vgpu1"}},
        {"gpushare",
         "1xTesla-T4",
         few,
         {.virtual_gpus = true},
         "aliyun.com/gpu-mem",
         {"$-_-0 $-_-1", "$-_-2"},
         "scheduler.framework.gpushare.allocation",
         "{\"0\":{\"0\":4}}"},
        {"gpushare-index",
         "1xTesla-T4",
         few,
         {0},
         "aliyun.com/gpu-mem",
         {"$-_-0 $-_-1", "$-_-2"},
         "ALIYUN_COM_GPU_MEM_IDX",
         "0"},
        {"hami",
         "1xTesla-T4",
         few,
         {.virtual_gpus = true},
         "nvidia.com/gpu",
         {"$-3", "$-7"},
         "hami.io/vgpu-devices-allocated",
         "$,NVIDIA,3000,30:;"},
        {"hami-whole",
         "1xTesla-T4",
         few,
         {0},
         "nvidia.com/gpu",
         {"$-3"},
         "4pd.io/vgpu-ids-new",
         "$,NVIDIA,15360,100:;"},
        {"volcano-vgpu",
         "1xTesla-T4",
         few,
         {0},
         "volcano.sh/vgpu-number",
         {"$-0", "$-1"},
         "volcano.sh/vgpu-ids-new",
         "$,NVIDIA,1126,10:;"},
        {"volcano",
         "1xTesla-T4",
         few,
         {0},
         "volcano.sh/gpu-memory",
         {"0-0 0-1", "0-2"},
         "volcano.sh/gpu-index",
         "0"},
        {"claim", "1xTesla-T4", few, {.dra = true}, .device = "gpu-0"},
        {"mig-claim", "1xA100-SXM4-80GB", few, {.dra = true}, .device = "gpu-0-mig-1g.10gb-19-0"},
        {"mig-gke", "1xA100-SXM4-80GB", few, {0}, "nvidia.com/gpu", {"nvidia0/gi7"}},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
        run(&rows[i]);
}

// The queries of Grafana's dashboard 12239 are about these, by the labels instance and gpu.
static void test_dashboard_has_data(void **state)
{
    static const char *const families[] = {
        "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_SM_CLOCK",
        "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED",     "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    };
    GS_AUTO_FREE char *path =
        gs_format("%s/tests/exporter/golden/plain.txt", getenv("GPUSCALE_SOURCE_ROOT"));
    GS_AUTO_BUF struct gs_buf page = {0};
    assert_ok(gs_file_read(path, 1024 * 1024, &page));
    for (size_t i = 0; i < GS_ARRAY_LEN(families); i++) {
        bool tensor = strstr(families[i], "TENSOR") != NULL; // GPU 0 is a T4: none before Hopper
        for (int gpu = tensor ? 1 : 0; gpu < 2; gpu++) {
            GS_AUTO_FREE char *line = gs_format("\n%s{gpu=\"%d\",", families[i], gpu);
            if (!strstr(page.data, line))
                fail_msg("no %s of GPU %d", families[i], gpu);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_modes),
                                       cmocka_unit_test(test_dashboard_has_data)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
