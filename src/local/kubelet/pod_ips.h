// SPDX-License-Identifier: Apache-2.0
// Addresses of pods on the loopback network of this machine.
#pragma once

#include <stdbool.h>

// --- pod_ips.c: pod addresses, 127.64.0.1 to 127.95.255.254, each used by one pod ---
// The first address depends on the data directory, so that two clusters on one machine rarely use
// the same one.

struct kubelet_pod_ips;
struct kubelet_pod_ips *kubelet_pod_ips_new(const char *seed);
void kubelet_pod_ips_free(struct kubelet_pod_ips *ips);
// Reserves the address of an existing pod. False if it is outside the range or in use.
bool kubelet_pod_ips_reserve(struct kubelet_pod_ips *ips, const char *ip);
char *kubelet_pod_ips_take(struct kubelet_pod_ips *ips); // caller frees; NULL: all are in use
void kubelet_pod_ips_give_back(struct kubelet_pod_ips *ips, const char *ip);
