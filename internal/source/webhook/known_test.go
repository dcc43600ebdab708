package webhook

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/source/webhook/cert"
)

// Known is a path with the token of the secret, and each path that is registered, or was until a moment ago.
func TestKnownPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret, err := cert.InMemory()
		if err != nil {
			t.Fatal(err)
		}
		const path = "/hooks/validating/a.sh/a.example.com"
		older := strings.Repeat("0a", 32)
		s := &served{paths: secret, handler: &replaceable{}}
		expect := func(when string, token string, want bool) {
			t.Helper()
			if got := s.knows(path, token); got != want {
				t.Errorf("%s: known is %t", when, got)
			}
		}
		register := func(paths ...string) { s.handler.registered.set("v", paths, false) }

		expect("with the token", secret.Token(path), true)
		expect("with the token of another path", secret.Token(path+"x"), false)
		expect("with the token of another replica", older, false)
		expect("without a token", "", false)
		register(path + "/" + older)
		expect("with the token of another replica that is registered", older, true)
		expect("without its token", "", false)
		register("https://proxy:1/base" + path + "/" + older)
		expect("behind a proxy", older, true)
		register(path + "/" + secret.Token(path))
		expect("before all API servers have the new registration", older, true)
		register(path + "/" + secret.Token(path))
		time.Sleep(knownFor)
		expect("after that", older, false)
		register(path)
		expect("registered by upstream or a person", "", true)
		expect("the same with an older token", older, true)
		if r := &s.handler.registered; !r.has(path, true) || r.has(path+".b", true) || r.has("/a"+path, true) {
			t.Error("another path is registered")
		}
		if s.knows("", "") || s.knows("example.com", "") || s.knows("/b"+path, "") {
			t.Error("a part of a segment, or more than is registered, is known")
		}
		register()
		time.Sleep(knownFor)
		expect("no more", "", false)
	})
}

// What cannot be read is served without a secret, which the trouble says; with a client CA, certificates decide.
func TestUnprotected(t *testing.T) {
	forbidden := errors.New("no permission")
	s := &served{handler: &replaceable{}}
	s.handler.registered.set("v", []string{"/hooks/a"}, true)
	s.handler.registered.set("m", nil, false)
	if got := s.unprotected("v", forbidden); !errors.Is(got, forbidden) || !strings.Contains(got.Error(), "served without a secret") {
		t.Errorf("got %v", got)
	}
	if !errors.Is(s.unprotected("m", forbidden), forbidden) || s.unprotected("v", nil) != nil {
		t.Error("only v is open")
	}
	s.clientCA = true
	if got := s.unprotected("v", forbidden); !errors.Is(got, forbidden) {
		t.Errorf("with a client CA: %v", got)
	}
}
