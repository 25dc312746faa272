package main

// The kubelet's own device manager in an otherwise empty container manager, and the device plugin
// that reports the simulated GPUs to it.

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/status"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

const gpuResource = "nvidia.com/gpu"

type deviceManager struct {
	cm.ContainerManager
	devices *devicemanager.ManagerImpl
	gpus    []string
}

func newDeviceManager(gpus string) (*deviceManager, error) {
	if err := os.MkdirAll(pluginapi.DevicePluginPath, 0o750); err != nil {
		return nil, err
	}
	devices, err := devicemanager.NewManagerImpl(nil, topologymanager.NewFakeManager())
	if err != nil {
		return nil, err
	}
	m := &deviceManager{ContainerManager: cm.NewStubContainerManager(), devices: devices}
	if gpus != "" {
		m.gpus = strings.Split(gpus, ",")
	}
	return m, nil
}

// Registers the GPUs with the kubelet, once it listens.
func (m *deviceManager) plug(ctx context.Context) {
	logger := klog.Background()
	var list []*pluginapi.Device
	for _, uuid := range m.gpus {
		list = append(list, &pluginapi.Device{ID: uuid, Health: pluginapi.Healthy})
	}
	socket := filepath.Join(pluginapi.DevicePluginPath, "gpus.sock")
	for {
		time.Sleep(200 * time.Millisecond)
		if _, err := os.Stat(pluginapi.KubeletSocket); err == nil {
			break
		}
	}
	stub := plugin.NewDevicePluginStub(logger, list, socket, gpuResource, false, false)
	stub.SetAllocFunc(func(r *pluginapi.AllocateRequest, _ map[string]*pluginapi.Device) (*pluginapi.AllocateResponse, error) {
		answer := &pluginapi.AllocateResponse{}
		for _, c := range r.ContainerRequests {
			answer.ContainerResponses = append(answer.ContainerResponses, &pluginapi.ContainerAllocateResponse{
				Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(c.DevicesIds, ",")},
			})
		}
		return answer, nil
	})
	if err := stub.Start(ctx); err != nil {
		fatal(err)
	}
	if err := stub.Register(ctx, pluginapi.KubeletSocket, gpuResource, ""); err != nil {
		fatal(err)
	}
}

func (m *deviceManager) Start(ctx context.Context, node *v1.Node, active cm.ActivePodsFunc, getNode cm.GetNodeFunc, ready config.SourcesReady, status status.PodStatusProvider, runtime internalapi.RuntimeService, storage bool) error {
	if err := m.ContainerManager.Start(ctx, node, active, getNode, ready, status, runtime, storage); err != nil {
		return err
	}
	return m.devices.Start(klog.FromContext(ctx), devicemanager.ActivePodsFunc(active), ready, containermap.NewContainerMap(), sets.New[string]())
}

func (m *deviceManager) GetDevicePluginResourceCapacity() (v1.ResourceList, v1.ResourceList, []string) {
	return m.devices.GetCapacity()
}

func (m *deviceManager) GetResources(ctx context.Context, pod *v1.Pod, container *v1.Container) (*kubecontainer.RunContainerOptions, error) {
	given, err := m.devices.GetDeviceRunContainerOptions(ctx, pod, container)
	if err != nil || given == nil {
		return &kubecontainer.RunContainerOptions{}, err
	}
	return &kubecontainer.RunContainerOptions{Envs: given.Envs}, nil
}

func (m *deviceManager) UpdatePluginResources(node *schedulerframework.NodeInfo, attrs *lifecycle.PodAdmitAttributes) error {
	return m.devices.UpdatePluginResources(node, attrs)
}

func (m *deviceManager) ShouldResetExtendedResourceCapacity() bool {
	return m.devices.ShouldResetExtendedResourceCapacity()
}

func (m *deviceManager) UpdateAllocatedDevices() { m.devices.UpdateAllocatedDevices() }

func (m *deviceManager) GetAllocateResourcesPodAdmitHandler() lifecycle.PodAdmitHandler { return m }

func (m *deviceManager) Admit(attrs *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	for i := range attrs.Pod.Spec.Containers {
		if err := m.devices.Allocate(attrs.Pod, &attrs.Pod.Spec.Containers[i]); err != nil {
			return lifecycle.PodAdmitResult{Reason: "UnexpectedAdmissionError", Message: err.Error()}
		}
	}
	return lifecycle.PodAdmitResult{Admit: true}
}

func listed(devices devicemanager.ResourceDeviceInstances) []*podresourcesapi.ContainerDevices {
	var all []*podresourcesapi.ContainerDevices
	for resource, instances := range devices {
		for id := range instances {
			all = append(all, &podresourcesapi.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}})
		}
	}
	return all
}

func (m *deviceManager) GetDevices(podUID, container string) []*podresourcesapi.ContainerDevices {
	return listed(m.devices.GetDevices(podUID, container))
}

func (m *deviceManager) GetAllocatableDevices() []*podresourcesapi.ContainerDevices {
	return listed(m.devices.GetAllocatableDevices())
}
