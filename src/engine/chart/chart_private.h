// SPDX-License-Identifier: Apache-2.0
// Shared by the files of src/engine/chart only.
#pragma once

#include "codec/yaml_reader.h"
#include "engine/chart/chart.h"

// Reads the values of one document.
struct chart_reader {
    struct codec_reader base;
    struct chart_values *v;
    const json_t *spec;  // prometheusSpec
    json_t *config;      // of this document
    const json_t *typed; // the same document with types, for objects
    bool of_object;      // the values are those of a Prometheus object: no template of Helm
};

// Adds "file:12:3: text" to the mistakes of the values.
void chart_mistake(struct chart_reader *r, const json_t *at, const char *fmt, ...) GS_PRINTF(3, 4);
// Reports values that the chart does not read where they are, and texts instead of booleans.
void chart_check_places(struct chart_reader *r, const json_t *values);
// Whether the chart has this key of prometheusSpec, which is not read here.
bool chart_is_deployment_key(const char *key);
// Whether a key at the top of the document belongs to a branch of the chart's values.
bool chart_has_misplaced(const json_t *doc);
