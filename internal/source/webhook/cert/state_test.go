package cert

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const day = 24 * time.Hour

// made is a state that was made at a time, for the name a.
func made(t *testing.T, at time.Time) state {
	t.Helper()
	s, _, err := plan(at, state{}, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPlan(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		name string
		age  time.Duration
		edit func(*state)
		want string
	}{
		{"new", 0, nil, ""},
		{"before half of its life", 44 * day, nil, ""},
		{"after it", 46 * day, nil, "half of the life of the certificate is over"},
		{"expired", 91 * day, nil, "the certificate is not valid now"},
		{"from the future", -day, nil, "the life of the CA is over, there is no usable certificate"},
		{"no certificate", 0, func(s *state) { s.serving = nil }, "there is no usable certificate"},
		{"no key of the CA", 0, func(s *state) { s.authority.key = nil }, "there is no CA that can sign, there is no usable certificate"},
		{"a CA that ends before what it would sign", authorityLifetime - lifetime, nil,
			"the life of the CA is over, there is no usable certificate"},
		{"no secret of paths", 0, func(s *state) { s.secrets = [2]string{"", "old"} }, "there is no secret of the paths"},
	} {
		s := made(t, now.Add(-row.age))
		if row.edit != nil {
			row.edit(&s)
		}
		next, why, err := plan(now, s, []string{"a"})
		if got := strings.Join(why, ", "); err != nil || got != row.want {
			t.Errorf("%s: %q, want %q, %v", row.name, got, row.want, err)
		}
		if next.secrets[1] != s.secrets[1] || s.secrets[0] != "" && next.secrets != s.secrets {
			t.Errorf("%s: the secrets are %q, were %q", row.name, next.secrets, s.secrets)
		}
		trusts(t, next.bundle(), next.serving.cert, "a", now)
		if _, why, _ := plan(now, next, []string{"a"}); len(why) > 0 {
			t.Errorf("%s: afterwards %q", row.name, why)
		}
	}
	s := made(t, now)
	if next, why, _ := plan(now, s, []string{"b"}); !slices.Equal(namesOf(next.serving.cert), []string{"a", "b"}) {
		t.Errorf("with another name: %q, %q", namesOf(next.serving.cert), why)
	}
	if next, why, _ := plan(now.Add(46*day), s, []string{"b"}); !slices.Equal(namesOf(next.serving.cert), []string{"b"}) {
		t.Errorf("with another name after half of the life: %q, %q", namesOf(next.serving.cert), why)
	}
	if next, why, _ := plan(now, state{}, nil); next.serving != nil || len(next.secrets[0]) != 64 {
		t.Errorf("without names: %q, %+v", why, next)
	}
}

// In five years no certificate is used that a client with the first bundle would not accept, and no path changes.
func TestNoSecondWithoutTrust(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := made(t, now)
	bundle, first, issued := s.bundle(), s.secrets, 0
	for end := now.AddDate(5, 0, 0); now.Before(end); now = now.Add(20 * day) {
		before := s.serving
		var err error
		if s, _, err = plan(now, s, []string{"a"}); err != nil {
			t.Fatal(err)
		}
		if before != s.serving {
			issued++
			trusts(t, bundle, before.cert, "a", now) // a replica that has not read the new one goes on with it
		}
		trusts(t, bundle, s.serving.cert, "a", now)
	}
	if issued < 30 || s.secrets != first {
		t.Errorf("%d certificates, secrets %q", issued, s.secrets)
	}
}

func TestEncodeAndBack(t *testing.T) {
	for _, names := range [][]string{{"a"}, nil} {
		s, _, _ := plan(time.Now(), state{secrets: [2]string{"", "previous"}}, names)
		data, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := decode(data)
		if err != nil {
			t.Fatal(err)
		}
		again, err := back.encode()
		if err != nil || !maps.EqualFunc(data, again, slices.Equal[[]byte]) {
			t.Errorf("what was decoded is something else: %v", err)
		}
	}
}

// What is damaged is named, what is good is used, and no error shows any of it.
func TestDamage(t *testing.T) {
	now := time.Now()
	good, err := made(t, now).encode()
	if err != nil {
		t.Fatal(err)
	}
	other, err := made(t, now).encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		what       string
		change     map[string][]byte
		want       string // part of the error; empty for none
		ca, served bool   // what can be used
	}{
		{"as it was", nil, "", true, true},
		{"no bundle", map[string][]byte{bundleKey: nil}, "tls.crt is not signed by the CA in ca.crt", false, false},
		{"text for a bundle", map[string][]byte{bundleKey: []byte("garbage")}, "ca.crt is not PEM", false, false},
		{"a server's certificate for a bundle", map[string][]byte{bundleKey: good[servingKey]}, "ca.crt is not the certificate of a CA",
			false, false},
		{"another bundle", map[string][]byte{bundleKey: other[bundleKey]}, "tls.crt is not signed by the CA in ca.crt", true, false},
		{"text for a CA key", map[string][]byte{authorityKeyKey: []byte("garbage")}, "ca.key is not PEM", true, true},
		{"another CA key", map[string][]byte{authorityKeyKey: other[authorityKeyKey]}, "ca.key does not fit ca.crt", true, true},
		{"no CA key", map[string][]byte{authorityKeyKey: nil}, "", true, true},
		{"the other's key", map[string][]byte{servingPrivateKey: other[servingPrivateKey]}, "tls.crt does not fit tls.key", true, false},
		{"a key cut off", map[string][]byte{servingPrivateKey: good[servingPrivateKey][:100]}, "tls.crt does not fit tls.key", true, false},
		{"no pair", map[string][]byte{servingKey: nil, servingPrivateKey: nil}, "", true, false},
	} {
		data := maps.Clone(good)
		maps.Copy(data, row.change)
		s, err := decode(data)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, row.want) || row.want == "" && text != "" {
			t.Errorf("%s: error %q, want %q", row.what, text, row.want)
		}
		if (s.authority != nil) != row.ca || (s.serving != nil) != row.served {
			t.Errorf("%s: CA %v, certificate %v", row.what, s.authority, s.serving)
		}
		for line := range strings.Lines(string(good[authorityKeyKey]) + string(good[servingPrivateKey])) {
			if strings.Contains(text, strings.TrimSpace(line)) {
				t.Errorf("%s: the error shows a key: %s", row.what, text)
			}
		}
	}
}

// Replicas agree on tokens. They do not change with the certificate; after the secret was moved the last one's stay valid.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &memory{}
		one, _ := newTestKeeper(t, shared)
		two, _ := newTestKeeper(t, shared)
		first := one.Token("/a")
		if len(first) != 64 || first != two.Token("/a") || first == one.Token("/b") {
			t.Errorf("tokens of two replicas: %s %s, of another path: %s", first, two.Token("/a"), one.Token("/b"))
		}
		if !one.Valid("/a", first) || one.Valid("/b", first) || one.Valid("/a", "") {
			t.Error("a token is valid for its path only")
		}
		before := leaf(t, &one.Source)
		time.Sleep(46 * day)
		if look(t, one); leaf(t, &one.Source).Equal(before) || one.Token("/a") != first {
			t.Error("the token changes with the certificate, or that does not change")
		}
		for round := range 2 {
			changed, was := one.Changed(), one.Token("/a")
			shared.state.secrets = [2]string{"", shared.state.secrets[0]}
			look(t, one)
			select {
			case <-changed:
			default:
				t.Error("the change was not reported, but the registration has to follow")
			}
			if now := one.Token("/a"); now == was || !one.Valid("/a", now) || !one.Valid("/a", was) {
				t.Errorf("round %d: afterwards the token is %s, was %s", round, now, was)
			}
		}
		if one.Valid("/a", first) {
			t.Error("the token before the last one is valid")
		}
	})
}

// The secret of a file is what a person can compute a path with: printf %s /a | openssl dgst -sha256 -hmac SECRET.
func TestPathsOfFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	log, lines := record(t)
	secret := strings.Repeat("0123456789abcdef", 2)
	writeFile(t, path, []byte(secret+"\n"))
	s, err := PathsOfFile(path, log)
	if err != nil {
		t.Fatal(err)
	}
	const computed = "04e545daaca8ec71ac3e1217277cf7f6b3d0c9e3adaa5927ba5c68c5a3dee7ad"
	if got := s.Token("/a"); got != computed {
		t.Errorf("the token is %s", got)
	}
	run(t, s)
	changed := s.Changed()
	writeFile(t, path, []byte(strings.Repeat("x", 40)+"\n"+secret+"\n"))
	<-changed
	if !s.Valid("/a", computed) || s.Token("/a") == computed {
		t.Error("the last secret does not stay valid")
	}
	writeFile(t, path, []byte("short"))
	lines.says("has less than 32 characters")
	if !s.Valid("/a", computed) {
		t.Error("an invalid file is used")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := PathsOfFile(path, log); err == nil || !strings.Contains(err.Error(), "cannot read the secret of webhook paths") {
		t.Error(err)
	}
}
