// SPDX-License-Identifier: Apache-2.0
// Samples and the device map as Prometheus text: dcgm-exporter's families, label names and label
// order, then the per-process families of ACK's exporter, then our own about ourselves.
#pragma once

#include "base/buf.h"
#include "exporter/attribution.h"
#include "exporter/sampler.h"

struct render_names {
    const char *hostname_label; // "hostname", "Hostname"; NULL: no such label
    const char *hostname;
    const char *node_name; // label NodeName of the per-process families
};

// All that depends on the sample and the map alone. A field that the driver did not give has no
// line, a family without a line no header. map and replicas may be NULL.
void render_gpus(const struct render_names *names, const struct sample *sample,
                 const struct device_map *map, const struct device_replicas *replicas,
                 struct gs_buf *out);

struct render_self {
    const struct sample *sample; // NULL: none yet
    bool simulated, has_opened;  // simulated is known once the library is open
    bool fresh;                  // the sample is recent enough to be served
    bool stuck;                  // the sampler hangs in a driver call
    uint64_t samples, failures;
    int64_t now_ns;                               // gs_mono_ns
    const struct attribution_status *attribution; // NULL: not asked for
};
void render_self(const struct render_self *self, struct gs_buf *out);

// The page at "/": links, and for each GPU which fields are absent and why.
void render_index(const struct render_self *self, struct gs_buf *out);

// XID numbers in words, after NVIDIA's public list; "Unknown Error" for the others.
const char *render_xid_text(int64_t xid);
