// SPDX-License-Identifier: Apache-2.0
// Commands and their flags as constant tables. One row defines the parsing, checks, help text and
// default of a flag, so that --help and behavior agree. Accepts --name=value, --name value, -x
// value, bare boolean --name, --name=false, --no-name, and "--" to end the flags. Precedence: flag,
// environment, default. --help prints the flags that matter, --help-all prints all.
#pragma once

#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum gs_opt_type {
    GS_OPT_BOOL,     // bool
    GS_OPT_SWITCH,   // enum gs_switch: a boolean whose default depends on something else
    GS_OPT_STRING,   // const char *, NULL if absent without a default
    GS_OPT_STRINGS,  // struct gs_opt_list, repeatable
    GS_OPT_INT,      // int64_t, within min..max (both 0: any)
    GS_OPT_DOUBLE,   // double
    GS_OPT_DURATION, // int64_t nanoseconds
};

enum gs_switch { GS_SWITCH_UNSET, GS_SWITCH_OFF, GS_SWITCH_ON };

struct gs_opt_list {
    const char **items;
    size_t len, cap;
};

// A row begins with these fields in their order; the others follow by name, the help as the last
// one:
//     {"output", GS_OPT_STRING, AT(output), "FORMAT", "text", .alias = "o", .help = "…"},
struct gs_opt {
    const char *name; // without dashes
    enum gs_opt_type type;
    size_t offset;     // into the command's option struct
    const char *arg;   // placeholder in the help: "FILE"; NULL for booleans
    const char *def;   // default as text, parsed like a value; NULL: zero
    const char *alias; // second long name, or a single letter for -x; NULL
    const char *env;   // environment variable, NULL
    int64_t min, max;  // GS_OPT_INT (both 0: any), GS_OPT_DURATION (max 0: 100 years)
    const char *group; // heading in the help; NULL: "Flags"
    // The value if none is given, at the end or before another flag: "--env". NULL: a value is
    // needed. Values that begin with '-' are then written --name=value.
    const char *implied;
    const char *help; // one or more sentences; wrapped by the printer
};
#define GS_OPT(...)                                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    } // a row in a macro, which clang-format would take for a block

// A command of the program. `opts` ends with a row whose name is NULL.
struct gs_command {
    const char *name;
    const char *within;      // the command of which it is a part: "check"; NULL: none
    const char *main_flags;  // those of --help, with blanks between them; NULL: all flags
    const char *args;        // positional part of the usage line: "[FILE]…"; NULL: none
    const char *summary;     // one line for the list of commands
    const char *description; // paragraphs for --help
    const char *examples;    // lines for --help; NULL
    const struct gs_opt *opts;
    size_t opts_size;       // sizeof the option struct
    int min_args, max_args; // positional arguments; max -1: any number
    // Called for a flag that no row has, with the argument that follows it (NULL: none). True: that
    // is its value. "_" in names is then "-". NULL: such a flag is an error.
    bool (*other_flag)(const char *flag, const char *next);
    void (*print_more)(FILE *out); // prints a last section of --help; NULL: none
    // opts points to a zeroed-then-filled option struct. Returns the exit code; on failure an error
    // may be set (printed by main: exit 2 for GS_EINVAL, else 1).
    struct gs_error *(*run)(const void *opts, int argc, char **argv, int *ret_exit);
};

// Commands under one heading of the list of commands; the list ends with NULL.
struct gs_command_group {
    const char *heading;
    const struct gs_command *const *commands;
};

// Flags that every command has: --help, --help-all, --version, --log-level, --log-format.
struct gs_common_opts {
    bool help, help_all, version;
    const char *log_level;
    const char *log_format;
};
extern const struct gs_opt gs_options_common[]; // ends with a row whose name is NULL

// Fills `ret_opts` (opts_size bytes) and ret_common. Positional arguments are moved to
// argv[0..*ret_argc).
struct gs_error *gs_options_parse(const struct gs_command *command, int argc, char **argv,
                                  void *ret_opts, struct gs_common_opts *ret_common, int *ret_argc);
void gs_options_finish(const struct gs_command *command, void *opts); // frees lists
// all: also the flags that are not in main_flags.
void gs_options_print_help(const struct gs_command *command, const char *program, bool all,
                           FILE *out);
// The group whose heading is NULL ends the groups.
void gs_options_print_commands(const struct gs_command_group *groups, const char *program,
                               FILE *out);
// Whether --help prints the flag. False: only --help-all does.
bool gs_options_is_main(const struct gs_command *command, const struct gs_opt *flag);
// "check test" for a command within another one, otherwise its name. The caller frees it.
char *gs_command_title(const struct gs_command *command);

// The row of a flag by its name or alias, without dashes. NULL: the command has no such flag.
const struct gs_opt *gs_options_find(const struct gs_command *command, struct gs_slice name);

// The candidate closest to `word` by edit distance, without regard to case, "_" and "-", or the one
// that is its beginning or end; NULL: no candidate is similar. n may be 0.
const char *gs_suggest(const char *word, const char *const *candidates, size_t n);
