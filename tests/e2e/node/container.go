package main

// The inside of a container: the machine's /usr, the image, what the kubelet mounts, and no more.

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	goruntime "runtime"

	"golang.org/x/sys/unix"
)

type containerMount struct {
	From, To string
	ReadOnly bool
}

type containerSpec struct {
	Root, Image, Hosts string
	Mounts             []containerMount
	Env, Argv          []string
	UID, GID           int
	ReadOnlyRoot       bool
	NoNewPrivileges    bool
	DropAll            bool
	Driver             string // where the root of the machine is mounted, which has a driver as on GKE; "": nowhere
}

// The driver's library below the mounted root of a machine, where GKE's installer puts it.
func installDriver(root string) error {
	home := filepath.Join(root, "home")
	if err := unix.Mount("tmpfs", home, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	folder := filepath.Join(home, "kubernetes/bin/nvidia/lib64")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.Symlink("/usr/local/bin/libgpuscale-nvmlsim.so", filepath.Join(folder, "libnvidia-ml.so.1"))
}

func bind(root string, m containerMount) error {
	to := filepath.Join(root, m.To)
	info, err := os.Stat(m.From)
	if os.IsNotExist(err) { // a hostPath of no type: runtimes make an empty folder
		return os.MkdirAll(to, 0o755)
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
		var f *os.File
		if f, err = os.OpenFile(to, os.O_CREATE|os.O_RDONLY, 0o644); err == nil {
			f.Close()
		}
	}
	if err != nil {
		return err
	}
	if err = unix.Mount(m.From, to, "", unix.MS_BIND|unix.MS_REC, ""); err == nil && m.ReadOnly {
		err = unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	if err != nil {
		return fmt.Errorf("mounting %s on %s: %w", m.From, m.To, err)
	}
	return nil
}

func build(c *containerSpec) error {
	if err := os.MkdirAll(c.Root, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", c.Root, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if target, err := os.Readlink("/" + link); err == nil {
			_ = os.Symlink(target, filepath.Join(c.Root, link))
		}
	}
	mounts := []containerMount{{"/usr", "/usr", false}, {c.Image, "/usr/local/bin", true}, {"/proc", "/proc", false},
		{"/dev", "/dev", false}, {"/sys", "/sys", false}}
	for _, file := range []string{"/etc/ssl", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/ld.so.cache", "/etc/localtime"} {
		if _, err := os.Stat(file); err == nil {
			mounts = append(mounts, containerMount{file, file, false})
		}
	}
	for _, m := range c.Mounts {
		if m.To != "/etc/hosts" && !strings.HasPrefix(m.To, "/dev/") {
			mounts = append(mounts, m)
		}
	}
	mounts = append(mounts, containerMount{c.Hosts, "/etc/hosts", false})
	for _, m := range mounts {
		if err := bind(c.Root, m); err != nil {
			return err
		}
	}
	if c.Driver != "" {
		if err := installDriver(filepath.Join(c.Root, c.Driver)); err != nil {
			return err
		}
	}
	_ = os.MkdirAll(filepath.Join(c.Root, "tmp"), 0o777)
	if c.ReadOnlyRoot {
		return unix.Mount("", c.Root, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	return os.Chmod(filepath.Join(c.Root, "tmp"), 0o1777)
}

func enterContainer(text string) error {
	goruntime.LockOSThread()
	var c containerSpec
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	if err := build(&c); err != nil {
		return err
	}
	if err := unix.Chroot(c.Root); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if c.DropAll {
		for capability := uintptr(0); capability <= unix.CAP_LAST_CAP; capability++ {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		}
	}
	if c.NoNewPrivileges {
		_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	if c.GID == 0 {
		c.GID = c.UID
	}
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(c.GID); err != nil {
		return err
	}
	if err := syscall.Setuid(c.UID); err != nil {
		return err
	}
	return syscall.Exec(c.Argv[0], c.Argv, c.Env)
}
