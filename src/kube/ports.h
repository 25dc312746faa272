// SPDX-License-Identifier: Apache-2.0
// The annotation of a Pod or Service whose declared ports are reached at other numbers:
// "80=8080,443=8443". `gpuscale up` writes it where it may not bind low ports; whoever connects to
// a port or scrapes it reads it.
#pragma once

#include "codec/json.h"

#define KUBE_ANN_PORTS "gpuscale.dev/ports"

// Where the declared port is reached: by the annotation, else the port itself.
int kube_port(const json_t *obj, int port);
// The same by the annotation's text; 0: it does not name the port. NULL is fine.
int kube_port_in(const char *text, int port);
