// SPDX-License-Identifier: Apache-2.0
// Pod addresses: 127.64.0.1 to 127.95.255.254, each in use once. The first one depends on the data
// directory, so that two clusters on one machine seldom meet.
#pragma once

#include <stdbool.h>

struct kubelet_pod_ips;
struct kubelet_pod_ips *kubelet_pod_ips_new(const char *seed);
void kubelet_pod_ips_free(struct kubelet_pod_ips *ips);
// Marks an address that a pod has already; false when it is not of our range or taken.
bool kubelet_pod_ips_reserve(struct kubelet_pod_ips *ips, const char *ip);
char *kubelet_pod_ips_take(struct kubelet_pod_ips *ips); // caller frees; NULL when none is left
void kubelet_pod_ips_give_back(struct kubelet_pod_ips *ips, const char *ip);
