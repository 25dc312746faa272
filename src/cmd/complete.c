// SPDX-License-Identifier: Apache-2.0
// `gpuscale __complete -- WORD…`: prints the candidates for the last word, one per line, with a tab
// and a description where there is one. Candidates are whole words. ":files" and ":directories"
// stand for the paths that the shell completes. The candidates follow from the tables of the
// commands: names of flags, alternatives such as "text|json" and placeholders such as FILE.
#include "base/mem.h"
#include "base/slice.h"
#include "cmd/commands.h"

#include <ctype.h>

struct completion {
    const struct gs_command *command;
    const char *begin; // of the candidates, before the completed part: "--output="
    const char *typed; // the part that is completed
    const char *first; // first argument of the command; NULL: it is completed
    size_t n_args;     // arguments before the completed word
    bool flags_end;    // after "--"
    struct cmd_names_from from;
};

static void print_candidate(const struct completion *c, const char *word, const char *text)
{
    if (!gs_starts(word, c->typed))
        return;
    // The first sentence, on one line.
    size_t len = 0;
    while (text && text[len] && text[len] != '\n' &&
           !(text[len] == '.' && (!text[len + 1] || text[len + 1] == ' ')))
        len++;
    printf("%s%s%s%.*s\n", c->begin, word, len ? "\t" : "", (int)len, text ? text : "");
}

static void print_name(void *arg, const char *name)
{
    print_candidate(arg, name, NULL);
}

static void print_names(struct completion *c, enum cmd_names kind)
{
    cmd_each_name(kind, &c->from, print_name, c);
}

// "4xA100": the models follow the count. Returns whether there is a count.
static bool print_models(struct completion *c)
{
    size_t digits = strspn(c->typed, "0123456789");
    if (!digits || c->typed[digits] != 'x') {
        print_candidate(c, "1x", "A number and a model");
        return false;
    }
    GS_AUTO_FREE char *begin = gs_format("%s%.*s", c->begin, (int)digits + 1, c->typed);
    struct completion models = *c;
    models.begin = begin;
    models.typed = c->typed + digits + 1;
    print_names(&models, CMD_NAMES_MODELS);
    return true;
}

static bool is_word(struct gs_slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!islower((unsigned char)s.data[i]) && !isdigit((unsigned char)s.data[i]) &&
            s.data[i] != '-')
            return false;
    return s.len > 0;
}

// The words of "hpa NAME|metric PATH": hpa and metric. Returns whether there are any.
static bool print_alternatives(const struct completion *c, const char *placeholder)
{
    bool any = false;
    while (*placeholder) {
        size_t len = strcspn(placeholder, "|[] ");
        struct gs_slice word = {placeholder, len};
        bool choice = placeholder[len] == '|' || any || placeholder[len] == ' ';
        if (choice && is_word(word)) {
            GS_AUTO_FREE char *text = gs_slice_dup(word);
            print_candidate(c, text, NULL);
            any = true;
        }
        placeholder += len;
        placeholder += strcspn(placeholder, "|[");
        placeholder += strspn(placeholder, "|[");
    }
    return any;
}

static void print_paths(const char *placeholder)
{
    if (strstr(placeholder, "FILE") || strstr(placeholder, "PATH") ||
        strstr(placeholder, "SCENARIO"))
        puts(":files");
    else if (strstr(placeholder, "DIR") || strstr(placeholder, "FOLDER"))
        puts(":directories");
}

static void complete_value(struct completion *c, const struct gs_opt *flag)
{
    if (flag->type == GS_OPT_BOOL || flag->type == GS_OPT_SWITCH) {
        print_candidate(c, "true", NULL);
        print_candidate(c, "false", NULL);
        return;
    }
    if (gs_streq(flag->name, "namespace"))
        print_names(c, CMD_NAMES_NAMESPACES);
    if (gs_streq(flag->name, "context"))
        print_names(c, CMD_NAMES_CONTEXTS);
    if ((gs_streq(flag->name, "gpus") || gs_streq(flag->name, "simulate")) && print_models(c))
        return;
    if (flag->arg && !print_alternatives(c, flag->arg))
        print_paths(flag->arg);
}

static void print_flags(const struct completion *c, const struct gs_opt *rows)
{
    for (const struct gs_opt *o = rows; o && o->name; o++) {
        bool value = o->type != GS_OPT_BOOL && o->type != GS_OPT_SWITCH;
        GS_AUTO_FREE char *word = gs_format("--%s%s", o->name, value ? "=" : "");
        print_candidate(c, word, o->help);
    }
}

// Arguments that are names of something. first NULL: the first argument itself.
static const struct {
    const char *command, *first;
    enum cmd_names names;
} named_arguments[] = {
    {"explain", "hpa", CMD_NAMES_HPAS},      {"explain", "pod", CMD_NAMES_PODS},
    {"query", NULL, CMD_NAMES_METRICS},      {"query", "instant", CMD_NAMES_METRICS},
    {"query", "range", CMD_NAMES_METRICS},   {"query", "series", CMD_NAMES_METRICS},
    {"query", "metadata", CMD_NAMES_METRICS}};

static void complete_argument(struct completion *c)
{
    const struct gs_command *command = c->command;
    bool words = c->n_args == 0 && command->args && print_alternatives(c, command->args);
    for (size_t i = 0; i < GS_ARRAY_LEN(named_arguments); i++)
        if (gs_streq(command->name, named_arguments[i].command) &&
            (c->first ? gs_streq(c->first, named_arguments[i].first) : !named_arguments[i].first)) {
            print_names(c, named_arguments[i].names);
            return;
        }
    if (gs_streq(command->name, "sim") && gs_streq(c->first, "create"))
        (void)print_models(c);
    else if (!words && command->args && !gs_streq(command->name, "explain"))
        print_paths(command->args);
}

static void note_flag(struct completion *c, const struct gs_opt *flag, const char *value)
{
    if (gs_streq(flag->name, "kubeconfig"))
        c->from.kubeconfig = value;
    else if (gs_streq(flag->name, "context"))
        c->from.context = value;
    else if (gs_streq(flag->name, "namespace"))
        c->from.ns = value;
    else if (gs_streq(flag->name, "url"))
        c->from.url = value;
}

// The row of "--name", "--name=value" or "-n"; NULL: unknown.
static const struct gs_opt *flag_of(const struct gs_command *command, const char *word,
                                    const char **ret_value)
{
    const char *name = word + strspn(word, "-");
    size_t len = strcspn(name, "=");
    *ret_value = name[len] ? name + len + 1 : NULL;
    return gs_options_find(command, (struct gs_slice){name, len});
}

static bool needs_value(const struct gs_opt *flag)
{
    return flag && flag->type != GS_OPT_BOOL && flag->type != GS_OPT_SWITCH;
}

// Reads the words before the completed one. Returns the flag whose value is the completed word, or
// NULL.
static const struct gs_opt *read_words(struct completion *c, char **words, int n)
{
    for (int i = 0; i < n; i++) {
        const char *value;
        if (c->flags_end || words[i][0] != '-' || !words[i][1]) {
            if (c->n_args++ == 0)
                c->first = words[i];
            continue;
        }
        if (gs_streq(words[i], "--")) {
            c->flags_end = true;
            continue;
        }
        const struct gs_opt *flag = flag_of(c->command, words[i], &value);
        if (!value && needs_value(flag)) {
            if (i + 1 == n)
                return flag;
            value = words[++i];
        }
        if (flag && value)
            note_flag(c, flag, value);
    }
    return NULL;
}

static void print_commands(const struct completion *c)
{
    for (size_t i = 0; cmd_all[i]; i++)
        if (cmd_all[i]->summary && !cmd_all[i]->within)
            print_candidate(c, cmd_all[i]->name, cmd_all[i]->summary);
    print_candidate(c, "help", "Describe a command");
}

static void complete_flag(struct completion *c)
{
    const char *value;
    const struct gs_opt *flag = flag_of(c->command, c->typed, &value);
    if (!value) {
        print_flags(c, c->command->opts);
        print_flags(c, gs_options_common);
        return;
    }
    if (!flag)
        return;
    GS_AUTO_FREE char *begin = gs_strndup(c->typed, (size_t)(value - c->typed));
    c->begin = begin;
    c->typed = value;
    complete_value(c, flag);
}

static struct gs_error *run_complete(const void *opts, int argc, char **argv, int *ret_exit)
{
    struct completion c = {.begin = "", .typed = argv[argc - 1]};
    (void)opts, (void)ret_exit;
    bool help = argc > 1 && gs_streq(argv[0], "help");
    if (argc == 1 || (help && argc == 2)) {
        print_commands(&c);
        return NULL;
    }
    c.command = cmd_find(argv[0]);
    if (!c.command)
        return NULL;
    const struct gs_command *part = argc > 2 ? cmd_find_part(c.command, argv[1]) : NULL;
    int n_words = part ? 2 : 1;
    c.command = part ? part : c.command;
    const struct gs_opt *flag = read_words(&c, argv + n_words, argc - 1 - n_words);
    if (flag)
        complete_value(&c, flag);
    else if (!c.flags_end && c.typed[0] == '-')
        complete_flag(&c);
    else
        complete_argument(&c);
    return NULL;
}

const struct gs_command cmd_complete = {
    .name = "__complete", .args = "WORD…", .min_args = 1, .max_args = -1, .run = run_complete};
