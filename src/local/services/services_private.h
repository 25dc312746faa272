// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the service controller: addresses, the TCP balancer, Endpoints and
// EndpointSlices. All functions belong to the thread of the loop.
#pragma once

#include "base/error.h"
#include "local/api.h"
#include "local/cluster.h"
#include "local/workqueue.h"
#include "net/http/response_reader.h"
#include "net/http/server.h"

#include <stdint.h>
#include <uv.h>

// --- address.c: ClusterIPs, LoadBalancer addresses and node ports ---
// The lowest free one is allocated. The Service objects are the record; an allocation that the
// cache does not contain yet is kept as a lease.

struct services_addresses;
// seed: selects the first address of a cluster (the data directory), so that two clusters on one
// machine rarely use the same ones.
struct services_addresses *services_addresses_new(const struct kube_cache *services,
                                                  const char *seed);
void services_addresses_free(struct services_addresses *a);
// Drops the leases of a deleted service ("ns/name").
void services_addresses_drop(struct services_addresses *a, const char *service);

// The second byte of the address: 127.96.x.y.
enum services_address_kind { SERVICES_ADDRESS_CLUSTER = 96, SERVICES_ADDRESS_BALANCER = 97 };
// Returns the same address until services_addresses_drop. NULL if all are allocated. Borrowed.
const char *services_addresses_lease_ip(struct services_addresses *a, const char *service,
                                        enum services_address_kind kind);
// True if a service other than this one ("ns/name") has the address.
bool services_addresses_taken(const struct services_addresses *a, const char *ip,
                              const char *service);
// Records that the service has this address.
void services_addresses_keep_ip(struct services_addresses *a, const char *service,
                                enum services_address_kind kind, const char *ip);
// The node ports that are in use: read once for all ports of a service.
struct services_node_ports {
    enum { SERVICES_PORT_FREE, SERVICES_PORT_LEASED, SERVICES_PORT_USED } state[2768];
};
void services_addresses_node_ports(const struct services_addresses *a,
                                   struct services_node_ports *ret);
// A node port for one port of the service, which is then leased in ports, too. 0 if all are
// allocated.
int services_addresses_lease_port(struct services_addresses *a, struct services_node_ports *ports,
                                  const char *service, int service_port);

// --- balancer.c: a TCP load balancer on the loop ---
// A pool has endpoints and any number of listeners. A new connection uses the endpoint with the
// fewest open connections (round robin on ties), and the next one if connecting fails; those on
// standby come last. Without an
// endpoint it is closed at once. Connections to an endpoint that left its pool continue until they
// end.

struct services_balancer;
struct services_balancer_pool;
struct services_balancer_listener;

struct services_balancer_config {
    // 0: 4096, and at most an eighth of the files that the process may open. At the limit a new
    // connection replaces the one that was idle longest, if that was at least evict_ms (0: 10 s).
    size_t max_connections;
    unsigned evict_ms;
    unsigned idle_ms;    // a connection without traffic is closed after this time; 0: 10 minutes
    unsigned connect_ms; // 0: 5 s
};

struct services_balancer *services_balancer_new(uv_loop_t *loop,
                                                const struct services_balancer_config *cfg);
// Closes all connections. Free the pools first.
void services_balancer_free(struct services_balancer *b);
size_t services_balancer_connections(const struct services_balancer *b);

struct services_balancer_address {
    char ip[64]; // numeric
    uint16_t port;
    bool standby; // only for connections that no other endpoint takes
};

struct services_balancer_pool *services_balancer_pool_new(struct services_balancer *b);
// Close the listeners first. Open connections continue.
void services_balancer_pool_free(struct services_balancer_pool *p);
void services_balancer_pool_set(struct services_balancer_pool *p,
                                const struct services_balancer_address *items, size_t n);

// GS_EEXIST if the port is in use.
struct gs_error *services_balancer_listen(struct services_balancer_pool *p, const char *ip,
                                          uint16_t port, struct services_balancer_listener **ret);
uint16_t services_balancer_listener_port(const struct services_balancer_listener *l);
void services_balancer_listener_close(struct services_balancer_listener *l);

// --- listeners.c: the listeners of one service ---

struct services_listeners;
// All arguments are borrowed. recorder: of events about ports that are in use.
struct services_listeners *services_listeners_new(struct local_cluster *cluster,
                                                  struct services_balancer *balancer,
                                                  struct kube_recorder *recorder);
void services_listeners_free(struct services_listeners *s); // accepts NULL
// Opens and closes listeners so that they are those of the service. An address may be NULL. A port
// that is in use is tried again later.
void services_listeners_update(struct services_listeners *s, struct local_reconcile *w,
                               const json_t *svc, const char *cluster_ip, const char *lb_ip,
                               bool node_ports);
// Points them at the ready endpoints of the service.
void services_listeners_point(struct services_listeners *s, const json_t *svc);
// Where the address listens for the port of the spec; 0: nowhere.
int services_listeners_port(const struct services_listeners *s, const char *ip, int asked);
bool services_is_tcp(const json_t *port); // of a port of the spec

// --- endpoints.c: the Endpoints of a service, written from ready pods, read for balancing ---

struct services_endpoints_list {
    struct services_balancer_address *items;
    size_t len, cap;
};

// Writes the Endpoints of a service with a selector if they differ from the state of its pods.
void services_endpoints_write(struct local_cluster *c, struct local_reconcile *w,
                              const json_t *service);
// Deletes the Endpoints that services_endpoints_write created for a deleted service.
void services_endpoints_delete(struct local_cluster *c, struct local_reconcile *w, const char *ns,
                               const char *name);
// The addresses for connections to this port of the service: the ready ones first, then, as of
// kube-proxy, those of EndpointSlices that are serving and terminating, on standby.
void services_endpoints_of_port(const struct local_cluster *c, const json_t *service,
                                const json_t *port, struct services_endpoints_list *ret);

// --- slices.c: EndpointSlices, which newer versions of kubectl read ---

// Contains only the slices that this controller writes.
struct kube_cache *services_slices_cache_new(uv_loop_t *loop, struct kube_client *client);
// Adds the endpoints of slices of other controllers: the ready ones, or those on standby.
void services_slices_of_port(const struct local_cluster *c, const json_t *service,
                             const json_t *port, bool standby, struct services_endpoints_list *ret);
// One slice for each subset of the Endpoints (NULL: none). Extra slices are deleted.
void services_slices_write(const struct kube_cache *slices, struct local_reconcile *w,
                           const json_t *service, const json_t *endpoints);
void services_slices_delete(const struct kube_cache *slices, struct local_reconcile *w,
                            const char *ns, const char *service);

// --- ingress.c: a router for Ingress objects ---
// All Ingresses of a class share an address and its rules; each Ingress of the class "alb" has an
// address of its own, as its load balancer on AWS. Requests are answered by ingress_proxy.c.

struct services_ingress;
// addresses is borrowed.
struct services_ingress *services_ingress_new(struct local_cluster *c,
                                              struct services_addresses *addresses);
void services_ingress_free(struct services_ingress *g);
void services_ingress_route(struct services_ingress *g, const char *class, bool tls,
                            struct http_exchange *x);

// --- ingress_routes.c: the rules of Ingresses ---

enum services_ingress_path_type {
    SERVICES_INGRESS_EXACT,
    SERVICES_INGRESS_PREFIX,
    SERVICES_INGRESS_PATTERN, // of ImplementationSpecific: '*' and '?'
};

struct services_ingress_route {
    char *host; // NULL: any; may begin with "*."
    char *path;
    enum services_ingress_path_type type;
    bool is_default;    // of a default backend
    size_t order;       // of addition: the oldest Ingress wins
    char *ns, *service; // service NULL: the backend is not a Service
    char *port_name;    // NULL: port
    int port;
};

struct services_ingress_routes {
    struct services_ingress_route *items;
    size_t len, cap;
};

// The path by which rules are chosen: decoded, without empty, "." and ".." elements, as in nginx.
// The backend gets the path as it was sent. NULL: it leaves the root, or an escape is invalid.
// Caller frees.
char *services_ingress_path(const char *raw);
// Add the Ingresses from the oldest to the newest, then sort.
void services_ingress_routes_add(struct services_ingress_routes *r, const json_t *ingress);
void services_ingress_routes_sort(struct services_ingress_routes *r);
void services_ingress_routes_finish(struct services_ingress_routes *r);
// host: the header, may be NULL. path: without the query. NULL: no rule matches.
const struct services_ingress_route *
services_ingress_routes_find(const struct services_ingress_routes *r, const char *host,
                             const char *path);

// --- ingress_proxy.c: one request to a backend, and its response to the client ---

struct services_ingress_calls; // the requests in progress
struct services_ingress_calls *services_ingress_calls_new(uv_loop_t *loop);
// Stop the servers of the requests first.
void services_ingress_calls_free(struct services_ingress_calls *c);
// Sends the request to one of the addresses, and to the next if connecting fails. backend:
// identifies the Service and port, for the limit of requests in progress. tls: the client used
// HTTPS.
void services_ingress_proxy(struct services_ingress_calls *c, struct http_exchange *x,
                            const char *backend, const struct services_balancer_address *items,
                            size_t n, bool tls);
void services_ingress_refuse(struct http_exchange *x, int status); // a plain text such as nginx'
// Sends a request of the API's proxy to its server. Takes `forward`.
struct services_forward;
void services_ingress_forward(struct services_ingress_calls *c, struct http_exchange *x,
                              struct services_forward *forward);

// --- forward.c: how a request of the API's proxy differs from one of the router ---

void services_forward_free(struct services_forward *f); // accepts NULL
struct services_balancer_address services_forward_address(const struct services_forward *f);
const char *services_forward_target(const struct services_forward *f); // of the request line
bool services_forward_hides(const char *name); // a request header that the server must not get
void services_forward_add_headers(const struct services_forward *f, const struct http_exchange *x,
                                  struct gs_buf *out);
// Adds a header of the server's reply to that for the client, unless it stays behind.
void services_forward_reply_header(const struct services_forward *f, struct http_exchange *x,
                                   const struct http_header *header);
// error: of libuv if no connection was possible; 0: the server's reply was invalid.
void services_forward_refuse(const struct services_forward *f, struct http_exchange *x, int error);
struct services_forward *services_forward_new(const struct local_api_forward *f);
