// SPDX-License-Identifier: Apache-2.0
// `gpuscale version`: the version, and with -o json what a report of a bug needs.
#include "base/slice.h"
#include "cmd/commands.h"
#include "cmd/commit.h"

#include <sys/utsname.h>

struct version_opts {
    const char *output;
};

void cmd_print_version(FILE *out)
{
    fprintf(out, "gpuscale %s\n", GPUSCALE_VERSION);
}

static struct gs_error *run_version(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct version_opts *o = opts;
    struct utsname host = {0};
    (void)argc, (void)argv, (void)ret_exit;
    struct gs_error *err = cmd_check_output(o->output, "text");
    if (err)
        return err;
    if (gs_streq(o->output, "text")) {
        cmd_print_version(stdout);
        return NULL;
    }
    (void)uname(&host);
    CODEC_AUTO_JSON json_t *j =
        json_pack("{s:s, s:s*, s:s, s:s, s:s}", "version", GPUSCALE_VERSION, "commit",
                  *GPUSCALE_COMMIT ? GPUSCALE_COMMIT : NULL, "build", GPUSCALE_BUILD, "compiler",
                  __VERSION__, "machine", host.machine);
    cmd_print_json(o->output, j, stdout);
    return NULL;
}

static const struct gs_opt opts[] = {
    {"output", GS_OPT_STRING, offsetof(struct version_opts, output), "text|json|yaml", "text",
     .alias = "o", .help = "One line, or more details as data."},
    {0},
};

const struct gs_command cmd_version = {
    .name = "version",
    .summary = "Print the version.",
    .opts = opts,
    .opts_size = sizeof(struct version_opts),
    .run = run_version,
};
