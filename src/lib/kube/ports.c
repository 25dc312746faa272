// SPDX-License-Identifier: Apache-2.0
// The ports of a pod that runs on the host's network: an annotation maps each port of its manifest
// to the one that it has been given ("80=31080,443=31443").
#include "kube/object.h"

#include "base/num.h"
#include "base/slice.h"

// Returns 0 if it is not a port number.
static int read_port_number(struct gs_slice text)
{
    int64_t port = 0;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_i64(gs_slice_trim(text), 1, 65535, &port);
    return err ? 0 : (int)port;
}

int kube_port_in(const char *text, int port)
{
    struct gs_slice rest = gs_slice_of(text ? text : "");
    while (rest.len) {
        struct gs_slice to = gs_slice_cut(&rest, ',');
        struct gs_slice from = gs_slice_cut(&to, '=');
        if (read_port_number(from) == port && read_port_number(to) > 0)
            return read_port_number(to);
    }
    return 0;
}

int kube_port(const json_t *obj, int port)
{
    int to = kube_port_in(kube_annotation(obj, KUBE_ANN_PORTS), port);
    return to > 0 ? to : port;
}

int kube_scrape_port(const json_t *pod)
{
    const char *text = kube_annotation(pod, KUBE_ANN_SCRAPE_PORT);
    return text ? read_port_number(gs_slice_of(text)) : 0;
}
