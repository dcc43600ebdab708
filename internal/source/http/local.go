package http

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// fromHere refuses what a browser sends for a page of somebody else. Everything on this machine may ask, and a browser is
// on this machine.
func (c *call) fromHere() error {
	if !isLoopback(c.r.Host) {
		return refuse(http.StatusForbidden, "the Host header is not that of this machine: ask for 127.0.0.1 or localhost")
	}
	// A GET may do something, too, so all methods are treated alike.
	strict := &http.Request{Method: http.MethodPost, Header: c.r.Header, URL: c.r.URL, Host: c.r.Host}
	if c.origins.Check(strict) != nil {
		return refuse(http.StatusForbidden, "requests from pages of other sites are refused")
	}
	return nil
}

// isLoopback tells whether a Host header means this machine.
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
