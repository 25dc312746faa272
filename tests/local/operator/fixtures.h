// SPDX-License-Identifier: Apache-2.0
// The objects of kube-prometheus-stack.yaml, which the real chart rendered.
#pragma once

#include "base/file.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "kube/object.h"

#include <stdlib.h>

static inline struct codec_yaml_docs chart_objects(void)
{
    const char *root = getenv("GPUSCALE_SOURCE_ROOT");
    GS_AUTO_FREE char *path = gs_format("%s/tests/local/operator/kube-prometheus-stack.yaml", root);
    GS_AUTO_BUF struct gs_buf text = {0};
    struct codec_yaml_docs docs = {0};
    assert_ok(gs_file_read(path, (size_t)1 << 20, &text));
    assert_ok(codec_yaml_parse(gs_buf_slice(&text), path, &docs));
    return docs;
}

// The object of this kind with a name that ends like this.
static inline json_t *chart_object(const struct codec_yaml_docs *docs, const char *ns,
                                   const char *kind, const char *end)
{
    for (size_t i = 0; i < docs->len; i++) {
        json_t *obj = docs->items[i].value;
        const char *name = kube_name(obj);
        if (gs_streq(kube_kind(obj), kind) && gs_streq(kube_namespace(obj), ns) &&
            strlen(name) >= strlen(end) && gs_streq(name + strlen(name) - strlen(end), end))
            return obj;
    }
    fail_msg("no %s %s in %s", kind, end, ns);
    return NULL;
}
