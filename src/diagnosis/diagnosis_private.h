// SPDX-License-Identifier: Apache-2.0
// Private to the module. Each find function returns false if its cause does not apply, and fills
// the diagnosis otherwise.
#pragma once

#include "diagnosis/diagnosis.h"

#include "base/slice.h"

#define DIAGNOSIS_MAX_TEXT 400 // bytes of a message of others in a text

// --- diagnosis.c ---

const char *diagnosis_str(const char *s); // "" for NULL
// The start of a message of another program, without line breaks; caller frees.
char *diagnosis_excerpt(const char *message) GS_MUST_USE;
int64_t diagnosis_time(const json_t *obj, const char *member); // Unix ms; 0: absent
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

// --- containers.c, scheduling.c ---

bool diagnosis_find_in_containers(const struct diagnosis_input *in, struct diagnosis *d);
bool diagnosis_find_unscheduled(const struct diagnosis_input *in, struct diagnosis *d);
