// SPDX-License-Identifier: Apache-2.0
// Hides the password of a URL in texts that are logged or shown, as Go's URL.Redacted() does.
#include "base/redact.h"

#include "base/mem.h"

#include <string.h>

char *gs_redact_url(const char *text)
{
    const char *start = strstr(text, "://");
    const char *colon = start ? start + 3 + strcspn(start + 3, "/?#:@") : NULL;
    if (!colon || *colon != ':')
        return NULL;
    const char *end = start + 3 + strcspn(start + 3, "/?#");
    const char *at = memrchr(colon, '@', (size_t)(end - colon));
    return at ? gs_format("%.*s:xxxxx%s", (int)(colon - text), text, at) : NULL;
}
