// SPDX-License-Identifier: Apache-2.0
// Defaults, and the annotations of a Service.
#include "activator/activator_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/option.h"
#include "kube/annotations.h"
#include "kube/names.h"
#include "kube/object.h"

#include <ctype.h>
#include <strings.h>

struct activator_config activator_config_default(void)
{
    return (struct activator_config){.identity = "gpuscale",
                                     .listen = "127.0.0.1",
                                     .advertise = "127.0.0.1",
                                     .max_services = 256,
                                     .max_held = 1000,
                                     .max_bytes = 64 * 1024,
                                     .max_total_bytes = 8 * 1024 * 1024,
                                     .hold_ms = 600 * 1000,
                                     .silent_ms = 10 * 1000,
                                     .idle_ms = 600 * 1000,
                                     .max_open = 10000,
                                     .per_endpoint = 8};
}

static bool has_tcp(const json_t *service)
{
    size_t i;
    const json_t *port;
    json_array_foreach (codec_json_get(service, "spec", "ports", NULL), i, port) {
        const char *protocol = codec_json_str(port, "protocol", NULL);
        if (gs_streq(protocol ? protocol : "TCP", "TCP"))
            return true;
    }
    return false;
}

static struct gs_error *check_service(const json_t *service)
{
    const char *type = codec_json_str(service, "spec", "type", NULL);
    if (gs_streq(type ? type : "", "ExternalName"))
        return gs_error_new(GS_EINVAL, "a Service of the type ExternalName has no endpoints");
    if (gs_streq(codec_json_str(service, "spec", "clusterIP", NULL), "None"))
        return gs_error_new(GS_EINVAL,
                            "clients of a headless Service connect to pods, so that its "
                            "connections cannot be held: use a Service with a ClusterIP");
    if (json_array_size(codec_json_get(service, "spec", "ports", NULL)) > ACTIVATOR_MAX_PORTS)
        return gs_error_new(GS_EINVAL, "it has more than %d ports", ACTIVATOR_MAX_PORTS);
    if (!has_tcp(service))
        return gs_error_new(GS_EINVAL, "it has no TCP port, and only TCP connections can be held");
    return NULL;
}

// Kinds of Kubernetes with replicas. Other kinds are accepted as they are.
static const char *const kinds[] = {"Deployment", "StatefulSet", "ReplicaSet",
                                    "ReplicationController"};

static bool is_kind(const char *text)
{
    bool upper = *text >= 'A' && *text <= 'Z';
    while (isalnum((unsigned char)*text))
        text++;
    return upper && !*text;
}

// "deployment" and "deployments", which kubectl accepts, are "Deployment".
static struct gs_error *read_kind(struct gs_slice word, char **ret)
{
    GS_AUTO_FREE char *kind = gs_slice_dup(word);
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
        size_t len = strlen(kinds[i]);
        if (strncasecmp(kind, kinds[i], len) == 0 && (!kind[len] || gs_streq(&kind[len], "s"))) {
            *ret = gs_strdup(kinds[i]);
            return NULL;
        }
    }
    // Kinds of others, such as DeploymentConfig, are similar, but have another length.
    const char *near = gs_suggest(kind, kinds, GS_ARRAY_LEN(kinds));
    if (near && strlen(near) + 1 >= word.len && strlen(near) <= word.len + 1)
        return gs_error_new(GS_EINVAL, "unknown kind, did you mean \"%s\"?", near);
    if (!is_kind(kind))
        return gs_error_new(GS_EINVAL, "write the kind as in the field \"kind\" of the workload, "
                                       "such as Deployment");
    *ret = GS_TAKE(kind);
    return NULL;
}

struct gs_error *activator_target_read(const json_t *service, struct activator_target *ret)
{
    const char *text = kube_annotation(service, ACTIVATOR_ANNOTATION);
    const char *slash = text ? strchr(text, '/') : NULL;
    struct gs_error *err = NULL;
    GS_AUTO_FREE char *kind = NULL;
    if (!slash || slash == text || !slash[1] || strchr(slash + 1, '/'))
        err = gs_error_new(GS_EINVAL, "write KIND/NAME, such as Deployment/api");
    else if (!kube_check_dns_subdomain(gs_slice_of(slash + 1), NULL))
        err = gs_error_new(GS_EINVAL, "no workload can have this name");
    else
        err = read_kind((struct gs_slice){text, (size_t)(slash - text)}, &kind);
    if (err)
        return gs_error_wrap(err, "annotation " ACTIVATOR_ANNOTATION " \"%.100s\"",
                             text ? text : "");
    err = check_service(service);
    if (err)
        return gs_error_wrap(err, "annotation " ACTIVATOR_ANNOTATION);
    ret->kind = GS_TAKE(kind);
    ret->name = gs_strdup(slash + 1);
    return NULL;
}

void activator_target_finish(struct activator_target *t)
{
    free(t->kind);
    free(t->name);
    *t = (struct activator_target){0};
}

// --- rules ---

struct gs_error *activator_check_annotations(const json_t *service)
{
    static const char *const known[] = {ACTIVATOR_ANNOTATION, ACTIVATOR_ANN_PROBE_PATHS,
                                        ACTIVATOR_ANN_PROBE_AGENTS, ACTIVATOR_ANN_COMMENTS,
                                        ACTIVATOR_ANN_READY_PATH};
    return kube_check_annotations(service, known, GS_ARRAY_LEN(known));
}

#define MAX_PARTS   16
#define MIN_COMMENT (1 * GS_NS_PER_SEC)

static void free_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

// "a, b"; empty parts are left out.
static struct gs_error *read_list(const json_t *service, const char *name, char ***ret)
{
    struct gs_slice rest = gs_slice_of(kube_annotation(service, name));
    char **list = gs_alloc_array(MAX_PARTS + 1, sizeof(*list));
    size_t n = 0;
    while (rest.data) {
        struct gs_slice part = gs_slice_trim(gs_slice_cut(&rest, ','));
        if (!part.len)
            continue;
        if (n == MAX_PARTS) {
            free_list(list);
            return gs_error_new(GS_EINVAL, "annotation %s: more than %d parts", name, MAX_PARTS);
        }
        list[n++] = gs_slice_dup(part);
    }
    *ret = list;
    return NULL;
}

static struct gs_error *check_path(const char *annotation, const char *path)
{
    if (*path == '/' && strlen(path) <= 1024 && !strpbrk(path, " \t\r\n?#"))
        return NULL;
    return gs_error_new(GS_EINVAL, "annotation %s: \"%.100s\" is no path such as /health",
                        annotation, path);
}

static struct gs_error *read_paths(const json_t *service, char ***ret)
{
    char **list = NULL;
    struct gs_error *err = read_list(service, ACTIVATOR_ANN_PROBE_PATHS, &list);
    for (size_t i = 0; !err && list[i]; i++)
        err = check_path(ACTIVATOR_ANN_PROBE_PATHS, list[i]);
    if (err)
        free_list(list);
    else
        *ret = list;
    return err;
}

static struct gs_error *read_comments(const json_t *service, int64_t *ret_ms)
{
    const char *text = kube_annotation(service, ACTIVATOR_ANN_COMMENTS);
    int64_t ns = 0;
    if (!text)
        return NULL;
    struct gs_error *err = gs_parse_duration(gs_slice_of(text), &ns);
    if (!err && ns < MIN_COMMENT)
        err = gs_error_new(GS_EINVAL, "less than 1s");
    if (err)
        return gs_error_wrap(err, "annotation " ACTIVATOR_ANN_COMMENTS " \"%.100s\"", text);
    *ret_ms = ns / GS_NS_PER_MS;
    return NULL;
}

static struct gs_error *read_ready_path(const json_t *service, char **ret)
{
    const char *path = kube_annotation(service, ACTIVATOR_ANN_READY_PATH);
    struct gs_error *err = path ? check_path(ACTIVATOR_ANN_READY_PATH, path) : NULL;
    if (!err)
        *ret = gs_strdup(path);
    return err;
}

static struct gs_error *first_of(struct gs_error *a, struct gs_error *b)
{
    if (!a)
        return b;
    gs_error_free(b);
    return a;
}

struct gs_error *activator_rules_read(const json_t *service, struct activator_rules *ret)
{
    *ret = (struct activator_rules){0};
    struct gs_error *err = activator_check_annotations(service);
    err = first_of(err, read_paths(service, &ret->probe_paths));
    err = first_of(err, read_list(service, ACTIVATOR_ANN_PROBE_AGENTS, &ret->probe_agents));
    err = first_of(err, read_comments(service, &ret->comment_ms));
    return first_of(err, read_ready_path(service, &ret->ready_path));
}

void activator_rules_finish(struct activator_rules *r)
{
    free_list(r->probe_paths);
    free_list(r->probe_agents);
    free(r->ready_path);
    *r = (struct activator_rules){0};
}
