// SPDX-License-Identifier: Apache-2.0
// Private to net/.
#pragma once

#include "net/grpc/wire.h"

// Gives the client a connection without a socket, for tests of hostile bytes: calls go out to
// nowhere, replies come in by grpc_conn_feed().
struct grpc_conn *grpc_client_detached_conn(struct grpc_client *c);
