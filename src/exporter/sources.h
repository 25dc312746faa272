// SPDX-License-Identifier: Apache-2.0
// Files, folders and objects that flags name and that may be absent: the exporter goes on without
// them, says so in a line and in gpuscale_exporter_source_up, and takes them when they come.
#pragma once

#include "base/buf.h"

enum exporter_source_kind {
    EXPORTER_SOURCE_CONFIGMAP,
    EXPORTER_SOURCE_HPC_JOBS,
    EXPORTER_SOURCE_PROC,
    EXPORTER_SOURCE_COUNT
};

struct exporter_sources {
    unsigned asked, missing; // bits 1u << exporter_source_kind
    const char *hpc_dir;     // NULL: not asked for
    const char *proc;        // NULL: "/proc"
};

// Looks for the folders.
void exporter_sources_look(struct exporter_sources *s);
// Tells when it is another state than before; problem NULL: it is there.
void exporter_sources_set(struct exporter_sources *s, enum exporter_source_kind k,
                          const char *problem);
void exporter_sources_render(const struct exporter_sources *s, struct gs_buf *out);
