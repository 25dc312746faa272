// SPDX-License-Identifier: Apache-2.0
// `gpuscale check test`, also `gpuscale test`. rules: unit tests of rules, as promtool's command of
// that name. hpa: decision tables of autoscalers. nodes: cases of plans of nodes.
#include "cmd/commands.h"
#include "engine/check.h"
#include "engine/rules/unit_test.h"
#include "replay/decision_tables.h"
#include "replay/node_tables.h"

struct test_opts {
    struct codec_test_options tests;
    struct gs_opt_list features;
};

static struct gs_error *run_test(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct test_opts *o = opts;
    engine_enable_features(&o->features);
    const struct {
        const char *name;
        struct gs_error *(*run)(const struct codec_test_options *o, int n_files, char **files,
                                int *ret_exit);
    } tests[] = {{"rules", rules_tests_run_files},
                 {"hpa", replay_test_files},
                 {"nodes", replay_test_node_files}};
    for (size_t i = 0; i < GS_ARRAY_LEN(tests); i++) {
        if (!gs_streq(argv[0], tests[i].name))
            continue;
        if (argc < 2)
            return gs_error_new(GS_EINVAL, "check test %s needs at least one FILE", argv[0]);
        return tests[i].run(&o->tests, argc - 1, argv + 1, ret_exit);
    }
    return gs_error_new(GS_EINVAL, "unknown test \"%s\": want rules, hpa or nodes", argv[0]);
}

static const struct gs_opt opts[] = {
    {"run", GS_OPT_STRINGS, offsetof(struct test_opts, tests.run), "REGEX",
     .help = "Only tests whose name it matches somewhere. Repeatable: any of them."},
    {"diff", GS_OPT_BOOL, offsetof(struct test_opts, tests.diff),
     .help = "Show the lines in which expected (-) and received (+) differ, instead of both."},
    {"debug", GS_OPT_BOOL, offsetof(struct test_opts, tests.debug),
     .help = "For rules: print all samples of each test, also those that rules wrote, to stderr."},
    {"junit", GS_OPT_STRING, offsetof(struct test_opts, tests.junit), "FILE",
     .help = "Also write the results as JUnit XML."},
    {"ignore-unknown-fields", GS_OPT_BOOL, offsetof(struct test_opts, tests.ignore_unknown_fields),
     .help =
         "For rule files: accept fields of other programs. The engine still refuses such rules."},
    {"enable-feature", GS_OPT_STRINGS, offsetof(struct test_opts, features), "NAMES",
     .help = "Features of the engine that expressions may use, such as "
             "promql-experimental-functions. Repeatable."},
    {0},
};

const struct gs_command cmd_test = {
    .name = "test",
    .within = "check",
    .args = "rules|hpa|nodes FILE…",
    .summary = "Run unit tests of rules, decision tables of autoscalers and cases of nodes.",
    .description =
        "rules: unit tests in promtool's format: input series, the samples that expressions must "
        "return, and the alerts that must fire at given times. The engine of gpuscale evaluates "
        "the rules.\n\nhpa: decision tables. Each YAML document is a case: the spec of an "
        "autoscaler, and evaluations with the observation and the expected decision "
        "(docs/replay.md describes the format). The controller's own function makes the "
        "decisions.\n\nnodes: plans of nodes. Each YAML document is a case: pools, nodes, pods and "
        "settings of the node autoscaler, and the expected orders, removals, cordons and reasons "
        "(docs/replay.md describes the format). The node autoscaler's own function makes the plan. "
        "The exit code is 1 if a test fails.",
    .examples = "gpuscale check test rules rules_test.yaml\n"
                "gpuscale check test rules --run='GPU.*' --diff tests/*.yaml\n"
                "gpuscale check test rules --junit=results.xml rules_test.yaml\n"
                "gpuscale check test hpa decisions/*.yaml\n"
                "gpuscale check test nodes nodes/*.yaml",
    .opts = opts,
    .opts_size = sizeof(struct test_opts),
    .min_args = 1,
    .max_args = -1,
    .run = run_test,
};
