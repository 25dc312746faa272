// SPDX-License-Identifier: Apache-2.0
// Whose is a process? From its cgroup (pod UID and container id, as kubelets of all runtimes name
// them), or, outside of a container, from the environment that the one-node kubelet gave it. Reads
// /proc and may block: for the sampler's thread.
#pragma once

#include "base/slice.h"

#include <stdint.h>
#include <sys/types.h>

enum owner_kind {
    OWNER_GONE,       // no such process here: it ended, or lives in another pid namespace
    OWNER_HOST,       // a process of no pod
    OWNER_UNREADABLE, // /proc/<pid> does not tell us (another user's process)
    OWNER_POD,
    OWNER_KINDS
};

enum {
    OWNER_UID_SIZE = 64,
    OWNER_CONTAINER_ID_SIZE = 65,
    OWNER_LABEL_SIZE = 64, // RFC 1123 label
    OWNER_NAME_SIZE = 254, // RFC 1123 subdomain
};

struct owner {
    int64_t seen_ns; // gs_mono_ns of the first look at it; 0: it could not be seen
    enum owner_kind kind;
    char process_name[32]; // "" when unknown
    // Only with OWNER_POD; each "" when unknown.
    char pod_uid[OWNER_UID_SIZE];
    char container_id[OWNER_CONTAINER_ID_SIZE];
    char namespace_name[OWNER_LABEL_SIZE];
    char pod[OWNER_NAME_SIZE];
    char container[OWNER_LABEL_SIZE];
};

struct owner_config {
    const char *proc;           // "/proc", or the host's /proc mounted elsewhere
    const char *container_logs; // "/var/log/containers": names of containers by id
    const char *pod_logs;       // "/var/log/pods": names of pods by UID
};

// Kept by (pid, start time), so that a reused pid is not mistaken.
struct owner_cache;
struct owner_cache *owner_cache_new(const struct owner_config *cfg); // NULL members: the defaults
void owner_cache_free(struct owner_cache *c);
void owner_cache_begin(struct owner_cache *c);
// Of the process that the driver has named at named_ns (gs_mono_ns): one that has started later got
// the pid of one that is gone. Valid until owner_cache_end, which forgets who was not asked for
// since _begin.
const struct owner *owner_lookup(struct owner_cache *c, uint32_t pid, int64_t named_ns);
void owner_cache_end(struct owner_cache *c);
// How many look-ups had to go to /proc so far, by what was found.
const uint64_t *owner_cache_resolved(const struct owner_cache *c); // OWNER_KINDS entries
const char *owner_kind_name(enum owner_kind k); // "gone", "host", "unreadable", "pod"

// The parts, for tests: contents of /proc/<pid>/cgroup and /proc/<pid>/environ into *ret.
bool owner_parse_cgroup(struct gs_slice text, struct owner *ret);
bool owner_parse_environ(struct gs_slice text, struct owner *ret);
