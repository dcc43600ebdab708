// Program registry is a registry of container images for tests, on a free port of the loopback interface. It prints its
// address, keeps everything in memory, and ends when its standard input does.
//
//	registry USER:PASSWORD
//
// Nobody reads or writes without that login, as with a registry of private images.
package main

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "registry: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 1 || !strings.Contains(args[0], ":") {
		return errors.New("needs the login that is asked for, as user:password")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		listener.Close()
	}()
	store := registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0)))
	if err := http.Serve(listener, closed(store, args[0])); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// closed lets requests through that bring the login.
func closed(store http.Handler, login string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if subtle.ConstantTimeCompare([]byte(user+":"+password), []byte(login)) != 1 {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"log in first"}]}`, http.StatusUnauthorized)
			return
		}
		store.ServeHTTP(w, r)
	})
}
