// SPDX-License-Identifier: Apache-2.0
// Names of Services in containers: a file for each namespace, which is bound to /etc/hosts, with
// the lines of the machine's own file and the names that a cluster's DNS server would answer. It is
// rewritten in place when Services change, because a bound file cannot be replaced.
#include "local/kubelet/hosts.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "kube/object.h"
#include "local/kubelet/kubelet_private.h"

#include <errno.h>
#include <fcntl.h>

// The machine's file is read up to MAX_MACHINE_BYTES, and at most MAX_LINES lines are added to it.
enum { DELAY_MS = 100, MAX_MACHINE_BYTES = 1024 * 1024, MAX_LINES = 5000 };

#define FOLDER  "hosts"
#define DOMAIN  "svc.cluster.local"
#define MACHINE "/etc/hosts"

struct kubelet_hosts {
    struct kubelet *k;
    struct gs_timer *timer;
    struct gs_hmap *hashes; // namespace -> struct hosts_file
};

struct hosts_file {
    uint64_t hash; // of the content; 0: not written
};

// --- the content ---

struct text {
    const struct kubelet_hosts *h;
    const char *ns;
    struct gs_buf buf;
    size_t lines;
};

// The short name only in the Service's own namespace. host: "" or "NAME." of a pod.
static void add_line(struct text *t, const char *ip, const char *host, const json_t *service)
{
    const char *name = kube_name(service), *ns = kube_namespace(service);
    if (t->lines++ >= MAX_LINES)
        return;
    gs_buf_addf(&t->buf, "%s\t%s%s.%s." DOMAIN " %s%s.%s.svc %s%s.%s", ip, host, name, ns, host,
                name, ns, host, name, ns);
    if (gs_streq(ns, t->ns))
        gs_buf_addf(&t->buf, " %s%s", host, name);
    gs_buf_add_char(&t->buf, '\n');
}

static void add_pod_name(struct text *t, const char *ip, const json_t *address,
                         const json_t *service)
{
    const struct local_cluster *c = t->h->k->cluster;
    const json_t *pod = kube_cache_get(c->pods, kube_namespace(service),
                                       codec_json_str(address, "targetRef", "name", NULL));
    const char *hostname = codec_json_str(pod, "spec", "hostname", NULL);
    if (!hostname || !gs_streq(codec_json_str(pod, "spec", "subdomain", NULL), kube_name(service)))
        return;
    GS_AUTO_FREE char *host = gs_format("%s.", hostname);
    add_line(t, ip, host, service);
}

// A Service without an address has those of its ready pods.
static void add_endpoints(struct text *t, const json_t *service)
{
    const json_t *endpoints =
        kube_cache_get(t->h->k->cluster->endpoints, kube_namespace(service), kube_name(service));
    size_t i, k;
    json_t *subset, *address;
    json_array_foreach (json_object_get(endpoints, "subsets"), i, subset)
        json_array_foreach (json_object_get(subset, "addresses"), k, address) {
            const char *ip = codec_json_str(address, "ip", NULL);
            if (!ip)
                continue;
            add_line(t, ip, "", service);
            add_pod_name(t, ip, address, service);
        }
}

static bool is_headless(const json_t *service)
{
    return gs_streq(codec_json_str(service, "spec", "clusterIP", NULL), "None");
}

static void add_service(struct text *t, const json_t *service)
{
    const char *ip = codec_json_str(service, "spec", "clusterIP", NULL);
    if (is_headless(service))
        add_endpoints(t, service);
    else if (ip && *ip)
        add_line(t, ip, "", service);
}

static int by_name(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    int order = strcmp(kube_namespace(x), kube_namespace(y));
    return order ? order : strcmp(kube_name(x), kube_name(y));
}

// In the order of their names, so that the text changes with them alone.
static void add_services(struct text *t)
{
    const struct kube_cache *services = t->h->k->cluster->services;
    GS_AUTO_FREE const json_t **list = gs_alloc_array(kube_cache_len(services) + 1, sizeof(*list));
    size_t n = 0, pos = 0;
    for (const json_t *s; (s = kube_cache_next(services, &pos));)
        list[n++] = s;
    qsort(list, n, sizeof(*list), by_name);
    for (size_t i = 0; i < n; i++)
        add_service(t, list[i]);
}

static void make_text(struct text *t)
{
    GS_AUTO_BUF struct gs_buf machine = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(MACHINE, MAX_MACHINE_BYTES, &machine);
    if (err || !machine.len)
        gs_buf_add_str(&t->buf, "127.0.0.1\tlocalhost\n");
    gs_buf_add_slice(&t->buf, gs_buf_slice(&machine));
    if (machine.len && machine.data[machine.len - 1] != '\n')
        gs_buf_add_char(&t->buf, '\n');
    gs_buf_add_str(&t->buf, "# Services of gpuscale up\n");
    add_services(t);
}

// --- the files ---

static char *path_of(const struct kubelet_hosts *h, const char *ns)
{
    return gs_format("%s/" FOLDER "/%s", h->k->data_dir, ns);
}

static struct gs_error *write_in_place(const char *path, struct gs_slice text)
{
    GS_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return gs_error_errno(errno, "%s", path);
    for (size_t done = 0; done < text.len;) {
        ssize_t n = pwrite(fd, text.data + done, text.len - done, (off_t)done);
        if (n < 0 && errno != EINTR)
            return gs_error_errno(errno, "writing %s", path);
        done += n > 0 ? (size_t)n : 0;
    }
    return ftruncate(fd, (off_t)text.len) < 0 ? gs_error_errno(errno, "%s", path) : NULL;
}

static struct gs_error *update(struct kubelet_hosts *h, const char *ns, struct hosts_file *file)
{
    struct text t = {.h = h, .ns = ns};
    GS_AUTO_FREE char *path = path_of(h, ns);
    make_text(&t);
    uint64_t hash = gs_hash(t.buf.data, t.buf.len);
    struct gs_error *err = hash == file->hash ? NULL : write_in_place(path, gs_buf_slice(&t.buf));
    if (!err)
        file->hash = hash;
    gs_buf_finish(&t.buf);
    return err;
}

static void on_timer(void *arg)
{
    struct kubelet_hosts *h = arg;
    size_t pos = 0;
    struct gs_slice key;
    void *file;
    while (gs_hmap_next(h->hashes, &pos, &key, &file)) {
        GS_AUTO_FREE char *ns = gs_slice_dup(key);
        GS_AUTO_ERROR struct gs_error *err = update(h, ns, file);
        if (err)
            gs_warn("kubelet", "names of Services: %s", gs_error_message(err));
    }
}

// Several changes are one update.
static void schedule(struct kubelet_hosts *h)
{
    if (!gs_timer_is_active(h->timer))
        gs_timer_start(h->timer, on_timer, DELAY_MS);
}

static void on_namespace(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct kubelet_hosts *h = arg;
    if (new_obj || !gs_hmap_get_str(h->hashes, kube_name(old_obj)))
        return;
    GS_AUTO_FREE char *path = path_of(h, kube_name(old_obj));
    unlink(path);
    free(gs_hmap_remove_str(h->hashes, kube_name(old_obj)));
}

static void on_service(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    schedule(arg);
}

static void on_endpoints(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct kubelet_hosts *h = arg;
    const json_t *obj = new_obj ? new_obj : old_obj;
    if (is_headless(kube_cache_get(h->k->cluster->services, kube_namespace(obj), kube_name(obj))))
        schedule(h);
}

struct kubelet_hosts *kubelet_hosts_new(struct kubelet *k)
{
    struct kubelet_hosts *h = gs_alloc(sizeof(*h));
    const struct kube_cache_handlers of_services = {.on_change = on_service, .arg = h};
    const struct kube_cache_handlers of_endpoints = {.on_change = on_endpoints, .arg = h};
    const struct kube_cache_handlers of_namespaces = {.on_change = on_namespace, .arg = h};
    h->k = k;
    h->hashes = gs_hmap_new(free);
    h->timer = gs_timer_new(k->cluster->loop, h);
    kube_cache_add_handlers(k->cluster->services, &of_services);
    kube_cache_add_handlers(k->cluster->endpoints, &of_endpoints);
    kube_cache_add_handlers(k->cluster->namespaces, &of_namespaces);
    return h;
}

void kubelet_hosts_free(struct kubelet_hosts *h)
{
    if (!h)
        return;
    kube_cache_remove_handlers(h->k->cluster->services, h);
    kube_cache_remove_handlers(h->k->cluster->endpoints, h);
    kube_cache_remove_handlers(h->k->cluster->namespaces, h);
    gs_timer_free(h->timer);
    gs_hmap_free(h->hashes);
    free(h);
}

struct gs_error *kubelet_hosts_file(struct kubelet_hosts *h, const char *ns, char **ret)
{
    GS_AUTO_FREE char *folder = gs_format("%s/" FOLDER, h->k->data_dir);
    struct hosts_file *file = gs_hmap_get_str(h->hashes, ns);
    struct gs_error *err = gs_mkdir_p(folder, 0755);
    if (!file) {
        file = gs_alloc(sizeof(*file));
        gs_hmap_put_str(h->hashes, ns, file);
    }
    if (!err)
        err = update(h, ns, file);
    if (!err)
        *ret = path_of(h, ns);
    return err;
}
