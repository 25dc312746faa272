// SPDX-License-Identifier: Apache-2.0
// Keeps what the controller has learned in a file, or in a ConfigMap of the cluster: reads it
// before the controller starts, and writes it again regularly and at the end. A failure never stops
// the controller: it is logged, the controller starts, and nothing is written until it was read and
// merged with what was learned until then. All functions are called on the thread
// of the loop.
#pragma once

#include "hpa_controller/controller.h"

struct hpa_learned_store;

struct hpa_learned_store_config {
    uv_loop_t *loop;
    struct hpa_controller *controller; // borrowed, outlives the store
    const char *path;                  // of the file; NULL: a ConfigMap
    struct kube_client *client;        // of the ConfigMap
    const char *ns, *name;             // of the ConfigMap; created if it is absent
    int64_t retry_ms; // until a failed read is repeated, then twice as long; 0: two seconds
};

// Reads, and calls loaded(arg) once, for a file at once. Texts are borrowed. Nothing is written
// before hpa_learned_store_new() has called back.
struct hpa_learned_store *hpa_learned_store_new(const struct hpa_learned_store_config *cfg,
                                                void (*loaded)(void *arg), void *arg);
// Writes a last time, and calls saved(arg) once, after at most two seconds. May call back at once.
void hpa_learned_store_end(struct hpa_learned_store *s, void (*saved)(void *arg), void *arg);
// Writes nothing more. NULL is fine.
void hpa_learned_store_free(struct hpa_learned_store *s);

// The document as it is written: gzip of the text, of at most `most` bytes. Forecasts, and then the
// starts of pods, are left out if it is larger. GS_ELIMIT: it is still larger.
struct gs_error *hpa_learned_pack(json_t *document, size_t most, struct gs_buf *ret);
// Limits the text to 16 MiB.
struct gs_error *hpa_learned_unpack(struct gs_slice packed, json_t **ret);
