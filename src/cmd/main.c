// SPDX-License-Identifier: Apache-2.0
// Finds the command: by the name of the link that was started (nvidia-smi, prometheus, promtool),
// by the first argument, or, as in a container whose arguments are those of another program, by
// the flags. Exit codes: 1 for failures, 2 for wrong usage.
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/slice.h"
#include "cmd/commands.h"
#include "dcgm_source/dcgm_source.h"
#include "local/kubelet.h"
#include "local/standin/standin.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXIT_RUN_TIME = 1, EXIT_USAGE = 2 };

static int report_error(struct gs_error *err)
{
    int code = gs_error_code(err) == GS_EINVAL ? EXIT_USAGE : EXIT_RUN_TIME;
    fprintf(stderr, "gpuscale: %s\n", gs_error_message(err));
    gs_error_free(err);
    return code;
}

static int run_command(const struct gs_command *command, int argc, char **argv)
{
    GS_AUTO_FREE void *opts = gs_alloc(command->opts_size);
    struct gs_common_opts common;
    int n_args = 0, code = 0;
    struct gs_error *err = gs_options_parse(command, argc, argv, opts, &common, &n_args);
    if (!err && common.help) {
        gs_options_print_help(command, "gpuscale", common.help_all, stdout);
    } else if (!err && common.version) {
        cmd_print_version(stdout);
    } else if (!err) {
        err = gs_log_configure_text(common.log_level, common.log_format);
        if (!err)
            err = command->run(opts, n_args, argv, &code);
    }
    gs_options_finish(command, opts);
    return err ? report_error(err) : code;
}

static int unknown_command(const char *word)
{
    if (!CMD_LOCAL && (gs_streq(word, "up") || gs_streq(word, "sim")))
        return report_error(cmd_not_in_this_program(word));
    const char *names[CMD_MAX];
    size_t n = 0;
    for (size_t i = 0; cmd_all[i]; i++)
        if (cmd_all[i]->summary && !cmd_all[i]->within)
            names[n++] = cmd_all[i]->name;
    const char *near = gs_suggest(word, names, n);
    fprintf(stderr, "gpuscale: unknown command \"%s\"%s%s%s\n", word,
            near ? "; did you mean \"" : "", near ? near : "",
            near ? "\"?" : "; see gpuscale --help");
    return EXIT_USAGE;
}

// The command of the first words, such as `check test`. *n: the number of these words. NULL:
// unknown.
static const struct gs_command *command_of_words(int argc, char **argv, int *ret_n)
{
    const struct gs_command *command = cmd_find(argv[0]);
    const struct gs_command *part = command && argc > 1 ? cmd_find_part(command, argv[1]) : NULL;
    *ret_n = part ? 2 : 1;
    return part ? part : command;
}

// `gpuscale help [COMMAND] [--all]`
static int print_help(int argc, char **argv)
{
    int n = 0;
    bool all =
        argc > 0 && (gs_streq(argv[argc - 1], "--all") || gs_streq(argv[argc - 1], "--help-all"));
    argc -= all;
    if (argc < 1) {
        gs_options_print_commands(cmd_groups, "gpuscale", stdout);
        return 0;
    }
    const struct gs_command *command = command_of_words(argc, argv, &n);
    if (!command)
        return unknown_command(argv[0]);
    gs_options_print_help(command, "gpuscale", all, stdout);
    return 0;
}

// Runs a command as the program that it replaces, with that program's defaults.
static int run_peer(const struct cmd_peer *peer, int argc, char **argv)
{
    size_t n = 0;
    while (peer->defaults[n])
        n++;
    GS_AUTO_FREE char **args = gs_alloc((n + (size_t)argc + 1) * sizeof(*args));
    for (size_t i = 0; i < n; i++)
        args[i] = (char *)(uintptr_t)peer->defaults[i]; // no command writes to its arguments
    memcpy(args + n, argv, (size_t)argc * sizeof(*argv));
    return run_command(peer->command, (int)n + argc, args);
}

static int run(int argc, char **argv)
{
    const struct cmd_peer *peer = argc > 0 ? cmd_find_peer(argv[0]) : NULL;
    if (peer)
        return run_peer(peer, argc - 1, argv + 1);
    // Internal: the arguments that follow are the command line of another program.
    if (CMD_LOCAL && argc > 1 && gs_streq(argv[1], "pod-shim"))
        return kubelet_pod_shim_main(argc - 1, argv + 1);
    if (CMD_LOCAL && argc > 1 && gs_streq(argv[1], "pod-standin"))
        return standin_main(argc - 1, argv + 1);
    // Internal: the exporter's child process that loads libdcgm.
    if (argc == 3 && gs_streq(argv[1], "exporter") && gs_streq(argv[2], "--dcgm-reader"))
        return dcgm_source_reader_main();
    if (argc < 2) {
        gs_options_print_commands(cmd_groups, "gpuscale", stderr);
        return EXIT_USAGE;
    }
    if (gs_streq(argv[1], "--help") || gs_streq(argv[1], "-h") || gs_streq(argv[1], "help") ||
        gs_streq(argv[1], "--help-all"))
        return print_help(argc - 2, argv + 2);
    bool version = gs_streq(argv[1], "--version") || gs_streq(argv[1], "-v");
    const char *word = version ? "version" : argv[1];
    int n_words = 1;
    const struct gs_command *command =
        version ? cmd_find(word) : command_of_words(argc - 1, argv + 1, &n_words);
    // Manifests of other programs: "/adapter --secure-port=6443", or only "--secure-port=6443".
    if (!command && (peer = cmd_find_peer(word)))
        return run_peer(peer, argc - 2, argv + 2);
    if (!command && *word == '-' && (peer = cmd_peer_of_flags(argc - 1, argv + 1)))
        return run_peer(peer, argc - 1, argv + 1);
    return command ? run_command(command, argc - 1 - n_words, argv + 1 + n_words)
                   : unknown_command(word);
}

// Output that could not be written, as on a full disk, is an error. A pipe whose reader has ended
// is not: `gpuscale query … | head`.
static int finish_stdout(int code)
{
    struct stat s;
    bool failed = ferror(stdout) != 0; // the reason is no longer known
    if (fflush(stdout) == 0 && !failed)
        return code;
    int reason = failed ? 0 : errno;
    if (fstat(STDOUT_FILENO, &s) == 0 && (S_ISFIFO(s.st_mode) || S_ISSOCK(s.st_mode)))
        return code;
    fprintf(stderr, "gpuscale: could not write all output to stdout%s%s\n", reason ? ": " : "",
            reason ? strerror(reason) : "");
    return code ? code : EXIT_RUN_TIME;
}

int main(int argc, char **argv)
{
    gs_occupy_standard_files();
    (void)signal(SIGPIPE, SIG_IGN);
    return finish_stdout(run(argc, argv));
}
