// SPDX-License-Identifier: Apache-2.0
// The parts of the micro-benchmark. Single-threaded parts count the CPU time of their thread, so
// that other programs on the machine disturb them less.
#pragma once

#include "bench.h"

// Seconds of CPU time that one call of fn takes: the median over rounds that fill `seconds`.
double micro_time(double seconds, void (*fn)(void *arg), void *arg);
// One line of the table; bar NULL: none.
void micro_row(const char *what, const char *figure, const char *bar, bool met);

void micro_text(double seconds);                      // render, parse, parse and store
void micro_answers(double seconds);                   // of queries, as JSON
void micro_hpa(double seconds);                       // decisions
void micro_slo(double seconds);                       // decisions for latency targets
void micro_adapter(double seconds, const char *self); // requests over TCP
void micro_expander(double seconds);                  // one choice
_Noreturn void micro_adapter_serve(void);             // the server that it starts
