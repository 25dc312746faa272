// SPDX-License-Identifier: Apache-2.0
// `gpuscale up --env`: the environment of a running cluster as commands of the user's shell.
#include "up/up_private.h"

#include "base/mem.h"
#include "base/shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const shells[] = {UP_ENV_OF_SHELL, "sh", "bash", "zsh", "fish"};

bool up_env_is_variable(const char *item)
{
    const char *equals = strchr(item, '=');
    return equals && equals != item;
}

const char *up_env_shell(const struct up_options *o)
{
    for (size_t i = 0; i < o->env.len; i++)
        for (size_t k = 0; k < GS_ARRAY_LEN(shells); k++)
            if (gs_streq(o->env.items[i], shells[k]))
                return shells[k];
    return NULL;
}

static bool is_fish(const char *shell)
{
    const char *path = getenv("SHELL"), *slash = path ? strrchr(path, '/') : NULL;
    if (!gs_streq(shell, UP_ENV_OF_SHELL))
        return gs_streq(shell, "fish");
    return gs_streq(slash ? slash + 1 : path, "fish");
}

// A word in single quotes is the same for fish, except for backslashes.
static char *word(const char *text, bool fish)
{
    if (!fish || !strpbrk(text, "\\'"))
        return gs_shell_word(text);
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_buf_add_char(&out, '\'');
    for (; *text; text++) {
        if (*text == '\\' || *text == '\'')
            gs_buf_add_char(&out, '\\');
        gs_buf_add_char(&out, *text);
    }
    gs_buf_add_char(&out, '\'');
    return gs_buf_take(&out);
}

// A second evaluation does not add the folder again.
static bool in_path(const char *dir)
{
    struct gs_slice rest = gs_slice_of(getenv("PATH"));
    while (rest.data)
        if (gs_slice_eq_str(gs_slice_cut(&rest, ':'), dir))
            return true;
    return false;
}

void up_env_print(const char *dir, const char *shell, const char *data_dir_option)
{
    bool fish = is_fish(shell);
    GS_AUTO_FREE char *bin = gs_format("%s/bin", dir),
                      *kubeconfig = gs_format("%s/kubeconfig", dir);
    GS_AUTO_FREE char *bin_word = word(bin, fish), *kubeconfig_word = word(kubeconfig, fish);
    GS_AUTO_FREE char *option = data_dir_option ? word(dir, fish) : NULL;
    printf(fish ? "set -gx KUBECONFIG %s;\n" : "export KUBECONFIG=%s\n", kubeconfig_word);
    if (!in_path(bin))
        printf(fish ? "set -gx PATH %s $PATH;\n" : "export PATH=%s:\"$PATH\"\n", bin_word);
    printf(fish ? "# gpuscale up --env%s%s | source\n" : "# eval \"$(gpuscale up --env%s%s)\"\n",
           option ? " --data-dir " : "", option ? option : "");
    (void)fflush(stdout);
}
