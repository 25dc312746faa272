package main

// The container runtime: Kubernetes' fake one for what is only told, processes where something runs.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	fakecri "k8s.io/cri-api/pkg/apis/testing"
)

type runtimeOptions struct {
	image, hosts, logs, sim, load string
}

type process struct {
	config  *runtimeapi.ContainerConfig
	sandbox *runtimeapi.PodSandboxConfig
	handler string
	command *exec.Cmd
	ended   chan struct{}
}

type runtime struct {
	*fakecri.FakeRuntimeService
	options *runtimeOptions
	network string
	address string // of the node
	mutex   sync.Mutex
	next    int
	spaces  map[string]string // network namespaces of sandboxes
	running map[string]*process
}

func newRuntime(o *runtimeOptions, network, address string) *runtime {
	r := &runtime{FakeRuntimeService: fakecri.NewFakeRuntimeService(), options: o, network: network, address: address,
		next: 2, spaces: map[string]string{}, running: map[string]*process{}}
	r.FakeStatus = &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true}}}
	return r
}

func (r *runtime) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	answer, err := r.FakeRuntimeService.Status(ctx, verbose)
	if answer != nil {
		answer.RuntimeHandlers = []*runtimeapi.RuntimeHandler{{Name: ""}, {Name: "nvidia"}}
	}
	return answer, err
}

func (r *runtime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	id, err := r.FakeRuntimeService.RunPodSandbox(ctx, config, handler)
	if err != nil {
		return "", err
	}
	r.mutex.Lock()
	ip := r.address
	if config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() != runtimeapi.NamespaceMode_NODE {
		ip = fmt.Sprintf("%s.%d", r.network, r.next)
		r.next++
	}
	r.mutex.Unlock()
	r.FakeRuntimeService.Lock()
	r.Sandboxes[id].Network.Ip = ip
	r.FakeRuntimeService.Unlock()
	return id, nil
}

func shell(script string, args ...string) error {
	out, err := exec.Command("sh", append([]string{"-ec", script, "sh"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// The pod's network namespace, with its address on the bridge pods0.
func (r *runtime) space(sandboxID string) (string, error) {
	if name := r.spaces[sandboxID]; name != "" {
		return name, nil
	}
	r.FakeRuntimeService.Lock()
	ip := r.Sandboxes[sandboxID].Network.Ip
	r.FakeRuntimeService.Unlock()
	name := strings.ReplaceAll(ip, ".", "-")
	err := shell(`
		ip netns add "$1"
		ip link add "v$3" type veth peer name eth0 netns "$1"
		ip link set "v$3" master pods0 up
		ip -n "$1" addr add "$2/16" dev eth0
		ip -n "$1" link set eth0 up
		ip -n "$1" link set lo up
		ip -n "$1" route add default via 10.244.0.1`, name, ip, strings.ReplaceAll(ip[len("10.244"):], ".", "p"))
	if err == nil {
		r.spaces[sandboxID] = name
	}
	return name, err
}

func (r *runtime) RemovePodSandbox(ctx context.Context, id string) error {
	r.mutex.Lock()
	if name := r.spaces[id]; name != "" {
		_ = shell(`ip netns del "$1"`, name)
		delete(r.spaces, id)
	}
	r.mutex.Unlock()
	return r.FakeRuntimeService.RemovePodSandbox(ctx, id)
}

func (r *runtime) CreateContainer(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	id, err := r.FakeRuntimeService.CreateContainer(ctx, sandboxID, config, sandbox)
	if err == nil {
		r.FakeRuntimeService.Lock()
		handler := r.Sandboxes[sandboxID].RuntimeHandler
		r.FakeRuntimeService.Unlock()
		r.mutex.Lock()
		r.running[id] = &process{config: config, sandbox: sandbox, handler: handler}
		r.mutex.Unlock()
	}
	return id, err
}

// What runs in the container; nil: nothing.
func (r *runtime) start(p *process, sandboxID string) (*exec.Cmd, error) {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/"}
	visible := ""
	for _, e := range p.config.Envs {
		env = append(env, e.Key+"="+string(e.Value))
		if e.Key == "NVIDIA_VISIBLE_DEVICES" {
			visible = string(e.Value)
		}
	}
	image := p.config.Image.UserSpecifiedImage
	if image == "" {
		image = p.config.Image.Image
	}
	// The guides' exporter is ours; its image asks for all GPUs of a runtime that is the default one.
	exporter := strings.Contains(image, "/dcgm-exporter:")
	if !exporter && !strings.Contains(image, "gpuscale") {
		if visible == "" {
			return nil, nil
		}
		file := filepath.Join(r.options.load, p.sandbox.Labels["app"]+".share")
		f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		_ = f.Truncate(4)
		f.Close()
		command := exec.Command(filepath.Join(r.options.image, "workload"), file)
		command.Env = append(env, "GPUSCALE_SIM="+r.options.sim, "CUDA_VISIBLE_DEVICES="+visible)
		return command, nil
	}
	security := p.config.GetLinux().GetSecurityContext()
	driver := "" // the device files are there for privileged containers alone
	for _, m := range p.config.Mounts {
		if m.HostPath == "/" && security.GetPrivileged() {
			driver = m.ContainerPath
			env = append(env, "GPUSCALE_SIM="+r.options.sim)
		}
	}
	if exporter || (p.handler == "nvidia" && visible != "") { // NVIDIA's container runtime brings the driver's library
		env = append(env, "GPUSCALE_SIM="+r.options.sim, "GPUSCALE_NVML_LIBRARY=/usr/local/bin/libgpuscale-nvmlsim.so")
	}
	space, err := r.space(sandboxID)
	if err != nil {
		return nil, err
	}
	argv := append(append([]string{}, p.config.Command...), p.config.Args...)
	if len(p.config.Command) == 0 { // the image's entrypoint
		argv = append([]string{"/usr/local/bin/gpuscale"}, p.config.Args...)
	}
	if exporter {
		argv = append([]string{"/usr/local/bin/gpuscale", "exporter"}, p.config.Args...)
	}
	c := containerSpec{Root: "/run/roots/" + space, Image: r.options.image, Hosts: r.options.hosts, Env: env, Argv: argv, Driver: driver}
	c.UID, c.GID = int(security.GetRunAsUser().GetValue()), int(security.GetRunAsGroup().GetValue())
	c.ReadOnlyRoot = security.GetReadonlyRootfs()
	c.NoNewPrivileges = security.GetNoNewPrivs()
	for _, drop := range security.GetCapabilities().GetDropCapabilities() {
		c.DropAll = c.DropAll || strings.EqualFold(drop, "ALL")
	}
	for _, m := range p.config.Mounts {
		c.Mounts = append(c.Mounts, containerMount{m.HostPath, m.ContainerPath, m.Readonly})
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command("nsenter", "--net=/run/netns/"+space, self, "container", string(text))
	command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return command, nil
}

func (r *runtime) StartContainer(ctx context.Context, id string) error {
	if err := r.FakeRuntimeService.StartContainer(ctx, id); err != nil {
		return err
	}
	r.FakeRuntimeService.Lock()
	sandboxID := r.Containers[id].SandboxID
	r.FakeRuntimeService.Unlock()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	p := r.running[id]
	command, err := r.start(p, sandboxID)
	if command == nil || err != nil {
		return err
	}
	meta := p.sandbox.Metadata
	log, err := os.OpenFile(filepath.Join(r.options.logs, meta.Namespace+"_"+meta.Name+"_"+p.config.Metadata.Name+".log"),
		os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return err
	}
	p.command, p.ended = command, make(chan struct{})
	go func() {
		_ = command.Wait()
		r.FakeRuntimeService.Lock()
		if c := r.Containers[id]; c != nil {
			c.State = runtimeapi.ContainerState_CONTAINER_EXITED
			c.ExitCode = int32(command.ProcessState.ExitCode())
			c.FinishedAt = time.Now().UnixNano()
		}
		r.FakeRuntimeService.Unlock()
		close(p.ended)
	}()
	return nil
}

func (r *runtime) StopContainer(ctx context.Context, id string, timeout int64) error {
	r.mutex.Lock()
	p := r.running[id]
	r.mutex.Unlock()
	if p != nil && p.command != nil {
		_ = p.command.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(time.Duration(timeout) * time.Second):
			_ = p.command.Process.Kill()
			<-p.ended
		}
	}
	return r.FakeRuntimeService.StopContainer(ctx, id, timeout)
}

func (r *runtime) RemoveContainer(ctx context.Context, id string) error {
	r.mutex.Lock()
	delete(r.running, id)
	r.mutex.Unlock()
	return r.FakeRuntimeService.RemoveContainer(ctx, id)
}

// Hooks: outside of the container, as they only sleep.
func (r *runtime) ExecSync(ctx context.Context, _ string, command []string, timeout time.Duration) ([]byte, []byte, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	return out, nil, err
}

func (r *runtime) ListContainerStats(_ context.Context, _ *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := time.Now().UnixNano()
	var all []*runtimeapi.ContainerStats
	for id, p := range r.running {
		var cpu, memory uint64
		if p.command != nil && p.command.Process != nil {
			cpu, memory = processUse(p.command.Process.Pid)
		}
		all = append(all, &runtimeapi.ContainerStats{
			Attributes: &runtimeapi.ContainerAttributes{Id: id, Metadata: p.config.Metadata, Labels: p.config.Labels},
			Cpu:        &runtimeapi.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: cpu}},
			Memory:     &runtimeapi.MemoryUsage{Timestamp: now, WorkingSetBytes: &runtimeapi.UInt64Value{Value: memory}},
		})
	}
	return all, nil
}
