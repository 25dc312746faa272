// SPDX-License-Identifier: Apache-2.0
// The life of a machine: a timer leads it from phase to phase, each with its part of the pool's
// start-up time.
#include "base/random.h"
#include "local/machines/machines_private.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"
#include "nvmlsim/simulation/simulation.h"

#include <arpa/inet.h>
#include <math.h>
#include <unistd.h>

enum {
    STOP_GRACE_MS = 10000, // of the pods that are still on a machine when it is deleted
    MAX_SLOWNESS = 100,
};

// --- information ---

struct machines_info machines_machine_info(const struct machines_machine *m)
{
    return (struct machines_info){
        .pool = m->pool->spec->name,
        .node = m->node,
        .provider_id = m->provider_id,
        .address = m->address,
        .dir = m->kubelet ? m->dir : NULL,
        .podresources = m->socket,
        .gpus = m->has_gpus ? &m->gpus : NULL,
        .phase = m->phase,
    };
}

static void enter(struct machines_machine *m, enum machines_phase phase)
{
    m->phase = phase;
    const struct machines_info info = machines_machine_info(m);
    if (m->owner->cfg.on_phase)
        m->owner->cfg.on_phase(m->owner->cfg.arg, &info);
}

// --- the end of a machine ---

static void free_gpus(struct machines_machine *m)
{
    if (m->has_gpus)
        machines_gpus_finish(&m->gpus);
    m->has_gpus = false;
}

void machines_machine_free(struct machines_machine *m)
{
    gs_timer_free(m->timer);
    kubelet_free(m->kubelet);
    free_gpus(m);
    free(m->node);
    free(m->provider_id);
    free(m->address);
    free(m->dir);
    free(m->socket);
    free(m->error_message);
    free(m);
}

static void forget(struct machines_machine *m)
{
    struct machines *all = m->owner;
    for (size_t i = 0; i < all->len; i++)
        if (all->items[i] == m) {
            all->len--;
            memmove(&all->items[i], &all->items[i + 1],
                    (all->len - i) * sizeof(struct machines_machine *));
            break;
        }
    machines_machine_free(m);
}

// In a turn of its own: the kubelet's functions are not on the stack.
static void on_gone(void *arg)
{
    struct machines_machine *m = arg;
    struct machines *all = m->owner;
    gs_info("machines", "%s: deleted", m->node);
    kubelet_free(GS_TAKE(m->kubelet));
    machines_delete_node(all->cfg.cluster, m->node);
    gs_remove_tree(m->dir);
    forget(m);
}

static void on_kubelet_stopped(void *arg)
{
    struct machines_machine *m = arg;
    gs_timer_start(m->timer, on_gone, 0);
}

void machines_machine_delete(struct machines_machine *m)
{
    gs_timer_stop(m->timer);
    if (m->kubelet) {
        enter(m, MACHINES_DELETING);
        controllers_scheduler_set_devices(m->owner->cfg.scheduler, m->node, NULL, 0);
        kubelet_stop(m->kubelet, STOP_GRACE_MS, on_kubelet_stopped, m);
    } else {
        enter(m, MACHINES_DELETING);
        gs_timer_start(m->timer, on_gone, 0);
    }
}

// --- the phases ---

static uint64_t duration(const struct machines_machine *m, int64_t ms)
{
    return m->first || ms <= 0 ? 0 : (uint64_t)llround((double)ms * m->slowness);
}

// Start-up times have a log-normal distribution with the pool's median and 90th percentile.
static double draw_slowness(const struct nodes_pool *p)
{
    const double z_of_p90 = 1.2815515655446004, tau = 6.283185307179586;
    uint32_t random[2];
    if (!p->startup_ms || p->startup_p90_ms <= p->startup_ms)
        return 1;
    gs_random_bytes(random, sizeof(random));
    double u = ((double)random[0] + 1) / ((double)UINT32_MAX + 1);
    double z = sqrt(-2 * log(u)) * cos(tau * ((double)random[1] / ((double)UINT32_MAX + 1)));
    double ratio = (double)p->startup_p90_ms / (double)p->startup_ms;
    double slowness = exp(z * log(ratio) / z_of_p90);
    return slowness < MAX_SLOWNESS ? slowness : MAX_SLOWNESS;
}

static void fail_machine(struct machines_machine *m, struct gs_error *err)
{
    gs_err("machines", "%s: %s", m->node, gs_error_message(err));
    free(m->error_message);
    m->error_code = "SimulationFailed";
    m->error_message = gs_strdup(gs_error_message(err));
    gs_error_free(err);
    enter(m, MACHINES_FAILED);
}

static void on_ready(void *arg)
{
    struct machines_machine *m = arg;
    kubelet_set_ready(m->kubelet, NULL);
    gs_info("machines", "%s: ready", m->node);
    enter(m, MACHINES_READY);
}

static void on_allocatable(void *arg)
{
    struct machines_machine *m = arg;
    const char *const *ids = (const char *const *)m->gpus.ids;
    kubelet_set_devices(m->kubelet, ids, m->gpus.n);
    controllers_scheduler_set_devices(m->owner->cfg.scheduler, m->node, ids, m->gpus.n);
    gs_info("machines", "%s: %zu GPUs are allocatable", m->node, m->gpus.n);
    enter(m, MACHINES_ALLOCATABLE);
    on_ready(m);
}

// The labels of the GPUs, except those that the pool sets.
static json_t *driver_labels(const struct machines_machine *m)
{
    json_t *labels = machines_gpu_labels(&m->gpus);
    CODEC_AUTO_JSON json_t *node = nodes_pool_template(m->pool->spec, m->node);
    const char *key;
    json_t *value;
    json_object_foreach (codec_json_get(node, "metadata", "labels", NULL), key, value)
        json_object_del(labels, key);
    return labels;
}

static char *set_name(const struct machines_machine *m)
{
    GS_AUTO_FREE char *prefix = machines_set_name(m->owner->cfg.cluster->data_dir);
    return gs_format("%s-%s", prefix, m->id);
}

static void on_driver(void *arg)
{
    struct machines_machine *m = arg;
    const struct nodes_pool *p = m->pool->spec;
    GS_AUTO_FREE char *spec = machines_gpu_spec(p);
    GS_AUTO_FREE char *set = set_name(m);
    struct gs_error *err = machines_gpus_simulate(spec, set, &m->gpus);
    if (err) {
        fail_machine(m, err);
        return;
    }
    m->has_gpus = true;
    CODEC_AUTO_JSON json_t *labels = driver_labels(m);
    kubelet_add_labels(m->kubelet, labels);
    kubelet_set_ready(m->kubelet, "the device plug-in has not registered nvidia.com/gpu");
    gs_info("machines", "%s: driver %s is installed", m->node, m->gpus.driver_version);
    enter(m, MACHINES_DRIVER);
    gs_timer_start(m->timer, on_allocatable, duration(m, p->simulation->gpu_ms));
}

// The environment of containers: that of the configuration, and the GPUs of this machine.
static const char **environment(const struct machines_machine *m, const struct simulation_env *sim)
{
    const struct machines *all = m->owner;
    const char **env = gs_alloc_array(all->n_env + sim->n + 1, sizeof(*env));
    size_t n = 0;
    for (size_t i = 0; i < sim->n; i++)
        env[n++] = sim->items[i];
    for (size_t i = 0; i < all->n_env; i++)
        env[n++] = all->extra_env[i];
    return env;
}

static struct gs_error *start_kubelet(struct machines_machine *m)
{
    const struct machines *all = m->owner;
    CODEC_AUTO_JSON json_t *node = nodes_pool_template(m->pool->spec, m->node);
    json_t *labels = codec_json_get(node, "metadata", "labels", NULL);
    CODEC_AUTO_JSON json_t *capacity =
        json_deep_copy(codec_json_get(node, "status", "capacity", NULL));
    json_object_del(capacity, "nvidia.com/gpu"); // not before the device plug-in
    GS_AUTO_FREE char *pod_text = gs_strdup(
        codec_json_str(capacity, "pods", NULL) ? codec_json_str(capacity, "pods", NULL) : "");
    GS_AUTO_FREE char *set = set_name(m), *library_path = NULL;
    gs_error_free(simulation_find_library(&library_path));
    GS_CLEANUP(simulation_env_finish) struct simulation_env sim;
    simulation_env_init(&sim, set, library_path);
    GS_AUTO_FREE const char **env = environment(m, &sim);
    const struct local_kubelet_config cfg = {
        .first = all->first,
        .node_name = m->node,
        .address = m->address,
        .data_dir = m->dir,
        .self_exe = all->self_exe,
        .node_labels = labels,
        .node_taints = codec_json_get(node, "spec", "taints", NULL),
        .podresources_socket = m->socket,
        .simulated_gpus = true,
        .extra_env = env,
        .work_dir = all->work_dir,
        .capacity = capacity,
        .max_pods = strtoll(pod_text, NULL, 10),
        .provider_id = m->provider_id,
        .not_ready =
            m->pool->spec->gpus ? "the GPU driver is not installed" : "the machine is starting",
    };
    GS_AUTO_FREE char *socket_dir = gs_format("%s/pr", m->dir);
    struct gs_error *err = gs_mkdir_p(socket_dir, 0700);
    return err ? err : kubelet_new(all->cfg.cluster, all->cfg.api, &cfg, &m->kubelet);
}

static void on_booted(void *arg)
{
    struct machines_machine *m = arg;
    const struct nodes_pool *p = m->pool->spec;
    struct gs_error *err = start_kubelet(m);
    if (err) {
        fail_machine(m, err);
        return;
    }
    gs_info("machines", "%s: the node is registered", m->node);
    enter(m, MACHINES_REGISTERED);
    if (m->failure == NODES_FAILURE_NEVER_READY)
        gs_warn("machines", "%s never becomes ready, as the pool's option \"fail\" says", m->node);
    else if (p->gpus)
        gs_timer_start(m->timer, on_driver, duration(m, p->simulation->driver_ms));
    else
        gs_timer_start(m->timer, on_ready,
                       duration(m, p->simulation->driver_ms + p->simulation->gpu_ms));
}

// --- creation ---

static bool id_used(const struct machines *all, const char *id)
{
    for (size_t i = 0; i < all->len; i++)
        if (gs_streq(all->items[i]->id, id))
            return true;
    return false;
}

static bool address_used(const struct machines *all, const char *address)
{
    for (size_t i = 0; i < all->len; i++)
        if (gs_streq(all->items[i]->address, address))
            return true;
    // Another gpuscale up on this machine may use it.
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(MACHINES_EXPORTER_PORT)};
    inet_pton(AF_INET, address, &at.sin_addr);
    GS_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    return fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
                       bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 1) < 0);
}

// The first address depends on the data directory, so that two programs rarely use the same ones.
static char *take_address(struct machines *all)
{
    for (unsigned tries = 0; tries < 0x10000; tries++) {
        size_t n = all->next_address++ & 0xffff;
        if ((n & 0xff) == 0 || (n & 0xff) == 0xff)
            continue;
        GS_AUTO_FREE char *address = gs_format("127.98.%zu.%zu", n >> 8, n & 0xff);
        if (!address_used(all, address))
            return GS_TAKE(address);
    }
    return NULL;
}

// Which machines fail does not depend on chance, so that a test has the same result each time.
static enum nodes_failure failure_of(const struct nodes_pool *p, size_t index)
{
    bool fails = p->simulation->fail_share > 0
                     ? (size_t)((double)(index + 1) * p->simulation->fail_share) >
                           (size_t)((double)index * p->simulation->fail_share)
                     : !p->simulation->fail_count || index < p->simulation->fail_count;
    return fails ? p->simulation->failure : NODES_FAILURE_NONE;
}

void machines_machine_create(struct machines *all, struct machines_pool *pool, bool first)
{
    GS_AUTO_FREE char *address = take_address(all);
    if (!address)
        return;
    struct machines_machine *m = gs_alloc(sizeof(*m));
    m->owner = all;
    m->pool = pool;
    m->first = first;
    m->slowness = draw_slowness(pool->spec);
    do
        gs_random_suffix(m->id, MACHINES_ID_LEN);
    while (id_used(all, m->id));
    m->node = gs_format("gpuscale-%s-%s", pool->spec->name, m->id);
    m->provider_id = nodes_pool_provider_id(pool->spec, m->node);
    m->address = GS_TAKE(address);
    m->dir = gs_format("%s/nodes/%s", all->cfg.cluster->data_dir, m->id);
    m->socket = gs_format("%s/pr/kubelet.sock", m->dir);
    m->timer = gs_timer_new(all->cfg.cluster->loop, m);
    m->phase = MACHINES_PROVISIONING;
    gs_grow(&all->items, &all->cap, all->len, sizeof(struct machines_machine *));
    all->items[all->len++] = m;
    if (!first)
        m->failure = failure_of(pool->spec, pool->created++);
    gs_info("machines", "%s: provisioning", m->node);
    enter(m, MACHINES_PROVISIONING);
    if (m->failure == NODES_FAILURE_CAPACITY) {
        m->error_code = "OutOfCapacity";
        m->error_message =
            gs_format("the pool %s has no capacity, as its option \"fail\" says", pool->spec->name);
        gs_warn("machines", "%s: %s", m->node, m->error_message);
        enter(m, MACHINES_FAILED);
    } else if (m->failure == NODES_FAILURE_NEVER_REGISTERS) {
        gs_warn("machines", "%s never registers, as the pool's option \"fail\" says", m->node);
    } else {
        gs_timer_start(m->timer, on_booted, duration(m, pool->spec->simulation->boot_ms));
    }
}
