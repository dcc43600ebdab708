package httpserver

import (
	"net"
	"strings"
)

// Ports are addresses that are bound before hooks run: no process that a hook leaves behind can have them. One that cannot be bound, and
// may not be needed, is no error before Listen.
type Ports map[string]net.Listener

// Bind binds addresses, each "host:port". Port 0 is bound by Listen.
func Bind(addresses ...string) Ports {
	p := Ports{}
	for _, a := range addresses {
		if strings.HasSuffix(a, ":0") || p[resolved(a)] != nil {
			continue
		}
		if listener, err := net.Listen("tcp", a); err == nil {
			p[resolved(a)] = listener
		}
	}
	return p
}

// Listen returns the listener of an address, which the caller owns.
func (p Ports) Listen(address string) (net.Listener, error) {
	if listener := p[resolved(address)]; listener != nil {
		delete(p, resolved(address))
		return listener, nil
	}
	return net.Listen("tcp", address)
}

// Close releases what is not needed.
func (p Ports) Close() {
	for address, listener := range p {
		_ = listener.Close()
		delete(p, address)
	}
}

// resolved is an address without names.
func resolved(address string) string {
	if at, err := net.ResolveTCPAddr("tcp", address); err == nil {
		return at.String()
	}
	return address
}
