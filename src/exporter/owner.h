// SPDX-License-Identifier: Apache-2.0
// Whose is a process? From its cgroup (pod UID and container id, as kubelets of all runtimes name
// them), or, outside of a container, from the environment that the one-node kubelet gave it. Reads
// /proc and may block: for the sampler's thread.
#pragma once

#include "base/slice.h"

#include <stdint.h>
#include <sys/types.h>

enum exporter_owner_kind {
    EXPORTER_OWNER_GONE,       // no such process here: it ended, or lives in another pid namespace
    EXPORTER_OWNER_HOST,       // a process of no pod
    EXPORTER_OWNER_UNREADABLE, // /proc/<pid> does not tell us (another user's process)
    EXPORTER_OWNER_POD,
    EXPORTER_OWNER_KINDS
};

enum {
    EXPORTER_OWNER_UID_SIZE = 64,
    EXPORTER_OWNER_CONTAINER_ID_SIZE = 65,
    EXPORTER_OWNER_LABEL_SIZE = 64, // RFC 1123 label
    EXPORTER_OWNER_NAME_SIZE = 254, // RFC 1123 subdomain
};

struct exporter_owner {
    int64_t seen_ns; // gs_mono_ns of the first look at it; 0: it could not be seen
    enum exporter_owner_kind kind;
    char process_name[32]; // "" when unknown
    // Only with EXPORTER_OWNER_POD; each "" when unknown.
    char pod_uid[EXPORTER_OWNER_UID_SIZE];
    char container_id[EXPORTER_OWNER_CONTAINER_ID_SIZE];
    char namespace_name[EXPORTER_OWNER_LABEL_SIZE];
    char pod[EXPORTER_OWNER_NAME_SIZE];
    char container[EXPORTER_OWNER_LABEL_SIZE];
};

struct exporter_owner_config {
    const char *proc;           // "/proc", or the host's /proc mounted elsewhere
    const char *container_logs; // "/var/log/containers": names of containers by id
    const char *pod_logs;       // "/var/log/pods": names of pods by UID
};

// Kept by (pid, start time), so that a reused pid is not mistaken.
struct exporter_owner_cache;
struct exporter_owner_cache *
exporter_owner_cache_new(const struct exporter_owner_config *cfg); // NULL members: the defaults
void exporter_owner_cache_free(struct exporter_owner_cache *c);
void exporter_owner_cache_begin(struct exporter_owner_cache *c);
// Of the process that the driver has named at named_ns (gs_mono_ns): one that has started later got
// the pid of one that is gone. Valid until exporter_owner_cache_end, which forgets who was not
// asked for since _begin.
const struct exporter_owner *exporter_owner_lookup(struct exporter_owner_cache *c, uint32_t pid,
                                                   int64_t named_ns);
void exporter_owner_cache_end(struct exporter_owner_cache *c);
// How many look-ups had to go to /proc so far, by what was found.
const uint64_t *
exporter_owner_cache_resolved(const struct exporter_owner_cache *c); // EXPORTER_OWNER_KINDS entries
const char *
exporter_owner_kind_name(enum exporter_owner_kind k); // "gone", "host", "unreadable", "pod"

// The parts, for tests: contents of /proc/<pid>/cgroup and /proc/<pid>/environ into *ret.
bool exporter_owner_parse_cgroup(struct gs_slice text, struct exporter_owner *ret);
bool exporter_owner_parse_environ(struct gs_slice text, struct exporter_owner *ret);
