//go:build !linux

package debug

import "net"

// peer returns an unknown user: the socket is private to its user.
func peer(net.Conn) client { return client{uid: "unknown"} }

func checkListener(net.Conn, string) error { return nil }
