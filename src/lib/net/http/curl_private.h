// SPDX-License-Identifier: Apache-2.0
// The loaded libcurl, certificates, options of peers, and handles and connections between requests.
#pragma once

#include "base/error.h"
#include "base/slice.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- library ---

// libcurl is loaded when the first client is created. It loads about twenty libraries (LDAP,
// Kerberos, SSH …), a third of the resident memory of a process. The exporter and the supervisor of
// each container run without them.

#define HTTP_CURL_LIB_FUNCTIONS(X)                                                                 \
    X(easy_cleanup)                                                                                \
    X(easy_getinfo)                                                                                \
    X(easy_init)                                                                                   \
    X(easy_setopt)                                                                                 \
    X(easy_strerror)                                                                               \
    X(free)                                                                                        \
    X(global_init)                                                                                 \
    X(multi_add_handle)                                                                            \
    X(multi_assign)                                                                                \
    X(multi_cleanup)                                                                               \
    X(multi_info_read)                                                                             \
    X(multi_init)                                                                                  \
    X(multi_remove_handle)                                                                         \
    X(multi_setopt)                                                                                \
    X(multi_socket_action)                                                                         \
    X(multi_strerror)                                                                              \
    X(slist_append)                                                                                \
    X(slist_free_all)                                                                              \
    X(url)                                                                                         \
    X(url_cleanup)                                                                                 \
    X(url_get)                                                                                     \
    X(url_set)

// Each member has the name and the type of libcurl's function without "curl_".
struct http_curl_lib {
#define HTTP_CURL_LIB_MEMBER(name) __typeof__(curl_##name) *(name);
    HTTP_CURL_LIB_FUNCTIONS(HTTP_CURL_LIB_MEMBER)
#undef HTTP_CURL_LIB_MEMBER
};

// GS_ENOTFOUND, with the package to install, if the library is not installed. It stays loaded.
struct gs_error *http_curl_lib_load(const struct http_curl_lib **ret);

// --- certificates ---

// A PEM text as a file of this process only: libcurl's GnuTLS build reads only files.
struct http_curl_pem {
    int fd;
    char path[40]; // "": none
};

struct http_curl_pems {
    struct http_curl_pem ca, cert, key;
};

struct http_client_config;
// Close it after an error, too.
struct gs_error *http_curl_pems_open(struct http_curl_pems *p,
                                     const struct http_client_config *cfg);
void http_curl_pems_close(struct http_curl_pems *p);

// --- peers ---

// How a client reaches its peers. The client owns the texts and lists.
struct http_curl_peer {
    char *unix_socket, *server_name, *proxy, *no_proxy;
    struct curl_slist *proxy_headers;
    struct http_curl_pems pems;
    bool insecure;
    long tls_versions; // CURLOPT_SSLVERSION
};

// Sets the options for a URL. May add a header; *ret_connect_to is a new list or stays unchanged.
void http_curl_set_peer(const struct http_curl_peer *p, const struct http_curl_lib *curl,
                        CURL *easy, const char *url, struct curl_slist **headers,
                        struct curl_slist **ret_connect_to);

// --- redirects ---

// The redirects of an operation. Zero: none are followed.
struct http_curl_redirect {
    char *first, *url; // of the first and of the current request
    char *location;    // of the current response; NULL: none
    unsigned n;
    bool left_host; // at some point; since then credentials are left out
};

// Reads a line of the head of a response.
void http_curl_redirect_note(struct http_curl_redirect *r, struct gs_slice line);
// Whether a response with a location is a redirect that the method allows: methods other than GET
// and HEAD keep their body, which 301, 302 and 303 would remove.
bool http_curl_redirect_is(const char *method, long status);
// Changes url and the headers to those of the next request, as Go does: Authorization, Cookie and
// the like are sent only to the first host and to hosts within its domain, on any port. GS_ELIMIT:
// too many redirects. GS_EPROTO: invalid location.
struct gs_error *http_curl_redirect_next(struct http_curl_redirect *r,
                                         const struct http_curl_lib *curl,
                                         struct curl_slist **headers);
void http_curl_redirect_finish(struct http_curl_redirect *r);

// --- spare handles ---

// Handles of finished GET requests, kept for the next request of the same URL. Otherwise a scrape
// each second would create and fill a handle each time.

enum { HTTP_CURL_SPARES = 32 };

struct http_curl_spare {
    CURL *easy;
    char *url;
    size_t body; // bytes of its last reply
};

struct http_curl_spares {
    struct http_curl_spare items[HTTP_CURL_SPARES];
    size_t n, next_out; // next_out: replaced when all entries are used
};

// easy NULL: no handle for this URL. Otherwise the caller owns it.
struct http_curl_spare http_curl_spares_take(struct http_curl_spares *s, const char *url);
// Takes easy; url is copied.
void http_curl_spares_put(struct http_curl_spares *s, const struct http_curl_lib *curl, CURL *easy,
                          const char *url, size_t body);
void http_curl_spares_finish(struct http_curl_spares *s, const struct http_curl_lib *curl);

// --- idle connections ---

// The sockets that libcurl keeps, by their local ports: before a request is sent, libcurl reports
// the port of its connection, but not the socket.

struct http_curl_idle {
    uint16_t *ports; // of the descriptor; 0: unknown. Those of closed descriptors stay
    size_t n;
};

// libcurl does not wait for the socket any more.
void http_curl_idle_note(struct http_curl_idle *idle, int fd);
// The peer has closed the connection with this port. False if the connection is not known.
bool http_curl_idle_is_closed(const struct http_curl_idle *idle, int port);
void http_curl_idle_finish(struct http_curl_idle *idle);

// --- error texts ---

// Removes the time that an attempt took from a text of libcurl, in place: "Failed to connect to a
// port 1 after 3 ms: …" has no time then, and "timed out after 5001 milliseconds" has "after 5 s".
void http_curl_text_settle(char *text);
