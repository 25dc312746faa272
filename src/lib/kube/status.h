// SPDX-License-Identifier: Apache-2.0
// metav1.Status bodies with Kubernetes' codes, reasons and texts, as replies on an exchange. Bodies
// are compact, or indented for ?pretty=true and for curl and browsers, as in kube-apiserver.
#pragma once

#include "codec/json.h"
#include "net/http/http.h"

// code, reason ("NotFound"), message; details may be NULL (stolen).
json_t *kube_status_failure(int code, const char *reason, const char *message, json_t *details);
void kube_reply_status(struct http_exchange *x, json_t *status); // steals; HTTP code = status.code
void kube_reply_json(struct http_exchange *x, int code, const json_t *body); // borrowed
// A serialized compact body. It is indented under the conditions of kube_reply_json.
void kube_reply_compact(struct http_exchange *x, int code, struct gs_slice body);
void kube_reply_bytes(struct http_exchange *x, int code, struct http_bytes *body); // never indented
bool kube_wants_pretty(const struct http_exchange *x); // true if replies are indented
void kube_reply_failure(struct http_exchange *x, int code, const char *reason, const char *fmt, ...)
    GS_PRINTF(4, 5);

// resource is "pods" or "deployments.apps".
json_t *kube_status_not_found(const char *resource, const char *name);
json_t *kube_status_already_exists(const char *resource, const char *name);
json_t *kube_status_conflict(const char *resource, const char *name, const char *why);
json_t *kube_status_gone(const char *message); // 410, reason Expired

// Field errors of a validation, reported as one 422 Invalid with causes. Errors beyond the limits
// are only counted in len, because each is compared with all previous ones, and because each may
// repeat a large value of the object or a long list of its schema.
#define KUBE_MAX_FIELD_ERRORS       100
#define KUBE_MAX_FIELD_ERRORS_BYTES (64 * 1024) // the error that exceeds it is still reported
struct kube_field_errors {
    json_t *causes;     // array of {reason, message, field}
    struct gs_buf text; // the different texts, joined by ", "
    size_t len;
    size_t distinct; // texts in `text`
    size_t bytes;    // of the fields and messages in causes
};
// type: FieldValueInvalid, FieldValueRequired, FieldValueNotSupported, FieldValueForbidden, …
// value is printed unchanged for Invalid, NotSupported and Duplicate ("spec.x: Invalid value: V:
// detail"): 3, "text" with its quotes (kube_quote in names.h), {…}. NULL: no value. ": detail" is
// omitted if the detail is empty.
void kube_field_error(struct kube_field_errors *e, const char *type, const char *field,
                      const char *value, const char *fmt, ...) GS_PRINTF(5, 6);
// Whether further errors are only counted: their texts need not be made.
bool kube_field_errors_full(const struct kube_field_errors *e);
void kube_field_errors_finish(struct kube_field_errors *e);
// `HorizontalPodAutoscaler.autoscaling "x" is invalid: spec.a: …` (several: [a, b]). Steals
// nothing.
json_t *kube_status_invalid(const char *kind_dot_group, const char *name,
                            const struct kube_field_errors *e);
