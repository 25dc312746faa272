// SPDX-License-Identifier: Apache-2.0
// `gpuscale test rules`: unit tests of rules, as promtool's command of the same name.
// `gpuscale test hpa`: decision tables of autoscalers.
#include "cmd/verbs.h"
#include "engine/rules/unit_test.h"
#include "replay/decision_tables.h"

static struct gs_error *run_test(const void *opts, int argc, char **argv, int *ret_exit)
{
    bool rules = gs_streq(argv[0], "rules");
    if (!rules && !gs_streq(argv[0], "hpa"))
        return gs_error_new(GS_EINVAL, "nothing called \"%s\" can be tested; rules and hpa can",
                            argv[0]);
    if (argc < 2)
        return gs_error_new(GS_EINVAL, "test %s needs at least one FILE", argv[0]);
    return (rules ? rule_tests_run_files : replay_test_files)(opts, argc - 1, argv + 1, ret_exit);
}

static const struct gs_opt opts[] = {
    {.name = "run",
     .type = GS_OPT_STRINGS,
     .arg = "REGEX",
     .offset = offsetof(struct codec_test_options, run),
     .help = "Only tests whose name it matches somewhere. Repeatable: any of them."},
    {.name = "diff",
     .type = GS_OPT_BOOL,
     .offset = offsetof(struct codec_test_options, diff),
     .help = "Show the lines in which expected (-) and received (+) differ, instead of both."},
    {.name = "junit",
     .type = GS_OPT_STRING,
     .arg = "FILE",
     .offset = offsetof(struct codec_test_options, junit),
     .help = "Also write the results as JUnit XML."},
    {.name = "ignore-unknown-fields",
     .type = GS_OPT_BOOL,
     .offset = offsetof(struct codec_test_options, ignore_unknown_fields),
     .help = "Of rule files: fields of other programs are no mistake. Rules with them are still "
             "wrong for the engine."},
    {.name = NULL},
};

const struct gs_verb verb_test = {
    .name = "test",
    .args = "rules|hpa FILE…",
    .summary = "Run unit tests of rules, and decision tables of autoscalers.",
    .description =
        "rules: files in promtool's format of unit tests: input series, the samples that "
        "expressions must give and the alerts that must fire at certain times. The rules are "
        "evaluated by this program's engine.\n\n"
        "hpa: decision tables. Each YAML document is a case: an autoscaler's spec and passes with "
        "what is observed and what must be decided (docs/replay.md has the form). The decisions "
        "are made by the function that the controller uses. Exits with 1 when a test fails.",
    .examples = "gpuscale test rules rules_test.yaml\n"
                "gpuscale test rules --run='GPU.*' --diff tests/*.yaml\n"
                "gpuscale test rules --junit=results.xml rules_test.yaml\n"
                "gpuscale test hpa decisions/*.yaml",
    .opts = opts,
    .opts_size = sizeof(struct codec_test_options),
    .min_args = 1,
    .max_args = -1,
    .run = run_test,
};
