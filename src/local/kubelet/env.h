// SPDX-License-Identifier: Apache-2.0
// Lists of words, and the environment of a container with its expansion of $(NAME). A pod chooses
// their contents, so both have the limits of execve(2): a text of a manifest that refers to others
// can be a million times longer than it is written.
#pragma once

#include "base/error.h"
#include "base/hmap.h"

#include <stddef.h>

enum {
    // The kernel's MAX_ARG_STRLEN for one argument or one "NAME=value", with its NUL.
    KUBELET_MAX_WORD = 128 * 1024,
    // All words of an environment or of a command, with a pointer for each. The kernel gives a
    // quarter of the stack (usually 2 MiB) to both together, and refuses more at the start.
    KUBELET_MAX_WORDS = 2 * 1024 * 1024,
};

// NULL-terminated list of owned strings.
struct kubelet_words {
    char **items;
    size_t len, cap;
};
void kubelet_words_add(struct kubelet_words *w, const char *word); // copies
void kubelet_words_finish(struct kubelet_words *w);

// "NAME=value" entries, found by name. Zero-initialized: empty.
struct kubelet_env {
    struct kubelet_words words;
    struct gs_hmap *places; // NAME -> 1 + its index in words; NULL while empty
    size_t bytes;           // of the words, with their NULs and pointers
    struct gs_error *error; // GS_ELIMIT: the first variable that exceeded a limit
};
void kubelet_env_finish(struct kubelet_env *env);
// Sets a variable; one that is set already is replaced in its place. A variable that exceeds one of
// the limits is not set, nor are those after it: callers check for the error once at the end.
void kubelet_env_set(struct kubelet_env *env, const char *name, const char *value);
struct gs_error *kubelet_env_take_error(struct kubelet_env *env);             // NULL: all were set
const char *kubelet_env_get(const struct kubelet_env *env, const char *name); // NULL: not set

// $(NAME) becomes its value and $$ becomes $. Everything else is unchanged (also $(UNKNOWN)).
// GS_ELIMIT: the result has KUBELET_MAX_WORD bytes or more. Caller frees *ret.
// Source: Kubernetes' third_party/forked/golang/expansion as the API documents it.
struct gs_error *kubelet_env_expand(const struct kubelet_env *env, const char *text, char **ret);
// The same, and fails if a variable is not set.
struct gs_error *kubelet_env_expand_strictly(const struct kubelet_env *env, const char *text,
                                             char **ret);
// Expands each word and appends it to ret. GS_ELIMIT: one of them or all together exceed the limit.
struct gs_error *kubelet_env_expand_words(const struct kubelet_env *env,
                                          const struct kubelet_words *words,
                                          struct kubelet_words *ret);
