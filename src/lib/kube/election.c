// SPDX-License-Identifier: Apache-2.0
// Leader election by a Lease, with the algorithm of client-go's leaderelection package. Expiry is
// measured from the time when this process received the current spec, by its monotonic clock: the
// clock of another holder is never trusted.
// States: follower -> leader when a write of the lease succeeds while nobody holds it, or when its
// holder has not changed it for its duration; leader -> follower when it was not renewed for
// renew_ms, or somebody else holds it.
#include "kube/election.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "kube/object.h"

#include <unistd.h>

#define DEFAULT_LEASE_MS INT64_C(15000)
#define DEFAULT_RENEW_MS INT64_C(10000)
#define DEFAULT_RETRY_MS INT64_C(2000)

struct kube_election {
    struct kube_client *client; // of its own: a lease is renewed however many requests wait
    struct kube_election_config cfg;
    char *ns, *name, *identity, *holder;
    char *logged; // the failure that was logged last
    struct gs_timer *timer;
    struct kube_request *request;
    json_t *seen;         // the spec that was received last
    int64_t seen_mono_ms; // when this spec was received first
    int64_t renewed_mono_ms;
    int64_t sent_mono_ms; // of the write in progress
    bool leading;
    bool rival;  // another holder has renewed it
    bool denied; // the last request
};

static int64_t now_ms(void)
{
    return gs_mono_ns() / GS_NS_PER_MS;
}

static void lose_leadership(struct kube_election *e, const char *why)
{
    if (!e->leading)
        return;
    e->leading = false;
    gs_warn("election", "lease %s/%s: %s is no longer the leader: %s", e->ns, e->name, e->identity,
            why);
    e->cfg.on_lost(e->cfg.arg);
}

static void take_leadership(struct kube_election *e)
{
    e->renewed_mono_ms = e->sent_mono_ms;
    if (e->leading)
        return;
    e->leading = true;
    gs_info("election", "lease %s/%s: %s is the leader", e->ns, e->name, e->identity);
    e->cfg.on_leading(e->cfg.arg);
}

static void observe_lease(struct kube_election *e, const json_t *lease)
{
    const json_t *spec = json_object_get(lease, "spec");
    if (e->seen && json_equal(e->seen, spec))
        return;
    bool first = !e->seen;
    json_decref(e->seen);
    e->seen = spec ? json_deep_copy(spec) : json_object();
    e->seen_mono_ms = now_ms();
    const char *holder = codec_json_str(e->seen, "holderIdentity", NULL);
    if (!e->leading && holder && *holder && !gs_streq(holder, e->holder))
        gs_info("election", "lease %s/%s is held by %s", e->ns, e->name, holder);
    free(e->holder);
    e->holder = holder && *holder ? gs_strdup(holder) : NULL;
    e->rival = !first && e->holder && !gs_streq(e->holder, e->identity);
}

// Logs each reason once, until a write succeeds.
static void report_leadership(struct kube_election *e, const char *failure)
{
    if (failure && !gs_streq(e->logged, failure))
        gs_warn("election", "lease %s/%s: %s", e->ns, e->name, failure);
    free(e->logged);
    e->logged = gs_strdup(failure);
}

// A response that another request would get, too. 404 is that of a namespace.
static bool is_denial(int status)
{
    return status == 401 || status == 403 || status == 404;
}

// --- writing ---

static void on_lease_written(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct kube_election *e = arg;
    e->request = NULL;
    e->denied = err && is_denial(status);
    if (!err) {
        report_leadership(e, NULL);
        observe_lease(e, body);
        take_leadership(e);
    } else if (status != 409) {
        report_leadership(e, gs_error_message(err));
    }
    // 409: another replica has taken the lease, somebody has edited it, or the client repeated this
    // request because its connection was closed before the response. The next read shows the
    // holder.
    gs_error_free(err);
}

static json_t *our_spec(const struct kube_election *e, const json_t *old)
{
    char now[GS_RFC3339_SIZE];
    gs_format_rfc3339_micro(gs_unix_us(), now);
    json_t *spec = old ? json_deep_copy(old) : json_object();
    int64_t transitions = codec_json_int(spec, 0, "leaseTransitions", NULL);
    bool ours = gs_streq(codec_json_str(spec, "holderIdentity", NULL), e->identity);
    if (!ours) {
        codec_json_set_str(spec, "acquireTime", now);
        codec_json_set_int(spec, "leaseTransitions", old ? transitions + 1 : 0);
    }
    codec_json_set_str(spec, "holderIdentity", e->identity);
    codec_json_set_str(spec, "renewTime", now);
    codec_json_set_int(spec, "leaseDurationSeconds", e->cfg.lease_ms / 1000);
    return spec;
}

static void create_lease(struct kube_election *e)
{
    CODEC_AUTO_JSON json_t *lease = json_pack(
        "{s:s, s:s, s:{s:s, s:s}, s:o}", "apiVersion", "coordination.k8s.io/v1", "kind", "Lease",
        "metadata", "namespace", e->ns, "name", e->name, "spec", our_spec(e, NULL));
    e->sent_mono_ms = now_ms();
    e->request = kube_create(e->client, KUBE_LEASES, e->ns, lease, on_lease_written, e);
}

static void update_lease(struct kube_election *e, const json_t *lease)
{
    CODEC_AUTO_JSON json_t *copy =
        json_deep_copy(lease); // with its resourceVersion: a concurrent write returns 409
    json_object_set_new(copy, "spec", our_spec(e, json_object_get(lease, "spec")));
    e->sent_mono_ms = now_ms();
    e->request =
        kube_update(e->client, KUBE_LEASES, e->ns, e->name, NULL, copy, on_lease_written, e);
}

// --- reading ---

static bool has_expired(const struct kube_election *e)
{
    int64_t seconds = codec_json_int(e->seen, e->cfg.lease_ms / 1000, "leaseDurationSeconds", NULL);
    return now_ms() - e->seen_mono_ms >= seconds * 1000;
}

static bool may_take(const struct kube_election *e)
{
    return !e->holder || gs_streq(e->holder, e->identity) || has_expired(e);
}

static void read_lease(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct kube_election *e = arg;
    e->request = NULL;
    if (status != 404) // the Lease is created, which can be denied
        e->denied = err && is_denial(status);
    if (status == 404) {
        create_lease(e);
    } else if (err) {
        report_leadership(e, gs_error_message(err));
    } else {
        observe_lease(e, body);
        if (may_take(e))
            update_lease(e, body);
        else
            lose_leadership(e, "another holds the lease");
    }
    gs_error_free(err);
}

static void on_election_timer(void *arg)
{
    struct kube_election *e = arg;
    if (now_ms() - e->renewed_mono_ms >= e->cfg.renew_ms)
        lose_leadership(e, "the lease could not be renewed in time");
    if (!e->request)
        e->request = kube_get(e->client, KUBE_LEASES, e->ns, e->name, NULL, read_lease, e);
}

// --- life ---

static char *default_identity(void)
{
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    return gs_format("%s_%ld", host, (long)getpid());
}

struct kube_election *kube_election_new(uv_loop_t *loop, struct kube_client *client,
                                        const struct kube_election_config *cfg)
{
    struct kube_election *e = gs_alloc(sizeof(*e));
    e->client = kube_client_new_urgent(kube_client_http(client));
    e->cfg = *cfg;
    e->cfg.lease_ms = cfg->lease_ms ? cfg->lease_ms : DEFAULT_LEASE_MS;
    e->cfg.renew_ms = cfg->renew_ms ? cfg->renew_ms : DEFAULT_RENEW_MS;
    e->cfg.retry_ms = cfg->retry_ms ? cfg->retry_ms : DEFAULT_RETRY_MS;
    e->ns = gs_strdup(cfg->ns);
    e->name = gs_strdup(cfg->name);
    e->identity = cfg->identity ? gs_strdup(cfg->identity) : default_identity();
    e->timer = gs_timer_new(loop, e);
    gs_timer_repeat(e->timer, on_election_timer, 0, (uint64_t)e->cfg.retry_ms);
    return e;
}

bool kube_election_leading(const struct kube_election *e)
{
    return e->leading;
}

const char *kube_election_rival(const struct kube_election *e)
{
    return e->rival && !e->leading && !has_expired(e) ? e->holder : NULL;
}

bool kube_election_denied(const struct kube_election *e)
{
    return e->denied && !e->seen;
}

static void free_election(void *arg)
{
    struct kube_election *e = arg;
    free(e->ns);
    free(e->name);
    free(e->identity);
    free(e->holder);
    free(e->logged);
    json_decref(e->seen);
    free(e);
}

void kube_election_free(struct kube_election *e)
{
    if (!e)
        return;
    kube_client_free(e->client);
    gs_timer_close(e->timer, free_election);
}
