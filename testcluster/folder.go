package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

const loopbackHost = "127.0.0.1"

func loopback(port int) string { return fmt.Sprintf("%s:%d", loopbackHost, port) }

// folder is the directory that holds everything a cluster must remember.
type folder string

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// write replaces a file atomically, so that no reader gets half of it.
func (f folder) write(name string, data []byte) error {
	temporary := f.path("." + name + ".new")
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, f.path(name))
}

// lock makes this process the only supervisor of the folder, until it ends.
func (f folder) lock() (*os.File, error) {
	file, err := os.OpenFile(f.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s is in use: another 'testcluster start' runs there; stop it or choose another --dir", f)
	}
	return file, nil
}

// ports are where the cluster listens. They are chosen once, because kubeconfigs name them.
type ports struct {
	Etcd              int `json:"etcd"`
	EtcdPeer          int `json:"etcdPeer"`
	APIServer         int `json:"apiServer"`
	ControllerManager int `json:"controllerManager"`
}

// prepare fills a new folder, or reads what an earlier start left there.
func (f folder) prepare() (p ports, ca []byte, err error) {
	err = f.read("ports.json", &p)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist):
		if p, err = f.create(); err != nil {
			return p, nil, fmt.Errorf("cannot prepare %s: %w", f, err)
		}
	default:
		return p, nil, err
	}
	ca, err = os.ReadFile(f.path("ca.crt"))
	return p, ca, err
}

func (f folder) read(name string, into any) error {
	data, err := os.ReadFile(f.path(name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("cannot read %s: %w", f.path(name), err)
	}
	return nil
}

// create writes certificates, tokens and kubeconfigs. The ports come last: where they are, everything is.
func (f folder) create() (ports, error) {
	var p ports
	chosen, err := freePorts(4)
	if err != nil {
		return p, err
	}
	p = ports{Etcd: chosen[0], EtcdPeer: chosen[1], APIServer: chosen[2], ControllerManager: chosen[3]}

	pki, err := newPKI()
	if err != nil {
		return p, err
	}
	admin, user := secret(), secret()
	server := "https://" + loopback(p.APIServer)
	portsJSON, err := json.Marshal(p)
	if err != nil {
		return p, err
	}
	for _, file := range []struct {
		name string
		data []byte
	}{
		{"ca.crt", pki.ca},
		{"server.crt", pki.serverCert},
		{"server.key", pki.serverKey},
		{"service-account.key", pki.serviceAccountKey},
		{"tokens.csv", fmt.Appendf(nil, "%s,admin,admin,system:masters\n%s,alice,alice\n", admin, user)},
		{"admin.token", []byte(admin)},
		{"kubeconfig", kubeconfig(server, pki.ca, "admin", admin)},
		{"user.kubeconfig", kubeconfig(server, pki.ca, "alice", user)},
		{"etcd.address", fmt.Appendln(nil, loopback(p.Etcd))},
		{"ports.json", portsJSON},
	} {
		if err := f.write(file.name, file.data); err != nil {
			return p, err
		}
	}
	return p, nil
}

// freePorts finds ports below those that the kernel gives to outgoing connections (32768 and up on Linux): while a
// component is down, no other program takes its port by chance.
func freePorts(n int) ([]int, error) {
	const first, count = 20000, 12000
	var found []int
	for tries := 0; len(found) < n; tries++ {
		if tries == 1000 {
			return nil, errors.New("found no free ports on " + loopbackHost)
		}
		r, err := rand.Int(rand.Reader, big.NewInt(count))
		if err != nil {
			return nil, err
		}
		listener, err := net.Listen("tcp", loopback(first+int(r.Int64())))
		if err != nil {
			continue
		}
		// Kept open until all are found, or the same one could be found twice.
		defer listener.Close()
		found = append(found, listener.Addr().(*net.TCPAddr).Port)
	}
	return found, nil
}

func secret() string { return rand.Text() }

func kubeconfig(server string, ca []byte, user, token string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: testcluster
clusters:
- name: testcluster
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %s
  user:
    token: %s
contexts:
- name: testcluster
  context:
    cluster: testcluster
    user: %s
`, server, base64.StdEncoding.EncodeToString(ca), user, token, user)
}
