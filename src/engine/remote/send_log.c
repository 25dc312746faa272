// SPDX-License-Identifier: Apache-2.0
// The log of the sender. A receiver that refuses each request would fill it.
#include "base/clock.h"
#include "base/log.h"
#include "engine/remote/send_private.h"

#define LOG_EVERY_NS (60 * GS_NS_PER_SEC)
#define SHOWN_BODY   ((size_t)200) // bytes of a response

// Whether a line is due; the caller writes it and resets the counters.
static bool is_due(struct remote_log_line *l)
{
    int64_t now = gs_mono_ns();
    l->requests++;
    if (l->logged_ns && now - l->logged_ns < LOG_EVERY_NS)
        return false;
    l->logged_ns = now;
    return true;
}

void remote_log_retry(struct remote_log *l, const char *url, const char *why)
{
    if (!is_due(&l->retries))
        return;
    if (l->retries.requests > 1)
        gs_warn("remote_write", "%s: %s; requests are retried (%llu since the last line)", url, why,
                (unsigned long long)l->retries.requests);
    else
        gs_warn("remote_write", "%s: %s; the request is retried", url, why);
    l->retries.requests = 0;
}

void remote_log_refusal(struct remote_log *l, const char *url, int status, size_t samples,
                        size_t exemplars, struct gs_slice text)
{
    size_t shown = text.len < SHOWN_BODY ? text.len : SHOWN_BODY;
    l->refusals.samples += samples;
    l->refusals.exemplars += exemplars;
    if (!is_due(&l->refusals))
        return;
    gs_err("remote_write",
           "%s: status %d, %llu samples and %llu exemplars of %llu requests dropped: %.*s", url,
           status, (unsigned long long)l->refusals.samples,
           (unsigned long long)l->refusals.exemplars, (unsigned long long)l->refusals.requests,
           (int)shown, shown ? text.data : "");
    l->refusals = (struct remote_log_line){.logged_ns = l->refusals.logged_ns};
}
