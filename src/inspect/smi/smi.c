// SPDX-License-Identifier: Apache-2.0
// Runs `gpuscale smi`: samples twice, as rates need two, prints, and repeats with --loop. Exit
// codes are those of nvidia-smi.
#include "smi/smi.h"

#include "base/clock.h"
#include "base/slice.h"
#include "smi/smi_private.h"

#include <stdlib.h>
#include <time.h>

// Source: RETURN VALUE of nvidia-smi(1).
enum { EXIT_ARGUMENT = 2, EXIT_NO_DEVICE = 6, EXIT_NO_DRIVER = 9 };

// Rates need two samples.
enum { RATE_MS = 200 };

static void sleep_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * GS_NS_PER_MS};
    nanosleep(&t, NULL);
}

static struct gs_error *print(const struct smi_options *o, const struct smi_view *v, bool first,
                              struct gs_buf *out)
{
    if (o->query_gpu || o->query_apps)
        return smi_print_query(v, o, first, out);
    if (o->list)
        smi_print_list(v, out);
    else if (o->details)
        smi_print_details(v, out);
    else
        smi_print_table(v, out);
    return NULL;
}

static struct gs_error *sample(struct gpu_backend *backend, const struct smi_options *o, bool first,
                               int *ret_exit)
{
    // Outside containers, the variable selects GPUs for others.
    const char *visible = getenv("GPUSCALE_POD_UID") ? getenv("NVIDIA_VISIBLE_DEVICES") : NULL;
    struct gpu_snapshot *snapshot = NULL;
    struct smi_view v;
    GS_AUTO_BUF struct gs_buf out = {0};
    struct gs_error *err = gpu_backend_sample(backend, &snapshot);
    if (err) {
        *ret_exit = EXIT_NO_DRIVER;
        return err;
    }
    smi_view_init(&v, snapshot, visible, o->id);
    if (v.n == 0) {
        *ret_exit = EXIT_NO_DEVICE;
        (void)puts("No devices were found");
    } else if ((err = print(o, &v, first, &out))) {
        *ret_exit = EXIT_ARGUMENT;
    } else {
        if (first && snapshot->simulated)
            (void)fputs("SIMULATED GPUs: no value comes from a real GPU\n", stderr);
        (void)fwrite(out.data, 1, out.len, stdout);
        (void)fflush(stdout);
    }
    gpu_snapshot_free(snapshot);
    return err;
}

static struct gs_error *warm_up(struct gpu_backend *backend)
{
    struct gpu_snapshot *first = NULL;
    struct gs_error *err = gpu_backend_sample(backend, &first);
    gpu_snapshot_free(first);
    if (!err)
        sleep_ms(RATE_MS);
    return err;
}

static struct gs_error *run(const struct smi_options *o, int *ret_exit)
{
    struct gpu_backend *backend = NULL;
    struct gpu_backend_config cfg = {.library = o->nvml_library};
    struct gs_error *err = gpu_backend_open(&cfg, &backend);
    if (!err)
        err = warm_up(backend);
    if (err)
        *ret_exit = EXIT_NO_DRIVER;
    for (bool first = true; !err && !*ret_exit; first = false) {
        err = sample(backend, o, first, ret_exit);
        if (!o->loop_ms)
            break;
        sleep_ms(o->loop_ms);
    }
    gpu_backend_close(backend);
    return err;
}

void smi_run(const struct smi_options *o, int *ret_exit)
{
    if (o->help_fields) {
        GS_AUTO_BUF struct gs_buf out = {0};
        smi_print_fields(&out);
        (void)fwrite(out.data, 1, out.len, stdout);
        return;
    }
    GS_AUTO_ERROR struct gs_error *err = run(o, ret_exit);
    if (!err)
        return;
    if (*ret_exit == EXIT_NO_DRIVER)
        (void)puts(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
            "sure that the latest NVIDIA driver is installed and running.\n");
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s\n", gs_error_message(err));
}

bool smi_has_driver(void)
{
    struct gpu_backend *backend = NULL;
    const struct gpu_backend_config cfg = {0};
    GS_AUTO_ERROR struct gs_error *err = gpu_backend_open(&cfg, &backend);
    gpu_backend_close(backend);
    return !err || gs_error_code(err) != GS_ENOTFOUND;
}
