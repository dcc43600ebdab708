package http

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// checkLocal rejects cross-site requests of browsers and requests for other host names: every process on this machine is
// trusted, but a browser on it also sends requests for pages of others.
func (c *call) checkLocal() error {
	if !isLoopback(c.r.Host) {
		return httpserver.Refuse(http.StatusForbidden, "the Host header is not that of this machine: use 127.0.0.1 or localhost")
	}
	// A GET may have side effects, too, so all methods are treated alike.
	strict := &http.Request{Method: http.MethodPost, Header: c.r.Header, URL: c.r.URL, Host: c.r.Host}
	if c.origins.Check(strict) != nil {
		return httpserver.Refuse(http.StatusForbidden, "cross-site requests are rejected")
	}
	return nil
}

// isLoopback reports whether a Host header names this machine.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}
