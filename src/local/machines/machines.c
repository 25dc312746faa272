// SPDX-License-Identifier: Apache-2.0
// The life of a machine: a timer leads it from phase to phase, each with its part of the pool's
// start-up time. The calls of the provider only change the list and start timers, so a caller never
// waits.
#include "local/machines/machines_private.h"

#include "base/file.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "kube/object.h"
#include "nvmlsim/simulation/simulation.h"

#include <arpa/inet.h>
#include <math.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    POLL_MS = 100,         // until the caches are synced
    STOP_GRACE_MS = 10000, // of the pods that are still on a machine when it is deleted
    ID_LEN = 5,
    MAX_SLOWNESS = 100,
};

struct pool {
    const struct nodes_pool *spec;
    size_t created; // without the first ones; for failures on purpose
};

struct machine {
    struct machines *owner;
    struct pool *pool;
    char id[ID_LEN + 1]; // random: in its name and the name of its folder
    char *node, *provider_id, *address, *dir, *socket;
    enum machines_phase phase;
    enum nodes_failure failure; // what goes wrong on purpose
    bool first;                 // of the minimum: no start-up time
    struct kubelet *kubelet;
    struct machines_gpus gpus;
    bool has_gpus;   // gpus is set
    double slowness; // of its start: 1 is the median
    bool deleted;    // deletion is done: freed in the next turn of the loop
    const char *error_code;
    char *error_message;
    struct gs_timer *timer;
};

struct machines {
    struct machines_config cfg;
    struct kubelet *first;
    char *self_exe, *work_dir;
    char **extra_env;
    size_t n_env;
    struct pool *pools;
    struct machine **items; // in the order of their creation
    size_t len, cap;
    size_t next_address;
    bool begun, stopping;
    size_t n_stopping;
    void (*stop_done)(void *arg);
    void *stop_arg;
    struct gs_timer *timer;
    struct machines_orphans *orphans;
    struct nodes_provider provider;
};

// --- information ---

static struct machines_info info_of(const struct machine *m)
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

static void enter(struct machine *m, enum machines_phase phase)
{
    m->phase = phase;
    const struct machines_info info = info_of(m);
    if (m->owner->cfg.on_phase)
        m->owner->cfg.on_phase(m->owner->cfg.arg, &info);
}

void machines_each(const struct machines *m, void (*fn)(void *arg, const struct machines_info *i),
                   void *arg)
{
    for (size_t p = 0; p < m->cfg.n_pools; p++)
        for (size_t i = 0; i < m->len; i++)
            if (m->items[i]->pool == &m->pools[p]) {
                const struct machines_info info = info_of(m->items[i]);
                fn(arg, &info);
            }
}

bool machines_started(const struct machines *m)
{
    if (!m->begun)
        return false;
    for (size_t i = 0; i < m->len; i++)
        if (m->items[i]->first && m->items[i]->phase < MACHINES_READY)
            return false;
    return true;
}

// --- the end of a machine ---

static void free_gpus(struct machine *m)
{
    if (m->has_gpus)
        machines_gpus_finish(&m->gpus);
    m->has_gpus = false;
}

static void machine_free(struct machine *m)
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

static void forget(struct machine *m)
{
    struct machines *all = m->owner;
    for (size_t i = 0; i < all->len; i++)
        if (all->items[i] == m) {
            all->len--;
            memmove(&all->items[i], &all->items[i + 1], (all->len - i) * sizeof(struct machine *));
            break;
        }
    machine_free(m);
}

// In a turn of its own: the kubelet's functions are not on the stack.
static void on_gone(void *arg)
{
    struct machine *m = arg;
    struct machines *all = m->owner;
    gs_info("machines", "%s: deleted", m->node);
    kubelet_free(GS_TAKE(m->kubelet));
    machines_delete_node(all->cfg.cluster, m->node);
    gs_remove_tree(m->dir);
    forget(m);
}

static void on_kubelet_stopped(void *arg)
{
    struct machine *m = arg;
    gs_timer_start(m->timer, on_gone, 0);
}

static void delete_machine(struct machine *m)
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

static uint64_t duration(const struct machine *m, int64_t ms)
{
    return m->first || ms <= 0 ? 0 : (uint64_t)llround((double)ms * m->slowness);
}

// Start-up times have a log-normal distribution with the pool's median and 90th percentile.
static double draw_slowness(const struct nodes_pool *p)
{
    const double z_of_p90 = 1.2815515655446004, tau = 6.283185307179586;
    uint32_t random[2];
    if (!p->startup_ms || p->startup_p90_ms <= p->startup_ms ||
        getrandom(random, sizeof(random), 0) != sizeof(random))
        return 1;
    double u = ((double)random[0] + 1) / ((double)UINT32_MAX + 1);
    double z = sqrt(-2 * log(u)) * cos(tau * ((double)random[1] / ((double)UINT32_MAX + 1)));
    double ratio = (double)p->startup_p90_ms / (double)p->startup_ms;
    double slowness = exp(z * log(ratio) / z_of_p90);
    return slowness < MAX_SLOWNESS ? slowness : MAX_SLOWNESS;
}

static void fail_machine(struct machine *m, struct gs_error *err)
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
    struct machine *m = arg;
    kubelet_set_ready(m->kubelet, NULL);
    gs_info("machines", "%s: ready", m->node);
    enter(m, MACHINES_READY);
}

static void on_allocatable(void *arg)
{
    struct machine *m = arg;
    const char *const *ids = (const char *const *)m->gpus.ids;
    kubelet_set_devices(m->kubelet, ids, m->gpus.n);
    controllers_scheduler_set_devices(m->owner->cfg.scheduler, m->node, ids, m->gpus.n);
    gs_info("machines", "%s: %zu GPUs are allocatable", m->node, m->gpus.n);
    enter(m, MACHINES_ALLOCATABLE);
    on_ready(m);
}

// The labels of the GPUs, except those that the pool sets.
static json_t *driver_labels(const struct machine *m)
{
    json_t *labels = machines_gpu_labels(&m->gpus);
    CODEC_AUTO_JSON json_t *node = nodes_pool_template(m->pool->spec, m->node);
    const char *key;
    json_t *value;
    json_object_foreach (codec_json_get(node, "metadata", "labels", NULL), key, value)
        json_object_del(labels, key);
    return labels;
}

static char *set_name(const struct machine *m)
{
    GS_AUTO_FREE char *prefix = machines_set_name(m->owner->cfg.cluster->data_dir);
    return gs_format("%s-%s", prefix, m->id);
}

static void on_driver(void *arg)
{
    struct machine *m = arg;
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
    gs_timer_start(m->timer, on_allocatable, duration(m, p->gpu_ms));
}

// The environment of containers: that of the configuration, and the GPUs of this machine.
static const char **environment(const struct machine *m, const char *sim, const char *library)
{
    const struct machines *all = m->owner;
    const char **env = gs_alloc_array(all->n_env + 3, sizeof(*env));
    size_t n = 0;
    for (size_t i = 0; i < all->n_env; i++)
        env[n++] = all->extra_env[i];
    env[n++] = sim;
    if (library)
        env[n++] = library;
    return env;
}

static struct gs_error *start_kubelet(struct machine *m)
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
    GS_AUTO_FREE char *sim = gs_format("%s=%s", NVMLSIM_ENV, set);
    GS_AUTO_FREE char *library =
        library_path ? gs_format("GPUSCALE_NVML_LIBRARY=%s", library_path) : NULL;
    GS_AUTO_FREE const char **env = environment(m, sim, library);
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
    struct machine *m = arg;
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
        gs_timer_start(m->timer, on_driver, duration(m, p->driver_ms));
    else
        gs_timer_start(m->timer, on_ready, duration(m, p->driver_ms + p->gpu_ms));
}

// --- creation ---

static void random_id(char *ret)
{
    static const char safe[] = "bcdfghjklmnpqrstvwxz2456789"; // no words, as Kubernetes' names
    unsigned char bytes[ID_LEN];
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        memset(bytes, 0, sizeof(bytes));
    for (size_t i = 0; i < ID_LEN; i++)
        ret[i] = safe[bytes[i] % (sizeof(safe) - 1)];
    ret[ID_LEN] = '\0';
}

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
    bool fails = p->fail_share > 0 ? (size_t)((double)(index + 1) * p->fail_share) >
                                         (size_t)((double)index * p->fail_share)
                                   : !p->fail_count || index < p->fail_count;
    return fails ? p->failure : NODES_FAILURE_NONE;
}

static void create(struct machines *all, struct pool *pool, bool first)
{
    GS_AUTO_FREE char *address = take_address(all);
    if (!address)
        return;
    struct machine *m = gs_alloc(sizeof(*m));
    m->owner = all;
    m->pool = pool;
    m->first = first;
    m->slowness = draw_slowness(pool->spec);
    do
        random_id(m->id);
    while (id_used(all, m->id));
    m->node = gs_format("gpuscale-%s-%s", pool->spec->name, m->id);
    m->provider_id = nodes_pool_provider_id(pool->spec, m->node);
    m->address = GS_TAKE(address);
    m->dir = gs_format("%s/nodes/%s", all->cfg.cluster->data_dir, m->id);
    m->socket = gs_format("%s/pr/kubelet.sock", m->dir);
    m->timer = gs_timer_new(all->cfg.cluster->loop, m);
    m->phase = MACHINES_PROVISIONING;
    gs_grow(&all->items, &all->cap, all->len, sizeof(struct machine *));
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
        gs_timer_start(m->timer, on_booted, duration(m, pool->spec->boot_ms));
    }
}

// --- the provider ---

static struct pool *pool_named(const struct machines *all, const char *name)
{
    for (size_t i = 0; i < all->cfg.n_pools; i++)
        if (gs_streq(all->pools[i].spec->name, name))
            return &all->pools[i];
    return NULL;
}

static struct gs_error *no_pool(const char *name)
{
    return gs_error_new(GS_ENOTFOUND, "pool \"%s\" does not exist", name);
}

static size_t target(void *ctx, const char *pool)
{
    const struct machines *all = ctx;
    const struct pool *p = pool_named(all, pool);
    size_t n = 0;
    for (size_t i = 0; i < all->len; i++)
        n += all->items[i]->pool == p && all->items[i]->phase != MACHINES_DELETING;
    return n;
}

static struct gs_error *increase(void *ctx, const char *pool, size_t n)
{
    struct machines *all = ctx;
    struct pool *p = pool_named(all, pool);
    if (!p)
        return no_pool(pool);
    size_t now = target(all, pool);
    if (now > p->spec->max || n > p->spec->max - now)
        return gs_error_new(GS_ELIMIT, "pool \"%s\": size increase too large: %zu + %zu, max: %zu",
                            pool, now, n, (size_t)p->spec->max);
    if (n > MACHINES_MAX - all->len)
        return gs_error_new(GS_ELIMIT, "gpuscale up runs at most %d machines", MACHINES_MAX);
    for (size_t i = 0; i < n; i++)
        create(all, p, false);
    return NULL;
}

// The youngest first.
static struct gs_error *decrease_target(void *ctx, const char *pool, size_t n)
{
    struct machines *all = ctx;
    const struct pool *p = pool_named(all, pool);
    size_t creating = 0;
    if (!p)
        return no_pool(pool);
    for (size_t i = 0; i < all->len; i++)
        creating += all->items[i]->pool == p && all->items[i]->phase == MACHINES_PROVISIONING;
    if (n > creating)
        return gs_error_new(GS_EINVAL,
                            "pool \"%s\": cannot decrease the target by %zu: %zu machines are "
                            "being created",
                            pool, n, creating);
    for (size_t i = all->len; i-- && n;)
        if (all->items[i]->pool == p && all->items[i]->phase == MACHINES_PROVISIONING) {
            delete_machine(all->items[i]);
            n--;
        }
    return NULL;
}

static struct gs_error *delete_node(void *ctx, const char *pool, const char *provider_id)
{
    struct machines *all = ctx;
    const struct pool *p = pool_named(all, pool);
    if (!p)
        return no_pool(pool);
    for (size_t i = 0; i < all->len; i++) {
        struct machine *m = all->items[i];
        if (m->pool != p || !gs_streq(m->provider_id, provider_id))
            continue;
        if (m->phase == MACHINES_DELETING)
            return NULL;
        if (m->kubelet && target(all, pool) <= p->spec->min)
            return gs_error_new(GS_ELIMIT,
                                "pool \"%s\": min size reached, nodes will not be deleted", pool);
        delete_machine(m);
        return NULL;
    }
    return gs_error_new(GS_ENOTFOUND, "pool \"%s\" has no machine %s", pool, provider_id);
}

static void each_instance(void *ctx, const char *pool,
                          void (*fn)(void *arg, const struct nodes_instance *i), void *arg)
{
    const struct machines *all = ctx;
    const struct pool *p = pool_named(all, pool);
    for (size_t i = 0; i < all->len; i++) {
        const struct machine *m = all->items[i];
        const struct nodes_instance instance = {
            .provider_id = m->provider_id,
            .state = m->phase == MACHINES_DELETING ? NODES_INSTANCE_DELETING
                     : m->kubelet                  ? NODES_INSTANCE_RUNNING
                                                   : NODES_INSTANCE_CREATING,
            .error_code = m->error_code,
            .error_message = m->error_message,
            .out_of_resources = m->failure == NODES_FAILURE_CAPACITY,
        };
        if (m->pool == p)
            fn(arg, &instance);
    }
}

const struct nodes_provider *machines_provider(const struct machines *m)
{
    return &m->provider;
}

// --- start and stop ---

// The exporters of a killed program may end later than this one starts.
static void remove_former_gpus(const struct machines *all)
{
    GS_AUTO_FREE char *set = machines_set_name(all->cfg.cluster->data_dir);
    GS_AUTO_FREE char *prefix = gs_format("%s-", set);
    nvmlsim_remove_unused(prefix);
}

static void begin(void *arg)
{
    struct machines *all = arg;
    if (!local_cluster_synced(all->cfg.cluster)) {
        gs_timer_start(all->timer, begin, POLL_MS);
        return;
    }
    GS_AUTO_FREE char *dir = gs_format("%s/nodes", all->cfg.cluster->data_dir);
    machines_delete_former(all->cfg.cluster);
    remove_former_gpus(all);
    gs_remove_tree(dir);
    for (size_t p = 0; p < all->cfg.n_pools; p++)
        for (size_t i = 0; i < all->pools[p].spec->min && all->len < MACHINES_MAX; i++)
            create(all, &all->pools[p], true);
    all->begun = true;
}

static void copy_kubelet_config(struct machines *all, const struct local_kubelet_config *k)
{
    all->first = k->first;
    all->self_exe = gs_strdup(k->self_exe);
    all->work_dir = k->work_dir ? gs_strdup(k->work_dir) : NULL;
    for (size_t i = 0; k->extra_env && k->extra_env[i]; i++)
        all->n_env++;
    all->extra_env = gs_alloc_array(all->n_env + 1, sizeof(*all->extra_env));
    for (size_t i = 0; k->extra_env && i < all->n_env; i++)
        all->extra_env[i] = gs_strdup(k->extra_env[i]);
}

struct machines *machines_new(const struct machines_config *cfg)
{
    struct machines *all = gs_alloc(sizeof(*all));
    const char *dir = cfg->cluster->data_dir;
    all->cfg = *cfg;
    copy_kubelet_config(all, cfg->kubelet);
    all->cfg.kubelet = NULL;
    all->pools = gs_alloc_array(cfg->n_pools, sizeof(*all->pools));
    for (size_t i = 0; i < cfg->n_pools; i++)
        all->pools[i].spec = &cfg->pools[i];
    all->next_address = (gs_hash(dir, strlen(dir)) & 0xff) * 256;
    all->timer = gs_timer_new(cfg->cluster->loop, all);
    all->orphans = machines_orphans_new(cfg->cluster);
    all->provider = (struct nodes_provider){.ctx = all,
                                            .target = target,
                                            .increase = increase,
                                            .decrease_target = decrease_target,
                                            .delete_node = delete_node,
                                            .each = each_instance};
    gs_timer_start(all->timer, begin, 0);
    return all;
}

static void on_all_stopped(void *arg)
{
    struct machines *all = arg;
    all->stop_done(all->stop_arg);
}

static void on_one_stopped(void *arg)
{
    struct machine *m = arg;
    if (--m->owner->n_stopping == 0)
        gs_timer_start(m->owner->timer, on_all_stopped, 0);
}

void machines_stop(struct machines *m, unsigned timeout_ms, void (*done)(void *arg), void *arg)
{
    m->stopping = true;
    m->stop_done = done;
    m->stop_arg = arg;
    for (size_t i = 0; i < m->len; i++)
        gs_timer_stop(m->items[i]->timer);
    for (size_t i = 0; i < m->len; i++)
        if (m->items[i]->kubelet) {
            m->n_stopping++;
            kubelet_stop(m->items[i]->kubelet, timeout_ms, on_one_stopped, m->items[i]);
        }
    if (!m->n_stopping)
        gs_timer_start(m->timer, on_all_stopped, 0);
}

void machines_free(struct machines *m)
{
    if (!m)
        return;
    GS_AUTO_FREE char *dir = gs_format("%s/nodes", m->cfg.cluster->data_dir);
    gs_timer_free(m->timer);
    machines_orphans_free(m->orphans);
    for (size_t i = 0; i < m->len; i++)
        machine_free(m->items[i]);
    if (m->len)
        gs_remove_tree(dir);
    remove_former_gpus(m);
    for (size_t i = 0; i < m->n_env; i++)
        free(m->extra_env[i]);
    free(m->extra_env);
    free(m->self_exe);
    free(m->work_dir);
    free(m->items);
    free(m->pools);
    free(m);
}
