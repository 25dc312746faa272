// SPDX-License-Identifier: Apache-2.0
// The command: gather, examine, print; again with --watch.
#include "base/mem.h"
#include "codec/yaml.h"
#include "doctor/doctor_private.h"

#include <stdio.h>
#include <time.h>

static void print_report(const struct doctor_options *o, const json_t *report)
{
    GS_AUTO_BUF struct gs_buf out = {0};

    if (gs_streq(o->output, "yaml")) {
        codec_yaml_dump(report, &out);
    } else if (gs_streq(o->output, "json")) {
        if (o->watch) // one line for each examination
            codec_json_dump(report, &out);
        else
            codec_json_dump_pretty(report, &out);
        gs_buf_add_char(&out, '\n');
    } else {
        doctor_report_text(report, &out);
    }
    (void)fwrite(out.data, 1, out.len, stdout);
    (void)fflush(stdout);
}

static enum doctor_result examine_once(const struct doctor_options *o)
{
    CODEC_AUTO_JSON json_t *facts = doctor_gather(o);
    CODEC_AUTO_JSON json_t *report = doctor_examine(facts);

    print_report(o, report);
    return doctor_result_of(report);
}

static void print_checks(void)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    doctor_reference(&out);
    (void)fwrite(out.data, 1, out.len, stdout);
}

enum doctor_result doctor_run(const struct doctor_options *o)
{
    if (o->list) {
        print_checks();
        return DOCTOR_HEALTHY;
    }
    for (;;) {
        enum doctor_result result = examine_once(o);
        if (!o->watch)
            return result;
        if (gs_streq(o->output, "text"))
            puts("---");
        (void)fflush(stdout);
        const struct timespec pause = {.tv_sec = o->interval_ns / 1000000000,
                                       .tv_nsec = o->interval_ns % 1000000000};
        nanosleep(&pause, NULL);
    }
}
