package main

// kube-proxy's and the cluster DNS' work, and that of who sends the requests: the addresses of
// services listen and pass on to ready endpoints, their names stand in a hosts file, and the load of
// an app (file NAME, percent of a GPU) is shared among its pods that run (file NAME.share).

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type proxy struct {
	mutex   sync.Mutex
	targets map[string][]string // by address and port of a service
}

func (p *proxy) serve(listener net.Listener, service string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.mutex.Lock()
		targets := p.targets[service]
		p.mutex.Unlock()
		go pass(client.(*net.TCPConn), targets)
	}
}

// To any one of them, as kube-proxy does: when that one is dead, the client has to notice.
func pass(client *net.TCPConn, targets []string) {
	defer client.Close()
	if len(targets) == 0 {
		return
	}
	c, err := net.DialTimeout("tcp", targets[rand.Intn(len(targets))], time.Minute)
	if err != nil {
		return
	}
	server := c.(*net.TCPConn)
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.CloseWrite()
	}()
	_, _ = io.Copy(client, server)
}

// Address and port of the service's port, with who serves it.
func targetsOf(service *v1.Service, port *v1.ServicePort, slices []discovery.EndpointSlice) []string {
	var all []string
	for i := range slices {
		s := &slices[i]
		if s.Namespace != service.Namespace || s.Labels[discovery.LabelServiceName] != service.Name {
			continue
		}
		for _, sp := range s.Ports {
			if sp.Port == nil || (sp.Name != nil && *sp.Name != port.Name) {
				continue
			}
			for _, e := range s.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					all = append(all, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*sp.Port))))
				}
			}
		}
	}
	return all
}

func (p *proxy) update(services []v1.Service, slices []discovery.EndpointSlice) string {
	hosts := "127.0.0.1 localhost\n"
	for i := range services {
		s := &services[i]
		ip := s.Spec.ClusterIP
		for j := range s.Spec.Ports {
			port := &s.Spec.Ports[j]
			targets := targetsOf(s, port, slices)
			if ip == "" || ip == v1.ClusterIPNone {
				if len(targets) > 0 {
					ip, _, _ = net.SplitHostPort(targets[0])
				}
				break
			}
			at := net.JoinHostPort(ip, strconv.Itoa(int(port.Port)))
			p.mutex.Lock()
			_, known := p.targets[at]
			p.targets[at] = targets
			p.mutex.Unlock()
			if known {
				continue
			}
			_ = shell(`ip addr add "$1/32" dev lo 2>&1 || true`, ip)
			if listener, err := net.Listen("tcp", at); err == nil {
				go p.serve(listener, at)
			} else {
				fmt.Fprintln(os.Stderr, "proxy:", err)
			}
		}
		if ip != "" && ip != v1.ClusterIPNone {
			hosts += fmt.Sprintf("%s %[2]s.%[3]s.svc %[2]s.%[3]s.svc.cluster.local %[2]s.%[3]s\n", ip, s.Name, s.Namespace)
		}
	}
	return hosts
}

func share(folder string, pods []v1.Pod) {
	running := map[string]uint32{}
	for i := range pods {
		if pods[i].Status.Phase == v1.PodRunning && pods[i].DeletionTimestamp == nil {
			running[pods[i].Labels["app"]]++
		}
	}
	for app, n := range running {
		text, err := os.ReadFile(filepath.Join(folder, app))
		if err != nil {
			continue
		}
		percent, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		tell(filepath.Join(folder, app+".share"), min(uint32(percent)/n, 100))
	}
}

// The word in the file is a futex that the workloads wait on while it is 0.
func tell(file string, percent uint32) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	shared, err := unix.Mmap(int(f.Fd()), 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return
	}
	binary.NativeEndian.PutUint32(shared, percent)
	const wake = 1
	_, _, _ = unix.Syscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&shared[0])), wake, 1<<30)
	_ = unix.Munmap(shared)
}

func runProxy(o *options) error {
	kube := client(o.kubeconfig, 50)
	p := &proxy{targets: map[string][]string{}}
	written := ""
	for ctx := context.Background(); ; time.Sleep(500 * time.Millisecond) {
		services, err := kube.CoreV1().Services("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			continue
		}
		slices, err := kube.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			continue
		}
		pods, err := kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			continue
		}
		// In place: containers have the file mounted.
		if hosts := p.update(services.Items, slices.Items); hosts != written {
			if err := os.WriteFile(o.runtime.hosts, []byte(hosts), 0o644); err != nil {
				return err
			}
			written = hosts
		}
		share(o.runtime.load, pods.Items)
	}
}
