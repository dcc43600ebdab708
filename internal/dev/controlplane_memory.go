package dev

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/httpserver"
	"github.com/shell-operator/shell-operator/internal/source/webhook/cert"
)

// inMemory serves an API server in memory on a free port of loopback, to clients with the token of the kubeconfig, which is all that it
// writes. It calls do, and ends the server with all its watches.
func (o ControlPlane) inMemory(ctx context.Context, do func(context.Context) error) (err error) {
	source, err := cert.InMemory("127.0.0.1", "localhost")
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("cannot start an API server in memory: %w", err)
	}
	token := rand.Text()
	if err := o.writeKubeconfig("https://"+listener.Addr().String(), source.Bundle(), token); err != nil {
		return errors.Join(fmt.Errorf("cannot write the kubeconfig of the API server in memory: %w", err), listener.Close())
	}
	server := &http.Server{
		MaxHeaderBytes: 8 << 10, ReadHeaderTimeout: 10 * time.Second,
		Handler:   authenticated("Bearer "+token, memory.New(memory.Options{Kinds: memory.BuiltIns(), Live: true})),
		TLSConfig: &tls.Config{GetCertificate: source.Certificate, MinVersion: tls.VersionTLS13},
		ErrorLog:  log.New(io.Discard, "", 0), // clients that break off
	}
	listener = httpserver.NewConnections(100, slog.New(slog.DiscardHandler)).Bound(server, listener)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer func() {
		err = errors.Join(err, server.Close()) // watches do not end by themselves
		<-ended
	}()
	return do(ctx)
}

// writeKubeconfig writes the kubeconfig of an administrator, who has a token.
func (o ControlPlane) writeKubeconfig(server string, certificate []byte, token string) error {
	text, _ := json.Marshal(map[string]any{ // text and bytes
		"apiVersion": "v1", "kind": "Config", "current-context": "testcluster",
		"clusters": []any{map[string]any{"name": "testcluster", "cluster": map[string]any{
			"server": server, "certificate-authority-data": certificate}}},
		"users":    []any{map[string]any{"name": "admin", "user": map[string]any{"token": token}}},
		"contexts": []any{map[string]any{"name": "testcluster", "context": map[string]any{"cluster": "testcluster", "user": "admin"}}},
	})
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(o.Kubeconfig(), text, 0o600)
}

// authenticated passes on the requests that have the token.
func authenticated(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(token)) != 1 {
			http.Error(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "code": 401}`,
				http.StatusUnauthorized)
			return
		}
		httpserver.MarkKnown(r.Context())
		next.ServeHTTP(w, r)
	})
}
