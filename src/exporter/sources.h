// SPDX-License-Identifier: Apache-2.0
// Files, folders and objects that flags name and that may be absent: the exporter goes on without
// them, says so in a line and in gpuscale_exporter_source_up, and takes them when they come.
#pragma once

#include "base/buf.h"

enum source_kind { SOURCE_CONFIGMAP, SOURCE_HPC_JOBS, SOURCE_PROC, SOURCE_COUNT };

struct sources {
    unsigned asked, missing; // bits 1u << source_kind
    const char *hpc_dir;     // NULL: not asked for
    const char *proc;        // NULL: "/proc"
};

// Looks for the folders.
void sources_look(struct sources *s);
// Tells when it is another state than before; problem NULL: it is there.
void sources_set(struct sources *s, enum source_kind k, const char *problem);
void sources_render(const struct sources *s, struct gs_buf *out);
