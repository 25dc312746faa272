// SPDX-License-Identifier: Apache-2.0
// libcurl, loaded when the first client is made. It draws in some twenty libraries (LDAP, Kerberos,
// SSH …), a third of the resident memory of a process; the exporter and the supervisor of each
// container run without them. Private to the room.
#pragma once

#include "base/error.h"

#include <curl/curl.h>

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

// GS_ENOTFOUND, with the package to install, when it is not on this machine. It stays loaded.
struct gs_error *http_curl_lib_load(const struct http_curl_lib **ret);
