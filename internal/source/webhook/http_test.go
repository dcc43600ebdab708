package webhook

import (
	"net"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// Beyond loopback there is TLS only, and clients without authentication are rejected.
func TestHTTPAccess(t *testing.T) {
	cl := &kube.Cluster{Config: &rest.Config{Host: "https://127.0.0.1:1"}}
	for _, tt := range []struct {
		address        string
		secure, always bool
		asks           bool
		err            string
	}{
		{"127.0.0.1:9690", false, false, false, ""},
		{"127.1.2.3:9690", true, false, false, ""},
		{"[::1]:9690", false, false, false, ""},
		{"127.0.0.1:9690", false, true, true, ""},
		{"0.0.0.0:9690", true, false, true, ""},
		{"192.0.2.1:9690", true, false, true, ""},
		{"[::]:9690", true, false, true, ""},
		{":9690", true, false, true, ""},
		{"0.0.0.0:9690", false, false, false,
			"HTTP hooks cannot be served on 0.0.0.0:9690 without TLS: set --http-server-cert and --http-server-key, " +
				"or --http-listen-address 127.0.0.1"},
		{":9690", false, true, false,
			"HTTP hooks cannot be served on :9690 without TLS: set --http-server-cert and --http-server-key, or --http-listen-address 127.0.0.1"},
	} {
		address, err := net.ResolveTCPAddr("tcp", tt.address)
		if err != nil {
			t.Fatal(err)
		}
		access, err := accessAt(address, tt.secure, Options{Cluster: cl, HTTP: HTTPOptions{Authentication: tt.always}})
		if got := ""; err != nil {
			got = err.Error()
			if got != tt.err {
				t.Errorf("%+v: error %q", tt, got)
			}
		} else if tt.err != "" || (access != nil) != tt.asks {
			t.Errorf("%+v: access %v", tt, access)
		}
	}
}
