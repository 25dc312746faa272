// SPDX-License-Identifier: Apache-2.0
// This file follows the search list instead of ares_search(). A name is absent only if a server
// reports this for every suffix, and ares_search() ignores suffixes with failed servers.
#include "net/dns/dns.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/timer.h"
#include "net/dns/dns_private.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/queue.h>

// Debian 13 has newer functions beside those that Debian 12 has as well.
#define CARES_NO_DEPRECATED
#include <ares.h>

enum { TIMEOUT_MS = 2000, EDNS_SIZE = 4096, MAX_PROBLEMS = 400 };

// A socket of the channel.
struct dns_watch {
    uv_poll_t poll;
    ares_socket_t fd;
    struct dns_lookup *lookup;
    LIST_ENTRY(dns_watch) list;
};

struct dns_lookup {
    uv_loop_t *loop;
    char *resolv_conf, *name;
    enum dns_type type;
    uint16_t port;
    unsigned timeout_ms;
    dns_fn fn;
    void *arg;
    ares_channel channel;   // NULL: not opened yet, or closed
    struct gs_timer *timer; // the start of the lookup, then the channel's next timeout
    LIST_HEAD(, dns_watch) watches;
    char **names; // queried in this order
    size_t n_names, at;
    bool unsure; // the servers failed for at least one name
    struct gs_buf problems;
    // Result of the query that has ended; handled when c-ares has returned.
    bool ended;
    int status;
    struct gs_arena mem;
    struct dns_record *records;
    size_t n_records;
};

// --- the end ---

static void free_lookup(void *arg)
{
    struct dns_lookup *l = arg;
    for (size_t i = 0; i < l->n_names; i++)
        free(l->names[i]);
    free(l->names);
    free(l->resolv_conf);
    free(l->name);
    gs_buf_finish(&l->problems);
    gs_arena_finish(&l->mem);
    free(l);
}

// The callback is not called for a query in progress: c-ares reports the end of its channel to
// on_query_end(), which ignores it.
static void close_lookup(struct dns_lookup *l)
{
    ares_channel channel = GS_TAKE(l->channel);
    if (channel)
        ares_destroy(channel); // also closes the watches
    gs_timer_close(l->timer, free_lookup);
}

void dns_lookup_cancel(struct dns_lookup *l)
{
    if (l)
        close_lookup(l);
}

// Takes err.
static void finish_lookup(struct dns_lookup *l, const struct dns_answer *answer,
                          struct gs_error *err)
{
    l->fn(l->arg, answer, err);
    close_lookup(l);
}

// --- records ---

static void add_record(struct dns_lookup *l, const char *target, uint16_t port, bool is_name)
{
    GS_AUTO_FREE char *whole = is_name ? gs_format("%s.", target) : gs_strdup(target);
    l->records[l->n_records++] =
        (struct dns_record){l->type, gs_arena_strdup(&l->mem, whole), port};
}

static void make_records(struct dns_lookup *l, size_t n)
{
    l->records = gs_arena_alloc(&l->mem, (n + 1) * sizeof(*l->records));
}

enum { MIN_A_SIZE = 16, MIN_AAAA_SIZE = 28 }; // type of a record in a message

static int read_a(struct dns_lookup *l, const unsigned char *message, int len)
{
    char text[INET_ADDRSTRLEN];
    int n = len / MIN_A_SIZE;
    GS_AUTO_FREE struct ares_addrttl *list = gs_alloc_array((size_t)n + 1, sizeof(*list));
    int status = ares_parse_a_reply(message, len, NULL, list, &n);
    if (status != ARES_SUCCESS)
        return status;
    make_records(l, (size_t)n);
    for (int i = 0; i < n; i++)
        add_record(l, inet_ntop(AF_INET, &list[i].ipaddr, text, sizeof(text)), 0, false);
    return ARES_SUCCESS;
}

// An IPv4 address in IPv6 form is written as the IPv4 address, as Prometheus does.
static const char *ip6_text(const struct ares_in6_addr *ip, char text[static INET6_ADDRSTRLEN])
{
    enum { MAPPED = 12 }; // the bytes before the IPv4 address
    static const unsigned char mapped[MAPPED] = {[10] = 0xff, [11] = 0xff};
    const unsigned char *bytes = (const unsigned char *)ip;
    if (!memcmp(bytes, mapped, MAPPED))
        return inet_ntop(AF_INET, bytes + MAPPED, text, INET6_ADDRSTRLEN);
    return inet_ntop(AF_INET6, bytes, text, INET6_ADDRSTRLEN);
}

static int read_aaaa(struct dns_lookup *l, const unsigned char *message, int len)
{
    char text[INET6_ADDRSTRLEN];
    int n = len / MIN_AAAA_SIZE;
    GS_AUTO_FREE struct ares_addr6ttl *list = gs_alloc_array((size_t)n + 1, sizeof(*list));
    int status = ares_parse_aaaa_reply(message, len, NULL, list, &n);
    if (status != ARES_SUCCESS)
        return status;
    make_records(l, (size_t)n);
    for (int i = 0; i < n; i++)
        add_record(l, ip6_text(&list[i].ip6addr, text), 0, false);
    return ARES_SUCCESS;
}

static int read_ns(struct dns_lookup *l, const unsigned char *message, int len)
{
    struct hostent *host = NULL;
    size_t n = 0;
    int status = ares_parse_ns_reply(message, len, &host);
    if (status != ARES_SUCCESS)
        return status;
    while (host->h_aliases[n])
        n++;
    make_records(l, n);
    for (size_t i = 0; i < n; i++)
        add_record(l, host->h_aliases[i], 0, true);
    ares_free_hostent(host);
    return ARES_SUCCESS;
}

static int read_mx(struct dns_lookup *l, const unsigned char *message, int len)
{
    struct ares_mx_reply *list = NULL, *mx;
    size_t n = 0;
    int status = ares_parse_mx_reply(message, len, &list);
    if (status != ARES_SUCCESS)
        return status;
    for (mx = list; mx; mx = mx->next)
        n++;
    make_records(l, n);
    for (mx = list; mx; mx = mx->next)
        add_record(l, mx->host, 0, true);
    ares_free_data(list);
    return ARES_SUCCESS;
}

static int read_srv(struct dns_lookup *l, const unsigned char *message, int len)
{
    struct ares_srv_reply *list = NULL, *srv;
    size_t n = 0;
    int status = ares_parse_srv_reply(message, len, &list);
    if (status != ARES_SUCCESS)
        return status;
    for (srv = list; srv; srv = srv->next)
        n++;
    make_records(l, n);
    for (srv = list; srv; srv = srv->next)
        add_record(l, srv->host, srv->port, true);
    ares_free_data(list);
    return ARES_SUCCESS;
}

static int read_records(struct dns_lookup *l, const unsigned char *message, int len)
{
    switch (l->type) {
    case DNS_NS:
        return read_ns(l, message, len);
    case DNS_MX:
        return read_mx(l, message, len);
    case DNS_SRV:
        return read_srv(l, message, len);
    case DNS_AAAA:
        return read_aaaa(l, message, len);
    case DNS_A:
        break;
    }
    return read_a(l, message, len);
}

// --- queries ---

static void on_query_end(void *arg, int status, int timeouts, unsigned char *message, int len)
{
    struct dns_lookup *l = arg;
    (void)timeouts;
    if (!l->channel)
        return;
    l->n_records = 0;
    l->status = status == ARES_SUCCESS ? read_records(l, message, len) : status;
    l->ended = true;
}

static void note_problem(struct dns_lookup *l, const char *name, int status)
{
    l->unsure = true;
    if (l->problems.len < MAX_PROBLEMS)
        gs_buf_addf(&l->problems, "%s%s: %s", l->problems.len ? "; " : "", name,
                    ares_strerror(status));
}

// Handles the query that has ended and starts the next one. False: the lookup is freed.
static bool next_query(struct dns_lookup *l)
{
    const struct dns_answer none = {.exists = false};
    if (l->status == ARES_SUCCESS || l->status == ARES_ENODATA) {
        const struct dns_answer answer = {true, l->records, l->n_records};
        finish_lookup(l, &answer, NULL);
        return false;
    }
    if (l->status != ARES_ENOTFOUND)
        note_problem(l, l->names[l->at], l->status);
    if (++l->at < l->n_names) {
        ares_query(l->channel, l->names[l->at], ns_c_in, (int)l->type, on_query_end, l);
        return true;
    }
    if (l->unsure)
        finish_lookup(l, NULL,
                      gs_error_new(GS_EUNAVAIL,
                                   "could not resolve \"%s\": all servers responded with errors "
                                   "to at least one search domain (%s)",
                                   l->name, l->problems.data));
    else
        finish_lookup(l, &none, NULL);
    return false;
}

// --- the channel and the loop ---

static void on_timeout(void *arg);

// Call it after each call of c-ares that may end a query.
static void continue_lookup(struct dns_lookup *l)
{
    struct timeval left;
    while (l->ended) {
        l->ended = false;
        if (!next_query(l))
            return;
    }
    if (ares_timeout(l->channel, NULL, &left))
        gs_timer_start(l->timer, on_timeout,
                       (uint64_t)left.tv_sec * 1000 + (uint64_t)left.tv_usec / 1000 + 1);
}

static void on_timeout(void *arg)
{
    struct dns_lookup *l = arg;
    ares_process_fd(l->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    continue_lookup(l);
}

static void on_socket(uv_poll_t *p, int status, int events)
{
    struct dns_watch *w = GS_CONTAINER_OF(p, struct dns_watch, poll);
    struct dns_lookup *l = w->lookup;
    // A read returns the error of the socket.
    bool readable = status < 0 || (events & UV_READABLE);
    ares_process_fd(l->channel, readable ? w->fd : ARES_SOCKET_BAD,
                    events & UV_WRITABLE ? w->fd : ARES_SOCKET_BAD);
    continue_lookup(l);
}

static void free_watch(uv_handle_t *h)
{
    free(GS_CONTAINER_OF(h, struct dns_watch, poll));
}

static void watch_socket(void *arg, ares_socket_t fd, int readable, int writable)
{
    struct dns_lookup *l = arg;
    struct dns_watch *w;
    LIST_FOREACH (w, &l->watches, list) {
        if (w->fd == fd)
            break;
    }
    if (!readable && !writable) {
        if (w) {
            LIST_REMOVE(w, list);
            uv_close((uv_handle_t *)&w->poll, free_watch);
        }
        return;
    }
    if (!w) {
        w = gs_alloc(sizeof(*w));
        w->fd = fd;
        w->lookup = l;
        if (uv_poll_init_socket(l->loop, &w->poll, fd) != 0) { // the query times out
            free(w);
            return;
        }
        LIST_INSERT_HEAD(&l->watches, w, list);
    }
    uv_poll_start(&w->poll, (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0), on_socket);
}

static size_t count_dots(const char *name)
{
    size_t n = 0;
    for (; *name; name++)
        n += *name == '.';
    return n;
}

static bool is_absolute(const char *name)
{
    return gs_ends(name, ".");
}

// Follows resolv.conf(5).
static void make_names(struct dns_lookup *l)
{
    struct dns_search search;
    dns_search_read(l->resolv_conf, &search);
    size_t n_search = is_absolute(l->name) ? 0 : search.n;
    bool first = !n_search || count_dots(l->name) >= search.ndots;
    l->names = gs_alloc_array(n_search + 1, sizeof(char *));
    if (first)
        l->names[l->n_names++] = gs_strdup(l->name);
    for (size_t i = 0; i < n_search; i++)
        l->names[l->n_names++] = gs_format("%s.%s", l->name, search.suffixes[i]);
    if (!first)
        l->names[l->n_names++] = gs_strdup(l->name);
    dns_search_finish(&search);
}

static int open_channel(struct dns_lookup *l)
{
    struct ares_options o = {
        .flags = ARES_FLAG_EDNS,
        .ednspsz = EDNS_SIZE,
        .timeout = (int)l->timeout_ms,
        .tries = 1, // of each server
        .udp_port = l->port,
        .tcp_port = l->port,
        .sock_state_cb = watch_socket,
        .sock_state_cb_data = l,
        .resolvconf_path = l->resolv_conf,
    };
    int mask = ARES_OPT_FLAGS | ARES_OPT_EDNSPSZ | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
               ARES_OPT_UDP_PORT | ARES_OPT_TCP_PORT | ARES_OPT_SOCK_STATE_CB;
    if (l->resolv_conf)
        mask |= ARES_OPT_RESOLVCONF;
    return ares_init_options(&l->channel, &o, mask);
}

static void begin_lookup(void *arg)
{
    struct dns_lookup *l = arg;
    int status = open_channel(l);
    if (status != ARES_SUCCESS) {
        finish_lookup(
            l, NULL,
            gs_error_new(GS_EUNAVAIL, "could not load resolv.conf: %s", ares_strerror(status)));
        return;
    }
    make_names(l);
    ares_query(l->channel, l->names[0], ns_c_in, (int)l->type, on_query_end, l);
    continue_lookup(l);
}

static void init_library(void)
{
    (void)ares_library_init(ARES_LIB_INIT_ALL);
}

struct dns_lookup *dns_lookup_start(uv_loop_t *loop, const struct dns_config *cfg, const char *name,
                                    enum dns_type type, dns_fn fn, void *arg)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static const struct dns_config defaults = {0};
    const struct dns_config *c = cfg ? cfg : &defaults;
    struct dns_lookup *l = gs_alloc(sizeof(*l));
    (void)pthread_once(&once, init_library);
    l->loop = loop;
    l->resolv_conf = gs_strdup(c->resolv_conf);
    l->port = c->port ? c->port : NS_DEFAULTPORT;
    l->timeout_ms = c->timeout_ms ? c->timeout_ms : TIMEOUT_MS;
    l->name = gs_strdup(name);
    l->type = type;
    l->fn = fn;
    l->arg = arg;
    LIST_INIT(&l->watches);
    l->timer = gs_timer_new(loop, l);
    gs_timer_start(l->timer, begin_lookup, 0);
    return l;
}
