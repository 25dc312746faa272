// SPDX-License-Identifier: Apache-2.0
// The options of a handle that depend on the peer: address, proxy, TLS and the connection.
#include "base/mem.h"
#include "net/http/curl_private.h"
#include "net/http/http_private.h"

// Idle connections are closed earlier: API servers close them after 90 s, many load balancers after
// 60 s, and a POST cannot be repeated if its connection is closed while it is sent.
#define MAX_IDLE_S 45L

// The kernel closes a connection two minutes after the peer has disappeared: a watch may send
// nothing for many minutes.
#define KEEPALIVE_IDLE_S     30L
#define KEEPALIVE_INTERVAL_S 10L // for Linux's 9 probes

static bool is_loopback_url(const struct http_curl_lib *curl, const char *url)
{
    bool loopback = false;
    char *host = NULL;
    CURLU *u = curl->url();
    if (u && curl->url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl->url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK)
        loopback = http_host_is_loopback(host);
    curl->free(host);
    curl->url_cleanup(u);
    return loopback;
}

static void set_proxy(const struct http_curl_peer *p, const struct http_curl_lib *curl, CURL *easy,
                      const char *url)
{
    if (p->proxy) {
        curl->easy_setopt(easy, CURLOPT_PROXY, p->proxy);
        curl->easy_setopt(easy, CURLOPT_NOPROXY, p->no_proxy ? p->no_proxy : "");
    } else if (p->unix_socket || is_loopback_url(curl, url)) {
        curl->easy_setopt(easy, CURLOPT_PROXY, "");
    } else { // from the environment
        curl->easy_setopt(easy, CURLOPT_PROXY, NULL);
    }
    // libcurl would send them with plain requests through a proxy, too.
    curl->easy_setopt(easy, CURLOPT_PROXYHEADER,
                      gs_starts(url, "https:") ? p->proxy_headers : NULL);
}

// libcurl takes the name for TLS from the URL: the URL gets server_name, the connection and the
// Host header stay.
static void set_server_name(const struct http_curl_peer *p, const struct http_curl_lib *curl,
                            CURL *easy, const char *url, struct curl_slist **headers,
                            struct curl_slist **ret_connect_to)
{
    const char *name = p->server_name;
    char *host = NULL, *port = NULL, *explicit_port = NULL, *renamed = NULL;
    CURLU *u = name && gs_starts(url, "https:") ? curl->url() : NULL;
    if (u && curl->url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl->url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        curl->url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
        curl->url_set(u, CURLUPART_HOST, name, 0) == CURLUE_OK &&
        curl->url_get(u, CURLUPART_URL, &renamed, 0) == CURLUE_OK) {
        (void)curl->url_get(u, CURLUPART_PORT, &explicit_port, 0);
        GS_AUTO_FREE char *to = gs_format("%s:%s:%s:%s", name, port, host, port);
        GS_AUTO_FREE char *header = gs_format("Host: %s%s%s", host, explicit_port ? ":" : "",
                                              explicit_port ? explicit_port : "");
        *ret_connect_to = curl->slist_append(NULL, to);
        *headers = curl->slist_append(*headers, header);
        curl->easy_setopt(easy, CURLOPT_CONNECT_TO, *ret_connect_to);
        curl->easy_setopt(easy, CURLOPT_URL, renamed);
    }
    char *parts[] = {host, port, explicit_port, renamed};
    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++)
        curl->free(parts[i]);
    curl->url_cleanup(u);
}

void http_curl_set_peer(const struct http_curl_peer *p, const struct http_curl_lib *curl,
                        CURL *easy, const char *url, struct curl_slist **headers,
                        struct curl_slist **ret_connect_to)
{
    curl->easy_setopt(easy, CURLOPT_URL, url);
    curl->easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl->easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    // With HTTP/2, libcurl 7.88 keeps a connection on which requests time out: after a silent
    // partition, no later request would succeed.
    curl->easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl->easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl->easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    curl->easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    curl->easy_setopt(easy, CURLOPT_MAXAGE_CONN, MAX_IDLE_S);
    if (p->unix_socket)
        curl->easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, p->unix_socket);
    set_proxy(p, curl, easy, url);
    set_server_name(p, curl, easy, url, headers, ret_connect_to);
    curl->easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, p->insecure ? 0L : 1L);
    curl->easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, p->insecure ? 0L : 2L);
    curl->easy_setopt(easy, CURLOPT_SSLVERSION, p->tls_versions);
    if (*p->pems.ca.path) {
        curl->easy_setopt(easy, CURLOPT_CAINFO, p->pems.ca.path);
        curl->easy_setopt(easy, CURLOPT_CAPATH,
                          NULL); // otherwise the system's certificates are accepted, too
    }
    if (*p->pems.cert.path && *p->pems.key.path) {
        curl->easy_setopt(easy, CURLOPT_SSLCERT, p->pems.cert.path);
        curl->easy_setopt(easy, CURLOPT_SSLKEY, p->pems.key.path);
    }
}
