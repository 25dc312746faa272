// SPDX-License-Identifier: Apache-2.0
// Removes secrets from texts for logs, errors and pages.
#pragma once

#include "base/attr.h"

// A copy of a text with a URL in which the password of http://user:password@host is xxxxx, as Go
// prints it. NULL if the text has no password. The caller frees it.
char *gs_redact_url(const char *text) GS_MUST_USE;
