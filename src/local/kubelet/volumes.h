// SPDX-License-Identifier: Apache-2.0
// The volumes of pods: the content of files that come from the API, folders, the paths of
// PersistentVolumeClaims and of the machine, and the mounts of containers.
#pragma once

#include "base/error.h"
#include "local/kubelet/env.h"
#include "local/kubelet/podenv.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kubelet;
struct kubelet_worker;

// --- volume_files.c: the files of configMap, secret, downwardAPI and projected volumes ---

struct kubelet_file {
    char *path; // relative, without ".."
    char *data;
    size_t len;
    unsigned mode;
};
struct kubelet_files {
    struct kubelet_file *items;
    size_t len, cap;
    // What the files take, with the overhead of each, and its limit.
    size_t bytes, max_bytes;
};
void kubelet_files_finish(struct kubelet_files *f);

// Keys of the objects that the volume needs, as those of kubelet_env_references. Also
// "tokens/EXPIRATION/AUDIENCE" for tokens of the pod's service account; their values are the
// requests for kubelet_env_fetch_start, and their results are TokenRequests.
void kubelet_volume_references(const json_t *pod, const json_t *volume, json_t *ret);
// Of the files of all volumes of a pod: a short pod can name one large value many times.
enum { KUBELET_MAX_FILES_BYTES = 64 * 1024 * 1024 };
// The files of a volume, of which the pod has max_bytes left.
// ctx->sources has the objects; ctx->container is not used. Errors are the kubelet's texts, or
// GS_ELIMIT.
struct gs_error *kubelet_volume_files(const struct kubelet_env_context *ctx, const json_t *volume,
                                      size_t max_bytes, struct kubelet_files *ret);
// Writes the files into dir so that readers see either all old or all new ones: the entries of dir
// are links to ..data/NAME, and ..data is a link to the current directory. Source: the documented
// layout of the kubelet's atomic writer, on which programs that watch files depend.
struct gs_error *kubelet_files_write(const char *dir, const struct kubelet_files *files);
uint64_t kubelet_files_hash(const struct kubelet_files *files);

// --- volumes.c: the volumes of a pod as folders, and the mounts of its containers ---

struct kubelet_volumes;
struct kubelet_volumes *kubelet_volumes_new(struct kubelet_worker *w);
void kubelet_volumes_free(struct kubelet_volumes *v); // accepts NULL
// True if all volumes are set up. Otherwise begins or retries that, records FailedMount events, and
// wakes the worker when they are.
bool kubelet_volumes_ready(struct kubelet_volumes *v);
// The pod has changed: its labels or annotations may be in volumes.
void kubelet_volumes_pod_changed(struct kubelet_volumes *v);
// True if the pod has a volume beside that of the token of its service account.
bool kubelet_volumes_of_user(const struct kubelet_volumes *v);
// The mounts of a container (mounts.h), parents before children. env: for subPathExpr.
struct gs_error *kubelet_volumes_mounts(const struct kubelet_volumes *v, const json_t *container,
                                        const struct kubelet_env *env, struct kubelet_words *ret);

// --- claims.c: PersistentVolumeClaims ---
struct kubelet_claims;
struct kubelet_claims *kubelet_claims_new(struct kubelet *k);
void kubelet_claims_free(struct kubelet_claims *claims); // accepts NULL
// The folder of a bound claim. Caller frees.
struct gs_error *kubelet_claim_folder(const struct kubelet *k, const char *ns, const char *name,
                                      char **ret);

// --- volume_paths.c ---
// A hostPath as the kubelet's user reaches it. Creates it where its type says so. Paths that this
// machine lacks are in DIR/host. Caller frees.
struct gs_error *kubelet_host_path(const struct kubelet *k, const char *path, const char *type,
                                   char **ret);
// The path `sub` in the volume folder `root`, created as a directory if it does not exist. It
// cannot lead out of the volume. Caller frees.
struct gs_error *kubelet_sub_path(const char *root, const char *sub, char **ret);
// Creates the path `sub` in the volume folder `root` for a mount of a directory or a file, if it
// does not exist. It cannot lead out of the volume.
struct gs_error *kubelet_nested_mount_point(const char *root, const char *sub, bool file);
bool kubelet_is_inner_path(const char *path); // relative, not empty, no "..", at most 4096 bytes
