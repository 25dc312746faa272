// SPDX-License-Identifier: Apache-2.0
// Checks of Helm releases: what a failed one should have created is missing or old.
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"

#include <stdlib.h>

#define STUCK_MS 600000 // an operation that waits for pods may take so long

static long version_of(const json_t *release)
{
    const char *text = kube_label(release, "version");
    return text ? strtol(text, NULL, 10) : 0;
}

// Whether no later version of the release exists: it may have repaired the failure.
static bool is_last(const struct doctor_examination *e, const json_t *release)
{
    size_t i;
    const json_t *other;
    json_array_foreach (doctor_items(e, "helmreleases"), i, other)
        if (gs_streq(kube_label(other, "name"), kube_label(release, "name")) &&
            gs_streq(kube_namespace(other), kube_namespace(release)) &&
            version_of(other) > version_of(release))
            return false;
    return true;
}

// Since the last change of the state, in ms.
static int64_t age_of(const struct doctor_examination *e, const json_t *release)
{
    const char *changed = kube_label(release, "modifiedAt");
    int64_t at = changed ? strtoll(changed, NULL, 10) * 1000 : 0;
    return at > 0 ? e->now_ms - at : doctor_age_ms(e, kube_created(release));
}

static void check_release(struct doctor_examination *e, const json_t *release)
{
    const char *status = doctor_text(kube_label(release, "status"));
    const char *name = doctor_text(kube_label(release, "name"));
    const char *ns = doctor_text(kube_namespace(release));
    bool failed = gs_streq(status, "failed");
    bool pending = gs_starts(status, "pending-") && age_of(e, release) >= STUCK_MS;
    if ((!failed && !pending) || !is_last(e, release))
        return;
    GS_AUTO_FREE char *subject = gs_format("Helm release %s/%s", ns, name);
    doctor_add(
        e,
        (struct doctor_finding){
            subject,
            failed ? gs_strdup("The last operation of this Helm release failed.")
                   : gs_format("An operation of this Helm release has not ended: %s.", status),
            gs_format("revision %ld has the status %s since %lld minutes", version_of(release),
                      status, (long long)age_of(e, release) / 60000),
            failed ? gs_format("helm -n %s history %s   # the error\nhelm -n %s upgrade %s …, or "
                               "helm -n %s rollback %s",
                               ns, name, ns, name, ns, name)
                   : gs_format("helm -n %s rollback %s   # ends it: \"another operation is in "
                               "progress\" otherwise",
                               ns, name)});
}

void doctor_check_helm_release(struct doctor_examination *e)
{
    size_t i;
    const json_t *release;
    json_array_foreach (doctor_items(e, "helmreleases"), i, release)
        check_release(e, release);
}
