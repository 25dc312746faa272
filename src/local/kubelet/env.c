// SPDX-License-Identifier: Apache-2.0
// Variables are found by a hash of their name, because a manifest can have tens of thousands of
// them and as many references.
#include "local/kubelet/env.h"

#include "base/buf.h"
#include "base/mem.h"

void kubelet_words_add(struct kubelet_words *w, const char *word)
{
    // Always keeps space for the final NULL.
    gs_grow(&w->items, &w->cap, w->len + 1, sizeof(*w->items));
    w->items[w->len++] = gs_strdup(word);
    w->items[w->len] = NULL;
}

void kubelet_words_finish(struct kubelet_words *w)
{
    for (size_t i = 0; i < w->len; i++)
        free(w->items[i]);
    free(w->items);
    *w = (struct kubelet_words){0};
}

void kubelet_env_finish(struct kubelet_env *env)
{
    kubelet_words_finish(&env->words);
    gs_hmap_free(env->places);
    gs_error_free(env->error);
    *env = (struct kubelet_env){0};
}

// What the kernel counts for a word.
static size_t cost(size_t len)
{
    return len + 1 + sizeof(char *);
}

// 0: not set. Otherwise 1 + the index of its entry.
static size_t find_variable(const struct kubelet_env *env, struct gs_slice name)
{
    return env->places ? (size_t)(uintptr_t)gs_hmap_get(env->places, name) : 0;
}

static struct gs_error *check_limits(const char *name, size_t len, size_t bytes)
{
    if (len >= KUBELET_MAX_WORD)
        return gs_error_new(GS_ELIMIT, "environment variable %.100s has %zu bytes: the limit is %d",
                            name, len, KUBELET_MAX_WORD - 1);
    if (bytes > KUBELET_MAX_WORDS)
        return gs_error_new(GS_ELIMIT,
                            "environment variable %.100s: the environment would have more than %d "
                            "bytes, and no program can be started with more",
                            name, KUBELET_MAX_WORDS);
    return NULL;
}

void kubelet_env_set(struct kubelet_env *env, const char *name, const char *value)
{
    if (env->error)
        return;
    size_t len = strlen(name) + 1 + strlen(value);
    size_t place = find_variable(env, gs_slice_of(name));
    char **old = place ? &env->words.items[place - 1] : NULL;
    size_t bytes = env->bytes + cost(len) - (old ? cost(strlen(*old)) : 0);
    env->error = check_limits(name, len, bytes);
    if (env->error)
        return;
    env->bytes = bytes;
    GS_AUTO_FREE char *entry = gs_format("%s=%s", name, value);
    if (old) {
        free(*old);
        *old = GS_TAKE(entry);
        return;
    }
    kubelet_words_add(&env->words, entry);
    if (!env->places)
        env->places = gs_hmap_new(NULL);
    gs_hmap_put_str(env->places, name, (void *)(uintptr_t)env->words.len);
}

struct gs_error *kubelet_env_take_error(struct kubelet_env *env)
{
    struct gs_error *err = env->error;
    env->error = NULL;
    return err;
}

// The value of a name that is set.
static const char *value_at(const struct kubelet_env *env, size_t place, size_t name_len)
{
    return env->words.items[place - 1] + name_len + 1;
}

const char *kubelet_env_get(const struct kubelet_env *env, const char *name)
{
    size_t place = find_variable(env, gs_slice_of(name));
    return place ? value_at(env, place, strlen(name)) : NULL;
}

// Finds the next '$' of a text and what it begins. *ret_name: the NAME of "$(NAME)"; its data is
// NULL if the '$' begins no reference. last: the last ')' of the text, so that a text with many
// "$(" and no ')' is not searched again and again. NULL: the text has no further '$'.
static const char *next_dollar(const char *text, const char *last, struct gs_slice *ret_name)
{
    const char *dollar = strchr(text, '$');
    *ret_name = gs_slice_make(NULL, 0);
    if (dollar && dollar[1] == '(' && last && dollar < last) {
        const char *end = strchr(dollar, ')');
        *ret_name = gs_slice_make(dollar + 2, (size_t)(end - dollar - 2));
    }
    return dollar;
}

// Appends the value of a reference, or its text if the variable is not set.
static void add_reference(const struct kubelet_env *env, struct gs_slice name, struct gs_buf *out)
{
    size_t place = find_variable(env, name);
    if (place)
        gs_buf_add_str(out, value_at(env, place, name.len));
    else
        gs_buf_add(out, name.data - 2, name.len + 3);
}

// missing: where the first variable that is not set is stored. NULL: such references stay.
static struct gs_error *expand(const struct kubelet_env *env, const char *text,
                               struct gs_slice *missing, char **ret)
{
    GS_AUTO_BUF struct gs_buf out = {.limit = KUBELET_MAX_WORD - 1};
    const char *last = strrchr(text, ')'), *at = text, *dollar;
    struct gs_slice name;
    while (!out.overflow && (dollar = next_dollar(at, last, &name))) {
        gs_buf_add(&out, at, (size_t)(dollar - at));
        at = name.data ? name.data + name.len + 1 : dollar + 1 + (dollar[1] == '$');
        if (!name.data)
            gs_buf_add_char(&out, '$');
        else if (missing && !missing->data && !find_variable(env, name))
            *missing = name;
        else
            add_reference(env, name, &out);
    }
    gs_buf_add_str(&out, at);
    if (out.overflow)
        return gs_error_new(GS_ELIMIT,
                            "\"%.100s%s\" has more than %d bytes when its variables are expanded",
                            text, strlen(text) > 100 ? "…" : "", KUBELET_MAX_WORD - 1);
    *ret = gs_buf_take(&out);
    return NULL;
}

struct gs_error *kubelet_env_expand(const struct kubelet_env *env, const char *text, char **ret)
{
    return expand(env, text, NULL, ret);
}

struct gs_error *kubelet_env_expand_strictly(const struct kubelet_env *env, const char *text,
                                             char **ret)
{
    struct gs_slice missing = {0};
    GS_AUTO_FREE char *expanded = NULL;
    struct gs_error *err = expand(env, text, &missing, &expanded);
    if (!err && missing.data)
        return gs_error_new(GS_ENOTFOUND, "missing value for \"%.*s\"",
                            (int)(missing.len < 100 ? missing.len : 100), missing.data);
    if (!err)
        *ret = GS_TAKE(expanded);
    return err;
}

struct gs_error *kubelet_env_expand_words(const struct kubelet_env *env,
                                          const struct kubelet_words *words,
                                          struct kubelet_words *ret)
{
    size_t bytes = 0;
    for (size_t i = 0; i < words->len; i++) {
        GS_AUTO_FREE char *word = NULL;
        struct gs_error *err = kubelet_env_expand(env, words->items[i], &word);
        if (err)
            return gs_error_wrap(err, "word %zu of the command", i + 1);
        bytes += cost(strlen(word));
        if (bytes > KUBELET_MAX_WORDS)
            return gs_error_new(GS_ELIMIT,
                                "the command has more than %d bytes: a program cannot be started "
                                "with more",
                                KUBELET_MAX_WORDS);
        kubelet_words_add(ret, word);
    }
    return NULL;
}
