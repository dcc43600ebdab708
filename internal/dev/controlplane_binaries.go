package dev

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/source/webhook/cert"
)

// separate starts etcd and kube-apiserver, which are programs of a directory.
func (s starter) separate(ctx context.Context, o ControlPlane, path string, do func(context.Context) error) error {
	addresses, err := freeAddresses(3)
	if err != nil {
		return err
	}
	etcdURL, peerURL, server := "http://"+addresses[0], "http://"+addresses[1], "https://"+addresses[2]
	_, port, err := net.SplitHostPort(addresses[2])
	if err != nil {
		return err
	}
	admin, err := newAdministrator(o, server)
	if err != nil {
		return fmt.Errorf("cannot prepare a control plane: %w", err)
	}
	in := func(name string) string { return filepath.Join(o.Dir, name) }
	etcd := process.Invocation{Hook: "etcd", Path: filepath.Join(path, "etcd"), Args: []string{
		"--name=dev", "--data-dir=" + in("etcd"), "--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL, "--initial-cluster=dev=" + peerURL,
		"--unsafe-no-fsync", "--log-level=warn",
	}}
	apiServer := process.Invocation{Hook: "kube-apiserver", Path: filepath.Join(path, "kube-apiserver"), Args: []string{
		"--etcd-servers=" + etcdURL, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + port,
		// The endpoints of the Service "kubernetes" cannot contain a loopback address.
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC", "--allow-privileged=true",
		"--tls-cert-file=" + in("server.crt"), "--tls-private-key-file=" + in("server.key"), "--token-auth-file=" + in("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + in("server.key"),
		"--service-account-signing-key-file=" + in("server.key"),
		// Without a controller manager no Namespace has the ServiceAccount that this one requires of a Pod.
		"--disable-admission-plugins=ServiceAccount",
	}}
	etcd.Stdout, apiServer.Stdout = func([]byte) {}, func([]byte) {}
	return s.during(ctx, etcd, func(ctx context.Context) error { return admin.answers(ctx, etcdURL+"/health") },
		func(ctx context.Context) error {
			return s.during(ctx, apiServer, func(ctx context.Context) error {
				return admin.answers(ctx, server+"/readyz", server+"/api/v1/namespaces/default")
			}, do)
		})
}

// administrator is how to reach the API server as its administrator.
type administrator struct {
	token  string
	client *http.Client
}

// newAdministrator writes the certificate, the tokens and the kubeconfig.
func newAdministrator(o ControlPlane, server string) (*administrator, error) {
	source, err := certificates()
	if err != nil {
		return nil, err
	}
	pair, err := source.Certificate(nil)
	if err != nil {
		return nil, err
	}
	private, _ := pair.PrivateKey.(*ecdsa.PrivateKey)
	key, err := x509.MarshalECPrivateKey(private) // the API server reads no other form for the keys of ServiceAccounts
	if err != nil {
		return nil, err
	}
	token := rand.Text()
	for name, content := range map[string][]byte{
		"kubeconfig": kubeconfig(server, source.Bundle(), token), "tokens.csv": []byte(token + ",admin,admin,system:masters\n"),
		"server.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		"server.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
	} {
		if err := o.write(name, content); err != nil {
			return nil, err
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(source.Bundle())
	return &administrator{token, &http.Client{Timeout: 5 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}}, nil
}

// certificates are for a server on loopback.
func certificates() (*cert.Source, error) { return cert.InMemory("127.0.0.1", "localhost") }

// write writes a private file of the control plane.
func (o ControlPlane) write(name string, content []byte) error {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.Dir, name), content, 0o600)
}

// kubeconfig is that of an administrator, who has a token.
func kubeconfig(server string, certificate []byte, token string) []byte {
	text, _ := json.Marshal(map[string]any{ // text and bytes
		"apiVersion": "v1", "kind": "Config", "current-context": "testcluster",
		"clusters": []any{map[string]any{"name": "testcluster", "cluster": map[string]any{
			"server": server, "certificate-authority-data": certificate}}},
		"users":    []any{map[string]any{"name": "admin", "user": map[string]any{"token": token}}},
		"contexts": []any{map[string]any{"name": "testcluster", "context": map[string]any{"cluster": "testcluster", "user": "admin"}}},
	})
	return text
}

// answers returns when all addresses respond with 200.
func (a *administrator) answers(ctx context.Context, urls ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("the control plane is not ready after %s", readyTimeout))
	defer cancel()
	for _, url := range urls {
		for !a.answer(ctx, url) {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(25 * time.Millisecond): // there is no notification of it
			}
		}
	}
	return nil
}

func (a *administrator) answer(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	response, err := a.client.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// freeAddresses returns addresses that no program uses now.
func freeAddresses(n int) (addresses []string, err error) {
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // all are open until the end, or one could be found twice
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}
