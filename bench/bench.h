// SPDX-License-Identifier: Apache-2.0
// Shared by the benchmarks: child processes, their CPU time and memory, a temporary directory,
// percentiles. A benchmark that cannot continue prints an error and exits with code 1.
#pragma once

#include "base/error.h"
#include "base/option.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

_Noreturn void bench_fail(const char *fmt, ...) GS_PRINTF(1, 2);
void bench_check(struct gs_error *err); // takes the error; ends the program if it is not NULL

// Parses the flags and runs the command. Returns the exit code.
int bench_main(const struct gs_command *command, int argc, char **argv);

// Registers clean-up on exit and on SIGINT and SIGTERM: children are stopped, the folder removed.
void bench_begin(void);
const char *bench_dir(void); // scratch folder, absolute

// Output of the child goes to bench_dir()/LOG. argv[0] is the program.
pid_t bench_start(const char *log, const char *const *argv);
// Waits until its output has this text and returns what follows it, up to the end of the line.
char *bench_wait_for_text(pid_t pid, const char *text) GS_MUST_USE;
// The same with a time limit in seconds.
char *bench_wait_for_text_long(pid_t pid, const char *text, int seconds) GS_MUST_USE;
void bench_stop(pid_t pid);          // SIGTERM, SIGKILL after ten seconds
void bench_kill(pid_t pid);          // SIGKILL
void bench_check_running(pid_t pid); // prints the log and ends the program if the process has ended
uint16_t bench_free_port(void);      // of 127.0.0.1; it may be in use again later
void bench_sleep(int64_t ns);

int64_t bench_cpu_ns(pid_t pid); // CPU time used by the threads that the process has now

struct bench_memory {
    int64_t rss_kib, pss_kib, private_kib;
};
struct bench_memory bench_memory(pid_t pid);
int64_t bench_peak_kib(pid_t pid);                      // peak of resident memory
int64_t bench_status_kib(pid_t pid, const char *field); // of /proc/PID/status: "RssAnon"

// Fills up to max children of the process and returns how many there are.
size_t bench_children(pid_t parent, pid_t *ret, size_t max);
// Whether the first argument of the process is this word: "exporter", "pod-shim".
bool bench_is_command(pid_t pid, const char *command);

struct bench_series {
    double *items;
    size_t len, cap;
};
void bench_add(struct bench_series *s, double value);
double bench_percentile(struct bench_series *s,
                        double percent); // nearest rank; sorts; NAN if empty
void bench_series_finish(struct bench_series *s);

// "met" or "MISSED".
const char *bench_verdict(bool met);
