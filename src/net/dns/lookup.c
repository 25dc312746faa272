// SPDX-License-Identifier: Apache-2.0
#include "net/dns/dns.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "net/dns/exchange.h"

#include <stdio.h>

#define MAX_CONF     ((size_t)1 << 20)
#define TIMEOUT_MS   2000 // as Prometheus' library, whatever the file says
#define MAX_NDOTS    15
#define MAX_PROBLEMS 400 // of the text about them

struct dns_lookup {
    uv_loop_t *loop;
    struct dns_config cfg;
    char *name;
    enum dns_type type;
    dns_fn fn;
    void *arg;
    char *names[DNS_MAX_SEARCH + 1]; // to be asked for, in this order
    size_t n_names, at_name, at_server;
    bool unsure; // no server was able to say of some name
    bool tcp;
    struct dns_exchange *exchange;
    uv_timer_t begin;
    struct gs_buf query;
    struct gs_buf problems;
};

// --- resolv.conf ---

static struct gs_slice next_word(struct gs_slice *line)
{
    static const char blanks[] = " \t\r\f\v";
    size_t at = 0, end;
    while (at < line->len && strchr(blanks, line->data[at]) && line->data[at])
        at++;
    for (end = at; end < line->len && !(line->data[end] && strchr(blanks, line->data[end])); end++)
        ;
    struct gs_slice word = gs_slice_make(line->data + at, end - at);
    *line = gs_slice_make(line->data + end, line->len - end);
    return word;
}

static void keep_word(char *room, size_t size, struct gs_slice word, size_t *n, size_t max)
{
    if (word.len && word.len < size && *n < max) {
        memcpy(room, word.data, word.len);
        room[word.len] = '\0';
        ++*n;
    }
}

static void read_search(struct gs_slice line, size_t max, struct dns_config *c)
{
    c->n_search = 0;
    for (struct gs_slice w; (w = next_word(&line)).len && c->n_search < max;)
        keep_word(c->search[c->n_search], sizeof(c->search[0]), w, &c->n_search, max);
}

static void read_options(struct gs_slice line, struct dns_config *c)
{
    for (struct gs_slice w; (w = next_word(&line)).len;) {
        uint64_t n = 0;
        if (!gs_slice_starts(w, "ndots:"))
            continue;
        gs_error_free(gs_parse_u64(gs_slice_make(w.data + 6, w.len - 6), UINT64_MAX, &n));
        c->ndots = n < MAX_NDOTS ? (unsigned)n : MAX_NDOTS;
    }
}

void dns_config_read(struct gs_slice text, struct dns_config *ret)
{
    *ret = (struct dns_config){.ndots = 1, .port = 53, .timeout_ms = TIMEOUT_MS};
    while (text.data) {
        struct gs_slice line = gs_slice_cut(&text, '\n');
        struct gs_slice key = next_word(&line);
        if (gs_slice_eq_str(key, "nameserver") && ret->n_servers < DNS_MAX_SERVERS)
            keep_word(ret->servers[ret->n_servers], sizeof(ret->servers[0]), next_word(&line),
                      &ret->n_servers, DNS_MAX_SERVERS);
        else if (gs_slice_eq_str(key, "domain"))
            read_search(line, 1, ret);
        else if (gs_slice_eq_str(key, "search"))
            read_search(line, DNS_MAX_SEARCH, ret);
        else if (gs_slice_eq_str(key, "options"))
            read_options(line, ret);
    }
}

struct gs_error *dns_config_load(const char *path, struct dns_config *ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_CONF, &text);
    if (err)
        return err;
    dns_config_read(gs_buf_slice(&text), ret);
    return NULL;
}

// --- names ---

static size_t count_dots(const char *name)
{
    size_t n = 0;
    for (; *name; name++)
        n += *name == '.';
    return n;
}

static void make_names(struct dns_lookup *l)
{
    const struct dns_config *c = &l->cfg;
    if (gs_ends(l->name, ".")) {
        l->names[l->n_names++] = gs_strdup(l->name);
        return;
    }
    bool first = count_dots(l->name) >= c->ndots;
    if (first)
        l->names[l->n_names++] = gs_format("%s.", l->name);
    for (size_t i = 0; i < c->n_search; i++)
        l->names[l->n_names++] =
            gs_format("%s.%s%s", l->name, c->search[i], gs_ends(c->search[i], ".") ? "" : ".");
    if (!first)
        l->names[l->n_names++] = gs_format("%s.", l->name);
}

// --- questions ---

static void lookup_free(uv_handle_t *h)
{
    struct dns_lookup *l = h->data;
    for (size_t i = 0; i < l->n_names; i++)
        free(l->names[i]);
    free(l->name);
    gs_buf_finish(&l->query);
    gs_buf_finish(&l->problems);
    free(l);
}

void dns_lookup_cancel(struct dns_lookup *l)
{
    if (!l)
        return;
    dns_exchange_cancel(l->exchange);
    uv_close((uv_handle_t *)&l->begin, lookup_free);
}

// err is taken.
static void finish(struct dns_lookup *l, const struct dns_answer *answer, struct gs_error *err)
{
    uv_close((uv_handle_t *)&l->begin, lookup_free);
    l->fn(l->arg, answer, err);
}

// err is taken.
static void note_problem(struct dns_lookup *l, struct gs_error *err)
{
    const char *server = l->at_server < l->cfg.n_servers ? l->cfg.servers[l->at_server] : "";
    if (l->problems.len < MAX_PROBLEMS)
        gs_buf_addf(&l->problems, "%s%s of %s: %s", l->problems.len ? "; " : "",
                    l->names[l->at_name], *server ? server : "no server", gs_error_message(err));
    gs_error_free(err);
}

static void ask(struct dns_lookup *l);

static void next_name(struct dns_lookup *l)
{
    const struct dns_answer none = {.rcode = DNS_NXDOMAIN};
    l->at_server = 0;
    if (++l->at_name < l->n_names)
        ask(l);
    else if (l->unsure)
        finish(l, NULL,
               gs_error_new(GS_EUNAVAIL,
                            "could not resolve \"%s\": all servers responded with errors to at "
                            "least one search domain (%s)",
                            l->name, l->problems.data ? l->problems.data : "no servers"));
    else
        finish(l, &none, NULL);
}

// err is taken.
static void next_server(struct dns_lookup *l, struct gs_error *err)
{
    note_problem(l, err);
    l->at_server++;
    ask(l);
}

static void on_answer(void *arg, struct gs_slice message, struct gs_error *err)
{
    struct dns_lookup *l = arg;
    struct gs_arena mem = {0};
    struct dns_answer answer = {0};
    bool was_tcp = l->tcp;
    l->exchange = NULL;
    l->tcp = false;
    if (!err)
        err = dns_read_answer(message, &mem, &answer);
    if (!err && answer.truncated && was_tcp)
        err = gs_error_new(GS_EPROTO, "got truncated message on TCP (64kiB limit exceeded?)");
    if (err) {
        next_server(l, err);
    } else if (answer.truncated) {
        l->tcp = true;
        ask(l);
    } else if (answer.rcode == DNS_NOERROR) {
        finish(l, &answer, NULL);
    } else if (answer.rcode == DNS_NXDOMAIN) {
        next_name(l);
    } else {
        next_server(l, gs_error_new(GS_EUNAVAIL, "response code %u", answer.rcode));
    }
    gs_arena_finish(&mem);
}

static struct gs_error *ask_server(struct dns_lookup *l)
{
    uint16_t id;
    gs_buf_clear(&l->query);
    if (uv_random(NULL, NULL, &id, sizeof(id), 0, NULL) != 0)
        return gs_error_new(GS_EIO, "no random number");
    struct gs_error *err = dns_write_query(l->names[l->at_name], l->type, id, !l->tcp, &l->query);
    if (err)
        return err;
    return dns_exchange_start(l->loop, l->cfg.servers[l->at_server], l->cfg.port, l->tcp,
                              gs_buf_slice(&l->query), l->cfg.timeout_ms, on_answer, l,
                              &l->exchange);
}

static void ask(struct dns_lookup *l)
{
    while (l->at_server < l->cfg.n_servers) {
        struct gs_error *err = ask_server(l);
        if (!err)
            return;
        note_problem(l, err);
        l->tcp = false;
        l->at_server++;
    }
    l->unsure = true;
    next_name(l);
}

static void on_begin(uv_timer_t *t)
{
    ask(t->data);
}

struct dns_lookup *dns_lookup_start(uv_loop_t *loop, const struct dns_config *cfg, const char *name,
                                    enum dns_type type, dns_fn fn, void *arg)
{
    struct dns_lookup *l = gs_alloc(sizeof(*l));
    l->loop = loop;
    l->cfg = *cfg;
    l->name = gs_strdup(name);
    l->type = type;
    l->fn = fn;
    l->arg = arg;
    make_names(l);
    uv_timer_init(loop, &l->begin);
    l->begin.data = l;
    uv_timer_start(&l->begin, on_begin, 0, 0);
    return l;
}
