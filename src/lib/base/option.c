// SPDX-License-Identifier: Apache-2.0
// Flags by tables of rows. Precedence: the command line, the environment variable of the row, the
// default of the row. Flags may have one dash or two, as those of programs in Go.
#include "base/option.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/slice.h"

#define HELP_WIDTH  96
#define HELP_INDENT 8

const struct gs_opt gs_options_common[] = {
    {"help", GS_OPT_BOOL, offsetof(struct gs_common_opts, help), .alias = "h",
     .help = "Print this help and exit."},
    {"help-all", GS_OPT_BOOL, offsetof(struct gs_common_opts, help_all),
     .help = "Print the help with all flags and exit."},
    {"version", GS_OPT_BOOL, offsetof(struct gs_common_opts, version),
     .help = "Print the version and exit."},
    {"log-level", GS_OPT_STRING, offsetof(struct gs_common_opts, log_level),
     "debug|info|warn|error", "info", .env = "GPUSCALE_LOG_LEVEL",
     .help = "Least severity of the events that are logged."},
    {"log-format", GS_OPT_STRING, offsetof(struct gs_common_opts, log_format), "text|json", "text",
     .env = "GPUSCALE_LOG_FORMAT", .help = "Format of the log: one line per event, on stderr."},
    {0},
};

static void list_add(struct gs_opt_list *list, const char *value)
{
    gs_grow(&list->items, &list->cap, list->len, sizeof(*list->items));
    list->items[list->len++] = value;
}

// What Go's strconv.ParseBool accepts, as manifests of the programs written in Go have it, and yes
// and no.
static struct gs_error *parse_bool(const char *text, bool *ret)
{
    static const char *const yes[] = {"true", "1", "t", "T", "TRUE", "True", "yes"};
    static const char *const no[] = {"false", "0", "f", "F", "FALSE", "False", "no"};
    for (size_t i = 0; i < GS_ARRAY_LEN(yes); i++) {
        if (gs_streq(text, yes[i]) || gs_streq(text, no[i])) {
            *ret = gs_streq(text, yes[i]);
            return NULL;
        }
    }
    return gs_error_new(GS_EINVAL, "\"%s\" is not true or false", text);
}

static struct gs_error *parse_switch(const char *text, enum gs_switch *ret)
{
    bool on = false;
    struct gs_error *err = parse_bool(text, &on);
    if (!err)
        *ret = on ? GS_SWITCH_ON : GS_SWITCH_OFF;
    return err;
}

// Negative durations have no meaning, and longer ones than this could not be added to a time.
#define MAX_DURATION_NS (INT64_C(876000) * 3600 * GS_NS_PER_SEC)

static struct gs_error *parse_duration(const struct gs_opt *opt, const char *text, int64_t *ret)
{
    int64_t ns = 0, max = opt->max ? opt->max : MAX_DURATION_NS;
    char limit[GS_RFC3339_SIZE];
    struct gs_error *err = gs_parse_duration(gs_slice_of(text), &ns);
    if (err)
        return err;
    if (ns < opt->min) // 1: any duration but 0
        return gs_error_new(GS_EINVAL, "\"%s\": want %s %s", text,
                            opt->min == 1 ? "more than" : "at least",
                            gs_format_units(opt->min == 1 ? 0 : opt->min, limit));
    if (ns > max)
        return gs_error_new(GS_EINVAL, "\"%s\": want at most %s", text,
                            gs_format_units(max, limit));
    *ret = ns;
    return NULL;
}

static struct gs_error *set_value(const struct gs_opt *opt, void *base, const char *text)
{
    void *at = (char *)base + opt->offset;
    bool any = opt->min == 0 && opt->max == 0;
    switch (opt->type) {
    case GS_OPT_BOOL:
        return parse_bool(text, at);
    case GS_OPT_SWITCH:
        return parse_switch(text, at);
    case GS_OPT_STRING:
        *(const char **)at = text;
        return NULL;
    case GS_OPT_STRINGS:
        list_add(at, text);
        return NULL;
    case GS_OPT_INT:
        return gs_parse_i64(gs_slice_of(text), any ? INT64_MIN : opt->min,
                            any ? INT64_MAX : opt->max, at);
    case GS_OPT_DOUBLE:
        return gs_parse_double(gs_slice_of(text), at);
    case GS_OPT_DURATION:
        return parse_duration(opt, text, at);
    }
    return NULL;
}

static bool opt_named(const struct gs_opt *opt, struct gs_slice name)
{
    return gs_slice_eq_str(name, opt->name) || (opt->alias && gs_slice_eq_str(name, opt->alias));
}

static const struct gs_opt *find_row(const struct gs_opt *rows, struct gs_slice name)
{
    for (const struct gs_opt *o = rows; o && o->name; o++)
        if (opt_named(o, name))
            return o;
    return NULL;
}

const struct gs_opt *gs_options_find(const struct gs_command *command, struct gs_slice name)
{
    const struct gs_opt *own = find_row(command->opts, name);
    return own ? own : find_row(gs_options_common, name);
}

// The row and the struct that it writes to.
static const struct gs_opt *find_opt(const struct gs_command *command, struct gs_slice name,
                                     void *opts, struct gs_common_opts *common, void **ret_base)
{
    *ret_base = find_row(command->opts, name) ? opts : (void *)common;
    return gs_options_find(command, name);
}

static struct gs_error *unknown_flag(const struct gs_command *command, const char *written,
                                     struct gs_slice name)
{
    const char *names[256];
    size_t n = 0;
    for (const struct gs_opt *o = command->opts; o && o->name && n < GS_ARRAY_LEN(names); o++)
        names[n++] = o->name;
    for (const struct gs_opt *o = gs_options_common; o->name && n < GS_ARRAY_LEN(names); o++)
        names[n++] = o->name;
    GS_AUTO_FREE char *word = gs_slice_dup(name);
    const char *near = gs_suggest(word, names, n);
    if (near)
        return gs_error_new(GS_EINVAL, "unknown flag %s; did you mean --%s?", written, near);
    GS_AUTO_FREE char *title = gs_command_title(command);
    return gs_error_new(GS_EINVAL, "unknown flag %s; see gpuscale %s --help-all", written, title);
}

static struct gs_error *apply_defaults(const struct gs_opt *rows, void *base)
{
    for (const struct gs_opt *o = rows; o && o->name; o++) {
        const char *env = o->env ? getenv(o->env) : NULL;
        const char *text = env && *env ? env : o->def;
        if (!text)
            continue;
        struct gs_error *err = set_value(o, base, text);
        if (err && text == env)
            return gs_error_wrap(err, "environment variable %s", o->env);
        if (err)
            return gs_error_wrap(err, "default of --%s", o->name);
    }
    return NULL;
}

// A command with other_flag: whether the flag is not one of its rows, also with "-" for "_". The
// name is changed to that of the row.
static bool skip_flag(const struct gs_command *command, int argc, char **argv, int *i)
{
    char *name = argv[*i] + (argv[*i][1] == '-' ? 2 : 1);
    size_t len = strcspn(name, "=");
    if (!command->other_flag)
        return false;
    for (size_t c = 0; c < len; c++)
        if (name[c] == '_')
            name[c] = '-';
    struct gs_slice key = gs_slice_make(name, len);
    if (gs_options_find(command, key) ||
        (gs_starts(name, "no-") && gs_options_find(command, gs_slice_make(name + 3, len - 3))))
        return false;
    const char *next = !name[len] && *i + 1 < argc ? argv[*i + 1] : NULL;
    *i += command->other_flag(argv[*i], next) ? 1 : 0;
    return true;
}

// One flag at argv[*i]; moves *i over a separate value.
static struct gs_error *parse_flag(const struct gs_command *command, int argc, char **argv, int *i,
                                   void *opts, struct gs_common_opts *common)
{
    const char *written = argv[*i];
    const char *name = written + (written[1] == '-' ? 2 : 1);
    const char *equals = strchr(name, '=');
    struct gs_slice key = gs_slice_make(name, equals ? (size_t)(equals - name) : strlen(name));
    void *base;
    const struct gs_opt *o = find_opt(command, key, opts, common, &base);
    bool negated = !o && !equals && strncmp(name, "no-", 3) == 0;
    if (negated)
        o = find_opt(command, gs_slice_of(name + 3), opts, common, &base);
    if (!o || (negated && o->type != GS_OPT_BOOL && o->type != GS_OPT_SWITCH))
        return unknown_flag(command, written, key);
    const char *value = equals ? equals + 1 : negated ? "false" : NULL;
    if (!value && (o->type == GS_OPT_BOOL || o->type == GS_OPT_SWITCH))
        value = "true";
    if (!value && o->implied && (*i + 1 == argc || argv[*i + 1][0] == '-'))
        value = o->implied;
    if (!value && ++*i < argc)
        value = argv[*i];
    if (!value)
        return gs_error_new(GS_EINVAL, "--%s needs a value: %s", o->name,
                            o->arg ? o->arg : "VALUE");
    struct gs_error *err = set_value(o, base, value);
    return err ? gs_error_wrap(err, "--%s", o->name) : NULL;
}

char *gs_command_title(const struct gs_command *command)
{
    return command->within ? gs_format("%s %s", command->within, command->name)
                           : gs_strdup(command->name);
}

static struct gs_error *check_arg_count(const struct gs_command *command, int n)
{
    GS_AUTO_FREE char *title = gs_command_title(command);
    if (n < command->min_args)
        return gs_error_new(GS_EINVAL, "%s: too few arguments; usage: gpuscale %s %s", title, title,
                            command->args ? command->args : "");
    if (command->max_args >= 0 && n > command->max_args)
        return gs_error_new(GS_EINVAL, "%s: too many arguments; usage: gpuscale %s %s", title,
                            title, command->args ? command->args : "[FLAGS]");
    return NULL;
}

struct gs_error *gs_options_parse(const struct gs_command *command, int argc, char **argv,
                                  void *ret_opts, struct gs_common_opts *ret_common, int *ret_argc)
{
    memset(ret_opts, 0, command->opts_size);
    memset(ret_common, 0, sizeof(*ret_common));
    struct gs_error *err = apply_defaults(gs_options_common, ret_common);
    if (!err)
        err = apply_defaults(command->opts, ret_opts);
    int n = 0;
    bool flags_end = false;
    for (int i = 0; i < argc && !err; i++) {
        if (flags_end || argv[i][0] != '-' || argv[i][1] == '\0')
            argv[n++] = argv[i];
        else if (gs_streq(argv[i], "--"))
            flags_end = true;
        else if (!skip_flag(command, argc, argv, &i))
            err = parse_flag(command, argc, argv, &i, ret_opts, ret_common);
    }
    ret_common->help = ret_common->help || ret_common->help_all;
    if (!err && !ret_common->help && !ret_common->version)
        err = check_arg_count(command, n);
    if (err)
        return err;
    *ret_argc = n;
    return NULL;
}

void gs_options_finish(const struct gs_command *command, void *opts)
{
    for (const struct gs_opt *o = command->opts; o && o->name; o++) {
        if (o->type == GS_OPT_STRINGS)
            free(((struct gs_opt_list *)(void *)((char *)opts + o->offset))->items);
    }
}

static void print_wrapped(FILE *out, const char *text, int indent)
{
    int column = 0;
    while (*text) {
        if (*text == '\n') {
            fputc('\n', out);
            column = 0;
            text++;
            continue;
        }
        size_t word = strcspn(text, " \n");
        if (column && column + 1 + (int)word > HELP_WIDTH) {
            fputc('\n', out);
            column = 0;
        }
        column += column ? fprintf(out, " %.*s", (int)word, text)
                         : fprintf(out, "%*s%.*s", indent, "", (int)word, text);
        text += word;
        while (*text == ' ')
            text++;
    }
    fputc('\n', out);
}

// --env[=VALUE]: the value may be left out.
static void print_opt(FILE *out, const struct gs_opt *o)
{
    fprintf(out, "  --%s", o->name);
    if (o->arg)
        fprintf(out, o->implied ? "[=%s]" : "=%s", o->arg);
    if (o->alias)
        fprintf(out, ", -%s%s", o->alias[1] ? "-" : "", o->alias);
    if (o->def && *o->def)
        fprintf(out, "  (default %s)", o->def);
    if (o->env)
        fprintf(out, "  [%s]", o->env);
    fputc('\n', out);
    print_wrapped(out, o->help, HELP_INDENT);
}

bool gs_options_is_main(const struct gs_command *command, const struct gs_opt *flag)
{
    struct gs_slice rest = gs_slice_of(command->main_flags ? command->main_flags : flag->name);
    while (rest.data)
        if (gs_slice_eq_str(gs_slice_cut(&rest, ' '), flag->name))
            return true;
    return false;
}

static void print_group(FILE *out, const struct gs_command *command, const char *group, bool all)
{
    bool headed = false;
    for (const struct gs_opt *o = command->opts; o && o->name; o++) {
        const char *own = o->group ? o->group : "Flags";
        if (!gs_streq(own, group) || (!all && !gs_options_is_main(command, o)))
            continue;
        if (!headed)
            fprintf(out, "\n%s:\n", group);
        headed = true;
        print_opt(out, o);
    }
}

static void print_flags(FILE *out, const struct gs_command *command, bool all)
{
    print_group(out, command, "Flags", all);
    for (const struct gs_opt *o = command->opts; o && o->name; o++) {
        bool first = o->group != NULL;
        for (const struct gs_opt *p = command->opts; first && p < o; p++)
            first = !gs_streq(p->group, o->group);
        if (first)
            print_group(out, command, o->group, all);
    }
}

static size_t count_other_flags(const struct gs_command *command)
{
    size_t n = 0;
    for (const struct gs_opt *o = command->opts; o && o->name; o++)
        n += !gs_options_is_main(command, o);
    return n;
}

void gs_options_print_help(const struct gs_command *command, const char *program, bool all,
                           FILE *out)
{
    GS_AUTO_FREE char *title = gs_command_title(command);
    fprintf(out, "%s %s: %s\n\nUsage: %s %s [FLAGS]%s%s\n", program, title, command->summary,
            program, title, command->args ? " " : "", command->args ? command->args : "");
    if (command->description) {
        fputc('\n', out);
        print_wrapped(out, command->description, 0);
    }
    size_t others = all ? 0 : count_other_flags(command);
    print_flags(out, command, !others);
    if (others) {
        fprintf(out, "\n%s %s --help-all lists %zu more flags.\n", program, title, others);
    } else {
        fprintf(out, "\nFlags of every command:\n");
        for (const struct gs_opt *o = gs_options_common; o->name; o++)
            print_opt(out, o);
    }
    if (command->examples)
        fprintf(out, "\nExamples:\n%s\n", command->examples);
    if (command->print_more)
        command->print_more(out);
}

void gs_options_print_commands(const struct gs_command_group *groups, const char *program,
                               FILE *out)
{
    fprintf(out, "Usage: %s COMMAND [FLAGS] [ARGUMENTS]\n", program);
    for (; groups->heading; groups++) {
        if (*groups->commands)
            fprintf(out, "\n%s:\n", groups->heading);
        for (const struct gs_command *const *c = groups->commands; *c; c++)
            fprintf(out, "  %-13s  %s\n", (*c)->name, (*c)->summary);
    }
    fprintf(out,
            "\n%s COMMAND --help describes a command and its main flags, --help-all all flags.\n",
            program);
}

enum { MAX_WORD = 64, MIN_PART = 4 };

// The letters of a word in lower case, without separators: "target_label" and "targetLabel" are the
// same word. Returns the length; longer words have MAX_WORD.
static size_t plain_word(const char *word, char out[MAX_WORD])
{
    size_t n = 0;
    for (; *word && n < MAX_WORD; word++) {
        bool upper = *word >= 'A' && *word <= 'Z';
        if (*word != '_' && *word != '-')
            out[n++] = (char)(*word + (upper ? 'a' - 'A' : 0));
    }
    return n;
}

// Levenshtein distance, capped word length.
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t row[MAX_WORD];
    if (na >= MAX_WORD || nb >= MAX_WORD)
        return SIZE_MAX;
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[nb];
}

// Whether the longer word begins or ends with the other one: "expression" and "expr".
static bool is_part(const char *a, size_t na, const char *b, size_t nb)
{
    if (na > nb)
        return is_part(b, nb, a, na);
    return na >= MIN_PART && nb < MAX_WORD &&
           (memcmp(a, b, na) == 0 || memcmp(a, b + nb - na, na) == 0);
}

const char *gs_suggest(const char *word, const char *const *candidates, size_t n)
{
    char a[MAX_WORD], b[MAX_WORD];
    const char *best = NULL, *part = NULL;
    size_t na = plain_word(word, a);
    size_t best_distance = na / 3 + 2; // about one slip in three letters
    for (size_t i = 0; i < n; i++) {
        size_t nb = plain_word(candidates[i], b), d = edit_distance(a, na, b, nb);
        if (d < best_distance) {
            best_distance = d;
            best = candidates[i];
        }
        if (is_part(a, na, b, nb))
            part = candidates[i];
    }
    return part && best_distance >= 2 ? part : best; // a slip of one letter is the better guess
}
