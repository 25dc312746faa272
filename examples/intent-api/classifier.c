// SPDX-License-Identifier: Apache-2.0
#include "classifier.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "intents.h"

#include <ctype.h>
#include <math.h>

#define MAX_TEXT ((size_t)512)
#define EPOCHS   60
#define RATE     0.5f

struct classifier {
    float *weights;
};

static void add_feature(float *out, char kind, const char *text, size_t len)
{
    char key[64];
    if (len > sizeof(key) - 1)
        len = sizeof(key) - 1;
    key[0] = kind;
    memcpy(key + 1, text, len);
    out[gs_hash(key, len + 1) % CLASSIFIER_FEATURES] += 1.0f;
}

// Lower case, every run of other characters one blank, a blank at both ends.
static size_t normalise(const char *text, char *out)
{
    size_t n = 0;
    out[n++] = ' ';
    for (size_t i = 0; text[i] && n < MAX_TEXT - 2; i++) {
        unsigned char c = (unsigned char)text[i];
        if (isalnum(c) || c >= 0x80)
            out[n++] = (char)tolower(c);
        else if (out[n - 1] != ' ')
            out[n++] = ' ';
    }
    if (out[n - 1] != ' ')
        out[n++] = ' ';
    out[n] = '\0';
    return n;
}

static void add_words(float *out, const char *s, size_t n)
{
    size_t previous = 0, start = 1;
    for (size_t i = 1; i < n; i++) {
        if (s[i] != ' ')
            continue;
        add_feature(out, 'w', s + start, i - start);
        if (previous)
            add_feature(out, 'p', s + previous, i - previous);
        previous = start;
        start = i + 1;
    }
}

void classifier_features(const char *text, float *out)
{
    char s[MAX_TEXT];
    size_t n = normalise(text, s);
    memset(out, 0, CLASSIFIER_FEATURES * sizeof(*out));
    add_words(out, s, n);
    for (size_t i = 0; i + 3 <= n; i++)
        add_feature(out, 't', s + i, 3);
    float square = 0;
    for (size_t i = 0; i < CLASSIFIER_FEATURES; i++)
        square += out[i] * out[i];
    for (size_t i = 0; square > 0 && i < CLASSIFIER_FEATURES; i++)
        out[i] /= sqrtf(square);
}

void classifier_scores(const struct classifier *c, const float *features, float *ret_scores)
{
    for (size_t r = 0; r < n_intents; r++) {
        const float *row = c->weights + r * CLASSIFIER_FEATURES;
        float sum = 0;
        for (size_t i = 0; i < CLASSIFIER_FEATURES; i++)
            sum += row[i] * features[i];
        ret_scores[r] = sum;
    }
}

size_t classifier_best(const float *scores)
{
    size_t best = 0;
    for (size_t r = 1; r < n_intents; r++)
        if (scores[r] > scores[best])
            best = r;
    return best;
}

static void softmax(float *scores)
{
    float top = scores[classifier_best(scores)], sum = 0;
    for (size_t r = 0; r < n_intents; r++)
        sum += scores[r] = expf(scores[r] - top);
    for (size_t r = 0; r < n_intents; r++)
        scores[r] /= sum;
}

// The places of a phrase's features that are not zero: a few dozen of the thousands.
struct sparse {
    size_t at[CLASSIFIER_FEATURES];
    size_t len;
};

static void find_nonzero(const float *features, struct sparse *ret)
{
    ret->len = 0;
    for (size_t i = 0; i < CLASSIFIER_FEATURES; i++)
        if (features[i] > 0)
            ret->at[ret->len++] = i;
}

// One step of stochastic gradient descent on the cross entropy of one phrase.
static void learn(struct classifier *c, const float *features, const struct sparse *nonzero,
                  size_t truth, float *scores)
{
    for (size_t r = 0; r < n_intents; r++) {
        const float *row = c->weights + r * CLASSIFIER_FEATURES;
        scores[r] = 0;
        for (size_t i = 0; i < nonzero->len; i++)
            scores[r] += row[nonzero->at[i]] * features[nonzero->at[i]];
    }
    softmax(scores);
    scores[truth] -= 1.0f;
    for (size_t r = 0; r < n_intents; r++) {
        float *row = c->weights + r * CLASSIFIER_FEATURES;
        for (size_t i = 0; i < nonzero->len; i++)
            row[nonzero->at[i]] -= RATE * scores[r] * features[nonzero->at[i]];
    }
}

struct classifier *classifier_new(void)
{
    struct classifier *c = gs_alloc(sizeof(*c));
    c->weights = gs_alloc_array(n_intents * CLASSIFIER_FEATURES, sizeof(float));
    GS_AUTO_FREE float *features = gs_alloc_array(CLASSIFIER_FEATURES, sizeof(float));
    GS_AUTO_FREE float *scores = gs_alloc_array(n_intents, sizeof(float));
    GS_AUTO_FREE struct sparse *nonzero = gs_alloc(sizeof(*nonzero));
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (size_t k = 0; k < n_intents; k++) {
            for (const char *const *p = intents[k].phrases; *p; p++) {
                classifier_features(*p, features);
                find_nonzero(features, nonzero);
                learn(c, features, nonzero, k, scores);
            }
        }
    }
    return c;
}

void classifier_free(struct classifier *c)
{
    if (!c)
        return;
    free(c->weights);
    free(c);
}

const float *classifier_weights(const struct classifier *c)
{
    return c->weights;
}
