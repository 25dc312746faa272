// SPDX-License-Identifier: Apache-2.0
// `gpuscale completion SHELL`: a script that asks `gpuscale __complete` for the candidates.
#include "base/slice.h"
#include "cmd/commands.h"
#include "kube/engine_url.h"

// bash splits a word at '=' and ':' and replaces only the part after them, but candidates are whole
// words, so their common beginning is removed.
static const char bash_script[] =
    "# bash completion of gpuscale. Load it with: source <(gpuscale completion bash)\n"
    "_gpuscale() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT} cur=${COMP_WORDS[COMP_CWORD]}\n"
    "    local word=${line##*[[:space:]]} candidate known\n"
    "    local -a words\n"
    "    read -ra words <<< \"$line\"\n"
    "    [[ $line == *[[:space:]] ]] && words+=('')\n"
    "    case $cur in '='|':') cur= ;; esac\n"
    "    local done=${word%\"$cur\"}\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r candidate; do\n"
    "        case $candidate in\n"
    "        :files) mapfile -t known < <(compgen -f -- \"$cur\"); COMPREPLY+=(\"${known[@]}\")\n"
    "            compopt -o filenames 2>/dev/null ;;\n"
    "        :directories) mapfile -t known < <(compgen -d -- \"$cur\"); "
    "COMPREPLY+=(\"${known[@]}\")\n"
    "            compopt -o filenames 2>/dev/null ;;\n"
    "        *) candidate=${candidate%%$'\\t'*}\n"
    "            [[ $candidate == *= ]] && compopt -o nospace 2>/dev/null\n"
    "            COMPREPLY+=(\"${candidate#\"$done\"}\") ;;\n"
    "        esac\n"
    "    done < <(\"${words[0]/#\\~/$HOME}\" __complete -- \"${words[@]:1}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _gpuscale gpuscale\n";

static const char zsh_script[] =
    "#compdef gpuscale\n"
    "# zsh completion of gpuscale. Load it with: source <(gpuscale completion zsh)\n"
    "_gpuscale() {\n"
    "    local line value\n"
    "    local -a plain open\n"
    "    for line in \"${(@f)$(${(Q)words[1]} __complete -- \"${(@Q)words[2,CURRENT]}\" "
    "2>/dev/null)}\"; do\n"
    "        case $line in\n"
    "        '') ;;\n"
    "        :files) compset -P '*='; _files ;;\n"
    "        :directories) compset -P '*='; _files -/ ;;\n"
    "        *) value=${${line%%$'\\t'*}//:/\\\\:}\n"
    "            [[ $line == *$'\\t'* ]] && value+=\":${line#*$'\\t'}\"\n"
    "            if [[ ${line%%$'\\t'*} == *= ]]; then open+=(\"$value\"); else "
    "plain+=(\"$value\"); fi ;;\n"
    "        esac\n"
    "    done\n"
    "    (( $#plain )) && _describe -V gpuscale plain\n"
    "    (( $#open )) && _describe -V gpuscale open -S ''\n"
    "}\n"
    "if [[ $funcstack[1] == _gpuscale ]]; then _gpuscale; else compdef _gpuscale gpuscale; fi\n";

static const char fish_script[] =
    "# fish completion of gpuscale. Load it with: gpuscale completion fish | source\n"
    "function __gpuscale_complete\n"
    "    set -l words (commandline -opc)\n"
    "    set -l word (commandline -ct)\n"
    "    set -l begin (string match -r -- '^-.*=' $word)\n"
    "    set -l value (string replace -r -- '^-[^=]*=' '' $word)\n"
    "    for line in ($words[1] __complete -- $words[2..-1] \"$word\" 2>/dev/null)\n"
    "        switch $line\n"
    "            case ':files'\n"
    "                for path in (__fish_complete_path \"$value\"); echo \"$begin$path\"; end\n"
    "            case ':directories'\n"
    "                for path in (__fish_complete_directories \"$value\"); echo \"$begin$path\"; "
    "end\n"
    "            case '*'\n"
    "                echo $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c gpuscale -f -a '(__gpuscale_complete)'\n";

static struct gs_error *run_completion(const void *opts, int argc, char **argv, int *ret_exit)
{
    const char *script = gs_streq(argv[0], "bash")   ? bash_script
                         : gs_streq(argv[0], "zsh")  ? zsh_script
                         : gs_streq(argv[0], "fish") ? fish_script
                                                     : NULL;
    (void)opts, (void)argc, (void)ret_exit;
    if (!script)
        return gs_error_new(GS_EINVAL, "unknown shell \"%s\": want bash, zsh or fish", argv[0]);
    (void)fputs(script, stdout);
    return NULL;
}

const struct gs_command cmd_completion = {
    .name = "completion",
    .args = "bash|zsh|fish",
    .summary = "Print a script for the completion of commands and flags by the shell.",
    .description =
        "Commands, flags and their values are completed, and names where they are known: metrics "
        "of the engine (--url of query, GPUSCALE_URL, the kubeconfig, or " KUBE_ENGINE_DEFAULT_URL
        "), autoscalers, pods "
        "and namespaces of the cluster, and models of GPUs. A server that does not answer within "
        "a second is skipped.\n\nmake install and the packages install these scripts.",
    .examples = "source <(gpuscale completion bash)\n"
                "gpuscale completion zsh > \"${fpath[1]}/_gpuscale\"\n"
                "gpuscale completion fish > ~/.config/fish/completions/gpuscale.fish",
    .min_args = 1,
    .max_args = 1,
    .run = run_completion,
};
