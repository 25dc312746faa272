// SPDX-License-Identifier: Apache-2.0
// Private to the module. Each find function returns false if its cause does not apply, and fills
// the diagnosis otherwise.
#pragma once

#include "diagnosis/diagnosis.h"

#include "base/buf.h"
#include "base/slice.h"

#define DIAGNOSIS_MAX_TEXT 400 // bytes of a message of others in a text

// --- diagnosis.c ---

const char *diagnosis_str(const char *s); // "" for NULL
// The start of a message of another program, without line breaks; caller frees.
char *diagnosis_excerpt(const char *message) GS_MUST_USE;
// "web-0", or "web-0 -n shop" outside of kubectl's default namespace; caller frees.
char *diagnosis_pod_name(const struct diagnosis_input *in) GS_MUST_USE;
char *diagnosis_describe_command(const struct diagnosis_input *in) GS_MUST_USE;
// The newest event of the pod with this reason and message prefix that is not older than the given
// time; NULL: no such event.
const json_t *diagnosis_event(const struct diagnosis_input *in, const char *reason,
                              const char *begins, int64_t since_ms);
bool diagnosis_is_embedded(const struct diagnosis_input *in); // the cluster of gpuscale up
// Text and remedy about an object that a message calls not found; false: the message is about
// something else.
bool diagnosis_find_missing(const struct diagnosis_input *in, const char *reason,
                            const char *message, struct diagnosis *d);

// Fills d, whose identity is the text. Takes text and remedy.
void diagnosis_set(struct diagnosis *d, enum diagnosis_cause cause, const char *reason, char *text,
                   char *remedy);

// --- places.c: nodes and machines of pools; requests: nodes_pod_requests() ---

// No place could take the pod if it were empty, for lack of a resource, of size, of a label or of a
// toleration. False also if nodes are not known.
bool diagnosis_find_in_places(const struct diagnosis_input *in, const json_t *requests,
                              struct diagnosis *d);
// The names of resources that nothing offers; ret_first: the one that decides on the advice, which
// is not nvidia.com/gpu if there is another. Returns how many.
size_t diagnosis_unknown_resources(const struct diagnosis_input *in, const json_t *requests,
                                   struct gs_buf *names, const char **ret_first);
// The first pool that could take the pod and is at its maximum; NULL: none.
const json_t *diagnosis_full_pool(const struct diagnosis_input *in, const json_t *requests);

// --- containers.c, scheduling.c ---

bool diagnosis_find_in_containers(const struct diagnosis_input *in, struct diagnosis *d);
bool diagnosis_find_unscheduled(const struct diagnosis_input *in, struct diagnosis *d);
