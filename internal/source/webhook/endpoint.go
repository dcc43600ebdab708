package webhook

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// endpoint is the address of a server for the API server.
type endpoint struct {
	// One of these: the namespace of its Service, a configured URL, or the host's own address outside a cluster.
	namespace, url, host string
}

// endpointOf returns the configured URL, else the Service inside a cluster, else the address that the server listens
// on, or an address of the host if it listens on all.
func endpointOf(cl *kube.Cluster, o WebhookOptions, server WebhookServer) (endpoint, error) {
	if server.URL != "" {
		return endpoint{url: strings.TrimSuffix(server.URL, "/")}, nil
	}
	if cl.Inside {
		namespace, err := cl.OwnNamespace(o.Namespace)
		if err != nil {
			return endpoint{}, fmt.Errorf("webhooks need the namespace of their Service: %w", err)
		}
		return endpoint{namespace: namespace}, nil
	}
	if host, _, _ := net.SplitHostPort(server.ListenAddress); host != "" {
		if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
			return endpoint{host: host}, nil // no other address is served
		}
	}
	host, err := ownAddress(cl.Config.Host)
	return endpoint{host: host}, err
}

// ownAddress is the address of the interface that routes to the API server. It sends nothing.
func ownAddress(server string) (string, error) {
	u, err := url.Parse(server)
	var conn net.Conn
	if err == nil {
		conn, err = net.Dial("udp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")))
	}
	if err != nil {
		return "", fmt.Errorf("cannot find out how the API server reaches this machine: %w: set --validating-webhook-url and "+
			"--conversion-webhook-url", err)
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}

// base is the base URL of a server that listens on an address.
func (e endpoint) base(listening string) string {
	if e.url != "" {
		return e.url
	}
	_, port, _ := net.SplitHostPort(listening)
	return "https://" + net.JoinHostPort(e.host, port)
}
