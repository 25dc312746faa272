// SPDX-License-Identifier: Apache-2.0
// What of a text is not for logs, errors and pages.
#pragma once

#include "base/attr.h"

// A text with a URL with the password of http://user:password@host covered, as Go does it; NULL: it
// has none.
char *gs_cover_url(const char *text) GS_MUST_USE;
