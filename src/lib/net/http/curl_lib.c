// SPDX-License-Identifier: Apache-2.0
// libcurl is loaded when the first client needs it, because it brings about twenty libraries. The
// functions are a table; nothing links to libcurl.
#include "net/http/curl_private.h"

#include "base/attr.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

// Debian's GnuTLS build first: the server uses that TLS library, too.
static const char *const sonames[] = {"libcurl-gnutls.so.4", "libcurl.so.4"};

static const struct symbol {
    const char *name;
    size_t offset; // into struct http_curl_lib
} symbols[] = {
#define CURL_LIB_SYMBOL(member) {"curl_" #member, offsetof(struct http_curl_lib, member)},
    HTTP_CURL_LIB_FUNCTIONS(CURL_LIB_SYMBOL)
#undef CURL_LIB_SYMBOL
};

static struct gs_error *resolve_symbols(void *handle, struct http_curl_lib *ret)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(symbols); i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address)
            return gs_error_new(GS_ENOTFOUND, "the installed libcurl is too old: %s", dlerror());
        memcpy((char *)ret + symbols[i].offset, &address, sizeof(address));
    }
    if (ret->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return gs_error_new(GS_EIO, "initializing libcurl failed");
    return NULL;
}

static void *open_library(void)
{
    void *handle = NULL;
    for (size_t i = 0; !handle && i < GS_ARRAY_LEN(sonames); i++)
        handle = dlopen(sonames[i], RTLD_NOW | RTLD_LOCAL);
    return handle;
}

struct gs_error *http_curl_lib_load(const struct http_curl_lib **ret)
{
    static struct http_curl_lib lib;
    static void *handle;
    if (!handle) {
        void *opened = open_library();
        if (!opened)
            return gs_error_new(
                GS_ENOTFOUND, "libcurl is not installed (%s): install the package libcurl3-gnutls",
                dlerror());
        struct gs_error *err = resolve_symbols(opened, &lib);
        if (err) {
            dlclose(opened);
            return err;
        }
        handle = opened;
    }
    *ret = &lib;
    return NULL;
}
