// SPDX-License-Identifier: Apache-2.0
// Names of annotations that are similar to those of this program.
#include "kube/annotations.h"

#include "base/mem.h"
#include "base/option.h"
#include "base/slice.h"
#include "codec/json.h"

#define PREFIX    "gpuscale.dev/"
#define MAX_KNOWN 32

// Names without the prefix, in which every word would be similar to every other one.
static const char *similar(const char *name, const char *const *known, size_t n)
{
    const char *words[MAX_KNOWN];
    for (size_t i = 0; i < n; i++) {
        if (gs_streq(name, known[i]))
            return NULL;
        words[i] = known[i] + strlen(PREFIX);
    }
    return gs_suggest(name + strlen(PREFIX), words, n);
}

struct gs_error *kube_check_annotations(const json_t *obj, const char *const *known, size_t n)
{
    const char *name;
    json_t *value;
    json_t *all = codec_json_get(obj, "metadata", "annotations", NULL);
    json_object_foreach (all, name, value) {
        (void)value;
        const char *near =
            gs_starts(name, PREFIX) && n <= MAX_KNOWN ? similar(name, known, n) : NULL;
        if (near)
            return gs_error_new(GS_EINVAL,
                                "annotation %.200s is unknown and has no effect, did you "
                                "mean " PREFIX "%s?",
                                name, near);
    }
    return NULL;
}
