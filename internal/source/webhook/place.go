package webhook

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// place is where the API server finds a server.
type place struct {
	// One of these: the namespace of its Service, a URL that was given, or our own address outside of the cluster.
	namespace, url, host string
}

// placeOf is inside the cluster when the operator is, unless a URL was given.
func placeOf(cl *kube.Cluster, o WebhookOptions, server WebhookServer) (place, error) {
	if given := cmp.Or(server.URL, o.URL); given != "" {
		return place{url: strings.TrimSuffix(given, "/")}, nil
	}
	if cl.Inside {
		namespace, err := cl.OwnNamespace(o.Namespace)
		if err != nil {
			return place{}, fmt.Errorf("webhooks need the namespace of their Service: %w", err)
		}
		return place{namespace: namespace}, nil
	}
	host, err := ownAddress(cl.Config.Host)
	return place{host: host}, err
}

// ownAddress is the address that this machine has on the way to the API server. Nothing is sent.
func ownAddress(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("cannot find out how the API server reaches this machine: %w: give --webhook-url", err)
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	conn, err := net.Dial("udp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return "", fmt.Errorf("cannot find out how the API server reaches this machine: %w: give --webhook-url", err)
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}

// base is the base address of a server that listens on an address.
func (p place) base(listening string) string {
	if p.url != "" {
		return p.url
	}
	_, port, _ := net.SplitHostPort(listening)
	return "https://" + net.JoinHostPort(p.host, port)
}
