// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"
#include "base/mem.h"
#include "base/option.h"
#include "base/slice.h"
#include "server.h"

#include <signal.h>

struct opts {
    const char *address;
    int64_t port, threads, keepalive, memory_mib, kernel_us;
    double sm_share;
};

static const struct gs_opt rows[] = {
    {"address", GS_OPT_STRING, offsetof(struct opts, address), "IP", "0.0.0.0",
     .env = "GPUSCALE_POD_IP", .help = "Address to listen on."},
    {"port", GS_OPT_INT, offsetof(struct opts, port), "PORT", "80", .alias = "p", .env = "PORT",
     .min = 1, .max = 65535,
     .help = "Port to listen on. A port below 1024 that may not be bound moves up by 8000."},
    {"threads", GS_OPT_INT, offsetof(struct opts, threads), "N", "16", .min = 1, .max = 256,
     .help = "Maximum number of requests in progress."},
    {"keepalive-requests", GS_OPT_INT, offsetof(struct opts, keepalive), "N", "8", .max = 1000000,
     .help = "Close a connection after this number of requests, so that a load balancer can "
             "distribute clients with open connections. 0: never."},
    {"model-memory-mib", GS_OPT_INT, offsetof(struct opts, memory_mib), "MIB", "1300", .min = 1,
     .max = 1000000, .help = "GPU memory of the model."},
    {"kernel-us", GS_OPT_INT, offsetof(struct opts, kernel_us), "MICROSECONDS", "4000",
     .env = "INTENT_KERNEL_US", .min = 1, .max = 10000000, .help = "GPU time of one inference."},
    {"sm-share", GS_OPT_DOUBLE, offsetof(struct opts, sm_share), "SHARE", "1",
     .help = "Share of the SMs that an inference uses on a simulated GPU, above 0 and at most 1."},
    {0},
};

static const struct gs_command command = {
    .name = "serve",
    .summary = "a small intent-detection service on a GPU",
    .description = "Serves /predict?query=TEXT, which returns the intent of the text, and /ping, "
                   "/gputest and /metrics. Uses the CUDA driver if it is installed, otherwise the "
                   "simulated GPU of GPUSCALE_SIM.",
    .opts = rows,
    .opts_size = sizeof(struct opts),
};

static int serve(const struct opts *o, const sigset_t *signals)
{
    struct server_config cfg = {
        .address = o->address,
        .port = (uint16_t)o->port,
        .threads = (unsigned)o->threads,
        .keepalive = (unsigned)o->keepalive,
        .model_memory = (uint64_t)o->memory_mib << 20,
        .kernel_us = (uint64_t)o->kernel_us,
        .sm_share = o->sm_share,
    };
    struct server *s;
    struct gs_error *err = server_start(&cfg, &s);
    if (err) {
        fprintf(stderr, "intent-api: %s\n", gs_error_message(err));
        gs_error_free(err);
        return 1;
    }
    fprintf(stderr, "intent-api: listening on %s:%u, inference on %s\n", cfg.address,
            server_port(s), server_gpu(s));
    int signal_number;
    sigwait(signals, &signal_number);
    server_stop(s, 5000);
    return 0;
}

int main(int argc, char **argv)
{
    gs_occupy_standard_files();
    sigset_t signals; // waited for; blocked before threads start so that they inherit it
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);

    struct opts o;
    struct gs_common_opts common;
    int rest;
    struct gs_error *err = gs_options_parse(&command, argc - 1, argv + 1, &o, &common, &rest);
    if (!err && !common.help && !(o.sm_share > 0 && o.sm_share <= 1))
        err = gs_error_new(GS_EINVAL, "--sm-share: must be above 0 and at most 1");
    if (err) {
        fprintf(stderr, "intent-api: %s\n", gs_error_message(err));
        gs_error_free(err);
        return 2;
    }
    if (common.help) {
        gs_options_print_help(&command, "intent-api", true, stdout);
        return 0;
    }
    return serve(&o, &signals);
}
