// SPDX-License-Identifier: Apache-2.0
// kube-webhook-certgen: `create` makes a Secret with a CA and a server certificate, `patch` writes
// that CA into webhook configurations and APIServices. Flags, log lines and exit codes are those of
// the original.
#include "base/mem.h"
#include "kube/secret.h"
#include "local/standin/standin_private.h"

enum { DAYS = 36500, MAX_HOSTS = 64, MAX_TARGETS = 3 };

#define MUTATING     KUBE_GVR(KUBE_RESOURCE_MUTATINGWEBHOOKCONFIGURATIONS)
#define VALIDATING   KUBE_GVR(KUBE_RESOURCE_VALIDATINGWEBHOOKCONFIGURATIONS)
#define API_SERVICES KUBE_GVR(KUBE_RESOURCE_APISERVICES)

struct target {
    struct kube_gvr gvr;
    const char *name;
};

struct certgen {
    struct standin_session *session;
    struct kube_request *request; // the one in progress
    struct target targets[MAX_TARGETS];
    size_t n_targets, next;
    char *ca; // base64
};

static struct kube_client *client_of(const struct certgen *g)
{
    return g->session->server->cfg.cluster->client;
}

static const char *flag_or(const struct certgen *g, const char *name, const char *fallback)
{
    const char *value = standin_flag(g->session, name);
    return value && *value ? value : fallback;
}

static const char *namespace_of(const struct certgen *g)
{
    return flag_or(g, "namespace", standin_namespace(g->session));
}

static const char *secret_of(const struct certgen *g)
{
    return flag_or(g, "secret-name", "");
}

static void fail(struct certgen *g, struct gs_error *err, const char *what)
{
    standin_log(g->session, "level=fatal msg=\"%s\" err=\"%s\"", what,
                err ? gs_error_message(err) : "");
    gs_error_free(err);
    standin_exit(g->session, 1);
}

// --- create ---

static struct gs_error *make_pairs(const char *hosts, struct tls_pair *ca, struct tls_pair *leaf)
{
    GS_AUTO_FREE char *copy = gs_strdup(hosts);
    const char *names[MAX_HOSTS];
    size_t n = 0;
    for (char *rest = copy, *host; n < MAX_HOSTS && (host = strsep(&rest, ","));)
        if (*host)
            names[n++] = host;
    const struct tls_leaf spec = {
        .common_name = "nil2", .dns_names = names, .n_dns_names = n, .server = 1, .days = DAYS};
    struct gs_error *err =
        n ? tls_make_ca("nil1", DAYS, ca) : gs_error_new(GS_EINVAL, "--host is not given");
    return err ? err : tls_make_leaf(ca, &spec, leaf);
}

static void on_created(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct certgen *g = arg;
    g->request = NULL;
    if (err && status != 409) {
        fail(g, err, "failed creating secret");
        return;
    }
    gs_error_free(err);
    standin_exit(g->session, 0);
}

static void create_secret(struct certgen *g)
{
    struct tls_pair ca = {0}, leaf = {0};
    struct gs_error *err = make_pairs(flag_or(g, "host", ""), &ca, &leaf);
    if (err) {
        tls_pair_finish(&ca);
        fail(g, err, "failed creating certificates");
        return;
    }
    CODEC_AUTO_JSON json_t *secret = json_object();
    codec_json_set_str(secret, "apiVersion", "v1");
    codec_json_set_str(secret, "kind", "Secret");
    codec_json_set(secret, codec_json_strf("%s", secret_of(g)), "metadata", "name", NULL);
    codec_json_set_str(secret, "type", flag_or(g, "secret-type", "Opaque"));
    kube_secret_set_text(secret, flag_or(g, "ca-name", "ca"), ca.cert_pem);
    kube_secret_set_text(secret, flag_or(g, "cert-name", "cert"), leaf.cert_pem);
    kube_secret_set_text(secret, flag_or(g, "key-name", "key"), leaf.key_pem);
    tls_pair_finish(&ca);
    tls_pair_finish(&leaf);
    g->request = kube_create(client_of(g), KUBE_SECRETS, namespace_of(g), secret, on_created, g);
}

static void on_looked_up(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct certgen *g = arg;
    g->request = NULL;
    if (status == 404) {
        gs_error_free(err);
        standin_log(g->session, "level=info msg=\"creating new secret\"");
        create_secret(g);
    } else if (err) {
        fail(g, err, "error getting secret");
    } else {
        standin_log(g->session, "level=info msg=\"secret already exists\"");
        standin_exit(g->session, 0);
    }
}

// --- patch ---

static void patch_next(struct certgen *g);

static void on_patched(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct certgen *g = arg;
    g->request = NULL;
    if (err) {
        fail(g, err, "failed patching webhook");
        return;
    }
    g->next++;
    patch_next(g);
}

static void set_ca(const struct certgen *g, json_t *object)
{
    const char *policy = standin_flag(g->session, "patch-failure-policy");
    json_t *hooks = json_object_get(object, "webhooks"), *hook;
    size_t i;
    json_array_foreach (hooks, i, hook) {
        codec_json_set(hook, json_string(g->ca), "clientConfig", "caBundle", NULL);
        if (policy && *policy)
            codec_json_set_str(hook, "failurePolicy", policy);
    }
    if (!hooks && json_object_get(object, "spec")) { // an APIService
        codec_json_set(object, json_string(g->ca), "spec", "caBundle", NULL);
        codec_json_del(object, "spec", "insecureSkipTLSVerify", NULL);
    }
}

static void on_target(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct certgen *g = arg;
    const struct target *t = &g->targets[g->next];
    g->request = NULL;
    if (err) {
        fail(g, err, "failed getting webhook");
        return;
    }
    CODEC_AUTO_JSON json_t *object = json_deep_copy(body);
    set_ca(g, object);
    g->request = kube_update(client_of(g), t->gvr, NULL, t->name, NULL, object, on_patched, g);
}

static void patch_next(struct certgen *g)
{
    if (g->next == g->n_targets) {
        standin_log(g->session, "level=info msg=\"successfully patched webhooks\"");
        standin_exit(g->session, 0);
        return;
    }
    const struct target *t = &g->targets[g->next];
    g->request = kube_get(client_of(g), t->gvr, NULL, t->name, NULL, on_target, g);
}

static void add_target(struct certgen *g, struct kube_gvr gvr, const char *name)
{
    if (name && *name)
        g->targets[g->n_targets++] = (struct target){gvr, name};
}

static void on_secret(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct certgen *g = arg;
    const struct standin_session *s = g->session;
    const char *ca = codec_json_str(body, "data", flag_or(g, "ca-name", "ca"), NULL);
    const char *webhook = standin_flag(s, "webhook-name");
    g->request = NULL;
    if (err || !ca) {
        fail(g, err, "no secret with the CA");
        return;
    }
    g->ca = gs_strdup(ca);
    if (standin_flag_bool(s, "patch-mutating", true))
        add_target(g, MUTATING, webhook);
    if (standin_flag_bool(s, "patch-validating", true))
        add_target(g, VALIDATING, webhook);
    add_target(g, API_SERVICES, standin_flag(s, "apiservice-name"));
    patch_next(g);
}

// --- the command ---

void standin_certgen_start(struct standin_session *s)
{
    struct certgen *g = gs_alloc(sizeof(*g));
    const char *command = standin_word(s);
    g->session = s;
    s->state = g;
    if (gs_streq(command, "create"))
        g->request = kube_get(client_of(g), KUBE_SECRETS, namespace_of(g), secret_of(g), NULL,
                              on_looked_up, g);
    else if (gs_streq(command, "patch"))
        g->request =
            kube_get(client_of(g), KUBE_SECRETS, namespace_of(g), secret_of(g), NULL, on_secret, g);
    else
        fail(g, gs_error_new(GS_EINVAL, "\"%.100s\" is neither create nor patch", command),
             "unknown command");
}

void standin_certgen_end(struct standin_session *s)
{
    struct certgen *g = s->state;
    if (!g)
        return;
    kube_request_cancel(g->request);
    free(g->ca);
    free(g);
}
