// SPDX-License-Identifier: Apache-2.0
// Internals of this module: the search list of resolv.conf(5).
#pragma once

#include <stddef.h>

struct dns_search {
    char **suffixes; // without a dot at the end
    size_t n;
    size_t ndots; // names with fewer dots are tried with the suffixes first
};

// Reads the lines search, domain and "options ndots:N"; the last one of each applies. path NULL:
// /etc/resolv.conf. A file that cannot be read has none.
void dns_search_read(const char *path, struct dns_search *ret);
void dns_search_finish(struct dns_search *s);
