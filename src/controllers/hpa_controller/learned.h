// SPDX-License-Identifier: Apache-2.0
// What the controller has learned, as one JSON document that survives a restart: of each autoscaler
// with a latency target its service, and the starts of pods. Services whose autoscaler has not
// appeared again yet are kept for a week. All functions are called on the thread of the loop.
#pragma once

#include "hpa_controller/latency.h"
#include "hpa_controller/starts.h"

#define HPA_LEARNED_SERVICES "services"
#define HPA_LEARNED_FORECAST "forecast" // of a service: it can be left out
#define HPA_LEARNED_STARTS   "starts"

struct hpa_learned;

struct hpa_learned *hpa_learned_new(void);
void hpa_learned_free(struct hpa_learned *l); // NULL is fine
// Reads a document, before the first autoscaler. GS_EINVAL: it is no such document.
struct gs_error *hpa_learned_read(struct hpa_learned *l, const json_t *document, int64_t now_ms);

// Gives the autoscaler "ns/name" what was learned of its service, once.
void hpa_learned_claim(struct hpa_learned *l, const char *key, struct hpa_latency *latency,
                       int64_t now_ms);
// The starts of the document; borrowed. NULL: none.
const json_t *hpa_learned_starts(const struct hpa_learned *l);

// A new document without services; new reference. The services of at most 400 autoscalers enter it,
// those after the first 100 without their forecasts, so that it is made within a turn of the loop.
json_t *hpa_learned_begin(void);
void hpa_learned_add(json_t *document, const char *key, const struct hpa_latency *latency,
                     int64_t now_ms);
// Adds the starts, and what nobody has claimed.
void hpa_learned_end(json_t *document, const struct hpa_learned *l, const struct hpa_starts *starts,
                     int64_t now_ms);
