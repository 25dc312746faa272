// SPDX-License-Identifier: Apache-2.0
// Puts load on a simulated GPU from C: each job keeps the GPU busy for 50 ms. Run it in a pod of
// `gpuscale up`, which has gpuscale in its PATH and the GPUs in its environment, or after
// `gpuscale sim create 1xTesla-T4`. Build: cc -o work work.c
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

extern char **environ;

// Returns when the GPU has worked that long, 0 on success. Jobs of several programs take turns.
static int run_on_gpu(unsigned milliseconds)
{
    char duration[32];
    char *argv[] = {"gpuscale", "sim", "load", duration, "--memory=256Mi", NULL};
    pid_t pid;
    int status;
    snprintf(duration, sizeof(duration), "--for=%ums", milliseconds);
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid)
        return -1;
    return status;
}

int main(void)
{
    for (int job = 0; job < 3; job++) {
        if (run_on_gpu(50) != 0)
            return 1;
        printf("job %d is done\n", job);
        fflush(stdout);
    }
    return 0;
}
