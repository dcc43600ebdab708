package httpserver

import (
	"net"
	"testing"
)

func TestPorts(t *testing.T) {
	free := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
	needed, unused, taken := free(), free(), free()
	other, err := net.Listen("tcp", taken)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, port, _ := net.SplitHostPort(needed)
	p := Bind("localhost:"+port, unused, unused, taken, "127.0.0.1:0")
	for _, a := range []string{needed, unused} {
		if l, err := net.Listen("tcp", a); err == nil {
			l.Close()
			t.Errorf("%s can be bound", a)
		}
	}
	l, err := p.Listen(needed)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l, err := p.Listen(taken); err == nil {
		l.Close()
		t.Error("an address of another program is bound")
	}
	p.Close()
	if l, err := net.Listen("tcp", unused); err != nil {
		t.Error(err)
	} else {
		l.Close()
	}
	if l, err := net.Listen("tcp", needed); err == nil {
		l.Close()
		t.Error("Close releases an address that is served")
	}
}
