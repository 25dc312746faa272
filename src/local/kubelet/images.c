// SPDX-License-Identifier: Apache-2.0
// There are no container images here: an image is a command of this machine, by --image or by the
// list of built-in substitutes. An exact name wins, then the longest prefix.
#include "local/kubelet/images.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <sys/stat.h>
#include <unistd.h>

struct image {
    char *name; // without the '*'
    bool prefix;
    struct kubelet_words command;
};

struct kubelet_images {
    struct image *items;
    size_t len;
    struct kubelet_words *builtin; // of kubelet_substitute(i); empty: its program is not installed
    size_t n_builtin;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

// Reads one word at *at. false: a quote is not closed.
static bool take_word(const char **at, struct gs_buf *word)
{
    const char *s = *at;
    char quote = 0;
    for (; *s && (quote || !is_blank(*s)); s++) {
        if (quote == 0 && (*s == '\'' || *s == '"'))
            quote = *s;
        else if (quote && *s == quote)
            quote = 0;
        else if (*s == '\\' && s[1] && (quote == 0 || (quote == '"' && strchr("\"\\$`", s[1]))))
            gs_buf_add_char(word, *++s);
        else
            gs_buf_add_char(word, *s);
    }
    *at = s;
    return quote == 0;
}

struct gs_error *kubelet_split_words(const char *text, struct kubelet_words *ret)
{
    struct kubelet_words words = {0};
    for (const char *at = text;;) {
        while (is_blank(*at))
            at++;
        if (!*at)
            break;
        GS_AUTO_BUF struct gs_buf word = {0};
        if (!take_word(&at, &word)) {
            kubelet_words_finish(&words);
            return gs_error_new(GS_EINVAL, "a quote is not closed in: %s", text);
        }
        kubelet_words_add(&words, word.len ? word.data : "");
    }
    *ret = words;
    return NULL;
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *kubelet_find_program(const char *self_exe, const char *name)
{
    // The program lies in bin/ when installed and in <build>/src/cmd in a build folder.
    static const char *const places[] = {"",
                                         "../libexec/gpuscale/",
                                         "../../",
                                         "../../examples/intent-api/",
                                         "../../examples/gpu-load/",
                                         "../../../"};
    if (name[0] == '/')
        return gs_strdup(name);
    const char *slash = strrchr(self_exe, '/');
    for (size_t i = 0; slash && i < GS_ARRAY_LEN(places); i++) {
        GS_AUTO_FREE char *path =
            gs_format("%.*s/%s%s", (int)(slash - self_exe), self_exe, places[i], name);
        if (is_program(path))
            return realpath(path, NULL);
    }
    return strchr(name, '/') && is_program(name) ? realpath(name, NULL) : gs_strdup(name);
}

static struct gs_error *image_init(struct image *image, const char *self_exe,
                                   const struct local_image *from)
{
    struct gs_error *err = kubelet_split_words(from->command, &image->command);
    if (!err && image->command.len == 0)
        err = gs_error_new(GS_EINVAL, "the command is empty");
    if (err)
        return gs_error_wrap(err, "--image %s", from->image);
    size_t len = strlen(from->image);
    image->prefix = len && from->image[len - 1] == '*';
    image->name = gs_strndup(from->image, image->prefix ? len - 1 : len);
    char *program = kubelet_find_program(self_exe, image->command.items[0]);
    if (program) {
        free(image->command.items[0]);
        image->command.items[0] = program;
    }
    return NULL;
}

static bool in_path(const char *name)
{
    GS_AUTO_FREE char *path = gs_find_program(name);
    return path != NULL;
}

static struct gs_error *init_builtin(struct kubelet_images *m, const char *self_exe)
{
    while (kubelet_substitute(m->n_builtin))
        m->n_builtin++;
    m->builtin = gs_alloc_array(m->n_builtin, sizeof(*m->builtin));
    for (size_t i = 0; i < m->n_builtin; i++) {
        struct kubelet_words words = {0};
        struct gs_error *err = kubelet_split_words(kubelet_substitute(i)->command, &words);
        if (err)
            return err;
        gs_assert(words.len > 0 && words.items);
        char *program = gs_streq(words.items[0], "gpuscale")
                            ? gs_strdup(self_exe)
                            : kubelet_find_program(self_exe, words.items[0]);
        free(words.items[0]);
        words.items[0] = program ? program : gs_strdup("");
        if (strchr(words.items[0], '/') || in_path(words.items[0]))
            m->builtin[i] = words;
        else
            kubelet_words_finish(&words);
    }
    return NULL;
}

struct gs_error *kubelet_images_new(const char *self_exe, const struct local_image *images,
                                    size_t n, struct kubelet_images **ret)
{
    struct kubelet_images *m = gs_alloc(sizeof(*m));
    m->items = gs_alloc_array(n ? n : 1, sizeof(*m->items));
    m->len = n;
    struct gs_error *err = NULL;
    for (size_t i = 0; !err && i < n; i++)
        err = image_init(&m->items[i], self_exe, &images[i]);
    if (!err)
        err = init_builtin(m, self_exe);
    if (err) {
        kubelet_images_free(m);
        return err;
    }
    *ret = m;
    return NULL;
}

void kubelet_images_free(struct kubelet_images *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->len; i++) {
        free(m->items[i].name);
        kubelet_words_finish(&m->items[i].command);
    }
    free(m->items);
    for (size_t i = 0; i < m->n_builtin; i++)
        kubelet_words_finish(&m->builtin[i]);
    free(m->builtin);
    free(m);
}

static const struct kubelet_words *find_mapped(const struct kubelet_images *m, const char *image)
{
    const struct image *best = NULL;
    for (size_t i = 0; i < m->len; i++) {
        const struct image *at = &m->items[i];
        if (!at->prefix && gs_streq(at->name, image))
            return &at->command;
        if (at->prefix && gs_starts(image, at->name) &&
            (!best || strlen(at->name) > strlen(best->name)))
            best = at;
    }
    return best ? &best->command : NULL;
}

static const struct kubelet_words *find_builtin(const struct kubelet_images *m, const char *image,
                                                size_t *ret_index)
{
    size_t i = kubelet_substitute_index(image);
    if (i >= m->n_builtin || !m->builtin[i].len)
        return NULL;
    *ret_index = i;
    return &m->builtin[i];
}

const struct kubelet_words *kubelet_images_find(const struct kubelet_images *m, const char *image)
{
    size_t i;
    const struct kubelet_words *mapped = find_mapped(m, image);
    return mapped ? mapped : find_builtin(m, image, &i);
}

const struct kubelet_substitute *kubelet_images_substitute(const struct kubelet_images *m,
                                                           const char *image)
{
    size_t i;
    return !find_mapped(m, image) && find_builtin(m, image, &i) ? kubelet_substitute(i) : NULL;
}

static void link_tool(const char *dir, const char *name, const char *target)
{
    GS_AUTO_FREE char *link = gs_format("%s/%s", dir, name);
    if (!strchr(target, '/'))
        return;
    unlink(link);
    if (symlink(target, link) < 0)
        gs_warn("kubelet", "%s: %m", link);
}

// The program of this machine is not hidden by a simulated one.
static void link_engine(const char *dir, const char *name, const char *self_exe)
{
    GS_AUTO_FREE char *installed = gs_find_program(name);
    GS_AUTO_FREE char *link = gs_format("%s/%s", dir, name);
    if (installed)
        unlink(link);
    else
        link_tool(dir, name, self_exe);
}

struct gs_error *kubelet_images_link_tools(const char *self_exe, const char *dir)
{
    static const char *const loads[] = {"vectorAdd",        "gpu_burn",         "dcgmproftester",
                                        "dcgmproftester10", "dcgmproftester11", "dcgmproftester12",
                                        "dcgmproftester13"};
    GS_AUTO_FREE char *load = kubelet_find_program(self_exe, "gpu-load");
    struct gs_error *err = gs_mkdir_p(dir, 0755);
    if (err)
        return err;
    link_tool(dir, "gpuscale", self_exe);
    link_tool(dir, "nvidia-smi", self_exe);
    link_tool(dir, "dcgm-exporter", self_exe);
    link_engine(dir, "vllm", self_exe);
    link_engine(dir, "sglang", self_exe);
    for (size_t i = 0; load && i < GS_ARRAY_LEN(loads); i++)
        link_tool(dir, loads[i], load);
    return NULL;
}

static void add_json_words(struct kubelet_words *w, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        kubelet_words_add(w, word ? word : "");
    }
}

const struct kubelet_substitute *kubelet_images_substitute_of(const struct kubelet_images *m,
                                                              const json_t *container)
{
    const char *image = codec_json_str(container, "image", NULL);
    const json_t *command = codec_json_get(container, "command", NULL);
    const struct kubelet_substitute *s = kubelet_images_substitute(m, image ? image : "");
    bool own = json_array_size(command) && !kubelet_substitute_replaces(s, container);
    return own && kubelet_substitute_is_standin(s) ? NULL : s;
}

// The command of the image, or of its substitute, comes before the container's `command`.
static bool needs_image(const struct kubelet_substitute *s, const json_t *container)
{
    const json_t *command = codec_json_get(container, "command", NULL);
    if (json_array_size(command))
        return kubelet_substitute_replaces(s, container);
    return !s || !s->cmd_only || !json_array_size(codec_json_get(container, "args", NULL));
}

struct gs_error *kubelet_images_argv(const struct kubelet_images *m, const json_t *container,
                                     struct kubelet_words *ret)
{
    const char *image = codec_json_str(container, "image", NULL);
    const struct kubelet_words *mapped = NULL;
    const struct kubelet_substitute *s = kubelet_images_substitute(m, image ? image : "");
    if (needs_image(s, container)) {
        mapped = kubelet_images_find(m, image ? image : "");
        if (!mapped)
            return gs_error_new(GS_ENOTFOUND,
                                "Failed to pull image \"%s\": no command is mapped to this image "
                                "here; start gpuscale up with --image '%s=COMMAND'",
                                image ? image : "", image ? image : "IMAGE");
    }
    struct kubelet_words argv = {0};
    for (size_t i = 0; mapped && i < mapped->len; i++)
        kubelet_words_add(&argv, mapped->items[i]);
    if (!mapped || !s || !gs_streq(s->programs, "*")) {
        add_json_words(&argv, codec_json_get(container, "command", NULL));
        add_json_words(&argv, codec_json_get(container, "args", NULL));
    }
    *ret = argv;
    return NULL;
}
