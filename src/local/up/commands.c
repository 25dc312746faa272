// SPDX-License-Identifier: Apache-2.0
// DIR/bin: the commands of this cluster for the user's shell. `nvidia-smi` is there only for
// simulated GPUs, so that it never hides the program of a driver whose GPUs are used.
#include "up/up_private.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/shell.h"

#include <errno.h>
#include <unistd.h>

static struct gs_error *write_script(const char *path, const struct up_cluster *c)
{
    GS_AUTO_FREE char *kubeconfig = gs_shell_word(c->kubeconfig);
    GS_AUTO_FREE char *self = gs_shell_word(c->self_exe);
    GS_AUTO_FREE char *text =
        gs_format("#!/bin/sh\n"
                  "# Made by gpuscale up: prints the simulated GPUs of this cluster.\n"
                  "KUBECONFIG=%s exec %s smi \"$@\"\n",
                  kubeconfig, self);
    return gs_file_write_atomic(path, 0755, gs_slice_of(text));
}

static struct gs_error *make_commands(const struct up_cluster *c, const char *dir)
{
    GS_AUTO_FREE char *self = gs_format("%s/gpuscale", dir);
    GS_AUTO_FREE char *smi = gs_format("%s/nvidia-smi", dir);
    struct gs_error *err = gs_mkdir_p(dir, 0700);
    if (err)
        return err;
    unlink(self);
    unlink(smi);
    if (symlink(c->self_exe, self) < 0)
        return gs_error_errno(errno, "%s", self);
    return c->devices.sim_name ? write_script(smi, c) : NULL;
}

void up_commands_make(struct up_cluster *c)
{
    c->bin_dir = gs_format("%s/bin", c->data_dir);
    GS_AUTO_ERROR struct gs_error *err = make_commands(c, c->bin_dir);
    if (err)
        gs_warn("up", "the commands for other terminals: %s", gs_error_message(err));
}
