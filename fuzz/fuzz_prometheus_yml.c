// SPDX-License-Identifier: Apache-2.0
#include "engine/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Also uses the result: expressions and templates are from the same input.
static void relabel(const struct engine_config_relabels *rules)
{
    struct engine_config_label_builder b = {0};
    engine_config_labels_set(&b, GS_SLICE("__address__"), GS_SLICE("h:9400"));
    engine_config_labels_set(&b, GS_SLICE("job"), GS_SLICE("gpu"));
    (void)engine_config_relabel(rules, &b);
    engine_config_labels_finish(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct engine_config *c;
    struct gs_error *err = engine_config_parse(gs_slice_make(data, size), "input", "/etc/p", &c);
    gs_error_free(err);
    if (err)
        return 0;
    for (size_t i = 0; i < c->n_scrapes; i++) {
        relabel(&c->scrapes[i].relabel);
        relabel(&c->scrapes[i].metric_relabel);
    }
    engine_config_free(c);
    return 0;
}
