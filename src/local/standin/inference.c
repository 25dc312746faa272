// SPDX-License-Identifier: Apache-2.0
// Containers with images of vLLM and SGLang: the program of this machine runs, if it is installed,
// otherwise `gpuscale sim inference` with the arguments of the container and the release of its
// image. A shell script runs as it is; its PATH has a link with the name of the engine.
#include "base/file.h"
#include "base/mem.h"
#include "inference/dialect.h"
#include "kube/object.h"
#include "local/standin/standin_private.h"

struct engine {
    const char *name, *title;
    const char *module; // of Python
};

static const struct engine vllm = {"vllm", "vLLM", "vllm.entrypoints.openai.api_server"};
static const struct engine sglang = {"sglang", "SGLang", "sglang.launch_server"};

static const char *arg_at(const struct standin_session *s, size_t i)
{
    const char *text = json_string_value(json_array_get(s->args, i));
    return text ? text : "";
}

static void add(json_t *words, const char *word)
{
    json_array_append_new(words, codec_json_strf("%s", word));
}

static bool is_one_of(const char *word, const char *first, const char *second)
{
    return gs_streq(word, first) || gs_streq(word, second);
}

// --- the release ---

// The tag of "registry:5000/vllm/vllm-openai:v0.12.0@sha256:…". "": none.
static char *image_tag(const struct standin_session *s)
{
    const char *image = codec_json_str(s->container, "image", NULL);
    GS_AUTO_FREE char *text = gs_strndup(image ? image : "", strcspn(image ? image : "", "@"));
    const char *slash = strrchr(text, '/');
    const char *colon = strchr(slash ? slash : text, ':');
    return gs_strdup(colon ? colon + 1 : "");
}

// "0.12.0", or NULL: the latest one. A variable of the container has precedence.
static char *release_of(const struct standin_session *s, const struct engine *e)
{
    GS_AUTO_FREE char *tag = image_tag(s);
    struct inference_dialect dialect;
    char text[INFERENCE_RELEASE_SIZE];
    if (*standin_env(s, "GPUSCALE_INFERENCE_RELEASE"))
        return NULL;
    GS_AUTO_ERROR struct gs_error *err = inference_dialect_parse(e->name, tag, &dialect);
    return err ? NULL : gs_strdup(inference_dialect_release(&dialect, text));
}

// --- the command ---

// The number of words before the arguments of the engine: "vllm", "python3 -m MODULE".
static size_t count_program(const struct standin_session *s, const struct engine *e)
{
    const char *word = standin_word(s);
    if (gs_streq(word, e->name))
        return 1;
    if (is_one_of(word, "python", "python3") && gs_streq(arg_at(s, 1), "-m") &&
        gs_streq(arg_at(s, 2), e->module))
        return 3;
    return 0;
}

static json_t *simulated_words(const struct standin_session *s, const struct engine *e)
{
    GS_AUTO_FREE char *release = release_of(s, e);
    json_t *words = json_array();
    add(words, s->server->cfg.self_exe);
    add(words, "sim");
    add(words, "inference");
    json_array_append_new(words, codec_json_strf("--engine=%s", e->name));
    if (release)
        json_array_append_new(words, codec_json_strf("--release=%s", release));
    for (size_t i = count_program(s, e); i < json_array_size(s->args); i++)
        add(words, arg_at(s, i));
    return words;
}

// Replaces "python3 -m MODULE" in a script by the name of the engine.
static char *replace_module(const char *script, const char *python, const struct engine *e)
{
    GS_AUTO_FREE char *call = gs_format("%s -m %s", python, e->module);
    GS_AUTO_BUF struct gs_buf out = {0};
    for (const char *at; (at = strstr(script, call)); script = at + strlen(call)) {
        gs_buf_add(&out, script, (size_t)(at - script));
        gs_buf_add_str(&out, e->name);
    }
    gs_buf_add_str(&out, script);
    return gs_buf_take(&out);
}

static char *script_with_release(const struct standin_session *s, const struct engine *e,
                                 const char *script)
{
    GS_AUTO_FREE char *release = release_of(s, e);
    GS_AUTO_FREE char *first = replace_module(script, "python3", e);
    GS_AUTO_FREE char *second = replace_module(first, "python", e);
    return release ? gs_format("export GPUSCALE_INFERENCE_RELEASE=%s\n%s", release, second)
                   : GS_TAKE(second);
}

static bool is_script(const struct standin_session *s)
{
    const char *word = standin_word(s);
    return is_one_of(word, "sh", "bash") && *arg_at(s, 2) && arg_at(s, 1)[0] == '-';
}

// `sh -c SCRIPT`, also with other flags such as -lc.
static json_t *script_words(const struct standin_session *s, const struct engine *e)
{
    json_t *words = json_array();
    for (size_t i = 0; i < json_array_size(s->args); i++) {
        GS_AUTO_FREE char *script = i == 2 ? script_with_release(s, e, arg_at(s, i)) : NULL;
        add(words, script ? script : arg_at(s, i));
    }
    return words;
}

// --- the start ---

// A command of the container runs as it is. Otherwise the words are arguments of the image's entry
// point, `vllm serve`, which older images have without "serve".
static json_t *installed_words(const struct standin_session *s, const char *program)
{
    json_t *words = json_array();
    if (!json_array_size(json_object_get(s->container, "command"))) {
        add(words, program);
        if (!gs_streq(standin_word(s), "serve"))
            add(words, "serve");
    }
    for (size_t i = 0; i < json_array_size(s->args); i++)
        add(words, arg_at(s, i));
    return words;
}

static void report_simulation(struct standin_session *s, const struct engine *e)
{
    standin_log(s,
                "gpuscale: SIMULATED: %s is not installed on this machine; gpuscale sim inference "
                "runs with this container's arguments (docs/inference-simulator.md)",
                e->title);
    standin_event(s, "Normal", "Simulated",
                  "%s is not installed on this machine: a SIMULATED engine answers in its place "
                  "(docs/inference-simulator.md)",
                  e->title);
}

static void start_engine(struct standin_session *s, const struct engine *e)
{
    GS_AUTO_FREE char *program = gs_find_program(e->name);
    if (program) {
        standin_log(s, "gpuscale: %s of this machine runs: %s", e->title, program);
        standin_exec(s, installed_words(s, program), false);
        return;
    }
    report_simulation(s, e);
    standin_exec(s, is_script(s) ? script_words(s, e) : simulated_words(s, e), false);
}

void standin_vllm_start(struct standin_session *s)
{
    start_engine(s, &vllm);
}

void standin_sglang_start(struct standin_session *s)
{
    start_engine(s, &sglang);
}
