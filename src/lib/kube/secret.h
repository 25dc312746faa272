// SPDX-License-Identifier: Apache-2.0
// The values of a Secret as plain text. They can hold any bytes: these functions are for values
// that are text, such as certificates and passwords.
#pragma once

#include "kube/object.h"

// The value of data.KEY up to the first NUL byte; NULL: absent, or not base64. Caller frees.
char *kube_secret_text(const json_t *secret, const char *key);
void kube_secret_set_text(json_t *secret, const char *key, const char *text);
