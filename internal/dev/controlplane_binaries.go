package dev

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/shell-operator/shell-operator/internal/run/process"
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
	certificate, key, err := selfSigned()
	if err != nil {
		return nil, err
	}
	token := rand.Text()
	if err := o.write("kubeconfig", kubeconfig(server, certificate, token)); err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{"server.crt": certificate, "server.key": key,
		"tokens.csv": []byte(token + ",admin,admin,system:masters\n")} {
		if err := o.write(name, content); err != nil {
			return nil, err
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return &administrator{token, &http.Client{Timeout: 5 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}}, nil
}

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

// selfSigned returns a certificate for loopback, which is its own authority, and its key, as PEM.
func selfSigned() (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "testcluster"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
