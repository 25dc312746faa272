// SPDX-License-Identifier: Apache-2.0
// Runs credential plug-ins as client-go does. The answer goes to a file in memory, so that nobody
// has to read while the program runs: a renewal in the background is only looked at when a token is
// needed.
#include "kube/exec_credential.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "kube/kube_private.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum {
    TIMEOUT_MS = 120000,
    TERMINAL_TIMEOUT_MS = 600000, // a user signs in
    POLL_MS = 20,
    SLOW_MS = 2000, // then a line says what is awaited
    MAX_ANSWER = 1 << 20,
    MAX_WORDS = 256,   // arguments, and variables
    RENEW_MS = 300000, // before the end of a token, or half of its life if that is shorter
    RETRY_MS = 30000,  // after a renewal that failed
    LATE_MS = 10000,   // how long a request waits for the renewal of a token that has expired
};
#define VERSION_PREFIX "client.authentication.k8s.io/"

struct kube_exec_credential {
    struct kube_exec_credential *next;
    json_t *exec;
    char *dir, *info; // KUBERNETES_EXEC_INFO=…
    char *token, *cert_pem, *key_pem;
    int64_t got_ms, until_ms; // Unix; until: 0: no end is known
    // A renewal.
    pid_t pid;        // 0: none runs
    int answer;       // its file
    int64_t tried_ms; // the last one, if it failed
};

static struct kube_exec_credential *known; // those of this process

static const char *command_of(const struct kube_exec_credential *c)
{
    return codec_json_str(c->exec, "command", NULL);
}

// --- the entry ---

static bool may_ask(const json_t *exec)
{
    const char *mode = codec_json_str(exec, "interactiveMode", NULL);
    return !gs_streq(mode, "Never") && isatty(STDIN_FILENO);
}

static struct gs_error *check_entry(const json_t *exec)
{
    const char *version = codec_json_str(exec, "apiVersion", NULL);
    const char *mode = codec_json_str(exec, "interactiveMode", NULL);
    if (!gs_streq(version, VERSION_PREFIX "v1") && !gs_streq(version, VERSION_PREFIX "v1beta1"))
        return gs_error_new(GS_EINVAL,
                            "exec: the apiVersion %s is not supported: want " VERSION_PREFIX
                            "v1 or v1beta1 (update the plug-in, and create the entry again)",
                            version ? version : "(none)");
    if (!codec_json_str(exec, "command", NULL))
        return gs_error_new(GS_EINVAL, "exec has no command");
    if (json_array_size(json_object_get(exec, "args")) > MAX_WORDS ||
        json_array_size(json_object_get(exec, "env")) > MAX_WORDS)
        return gs_error_new(GS_ELIMIT, "exec has more than %d arguments or variables", MAX_WORDS);
    if (gs_streq(mode, "Always") && !isatty(STDIN_FILENO))
        return gs_error_new(GS_EUNAVAIL, "exec: %s asks its user, and needs a terminal",
                            codec_json_str(exec, "command", NULL));
    return NULL;
}

// The description of the request that the program gets.
static char *info_of(const json_t *exec, const struct kube_exec_cluster *cluster)
{
    GS_AUTO_BUF struct gs_buf text = {0}, ca = {0};
    CODEC_AUTO_JSON json_t *info = json_object();
    codec_json_set_str(info, "kind", "ExecCredential");
    codec_json_set_str(info, "apiVersion", codec_json_str(exec, "apiVersion", NULL));
    codec_json_set(info, json_boolean(may_ask(exec)), "spec", "interactive", NULL);
    if (codec_json_bool(exec, false, "provideClusterInfo", NULL)) {
        json_t *to = json_object();
        codec_json_set_str(to, "server", cluster->server);
        codec_json_set_str(to, "tls-server-name", cluster->server_name);
        codec_json_set_str(to, "proxy-url", cluster->proxy_url);
        if (cluster->insecure)
            codec_json_set_bool(to, "insecure-skip-tls-verify", true);
        if (cluster->ca_pem) {
            codec_base64_encode(gs_slice_of(cluster->ca_pem), &ca);
            codec_json_set_str(to, "certificate-authority-data", ca.data ? ca.data : "");
        }
        json_object_set_new(to, "config",
                            cluster->config ? json_deep_copy(cluster->config) : json_null());
        codec_json_set(info, to, "spec", "cluster", NULL);
    }
    gs_buf_add_str(&text, "KUBERNETES_EXEC_INFO=");
    codec_json_dump(info, &text);
    return gs_buf_take(&text);
}

// --- running ---

struct words {
    char **items; // ends with NULL
    size_t n;
};

static void words_finish(struct words *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->items[i]);
    free(w->items);
}

static void words_add(struct words *w, char *word)
{
    w->items[w->n++] = word;
    w->items[w->n] = NULL;
}

// The program as client-go finds it: in PATH, or relative to the kubeconfig.
static struct words command_line(const struct kube_exec_credential *c)
{
    const json_t *args = json_object_get(c->exec, "args"), *arg;
    const char *command = command_of(c);
    struct words w = {.items = gs_alloc_array(json_array_size(args) + 2, sizeof(*w.items))};
    size_t i;
    bool relative = strchr(command, '/') && *command != '/';
    words_add(&w, relative ? gs_format("%s/%s", c->dir, command) : gs_strdup(command));
    json_array_foreach (args, i, arg)
        words_add(&w, gs_strdup(json_is_string(arg) ? json_string_value(arg) : ""));
    return w;
}

static bool is_set_by(const json_t *env, const char *variable)
{
    size_t i, n = strcspn(variable, "=");
    const json_t *entry;
    json_array_foreach (env, i, entry) {
        const char *name = codec_json_str(entry, "name", NULL);
        if (name && strlen(name) == n && strncmp(name, variable, n) == 0)
            return true;
    }
    return gs_starts(variable, "KUBERNETES_EXEC_INFO=");
}

static struct words environment(const struct kube_exec_credential *c)
{
    const json_t *env = json_object_get(c->exec, "env"), *entry;
    size_t n = 0, i;
    while (environ[n])
        n++;
    struct words w = {.items = gs_alloc_array(n + json_array_size(env) + 2, sizeof(*w.items))};
    for (i = 0; i < n; i++)
        if (!is_set_by(env, environ[i]))
            words_add(&w, gs_strdup(environ[i]));
    json_array_foreach (env, i, entry) {
        const char *name = codec_json_str(entry, "name", NULL);
        const char *value = codec_json_str(entry, "value", NULL);
        if (name)
            words_add(&w, gs_format("%s=%s", name, value ? value : ""));
    }
    words_add(&w, gs_strdup(c->info));
    return w;
}

static int spawn(const struct kube_exec_credential *c, bool background, int answer, pid_t *ret)
{
    GS_CLEANUP(words_finish) struct words argv = command_line(c), env = environment(c);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    if (background || !may_ask(c->exec))
        posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, answer, STDOUT_FILENO);
    if (background)
        posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_setsigdefault(&attributes, &pipe_signal);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    int rc = posix_spawnp(ret, argv.items[0], &files, &attributes, argv.items, env.items);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

static struct gs_error *not_installed(const struct kube_exec_credential *c)
{
    const char *hint = codec_json_str(c->exec, "installHint", NULL);
    return gs_error_new(GS_ENOTFOUND, "the credential plug-in %s is not installed%s%.500s",
                        command_of(c), hint ? ": " : "", hint ? hint : "");
}

static struct gs_error *start(struct kube_exec_credential *c, bool background)
{
    // A folder of PATH that may not be searched gives EACCES, and not ENOENT.
    GS_AUTO_FREE char *found = strchr(command_of(c), '/') ? NULL : gs_find_program(command_of(c));
    if (!found && !strchr(command_of(c), '/'))
        return not_installed(c);
    c->answer = memfd_create("gpuscale-credential", MFD_CLOEXEC);
    if (c->answer < 0)
        return gs_error_errno(errno, "the answer of the credential plug-in");
    int rc = spawn(c, background, c->answer, &c->pid);
    if (!rc)
        return NULL;
    close(c->answer);
    c->pid = 0;
    return rc == ENOENT ? not_installed(c)
                        : gs_error_errno(rc, "the credential plug-in %s", command_of(c));
}

// --- the answer ---

static bool is_one_line(const char *text)
{
    return *text && !gs_has_control(text);
}

static struct gs_error *take_answer(struct kube_exec_credential *c, const json_t *answer)
{
    const json_t *status = json_object_get(answer, "status");
    const char *token = codec_json_str(status, "token", NULL);
    const char *cert = codec_json_str(status, "clientCertificateData", NULL);
    const char *key = codec_json_str(status, "clientKeyData", NULL);
    const char *until = codec_json_str(status, "expirationTimestamp", NULL);
    int64_t until_ms = 0;
    if (!gs_streq(codec_json_str(answer, "kind", NULL), "ExecCredential") ||
        !gs_streq(codec_json_str(answer, "apiVersion", NULL),
                  codec_json_str(c->exec, "apiVersion", NULL)))
        return gs_error_new(GS_EINVAL, "its answer is no ExecCredential of %s",
                            codec_json_str(c->exec, "apiVersion", NULL));
    if ((!token && !cert) || !cert != !key || (token && !is_one_line(token)))
        return gs_error_new(GS_EINVAL,
                            "its answer has neither a token nor a certificate with its key");
    struct gs_error *err = until ? gs_parse_rfc3339(gs_slice_of(until), &until_ms) : NULL;
    if (err)
        return gs_error_wrap(err, "expirationTimestamp");
    gs_free_secret(c->token);
    gs_free_secret(c->key_pem);
    free(c->cert_pem);
    c->token = token ? gs_strdup(token) : NULL;
    c->cert_pem = cert ? gs_strdup(cert) : NULL;
    c->key_pem = key ? gs_strdup(key) : NULL;
    c->got_ms = gs_unix_ms();
    c->until_ms = until_ms;
    return NULL;
}

// Errors do not contain the answer, which has secrets.
static struct gs_error *read_answer(struct kube_exec_credential *c, int status)
{
    GS_AUTO_FREE char *path = gs_format("/proc/self/fd/%d", c->answer);
    GS_AUTO_BUF struct gs_buf text = {0};
    CODEC_AUTO_JSON json_t *answer = NULL;
    if (WIFSIGNALED(status))
        return gs_error_new(GS_EUNAVAIL, "it was ended by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status))
        return gs_error_new(GS_EUNAVAIL, "it failed with exit status %d", WEXITSTATUS(status));
    struct gs_error *err = gs_file_read(path, MAX_ANSWER, &text);
    if (err)
        return err;
    err = codec_json_parse(gs_buf_slice(&text), false, &answer);
    gs_error_free(err);
    err = err ? gs_error_new(GS_EINVAL, "its answer is not JSON") : take_answer(c, answer);
    if (text.data)
        explicit_bzero(text.data, text.len);
    return err;
}

// After the program has ended.
static struct gs_error *finish(struct kube_exec_credential *c, int status)
{
    struct gs_error *err = read_answer(c, status);
    close(c->answer);
    c->pid = 0;
    return err ? gs_error_wrap(err, "the credential plug-in %s", command_of(c)) : NULL;
}

static struct gs_error *await(struct kube_exec_credential *c, int64_t limit_ms)
{
    int64_t begin = gs_mono_ns();
    bool said = false;
    int status = 0;
    for (;;) {
        pid_t ended = waitpid(c->pid, &status, WNOHANG);
        if (ended != 0 && !(ended < 0 && errno == EINTR))
            break;
        int64_t ms = (gs_mono_ns() - begin) / GS_NS_PER_MS;
        if (ms >= limit_ms) {
            kill(c->pid, SIGKILL);
            waitpid(c->pid, &status, 0);
            close(c->answer);
            c->pid = 0;
            return gs_error_new(GS_ETIMEOUT, "the credential plug-in %s has not ended after %d s",
                                command_of(c), (int)(limit_ms / 1000));
        }
        if (!said && ms >= SLOW_MS && isatty(STDERR_FILENO))
            fprintf(stderr, "Waiting for the credential plug-in %s …\n", command_of(c));
        said |= ms >= SLOW_MS;
        usleep(POLL_MS * 1000);
    }
    return finish(c, status);
}

// --- credentials ---

static bool is_valid(const struct kube_exec_credential *c)
{
    return (c->token || c->cert_pem) && (!c->until_ms || c->until_ms > gs_unix_ms());
}

static struct gs_error *run(struct kube_exec_credential *c, bool background, int64_t limit_ms)
{
    struct gs_error *err = c->pid ? NULL : start(c, background);
    return err ? err : await(c, limit_ms);
}

struct gs_error *kube_exec_credential_get(const json_t *exec, const char *dir,
                                          const struct kube_exec_cluster *cluster,
                                          struct kube_exec_credential **ret)
{
    struct gs_error *err = check_entry(exec);
    if (err)
        return err;
    GS_AUTO_FREE char *info = info_of(exec, cluster);
    struct kube_exec_credential *c = known;
    while (c && !(gs_streq(c->info, info) && gs_streq(c->dir, dir) && json_equal(c->exec, exec)))
        c = c->next;
    if (!c) {
        c = gs_alloc(sizeof(*c));
        *c = (struct kube_exec_credential){.next = known,
                                           .exec = json_deep_copy(exec),
                                           .dir = gs_strdup(dir),
                                           .info = GS_TAKE(info)};
        known = c;
    }
    if (!is_valid(c))
        err = run(c, false, may_ask(exec) ? TERMINAL_TIMEOUT_MS : TIMEOUT_MS);
    if (!err)
        *ret = c;
    return err;
}

static bool is_renewal_due(const struct kube_exec_credential *c)
{
    int64_t now = gs_unix_ms(), life = c->until_ms - c->got_ms;
    int64_t before = life / 2 < RENEW_MS ? life / 2 : RENEW_MS;
    return c->until_ms && now >= c->until_ms - before && now - c->tried_ms >= RETRY_MS;
}

// Takes the error: the token stays in use until it expires.
static void renewal_failed(struct kube_exec_credential *c, struct gs_error *err)
{
    gs_warn("kube", "the token is not renewed: %s", gs_error_message(err));
    gs_error_free(err);
    c->tried_ms = gs_unix_ms();
}

static void renew(struct kube_exec_credential *c)
{
    int status = 0;
    struct gs_error *err = NULL;
    if (c->pid) {
        pid_t ended = waitpid(c->pid, &status, WNOHANG);
        err = ended ? finish(c, status) : NULL;
    } else if (is_renewal_due(c)) {
        err = start(c, true);
    }
    if (!err && !is_valid(c) && (c->pid || is_renewal_due(c)))
        err = run(c, true, LATE_MS);
    if (err)
        renewal_failed(c, err);
}

const char *kube_exec_credential_token(void *arg)
{
    struct kube_exec_credential *c = arg;
    renew(c);
    return c->token;
}

const char *kube_exec_credential_cert(const struct kube_exec_credential *c)
{
    return c->cert_pem;
}

const char *kube_exec_credential_key(const struct kube_exec_credential *c)
{
    return c->key_pem;
}
