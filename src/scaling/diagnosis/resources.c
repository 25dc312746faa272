// SPDX-License-Identifier: Apache-2.0
// The components that offer extended resources, from their documentation.
#include "diagnosis/diagnosis_private.h"

// The first row that matches counts. A name that ends in * stands for all that begin so.
static const struct {
    const char *name, *text;
} providers[] = {
    {"nvidia.com/gpu.shared",
     "the NVIDIA device plugin offers it for time slices with renameByDefault: true; without that, "
     "request nvidia.com/gpu"},
    {"nvidia.com/gpumem*",
     "HAMi's device plugin and scheduler offer it; without HAMi, request only nvidia.com/gpu"},
    {"nvidia.com/gpucores",
     "HAMi's device plugin and scheduler offer it; without HAMi, request only nvidia.com/gpu"},
    {"nvidia.com/vgpu*",
     "HAMi's device plugin and scheduler offer it; without HAMi, request only nvidia.com/gpu"},
    {"nvidia.com/mig-*",
     "the NVIDIA device plugin offers it with migStrategy: mixed on nodes that are divided so "
     "(label nvidia.com/mig.config); with migStrategy: single, request nvidia.com/gpu"},
    {"nvidia.com/hostdev", "the RDMA or SR-IOV device plugin offers it"},
    {"nvidia.com/gpu", "the NVIDIA device plugin offers it"},
    {"nvidia.com/*", "the NVIDIA device plugin offers nvidia.com/gpu, nvidia.com/gpu.shared and "
                     "nvidia.com/mig-…; check the name"},
    {"volcano.sh/vgpu-*",
     "Volcano's vGPU device plugin and scheduler offer it; without them, request nvidia.com/gpu"},
    {"volcano.sh/gpu-*",
     "Volcano's GPU device plugin and scheduler offer it; without them, request nvidia.com/gpu"},
    {"aliyun.com/gpu-*",
     "the GPU share device plugin and scheduler extender offer it; without them, request "
     "nvidia.com/gpu"},
    {"tencent.com/vcuda-*", "Tencent's GPU manager offers it; without it, request nvidia.com/gpu"},
    {"tke.cloud.tencent.com/qgpu*", "Tencent's qGPU offers it; without it, request nvidia.com/gpu"},
    {"elasticgpu.io/*",
     "Elastic GPU's device plugin offers it; without it, request nvidia.com/gpu"},
    {"k8s.amazonaws.com/vgpu",
     "the AWS virtual GPU device plugin offers it; without it, request nvidia.com/gpu"},
    {"run.ai/*", "Run:ai offers it; without it, request nvidia.com/gpu"},
    {"koordinator.sh/*",
     "Koordinator's scheduler and device daemon offer it; without them, request "
     "nvidia.com/gpu"},
    {"amd.com/*", "the AMD GPU device plugin offers it"},
    {"gpu.intel.com/*", "the Intel GPU device plugin offers it"},
    {"habana.ai/*", "the Intel Gaudi device plugin offers it"},
    {"google.com/tpu", "nodes with TPUs of GKE offer it"},
    {"cloud-tpus.google.com/*", "nodes with TPUs of GKE offer it"},
    {"aws.amazon.com/neuron*", "the AWS Neuron device plugin offers it"},
    {"vpc.amazonaws.com/efa", "the AWS EFA device plugin offers it"},
    {"huawei.com/*", "the Ascend device plugin offers it"},
    {"cambricon.com/*", "the Cambricon device plugin offers it"},
    {"qualcomm.com/*", "the Qualcomm Cloud AI device plugin offers it"},
    {"microsoft.com/directx", "the DirectX device plugin offers it on Windows nodes"},
    {"rdma/*", "the RDMA shared device plugin offers it"},
    {"openshift.io/*", "the SR-IOV network operator offers it"},
    {"devices.kubevirt.io/*", "KubeVirt's device plugin offers it"},
    {"squat.ai/*", "the generic device plugin offers it"},
    {"smarter-devices/*", "the smarter device manager offers it"},
    {"hugepages-*", "nodes offer it that reserved huge pages at boot"},
};

static bool matches(const char *resource, const char *name)
{
    size_t n = strlen(name);
    return name[n - 1] == '*' ? strncmp(resource, name, n - 1) == 0 : gs_streq(resource, name);
}

const char *diagnosis_provider_of(const char *resource)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(providers); i++)
        if (matches(resource, providers[i].name))
            return providers[i].text;
    return "a device plugin must register it with the kubelet of a node; check the name";
}
