package cert

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Only clients with a certificate of one of the CAs get through.
func TestClientCAs(t *testing.T) {
	dir := t.TempDir()
	client := func(name string) (tls.Certificate, string) {
		ca, err := makeAuthority(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		// A client's certificate has another purpose than a server's.
		made, err := sign(ca, &x509.Certificate{NotBefore: ca.Leaf.NotBefore, NotAfter: ca.Leaf.NotAfter,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		writeFile(t, path, pemOf(ca.Leaf))
		return *made, path
	}
	first, firstCA := client("first.crt")
	second, secondCA := client("second.crt")
	stranger, _ := client("stranger.crt")
	pool, err := ClientCAs([]string{firstCA, secondCA})
	if err != nil {
		t.Fatal(err)
	}
	server, err := InMemory("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		what    string
		certs   []tls.Certificate
		refused bool
	}{
		{"first CA", []tls.Certificate{first}, false},
		{"second CA", []tls.Certificate{second}, false},
		{"another CA", []tls.Certificate{stranger}, true},
		{"no certificate", nil, true},
	} {
		near, far := net.Pipe()
		refused := make(chan error)
		go func() {
			c := tls.Server(far, &tls.Config{GetCertificate: server.Certificate, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})
			refused <- c.Handshake()
			far.Close()
		}()
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(server.Bundle())
		c := tls.Client(near, &tls.Config{ServerName: "127.0.0.1", RootCAs: roots,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if row.certs == nil {
					return &tls.Certificate{}, nil
				}
				return &row.certs[0], nil
			}})
		reading := make(chan struct{})
		go func() {
			defer close(reading)
			if c.Handshake() == nil {
				_, _ = c.Read(make([]byte, 1)) // the server's verdict comes after our part
			}
		}()
		if err := <-refused; (err != nil) != row.refused {
			t.Errorf("%s: %v", row.what, err)
		}
		<-reading
		near.Close()
	}
}

func TestClientCAsErrors(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.crt")
	writeFile(t, empty, []byte("garbage"))
	for _, path := range []string{empty, filepath.Join(dir, "absent.crt")} {
		if _, err := ClientCAs([]string{path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v does not name %s", err, path)
		}
	}
}
