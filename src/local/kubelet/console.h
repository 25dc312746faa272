// SPDX-License-Identifier: Apache-2.0
// Terminals, and the connections of attach: the supervisor of a container listens on a Unix socket
// beside its log and copies the output to everyone who connects. A path of such a socket is limited
// to 107 bytes, so both sides reach it through a descriptor of its directory.
//
// Frames in both directions: a type, the length of the payload (32 bits, most significant byte
// first), the payload. Both sides belong to one user; a malformed frame ends the connection.
#pragma once

#include "base/buf.h"
#include "base/error.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

enum kubelet_console_type {
    KUBELET_CONSOLE_STDOUT = 'o', // to the client
    KUBELET_CONSOLE_STDERR = 'e',
    KUBELET_CONSOLE_INPUT = 'i', // from the client
    KUBELET_CONSOLE_END = 'x',   // of the container's input
    KUBELET_CONSOLE_SIZE = 'w',  // of the terminal: columns and rows, 16 bits each
};

enum { KUBELET_CONSOLE_HEAD = 5, KUBELET_CONSOLE_MAX_FRAME = 64 * 1024 };

void kubelet_console_add_frame(struct gs_buf *b, enum kubelet_console_type type,
                               struct gs_slice payload);
// Takes the first frame off *bytes. False: it is not complete; *ret_bad: it never will be.
bool kubelet_console_take_frame(struct gs_slice *bytes, enum kubelet_console_type *ret_type,
                                struct gs_slice *ret_payload, bool *ret_bad);

// A new terminal; both descriptors are the caller's.
struct gs_error *kubelet_open_terminal(int *ret_master, int *ret_slave);

// --- the supervisor's side ---

#define KUBELET_CONSOLE_MAX_CLIENTS 16

struct kubelet_console_client {
    int fd; // -1: none
    struct gs_buf in, out;
};

struct kubelet_console {
    char *path;
    int listen_fd;    // -1: closed
    int input_fd;     // of the command; -1: it has none, or it was closed
    bool terminal;    // input_fd is one
    bool input_ended; // to be closed when `input` is written
    struct gs_buf input;
    struct kubelet_console_client clients[KUBELET_CONSOLE_MAX_CLIENTS];
};

// Of poll(): the socket, the input, and the clients.
#define KUBELET_CONSOLE_POLLS (2 + KUBELET_CONSOLE_MAX_CLIENTS)

void kubelet_console_init(struct kubelet_console *c);
struct gs_error *kubelet_console_open(struct kubelet_console *c, const char *path);
void kubelet_console_poll(const struct kubelet_console *c, struct pollfd *fds);
void kubelet_console_handle(struct kubelet_console *c, const struct pollfd *fds);
// A client that has not read 1 MiB is dropped: it never stops the container.
void kubelet_console_output(struct kubelet_console *c, enum kubelet_console_type type,
                            struct gs_slice bytes);
// Sends the rest, for up to a second, and removes the socket.
void kubelet_console_finish(struct kubelet_console *c);
