// SPDX-License-Identifier: Apache-2.0
// A driver that gives nonsense: each output of each call, with each pattern. Nothing crashes, the
// page stays readable, values stay within what they can be, no process gets a wrong owner, and all
// is as before when the driver has come to its senses.
#include "render_fixture.h"

#include "base/clock.h"
#include "exporter/sampler.h"
#include "garbage_nvml.h"
#include "nvmlsim/client.h"
#include "nvmlsim/sim.h"
#include "patience.h"
#include "unit.h"

#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct driver {
    struct nvmlsim *sim;
    char name[64];
    void *library;
    struct garbage_nvml *garbage;
    struct gpu_backend *backend;
    struct exporter_owner_cache *owners;
    struct exporter_device_map *map;
    struct exporter_counters all;
    char uuid[96];
    pid_t load;
};

static pid_t start_load(const char *uuid)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    struct nvmlsim_ctx *c = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("CUDA_VISIBLE_DEVICES", uuid, 1);
    if (nvmlsim_ctx_open(0, &c))
        _exit(1);
    for (;;)
        if (nvmlsim_kernel_run(c, 20000, 1.0))
            _exit(1);
}

static int setup_driver(void **state)
{
    struct driver *d = gs_alloc(sizeof(*d));
    struct nvmlsim_spec spec;
    struct nvmlsim_gpu_info info;
    GS_AUTO_FREE char *path =
        gs_format("%s/tests/exporter/libgarbagenvml.so", getenv("GPUSCALE_BUILD_ROOT"));
    assert_ok(nvmlsim_spec_parse("1xH100-80GB-HBM3,1xH100-80GB-HBM3", &spec));
    strcpy(spec.gpus[1].mig[0].profile, "1g.10gb");
    spec.gpus[1].n_mig = 1;
    snprintf(d->name, sizeof(d->name), "/gpuscale-test-garbage-%d", getpid());
    assert_ok(nvmlsim_create(d->name, &spec, &d->sim));
    setenv(NVMLSIM_ENV, d->name, 1);
    nvmlsim_gpu_info(d->sim, 0, &info);
    strcpy(d->uuid, info.uuid);
    d->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!d->library)
        fail_msg("%s", dlerror());
    d->load = start_load(d->uuid);
    d->garbage = dlsym(d->library, "garbage_nvml");
    bool wanted[GPU_F_COUNT];
    for (int i = 0; i < GPU_F_COUNT; i++)
        wanted[i] = i != GPU_F_PCIE_TX && i != GPU_F_PCIE_RX; // these take 20 ms each
    struct gpu_backend_config cfg = {
        .library = path, .wanted = wanted, .patience_ns = WAIT_NS, .hung_after_ns = WAIT_NS};
    assert_ok(gpu_backend_open(&cfg, &d->backend));
    all_counters(&d->all);
    d->owners = exporter_owner_cache_new(&(struct exporter_owner_config){0});
    const struct pod_row row = {"ns", "a", "c", "nvidia.com/gpu", d->uuid};
    GS_AUTO_BUF struct gs_buf bytes = {0};
    pack_list(&row, 1, &bytes);
    assert_ok(exporter_device_map_parse(gs_buf_slice(&bytes), NULL, 0, NULL, &d->map));
    *state = d;
    return 0;
}

static int teardown_driver(void **state)
{
    struct driver *d = *state;
    kill(d->load, SIGKILL);
    waitpid(d->load, NULL, 0);
    exporter_owner_cache_free(d->owners);
    exporter_device_map_free(d->map);
    exporter_counters_finish(&d->all);
    gpu_backend_close(d->backend);
    dlclose(d->library);
    nvmlsim_detach(d->sim);
    gs_error_free(nvmlsim_unlink(d->name));
    free(d);
    return 0;
}

// As the sampler does it; NULL: NVML as a whole gave nothing.
static struct exporter_sample *take(struct driver *d)
{
    struct exporter_sample *s = gs_alloc(sizeof(*s));
    GS_AUTO_ERROR struct gs_error *err = gpu_backend_sample(d->backend, &s->gpus);
    if (err) {
        free(s);
        return NULL;
    }
    s->owners = gs_alloc_array(s->gpus->n_devices + 1, sizeof(*s->owners));
    exporter_owner_cache_begin(d->owners);
    for (size_t i = 0; i < s->gpus->n_devices; i++) {
        const struct gpu_device *g = &s->gpus->devices[i];
        s->owners[i] = gs_alloc_array(g->n_processes + 1, sizeof(**s->owners));
        for (size_t k = 0; k < g->n_processes; k++)
            s->owners[i][k] =
                *exporter_owner_lookup(d->owners, g->processes[k].pid, g->processes_ns);
    }
    exporter_owner_cache_end(d->owners);
    exporter_clamp_process_usage(s);
    return s;
}

static void check_field(const struct gpu_device *d, enum gpu_field f, const char *what)
{
    const struct gpu_value *v = &d->fields[f];
    const struct gpu_field_info *info = gpu_field_info(f);
    if (v->validity != GPU_VALID || info->kind == GPU_TEXT)
        return;
    double value = v->is_double ? v->d : (double)v->i;
    if (!isfinite(value))
        fail_msg("%s: %s is %f", what, info->name, value);
    if (gs_streq(info->unit, "%") && (value < 0 || value > 100))
        fail_msg("%s: %s is %f %%", what, info->name, value);
}

static void check_processes(const struct exporter_sample *s, size_t at, const char *what)
{
    const struct gpu_device *d = &s->gpus->devices[at];
    uint64_t sm = 0;
    assert_true(d->n_processes <= GPU_MAX_PROCESSES);
    for (size_t k = 0; k < d->n_processes; k++) {
        sm += d->processes[k].has_util ? d->processes[k].sm_util : 0;
        // Nothing here is in a pod.
        if (s->owners[at][k].kind == EXPORTER_OWNER_POD)
            fail_msg("%s: pid %u has an owner", what, d->processes[k].pid);
    }
    if (sm > 100)
        fail_msg("%s: processes have %u %% together", what, (unsigned)sm);
}

static bool count_sample(void *arg, const struct metrics_sample *s)
{
    (void)s;
    ++*(size_t *)arg;
    return true;
}

static void check(struct driver *d, const struct exporter_sample *s, const char *what)
{
    assert_true(s->gpus->n_devices <= GPU_MAX_DEVICES);
    for (size_t i = 0; i < s->gpus->n_devices; i++) {
        for (enum gpu_field f = 0; f < GPU_F_COUNT; f++)
            check_field(&s->gpus->devices[i], f, what);
        assert_true(s->gpus->devices[i].n_instances <= GPU_MAX_INSTANCES);
        check_processes(s, i, what);
    }
    GS_AUTO_BUF struct gs_buf page = {0};
    struct exporter_render_names with = names;
    with.counters = &d->all;
    exporter_render_gpus(&with, s, d->map, NULL, &page);
    size_t n = 0;
    struct gs_error *err = metrics_parse_text(gs_buf_slice(&page), NULL, count_sample, &n);
    if (err)
        fail_msg("%s: %s in:\n%s", what, gs_error_message(err), page.data);
}

static bool well(const struct exporter_sample *s)
{
    const struct gpu_device *d = s && s->gpus->n_devices == 2 ? &s->gpus->devices[0] : NULL;
    return d && !d->lost && d->fields[GPU_F_POWER_USAGE].validity == GPU_VALID &&
           d->fields[GPU_F_FB_USED].validity == GPU_VALID && gs_starts(d->uuid, "GPU-");
}

static void test_each_call_with_each_pattern(void **state)
{
    static const char *const patterns[] = {"ones", "minimum",  "maximum", "NaN",
                                           "-Inf", "anything", "code"};
    struct driver *d = *state;
    const char *(*call)(unsigned) = NULL;
    *(void **)&call = dlsym(d->library, "garbage_nvml_call");
    assert_non_null(call);
    exporter_sample_free(take(d));
    for (unsigned i = 0; call(i); i++) {
        if (i && gs_streq(call(i), call(i - 1)))
            continue;
        for (int p = 0; p < GARBAGE_PATTERNS; p++) {
            GS_AUTO_FREE char *what = gs_format("%s, %s", call(i), patterns[p]);
            d->garbage->pattern = (enum garbage_pattern)p;
            d->garbage->call = call(i);
            for (int n = 0; n < 2; n++) {
                struct exporter_sample *s = take(d);
                if (s)
                    check(d, s, what);
                exporter_sample_free(s);
            }
            d->garbage->call = NULL;
            bool back = false;
            for (int n = 0; n < 5 && !back; n++) {
                struct exporter_sample *s = take(d);
                back = well(s);
                exporter_sample_free(s);
            }
            if (!back)
                fail_msg("%s: not as before afterwards", what);
        }
    }
    assert_true(d->garbage->spoiled > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_call_with_each_pattern, setup_driver,
                                        teardown_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
