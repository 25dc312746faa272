package main

// What the node has and uses, in cAdvisor's place: a larger machine than this one, with this one's use.

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	cadvisorapiv2 "github.com/google/cadvisor/info/v2"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
)

const ticksPerSecond = 100

type machine struct {
	cadvisortest.Fake
	name string
	cpus int
}

func (m *machine) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	return &cadvisorapi.MachineInfo{NumCores: m.cpus, MemoryCapacity: 64 << 30, MachineID: m.name, SystemUUID: m.name, BootID: m.name}, nil
}

// The sum of the fields of the first line of /proc/stat but idle and iowait, in ns.
func cpuNanoseconds() uint64 {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	var ticks uint64
	for i, field := range strings.Fields(line) {
		n, _ := strconv.ParseUint(field, 10, 64)
		if i >= 1 && i <= 8 && i != 4 && i != 5 {
			ticks += n
		}
	}
	return ticks * (1e9 / ticksPerSecond)
}

func memoryUsed() uint64 {
	text, _ := os.ReadFile("/proc/meminfo")
	kib := map[string]uint64{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) >= 2 {
			kib[f[0]], _ = strconv.ParseUint(f[1], 10, 64)
		}
	}
	return (kib["MemTotal:"] - kib["MemAvailable:"]) << 10
}

func (m *machine) ContainerInfoV2(name string, _ cadvisorapiv2.RequestOptions) (map[string]cadvisorapiv2.ContainerInfo, error) {
	sample := &cadvisorapiv2.ContainerStats{
		Timestamp: time.Now(),
		Cpu:       &cadvisorapi.CpuStats{Usage: cadvisorapi.CpuUsage{Total: cpuNanoseconds()}},
		Memory:    &cadvisorapi.MemoryStats{Usage: memoryUsed(), WorkingSet: memoryUsed()},
	}
	return map[string]cadvisorapiv2.ContainerInfo{name: {
		Spec:  cadvisorapiv2.ContainerSpec{HasCpu: true, HasMemory: true, CreationTime: time.Unix(1, 0)},
		Stats: []*cadvisorapiv2.ContainerStats{sample},
	}}, nil
}

// What a process used: CPU in ns, resident bytes.
func processUse(pid int) (uint64, uint64) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0
	}
	_, after, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(after)
	if len(f) < 22 {
		return 0, 0
	}
	user, _ := strconv.ParseUint(f[11], 10, 64)
	system, _ := strconv.ParseUint(f[12], 10, 64)
	pages, _ := strconv.ParseUint(f[21], 10, 64)
	return (user + system) * (1e9 / ticksPerSecond), pages * uint64(os.Getpagesize())
}
