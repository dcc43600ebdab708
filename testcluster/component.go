package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// component is one program of the control plane as the supervisor sees it.
type component struct {
	name   string
	args   []string
	health string // answers 200 when the component can serve

	// process is nil while the component is dead.
	process *process
}

// process is one life of a component.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and err is set
	err  error
}

// components lists the control plane in the order in which it starts; it stops in the opposite order. Gates is an argument of the API
// server, or empty.
func components(f folder, p ports, gates string) []*component {
	etcdURL := "http://" + loopback(p.Etcd)
	peerURL := "http://" + loopback(p.EtcdPeer)
	all := []*component{
		{
			name: "etcd",
			args: []string{
				"--name=testcluster",
				"--data-dir=" + f.path("etcd"),
				"--listen-client-urls=" + etcdURL,
				"--advertise-client-urls=" + etcdURL,
				"--listen-peer-urls=" + peerURL,
				"--initial-advertise-peer-urls=" + peerURL,
				"--initial-cluster=testcluster=" + peerURL,
				// A test cluster may lose its data when the machine loses its power, and syncing is most of etcd's work.
				"--unsafe-no-fsync",
				fmt.Sprintf("--max-request-bytes=%d", 2*largestRequest),
				"--log-level=warn",
			},
			health: etcdURL + "/health",
		},
		{
			name: "kube-apiserver",
			args: []string{
				"--etcd-servers=" + etcdURL,
				"--bind-address=" + loopbackHost,
				"--advertise-address=" + loopbackHost,
				fmt.Sprintf("--secure-port=%d", p.APIServer),
				// The endpoints of the Service "kubernetes" cannot contain a loopback address.
				"--endpoint-reconciler-type=none",
				"--service-cluster-ip-range=10.96.0.0/16",
				"--tls-cert-file=" + f.path("server.crt"),
				"--tls-private-key-file=" + f.path("server.key"),
				"--client-ca-file=" + f.path("ca.crt"),
				"--token-auth-file=" + f.path("tokens.csv"),
				"--authorization-mode=RBAC",
				"--service-account-issuer=https://kubernetes.default.svc",
				"--service-account-key-file=" + f.path("service-account.key"),
				"--service-account-signing-key-file=" + f.path("service-account.key"),
				"--allow-privileged=true",
			},
			health: "https://" + loopback(p.APIServer) + "/readyz",
		},
		{
			name: "kube-controller-manager",
			args: []string{
				"--kubeconfig=" + f.path("kubeconfig"),
				"--bind-address=" + loopbackHost,
				fmt.Sprintf("--secure-port=%d", p.ControllerManager),
				"--tls-cert-file=" + f.path("server.crt"),
				"--tls-private-key-file=" + f.path("server.key"),
				"--root-ca-file=" + f.path("ca.crt"),
				"--service-account-private-key-file=" + f.path("service-account.key"),
				"--leader-elect=false",
				// The defaults throttle; here the API server has no other clients.
				"--kube-api-qps=1000",
				"--kube-api-burst=2000",
			},
			health: "https://" + loopback(p.ControllerManager) + "/healthz",
		},
	}
	if gates != "" {
		all[1].args = append(all[1].args, gates)
	}
	return all
}

// start starts the process. ended is called once it is over, from another goroutine.
func (c *component) start(f folder, ended func(*process)) error {
	log, err := os.OpenFile(f.path(c.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(self(), append([]string{c.name}, c.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", c.name, err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	c.process = p
	if err := f.write(c.name+".pid", fmt.Appendln(nil, cmd.Process.Pid)); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		c.process = nil
		return err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
		ended(p)
	}()
	return nil
}

// stop sends SIGTERM, then SIGKILL, and returns when the process has ended.
func (c *component) stop(f folder) {
	p := c.process
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	insist := time.AfterFunc(stopPatience, func() { _ = p.cmd.Process.Kill() })
	<-p.done
	insist.Stop()
	c.buried(f)
}

// buried removes what the living process left for others to see.
func (c *component) buried(f folder) {
	c.process = nil
	_ = os.Remove(f.path(c.name + ".pid"))
}

// stopPatience is how long a component may take to end politely. It is short because nothing depends on it: data
// written to etcd is safe with the kernel.
const stopPatience = 5 * time.Second

// errEnded reports that a component ended during a wait for its health.
var errEnded = errors.New("ended before it was healthy")

// healthy returns when the component can serve.
func (c *component) healthy(ctx context.Context, client *http.Client) error {
	p := c.process
	for {
		if p == nil {
			return fmt.Errorf("%s %w", c.name, errEnded)
		}
		if answers(ctx, client, c.health, "") {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s %w: %v", c.name, errEnded, p.err)
		case <-ctx.Done():
			return fmt.Errorf("%s is not healthy: %w", c.name, context.Cause(ctx))
		case <-time.After(pollInterval): // health can only be asked for
		}
	}
}

const pollInterval = 25 * time.Millisecond

// answers reports whether the address responds with 200.
func answers(ctx context.Context, client *http.Client, url, token string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// newClient returns an HTTP client that trusts the cluster's certificates and keeps no connections.
func newClient(ca []byte) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}},
	}
}
