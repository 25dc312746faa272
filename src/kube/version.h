// SPDX-License-Identifier: Apache-2.0
// The release of Kubernetes that `gpuscale up` presents, in one place: /version, the node's
// versions, probes, and the autoscaler that it follows.
#pragma once

#define KUBE_VERSION_MAJOR "1"
#define KUBE_VERSION_MINOR "36"
#define KUBE_VERSION       KUBE_VERSION_MAJOR "." KUBE_VERSION_MINOR
