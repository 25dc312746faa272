// SPDX-License-Identifier: Apache-2.0
// A link named sleep runs this command. The container image has no shell and no other programs, and
// manifests call `sleep` before a container stops.
#include "base/num.h"
#include "base/slice.h"
#include "cmd/commands.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#define MAX_SECONDS 1e9 // 31 years; a longer time is one without an end

// "5", "1.5", "5s", "2m", "1h", "1d", "infinity", as in GNU coreutils.
static struct gs_error *parse(const char *text, double *ret)
{
    static const struct {
        char suffix;
        double seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    struct gs_slice number = gs_slice_of(text);
    double unit = 1, value = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(units) && number.len; i++)
        if (text[strlen(text) - 1] == units[i].suffix) {
            unit = units[i].seconds;
            number.len = strlen(text) - 1;
        }
    struct gs_error *err = gs_parse_double(number, &value);
    if (err || !(value >= 0)) {
        gs_error_free(err);
        return gs_error_new(GS_EINVAL,
                            "sleep: \"%s\" is not a time such as 5, 0.5s, 1m or infinity", text);
    }
    *ret += value * unit;
    return NULL;
}

static struct gs_error *run_sleep(const void *opts, int argc, char **argv, int *ret_exit)
{
    (void)opts, (void)ret_exit;
    double seconds = 0;
    for (int i = 0; i < argc; i++) {
        struct gs_error *err = parse(argv[i], &seconds);
        if (err)
            return err;
    }
    while (seconds > MAX_SECONDS)
        pause();
    struct timespec rest = {.tv_sec = (time_t)seconds};
    rest.tv_nsec = (long)((seconds - (double)rest.tv_sec) * 1e9);
    while (nanosleep(&rest, &rest) && errno == EINTR)
        ;
    return NULL;
}

static const struct gs_opt opts[] = {{0}};

const struct gs_command cmd_sleep = {
    .name = "sleep",
    .args = "NUMBER[smhd]…",
    .summary = "Wait for the sum of the times.",
    .opts = opts,
    .opts_size = 1,
    .min_args = 1,
    .max_args = -1,
    .run = run_sleep,
};
