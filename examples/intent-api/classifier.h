// SPDX-License-Identifier: Apache-2.0
// A linear text classifier: hashed words, word pairs and letter triples in, softmax over the
// intents out. It learns from the phrases of intents.h at start-up (some milliseconds).
#pragma once

#include <stddef.h>

#define CLASSIFIER_FEATURES 4096

struct classifier;

struct classifier *classifier_new(void);
void classifier_free(struct classifier *c);
// Row-major weights, n_intents rows of CLASSIFIER_FEATURES: what the GPU holds.
const float *classifier_weights(const struct classifier *c);
// Fills out[CLASSIFIER_FEATURES], of length 1 (or all zero for a text without letters).
void classifier_features(const char *text, float *out);
// The best row given the scores of all rows.
size_t classifier_best(const float *scores);
// weights x features on the CPU.
void classifier_scores(const struct classifier *c, const float *features, float *ret_scores);
