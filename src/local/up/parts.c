// SPDX-License-Identifier: Apache-2.0
// Starts the parts of the one-node cluster in the order in which they need each other. At the end,
// the exporter and the autoscaler of nodes stop first, then the kubelet and the machines end the
// pods, while the API still takes their last states.
#include "up/up_private.h"

#include "activator/activator.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/check.h"
#include "hpa_controller/controller.h"
#include "hpa_controller/explain_api.h"
#include "kube/kubeconfig.h"
#include "kube/object.h"
#include "nvmlsim/simulation/simulation.h"
#include "replay/history.h"
#include "up/console/console.h"
#include "web/reply.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

#define API_PORT        6443
#define EXPORTER_PORT   9400
#define KUBELET_PORT    10250
#define PROMETHEUS_PORT 9090
#define STOP_TIMEOUT_MS 15000
// GPUs are sampled and scraped more often than by default: a step in load is visible after the
// driver's window and at most one interval. The exporter samples shortly before each scrape.
// Drivers measure processes for up to a second, and a process without a new measurement looks idle.
#define SIMULATED_INTERVAL_MS 250
#define SAMPLE_INTERVAL_MS    500
// Of the pages of inference engines, which cost the engine more.
#define INFERENCE_INTERVAL_MS 500
// Of machines of pools, which may be many: samples and scrapes cost most of what gpuscale up needs
// at rest.
#define MACHINE_INTERVAL_MS  1000
#define POD_SERIES_WINDOW_NS (30 * GS_NS_PER_SEC) // pods are scraped each second
#define LEDGER_INTERVAL_MS   10000
#define LOOPBACK             "127.0.0.1"

// A port of 127.0.0.1 that is free now; wanted 0: any port. Returns 0 if `wanted` is in use.
static uint16_t free_port(uint16_t wanted)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(wanted),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    GS_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 1) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        return 0;
    return ntohs(a.sin_port);
}

static struct gs_error *choose_port(int64_t option, uint16_t usual, const char *what,
                                    const char *flag, uint16_t *ret)
{
    uint16_t port = free_port(option < 0 ? usual : (uint16_t)option);
    if (!port && option < 0) {
        port = free_port(0);
        gs_warn("up",
                "port %u is in use by another program: %s is on port %u (--%s chooses another)",
                usual, what, port, flag);
    }
    if (!port)
        return gs_error_new(GS_EEXIST,
                            "port %lld of " LOOPBACK
                            " is in use; choose another with --%s (0: any free one)",
                            (long long)option, flag);
    *ret = port;
    return NULL;
}

// Host names in Kubernetes are lower-case DNS names.
static char *default_node_name(void)
{
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof(host) - 1);
    for (char *c = host; *c; c++)
        *c = isalnum((unsigned char)*c) || *c == '.' || *c == '-' ? (char)tolower((unsigned char)*c)
                                                                  : '-';
    return gs_strdup(isalnum((unsigned char)host[0]) ? host : "localhost");
}

static struct gs_error *find_self(char **ret)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n < 0)
        return gs_error_errno(errno, "/proc/self/exe");
    *ret = gs_strndup(path, (size_t)n);
    return NULL;
}

static struct gs_error *read_images(struct up_cluster *c, const struct gs_opt_list *list)
{
    c->images = gs_alloc_array(list->len, sizeof(*c->images));
    for (size_t i = 0; i < list->len; i++) {
        const char *equals = strchr(list->items[i], '=');
        if (!equals || equals == list->items[i] || !equals[1])
            return gs_error_new(GS_EINVAL, "--image %s: write IMAGE=COMMAND", list->items[i]);
        c->images[c->n_images++] = (struct local_image){
            gs_strndup(list->items[i], (size_t)(equals - list->items[i])), equals + 1};
    }
    return NULL;
}

// port_flag: for errors.
static struct gs_error *listen_on(struct up_cluster *c, const char *port_flag, uint16_t port,
                                  struct program_listener l, struct http_server **ret)
{
    GS_AUTO_FREE char *address = gs_format(LOOPBACK ":%u", port);
    l.flag = port_flag;
    l.address = address;
    return program_listen(c->program, &l, ret);
}

static struct http_server_config api_server_config(const struct up_cluster *c,
                                                   const char *const *public_paths)
{
    return (struct http_server_config){
        .cert_pem = c->pki.server.cert_pem,
        .key_pem = c->pki.server.key_pem,
        .client_ca_pem = c->pki.ca.cert_pem,
        .bearer_token = c->pki.token,
        .check_token = local_api_check_token,
        .check_token_arg = c->api,
        .require_identity = true,
        .public_paths = public_paths,
    };
}

// A server with the certificate and the users of the API.
static struct gs_error *serve_users(struct up_cluster *c, const char *port_flag, uint16_t port,
                                    const char *const *public_paths, struct program_listener l,
                                    struct http_server **ret)
{
    const struct http_server_config http = api_server_config(c, public_paths);
    l.http = &http;
    return listen_on(c, port_flag, port, l, ret);
}

static struct gs_error *start_api(struct up_cluster *c, const struct up_options *o)
{
    static const char *const public_paths[] = {"/healthz", "/livez", "/readyz", NULL};
    static const char *const admin_groups[] = {"system:masters"};
    static const struct http_identity self = {"system:gpuscale", admin_groups, 1};
    const struct local_api_config api = {.data_dir = c->data_dir,
                                         .node_name = c->node_name,
                                         .max_objects = (size_t)o->max_objects,
                                         .max_pods = (size_t)o->pod_quota,
                                         .service_account_key = c->pki.service_account_key,
                                         .ca_pem = c->pki.ca.cert_pem};
    struct gs_error *err = local_api_new(c->loop, &api, &c->api);
    if (!err)
        err = choose_port(o->api_port, API_PORT, "the Kubernetes API", "api-port", &c->api_port);
    if (!err)
        err = serve_users(c, "--api-port", c->api_port, public_paths,
                          (struct program_listener){.handler = local_api_handle, .ctx = c->api},
                          NULL);
    if (err)
        return gs_error_wrap(err, "Kubernetes API");
    local_api_set_port(c->api, c->api_port);
    c->http = http_client_new_loopback(c->loop, local_api_handle, c->api, &self);
    c->client = kube_client_new(c->http);
    return NULL;
}

static struct gs_error *write_kubeconfig(struct up_cluster *c, const struct up_options *o)
{
    GS_AUTO_FREE char *url = gs_format("https://" LOOPBACK ":%u", c->api_port);
    GS_AUTO_FREE char *engine = gs_format("http://" LOOPBACK ":%u", c->prometheus_port);
    const struct kube_config k = {.server = url,
                                  .engine_url = engine,
                                  .ca_pem = c->pki.ca.cert_pem,
                                  .client_cert_pem = c->pki.client.cert_pem,
                                  .client_key_pem = c->pki.client.key_pem,
                                  .simulated_gpus = c->devices.sim_name};
    struct gs_error *err = kube_config_write(c->kubeconfig, "gpuscale", &k);
    up_kube_context_end(c->data_dir); // of an instance that was killed
    if (!err && o->kube_context)
        err = up_kube_context_add(c, o->kube_context, &k, &c->kube_context);
    return err;
}

static struct gs_error *start_node(struct up_cluster *c, const struct up_options *o)
{
    const char *const *ids = (const char *const *)c->devices.ids;
    GS_CLEANUP(simulation_env_finish) struct simulation_env sim = {0};
    if (c->devices.simulated)
        simulation_env_init(&sim, c->devices.sim_name, c->devices.sim_library);
    GS_AUTO_FREE const char **env = gs_alloc_array(o->env.len + sim.n + 1, sizeof(*env));
    size_t n = 0;
    for (size_t i = 0; i < sim.n; i++)
        env[n++] = sim.items[i];
    for (size_t i = 0; i < o->env.len; i++) // those of --env take precedence
        if (up_env_is_variable(o->env.items[i]))
            env[n++] = o->env.items[i];
    CODEC_AUTO_JSON json_t *labels = machines_gpu_labels(&c->devices), *taints = json_array();
    up_node_defaults(labels, c->devices.n > 0, &c->pools);
    struct gs_error *err = up_node_parse(o, labels, taints);
    if (err)
        return err;
    c->cluster = local_cluster_new(c->loop, c->client, c->node_name, c->data_dir);
    c->workloads = controllers_workloads_new(c->cluster);
    c->services = services_new(c->cluster);
    c->pools_json = nodes_pools_json(c->pools.items, c->pools.len);
    local_api_set_forwarder(c->api, &(struct local_api_forwarder){services_forward, c->services});
    c->scheduler = controllers_scheduler_new(c->cluster, ids, c->devices.n);
    controllers_scheduler_set_pools(c->scheduler, c->pools_json);
    const struct local_kubelet_config kubelet = {
        .self_exe = c->self_exe,
        .images = c->images,
        .n_images = c->n_images,
        .device_ids = ids,
        .n_devices = c->devices.n,
        .slices_renamed = c->devices.slices_renamed,
        .slices_single = c->devices.slices_single,
        .node_labels = labels,
        .node_taints = taints,
        .podresources_socket = c->podresources,
        .simulated_gpus = c->devices.simulated,
        .max_pods = o->max_pods,
        .extra_env = env,
        .api_port = c->api_port,
    };
    return kubelet_new(c->cluster, c->api, &kubelet, &c->kubelet);
}

// Clients find the port in the status of the node. A second cluster gets another one.
static struct gs_error *start_kubelet_api(struct up_cluster *c)
{
    uint16_t port = free_port(KUBELET_PORT);
    struct http_server *server = NULL;
    struct gs_error *err = serve_users(
        c, "the kubelet's API", port ? port : free_port(0), NULL,
        (struct program_listener){.handler = kubelet_handle, .ctx = c->kubelet}, &server);
    if (err)
        return err;
    kubelet_set_port(c->kubelet, http_server_port(server));
    return NULL;
}

static int sample_interval_ms(const struct up_cluster *c)
{
    return c->devices.simulated ? SIMULATED_INTERVAL_MS : SAMPLE_INTERVAL_MS;
}

static struct gs_error *start_exporter(struct up_cluster *c, const struct up_options *o,
                                       void (*line)(void *arg, const char *line), void *arg)
{
    struct gs_error *err = up_exporter_collectors(o, c->values, c->data_dir, &c->collectors);
    if (err || !c->devices.n)
        return err;
    err = choose_port(o->exporter_port, EXPORTER_PORT, "the exporter", "exporter-port",
                      &c->exporter_port);
    if (err)
        return err;
    GS_AUTO_FREE char *address = gs_format(LOOPBACK ":%u", c->exporter_port);
    const struct up_exporter_config cfg = {.self_exe = c->self_exe,
                                           .address = address,
                                           .podresources = c->podresources,
                                           .node = c->node_name,
                                           .gpus = &c->devices,
                                           .interval_ms = sample_interval_ms(c),
                                           .collectors = c->collectors,
                                           .on_line = line,
                                           .arg = arg};
    return up_exporter_start(c->loop, &cfg, &c->exporter);
}

static struct gs_error *start_machines(struct up_cluster *c,
                                       void (*line)(void *arg, const char *line), void *arg)
{
    if (!c->pools.len)
        return NULL;
    const struct gs_opt_list *items = &c->options->env;
    GS_AUTO_FREE const char **env = gs_alloc_array(items->len + 1, sizeof(*env));
    for (size_t i = 0; i < items->len; i++)
        env[i] = items->items[i];
    const struct local_kubelet_config kubelet = {
        .first = c->kubelet, .self_exe = c->self_exe, .extra_env = env};
    c->targets = gs_format("%s/machines.json", c->data_dir);
    const struct up_machines_config cfg = {.loop = c->loop,
                                           .machines = {.cluster = c->cluster,
                                                        .api = c->api,
                                                        .scheduler = c->scheduler,
                                                        .kubelet = &kubelet,
                                                        .pools = c->pools.items,
                                                        .n_pools = c->pools.len},
                                           .self_exe = c->self_exe,
                                           .collectors = c->collectors,
                                           .targets = c->targets,
                                           .interval_ms = MACHINE_INTERVAL_MS,
                                           .on_line = line,
                                           .arg = arg};
    return up_machines_start(&cfg, &c->machines);
}

static struct gs_error *write_engine_config(const struct up_cluster *c)
{
    GS_AUTO_FREE char *exporter = gs_format(LOOPBACK ":%u", c->exporter_port);
    const struct up_engine_config cfg = {
        .exporter = c->devices.n ? exporter : NULL,
        .targets = c->targets,
        .interval_ms = sample_interval_ms(c),
        .targets_interval_ms = MACHINE_INTERVAL_MS,
        .hidden = c->duplicates ? up_duplicates_pattern(c->duplicates) : NULL,
        .objects = c->objects,
        .account_dir = c->account_dir};
    return up_engine_config_write(&cfg, c->options, c->values, c->engine_config);
}

static json_t *describe_adapter_group(const void *adapter, const char *group)
{
    return adapter_describe_group(adapter, group);
}

// The API server has already authenticated the callers, and authorizes all of them.
static struct gs_error *start_adapter(struct up_cluster *c, const struct up_options *o)
{
    static const char *const groups[] = {"custom.metrics.k8s.io", "external.metrics.k8s.io",
                                         "metrics.k8s.io"};
    const char *rules = o->adapter_config ? o->adapter_config : c->values->adapter;
    const struct adapter_options options = {.config = rules,
                                            .kube = c->client,
                                            .engine = c->engine,
                                            .trusted = true,
                                            .config_maps = true,
                                            .resource_rules = up_resource_rules,
                                            .dcgm_aliases = true,
                                            .gpu_metrics = true,
                                            .pod_series = true,
                                            .pod_series_window_ns = POD_SERIES_WINDOW_NS,
                                            .keda_listen = o->keda_listen};
    struct gs_error *err = adapter_new(c->loop, &options, &c->adapter);
    if (!err)
        err = adapter_keda_listen(c->adapter, c->program, "--keda-listen-address", &c->keda);
    if (err)
        return gs_error_wrap(err, "metrics adapter");
    for (size_t i = 0; i < GS_ARRAY_LEN(groups); i++)
        local_api_mount(c->api, groups[i], describe_adapter_group, adapter_handle, c->adapter);
    return NULL;
}

static void write_kubelet_metrics(void *kubelet, struct gs_buf *out)
{
    kubelet_write_metrics(kubelet, out);
}

// GET: what the status block shows about pods that do not run.
#define PROBLEMS_PATH "/api/v1/gpuscale/problems"

// GET: the Services that are activated, and what waits for them.
#define ACTIVATOR_PATH "/api/v1/gpuscale/activator"

static void handle_explanation(void *arg, struct http_exchange *x)
{
    const struct up_cluster *c = arg;
    hpa_explain_api_handle(c->explain, x);
}

static void handle_history(void *arg, struct http_exchange *x)
{
    const struct up_cluster *c = arg;
    replay_history_api_handle(c->history, x);
}

static void handle_adapter_status(void *arg, struct http_exchange *x)
{
    const struct up_cluster *c = arg;
    adapter_handle(c->adapter, x);
}

static void handle_problems(void *arg, struct http_exchange *x)
{
    const struct up_cluster *c = arg;
    web_reply_data(x, console_problems_json(c->problems));
}

static void handle_activator(void *arg, struct http_exchange *x)
{
    const struct up_cluster *c = arg;
    web_reply_data(x, activator_json(c->activator));
}

static void handle_dashboards(void *arg, struct http_exchange *x)
{
    const struct up_cluster *c = arg;
    up_dashboards_handle(c->dashboards, x);
}

// Paths of the engine's HTTP API that other parts answer. All of them exist when the loop runs.
static const struct http_route extension_rows[] = {
    {.path = HPA_EXPLAIN_PATH, .handle = handle_explanation, .methods = HTTP_ANY},
    {.path = REPLAY_HISTORY_PATH, .handle = handle_history, .methods = HTTP_ANY},
    {.path = ADAPTER_STATUS_PATH, .handle = handle_adapter_status, .methods = HTTP_ANY},
    {.path = PROBLEMS_PATH, .handle = handle_problems},
    {.path = ACTIVATOR_PATH, .handle = handle_activator},
    {.path = UP_DASHBOARDS_PATH, .handle = handle_dashboards, .methods = HTTP_ANY},
    {0},
};

static struct gs_error *start_metrics(struct up_cluster *c, const struct up_options *o)
{
    c->engine_config = gs_format("%s/prometheus.yml", c->data_dir);
    c->ledger = gs_format("%s/ledger.db", c->data_dir);
    c->samples = gs_format("%s/" UP_SAMPLES_DIR, c->data_dir);
    up_operator_start(c);
    struct gs_error *err = write_engine_config(c);
    if (!err)
        err = up_release_new(c->values, c->data_dir, &c->release);
    unsigned write_messages = 0;
    if (!err)
        err = engine_receiver_messages(&o->receivers, &write_messages);
    struct tsdb_config store = {0};
    if (!err)
        err = up_store_config(o, c->samples, &store);
    if (err)
        return err;
    char *const *selectors = c->values->chart.selectors;
    const struct engine_options engine = {
        .config_path = c->engine_config,
        .watch_files = o->scrape_configs.len > 0,
        .service_monitor_selector = selectors[CHART_SERVICE_MONITORS],
        .pod_monitor_selector = selectors[CHART_POD_MONITORS],
        .rule_selector = selectors[CHART_RULES],
        .selection = &c->selection,
        .account_dir = c->account_dir,
        .store = store,
        .ends_with_process = true,
        .exemplars = engine_has_feature(&o->features, ENGINE_FEATURE_EXEMPLARS),
        .write_messages = write_messages,
        .kube = c->client,
        .dcgm_aliases = true,
        .kube_state = true,
        .kube_rules = true,
        .kube_monitors = true,
        .kube_inference_ms = INFERENCE_INTERVAL_MS,
        .inference_table = o->inference_table,
        .kube_annotations = true,
        .extension = &c->extension,
        .ledger = {.enabled = true,
                   .store_series = true,
                   .path = c->ledger,
                   .prices = o->prices,
                   .owner_label = o->owner_label,
                   .interval_ms = LEDGER_INTERVAL_MS,
                   .ends_with_process = true},
    };
    engine_enable_features(&o->features);
    err = engine_new(c->loop, &engine, &c->engine);
    if (!err)
        err = choose_port(o->prometheus_port, PROMETHEUS_PORT, "the Prometheus API",
                          "prometheus-port", &c->prometheus_port);
    const struct http_server_config http = {.max_body = ENGINE_MAX_BODY};
    if (!err)
        err = listen_on(
            c, "--prometheus-port", c->prometheus_port,
            (struct program_listener){.http = &http, .handler = engine_handle, .ctx = c->engine},
            NULL);
    if (err)
        return gs_error_wrap(err, "metrics engine");
    up_release_show(c->release, c);
    c->duplicates = up_duplicates_new(engine_tsdb(c->engine));
    const struct up_feed_config feed = {.job = "kubelet",
                                        .instance = c->node_name,
                                        .of_node = true,
                                        .interval_ms = UP_RESOURCES_INTERVAL_MS,
                                        .write = write_kubelet_metrics,
                                        .arg = c->kubelet};
    c->kubelet_feed = up_feed_new(c->loop, c->engine, &feed);
    return start_adapter(c, o);
}

static void write_kube_state(void *arg, struct gs_buf *out)
{
    const struct up_cluster *c = arg;
    engine_write_kube_state(c->engine, out);
}

static void write_autoscaler_metrics(void *arg, struct gs_buf *out)
{
    const struct up_cluster *c = arg;
    if (c->node_autoscaler)
        autoscaler_metrics(c->node_autoscaler, out);
}

static void write_activator_metrics(void *arg, struct gs_buf *out)
{
    const struct up_cluster *c = arg;
    activator_write_metrics(c->activator, out);
}

// A new value must not wait for the next interval.
static void on_activator_change(void *arg)
{
    const struct up_cluster *c = arg;
    if (c->activator_feed)
        up_feed_write(c->activator_feed);
}

static void start_activator(struct up_cluster *c)
{
    struct activator_config cfg = activator_config_default();
    cfg.identity = c->node_name;
    cfg.node = c->node_name;
    cfg.on_change = on_activator_change;
    cfg.arg = c;
    c->activator = activator_new(c->loop, c->client, &cfg);
    const struct up_feed_config feed = {.job = "activator",
                                        .instance = c->node_name,
                                        .interval_ms = SAMPLE_INTERVAL_MS,
                                        .write = write_activator_metrics,
                                        .arg = c};
    c->activator_feed = up_feed_new(c->loop, c->engine, &feed);
}

static void write_pools(void *arg, struct gs_buf *out)
{
    const struct up_cluster *c = arg;
    up_pools_print(&c->pools, c->machines, out);
}

static void reload_engine(void *arg)
{
    const struct up_cluster *c = arg;
    gs_error_free(engine_reload(c->engine)); // logged there
}

// Containers whose image this program replaces. It may start after the first of them: those start
// again.
static struct gs_error *start_standins(struct up_cluster *c)
{
    c->standin_socket = gs_format("%s/" LOCAL_STANDIN_SOCKET, c->data_dir);
    const struct standin_config cfg = {.cluster = c->cluster,
                                       .services = c->services,
                                       .socket_path = c->standin_socket,
                                       .self_exe = c->self_exe,
                                       .ca = &c->pki.ca,
                                       .api_server = api_server_config(c, NULL),
                                       .front_proxy_authority =
                                           local_api_front_proxy_authority(c->api),
                                       .api = {local_api_handle, c->api},
                                       .web = {engine_handle, c->engine},
                                       .engine_port = c->prometheus_port,
                                       .write_kube_state = write_kube_state,
                                       .write_autoscaler = write_autoscaler_metrics,
                                       .write_pools = c->pools.len ? write_pools : NULL,
                                       .reload = reload_engine,
                                       .arg = c};
    return standin_server_new(&cfg, &c->standins);
}

static struct gs_error *prepare(struct up_cluster *c, const struct up_options *o)
{
    GS_AUTO_FREE char *pki_dir = gs_format("%s/pki", c->data_dir);
    GS_AUTO_FREE char *socket_dir = gs_format("%s/pod-resources", c->data_dir);
    c->node_name = o->node_name ? gs_strdup(o->node_name) : default_node_name();
    c->kubeconfig = gs_format("%s/kubeconfig", c->data_dir);
    c->podresources = gs_format("%s/kubelet.sock", socket_dir);
    struct gs_error *err = read_images(c, &o->images);
    if (!err)
        err = find_self(&c->self_exe);
    if (!err)
        err = gs_mkdir_p(socket_dir, 0700);
    if (!err)
        err = up_pki_load(pki_dir, &c->pki);
    if (!err)
        err = up_node_autoscaler_check(o);
    if (!err)
        err = up_pools_load(o, &c->pools);
    if (!err)
        err = up_devices_open(o->gpus, c->data_dir, &c->devices);
    return err;
}

struct gs_error *up_cluster_start(struct program *program, const struct up_options *o,
                                  const struct up_values *values, const char *data_dir,
                                  void (*line)(void *arg, const char *line), hpa_observer observer,
                                  void *arg, struct up_cluster **ret)
{
    struct up_cluster *c = gs_alloc(sizeof(*c));
    c->program = program;
    c->loop = program_loop(program);
    c->extension = (struct http_routes){.rows = extension_rows, .ctx = c};
    c->options = o;
    c->values = values;
    c->data_dir = gs_strdup(data_dir);
    struct gs_error *err = prepare(c, o);
    if (!err)
        err = start_api(c, o);
    if (!err)
        err = start_node(c, o);
    if (!err)
        err = start_kubelet_api(c);
    if (!err)
        err = start_exporter(c, o, line, arg);
    if (!err)
        err = start_machines(c, line, arg);
    if (!err)
        err = start_metrics(c, o);
    if (!err)
        err = write_kubeconfig(c, o);
    if (!err)
        up_commands_make(c);
    if (!err)
        err = up_autoscaler_start(c, o, observer, arg);
    if (!err) {
        c->dashboards = up_dashboards_new(c->client);
        start_activator(c);
    }
    if (!err)
        up_node_autoscaler_start(c);
    if (!err)
        err = start_standins(c);
    *ret = c; // also after a failure: the caller frees it and empties the loop
    return err;
}

void up_cluster_hide_duplicates(struct up_cluster *c)
{
    bool hid = up_duplicates_pattern(c->duplicates) != NULL;
    up_operator_hide_kube_state(c);
    if (!up_duplicates_update(c->duplicates, gs_unix_ms()))
        return;
    GS_AUTO_FREE char *text = up_duplicates_text(c->duplicates);
    if (!hid || !up_duplicates_pattern(c->duplicates))
        gs_info("up", "%s", text);
    up_cluster_configure(c);
}

void up_cluster_configure(struct up_cluster *c)
{
    GS_AUTO_ERROR struct gs_error *err = write_engine_config(c);
    if (err)
        gs_err("up", "%s", gs_error_message(err));
    else
        gs_error_free(engine_reload(c->engine)); // logged there
}

void up_cluster_reload(struct up_cluster *c)
{
    gs_error_free(engine_reload(c->engine)); // logged there
    adapter_reload(c->adapter);
}

bool up_cluster_ready(const struct up_cluster *c)
{
    return local_cluster_synced(c->cluster) &&
           (!c->machines || machines_started(up_machines_of(c->machines))) &&
           kube_condition_true(kube_cache_get(c->cluster->nodes, NULL, c->node_name), "Ready");
}

static void on_part_stopped(void *arg)
{
    struct up_cluster *c = arg;
    if (--c->n_stopping == 0)
        c->stop_done(c->stop_arg);
}

void up_cluster_stop(struct up_cluster *c, void (*done)(void *arg), void *arg)
{
    up_child_stop(c->exporter);
    up_autoscaler_stop(c);
    adapter_keda_stop(c->keda);
    if (c->node_autoscaler)
        autoscaler_stop(c->node_autoscaler);
    c->stop_done = done;
    c->stop_arg = arg;
    c->n_stopping = (c->kubelet ? 1 : 0) + (c->machines ? 1 : 0) + (c->activator ? 1 : 0);
    if (!c->n_stopping)
        done(arg);
    if (c->activator)
        activator_stop(c->activator, on_part_stopped, c);
    if (c->machines)
        machines_stop(up_machines_of(c->machines), STOP_TIMEOUT_MS, on_part_stopped, c);
    if (c->kubelet)
        kubelet_stop(c->kubelet, STOP_TIMEOUT_MS, on_part_stopped, c);
}

void up_cluster_free(struct up_cluster *c)
{
    if (!c)
        return;
    standin_server_free(c->standins);
    up_feed_free(c->activator_feed);
    activator_free(c->activator);
    up_feed_free(c->autoscaler_feed);
    autoscaler_free(c->node_autoscaler);
    up_dashboards_free(c->dashboards);
    up_autoscaler_free(c);
    up_child_free(c->exporter);
    adapter_keda_free(c->keda);
    adapter_free(c->adapter);
    up_feed_free(c->kubelet_feed);
    up_duplicates_free(c->duplicates);
    engine_free(c->engine);
    operator_free(c->operator);
    json_decref(c->objects);
    free(c->account_dir);
    up_release_free(c->release);
    up_machines_free(c->machines);
    kubelet_free(c->kubelet);
    if (c->api)
        local_api_set_forwarder(c->api, NULL);
    services_free(c->services);
    controllers_scheduler_free(c->scheduler);
    controllers_workloads_free(c->workloads);
    local_cluster_free(c->cluster);
    kube_client_free(c->client);
    http_client_free(c->http);
    local_api_free(c->api);
    free(c->engine_config);
    free(c->ledger);
    free(c->samples);
    up_pki_finish(&c->pki);
    machines_gpus_finish(&c->devices);
    nodes_pools_finish(&c->pools);
    json_decref(c->pools_json);
    free(c->targets);
    free(c->collectors);
    for (size_t i = 0; i < c->n_images; i++)
        free((char *)c->images[i].image);
    free(c->images);
    if (c->kube_context)
        up_kube_context_end(c->data_dir);
    free(c->data_dir);
    free(c->bin_dir);
    free(c->node_name);
    free(c->self_exe);
    free(c->kube_context);
    free(c->kubeconfig);
    free(c->podresources);
    free(c->standin_socket);
    free(c);
}
