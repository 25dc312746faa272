// SPDX-License-Identifier: Apache-2.0
// Writes the manual pages of the commands: gpuscale-manual DIR COMMAND… writes DIR/gpuscale.1 and
// DIR/gpuscale-COMMAND.1. The build runs it; the names are checked against the commands, so that
// the list of the build is complete.
#include "base/file.h"
#include "base/mem.h"
#include "base/slice.h"
#include "cmd/commands.h"

#include <ctype.h>

// Characters that roff reads as instructions.
static void add_text(struct gs_buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool line_start = out->len == 0 || out->data[out->len - 1] == '\n';
        if (line_start && (text[i] == '.' || text[i] == '\''))
            gs_buf_add_str(out, "\\&");
        if (text[i] == '\\')
            gs_buf_add_str(out, "\\e");
        else if (text[i] == '-')
            gs_buf_add_str(out, "\\-");
        else
            gs_buf_add_char(out, text[i]);
    }
}

static void add_str(struct gs_buf *out, const char *text)
{
    add_text(out, text, strlen(text));
}

static void add_section(struct gs_buf *out, const char *title)
{
    gs_buf_add_str(out, ".SH \"");
    for (const char *c = title; *c; c++)
        gs_buf_add_char(out, (char)toupper((unsigned char)*c));
    gs_buf_add_str(out, "\"\n");
}

static void add_paragraphs(struct gs_buf *out, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        if (len) {
            add_text(out, text, len);
            gs_buf_add_char(out, '\n');
        } else {
            gs_buf_add_str(out, ".PP\n");
        }
        text += len + (text[len] == '\n');
    }
}

static void add_verbatim(struct gs_buf *out, const char *text)
{
    gs_buf_add_str(out, ".nf\n");
    add_str(out, text);
    gs_buf_add_str(out, "\n.fi\n");
}

static void add_flag(struct gs_buf *out, const struct gs_opt *o)
{
    gs_buf_add_str(out, ".TP\n.B ");
    gs_buf_addf(out, "\\-\\-");
    add_str(out, o->name);
    if (o->arg) {
        gs_buf_add_str(out, "=\\fI");
        add_str(out, o->arg);
        gs_buf_add_str(out, "\\fR");
    }
    if (o->alias) {
        gs_buf_addf(out, "\\fR, \\fB\\-%s", o->alias[1] ? "\\-" : "");
        add_str(out, o->alias);
    }
    gs_buf_add_str(out, "\\fR\n");
    add_paragraphs(out, o->help);
    if (o->def && *o->def) {
        gs_buf_add_str(out, "Default: \\fB");
        add_str(out, o->def);
        gs_buf_add_str(out, "\\fR.\n");
    }
    if (o->env) {
        gs_buf_add_str(out, "Environment: \\fB");
        add_str(out, o->env);
        gs_buf_add_str(out, "\\fR.\n");
    }
}

static void add_group(struct gs_buf *out, const struct gs_opt *rows, const char *group)
{
    bool headed = false;
    for (const struct gs_opt *o = rows; o && o->name; o++) {
        if (!gs_streq(o->group ? o->group : "Flags", group))
            continue;
        if (!headed)
            add_section(out, group);
        headed = true;
        add_flag(out, o);
    }
}

static bool is_first_of_group(const struct gs_opt *rows, const struct gs_opt *row)
{
    for (const struct gs_opt *o = rows; o < row; o++)
        if (gs_streq(o->group, row->group))
            return false;
    return row->group != NULL;
}

// The last section of --help: its first line is a heading.
static void add_more(struct gs_buf *out, const struct gs_command *command)
{
    GS_AUTO_FREE char *text = NULL;
    size_t len = 0;
    FILE *memory = open_memstream(&text, &len);
    if (!memory)
        return;
    command->print_more(memory);
    (void)fclose(memory);
    add_section(out, "Notes");
    add_verbatim(out, text + strspn(text, "\n"));
}

static void add_head(struct gs_buf *out, const char *name, const char *summary)
{
    gs_buf_add_str(out,
                   ".\\\" From the tables of the commands: see gpuscale COMMAND --help\n.TH \"");
    add_str(out, name);
    gs_buf_add_str(out, "\" 1 \"\" \"gpuscale " GPUSCALE_VERSION "\" \"gpuscale\"\n");
    add_section(out, "Name");
    add_str(out, name);
    gs_buf_add_str(out, " \\- ");
    size_t len = strlen(summary);
    add_text(out, summary, len - (summary[len - 1] == '.'));
    gs_buf_add_char(out, '\n');
}

static void add_command_page(struct gs_buf *out, const struct gs_command *command)
{
    GS_AUTO_FREE char *name = gs_format("gpuscale-%s", command->name);
    GS_AUTO_FREE char *title = gs_command_title(command);
    add_head(out, name, command->summary);
    add_section(out, "Synopsis");
    gs_buf_addf(out, ".B gpuscale %s\n[\\fIFLAGS\\fR]", title);
    if (command->args) {
        gs_buf_add_char(out, ' ');
        add_str(out, command->args);
    }
    gs_buf_add_char(out, '\n');
    if (command->description) {
        add_section(out, "Description");
        add_paragraphs(out, command->description);
    }
    add_group(out, command->opts, "Flags");
    for (const struct gs_opt *o = command->opts; o && o->name; o++)
        if (is_first_of_group(command->opts, o))
            add_group(out, command->opts, o->group);
    add_section(out, "Flags of every command");
    for (const struct gs_opt *o = gs_options_common; o->name; o++)
        add_flag(out, o);
    if (command->examples) {
        add_section(out, "Examples");
        add_verbatim(out, command->examples);
    }
    if (command->print_more)
        add_more(out, command);
    add_section(out, "Exit status");
    gs_buf_add_str(out, "0: success. 1: an error while it ran. 2: a wrong command line.\n");
    add_section(out, "See also");
    gs_buf_add_str(out, ".BR gpuscale (1),\n.BR gpuscale\\-config (5)\n");
}

static void add_program_page(struct gs_buf *out)
{
    add_head(out, "gpuscale", "scale workloads of Kubernetes by the usage of their GPUs");
    add_section(out, "Synopsis");
    gs_buf_add_str(out, ".B gpuscale\n\\fICOMMAND\\fR [\\fIFLAGS\\fR] [\\fIARGUMENTS\\fR]\n");
    add_section(out, "Description");
    add_paragraphs(out, "One program exports GPU metrics per device, process and pod, stores and "
                        "queries them as Prometheus does, serves them to Kubernetes, and decides "
                        "how many replicas a workload needs. Each part is a command.");
    add_section(out, "Commands");
    for (size_t i = 0; cmd_all[i]; i++) {
        if (!cmd_all[i]->summary)
            continue;
        gs_buf_addf(out, ".TP\n.BR gpuscale\\-%s (1)\n", cmd_all[i]->name);
        add_paragraphs(out, cmd_all[i]->summary);
    }
    add_section(out, "Environment");
    gs_buf_add_str(out, ".TP\n.B KUBECONFIG\nFiles of the cluster's connection, as of kubectl.\n"
                        ".TP\n.B NO_COLOR\nIf set, the output has no colours.\n"
                        ".TP\n.B XDG_DATA_HOME\nParent of the data directory of gpuscale up.\n");
    add_section(out, "See also");
    gs_buf_add_str(out, ".BR gpuscale\\-config (5),\n.BR kubectl (1)\n");
}

static struct gs_error *write_page(const char *folder, const char *name, const struct gs_buf *page)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s.1", folder, name);
    return gs_file_write_atomic(path, 0644, (struct gs_slice){page->data, page->len});
}

static struct gs_error *write_command_page(const char *folder, const char *name)
{
    GS_AUTO_BUF struct gs_buf page = {0};
    GS_AUTO_FREE char *title = gs_format("gpuscale-%s", name);
    const struct gs_command *command = cmd_find(name);
    if (!command || !command->summary)
        return gs_error_new(GS_EINVAL, "there is no command \"%s\"", name);
    add_command_page(&page, command);
    return write_page(folder, title, &page);
}

static struct gs_error *write_pages(const char *folder, int n, char **names)
{
    GS_AUTO_BUF struct gs_buf page = {0};
    int n_commands = 0;
    for (size_t i = 0; cmd_all[i]; i++)
        n_commands += cmd_all[i]->summary != NULL;
    if (n != n_commands)
        return gs_error_new(GS_EINVAL, "%d pages for %d commands: src/cmd/meson.build lists them",
                            n, n_commands);
    for (int i = 0; i < n; i++) {
        struct gs_error *err = write_command_page(folder, names[i]);
        if (err)
            return err;
    }
    add_program_page(&page);
    return write_page(folder, "gpuscale", &page);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "Usage: gpuscale-manual DIR COMMAND…\n");
        return 2;
    }
    GS_AUTO_ERROR struct gs_error *err = write_pages(argv[1], argc - 2, argv + 2);
    if (err)
        fprintf(stderr, "gpuscale-manual: %s\n", gs_error_message(err));
    return err ? 1 : 0;
}
