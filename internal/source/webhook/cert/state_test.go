package cert

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
		{"no CA", 0, func(s *state) { s.authority = nil }, "there is no CA that can sign, there is no usable certificate"},
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
		trusts(t, next.bundle(), next.serving.Leaf, "a", now)
		if _, why, _ := plan(now, next, []string{"a"}); len(why) > 0 {
			t.Errorf("%s: afterwards %q", row.name, why)
		}
	}
	s := made(t, now)
	if next, why, _ := plan(now, s, []string{"b"}); !slices.Equal(namesOf(next.serving.Leaf), []string{"a", "b"}) {
		t.Errorf("with another name: %q, %q", namesOf(next.serving.Leaf), why)
	}
	if next, why, _ := plan(now.Add(46*day), s, []string{"b"}); !slices.Equal(namesOf(next.serving.Leaf), []string{"b"}) {
		t.Errorf("with another name after half of the life: %q, %q", namesOf(next.serving.Leaf), why)
	}
	if next, why, _ := plan(now, state{}, nil); next.serving != nil || len(next.secrets[0]) != 64 {
		t.Errorf("without names: %q, %+v", why, next)
	}
}

func TestEncodeAndBack(t *testing.T) {
	for _, names := range [][]string{{"a"}, nil} {
		s, _, _ := plan(time.Now(), state{secrets: [2]string{"", "previous"}}, names)
		data, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(data).encode()
		if err != nil || !maps.EqualFunc(data, again, slices.Equal[[]byte]) {
			t.Errorf("what was decoded is something else: %v", err)
		}
	}
}

// What is good of a damaged Secret is used.
func TestDamage(t *testing.T) {
	encoded := func() map[string][]byte {
		data, err := made(t, time.Now()).encode()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	good, other := encoded(), encoded()
	for _, row := range []struct {
		what       string
		change     map[string][]byte
		ca, served bool
	}{
		{"as it was", nil, true, true},
		{"no bundle", map[string][]byte{bundleKey: nil}, false, false},
		{"a server's certificate for a bundle", map[string][]byte{bundleKey: good[servingKey], authorityKeyKey: good[servingPrivateKey]},
			false, false},
		{"another CA", map[string][]byte{bundleKey: other[bundleKey], authorityKeyKey: other[authorityKeyKey]}, true, false},
		{"another CA key", map[string][]byte{authorityKeyKey: other[authorityKeyKey]}, false, false},
		{"the other's key", map[string][]byte{servingPrivateKey: other[servingPrivateKey]}, true, false},
		{"a key cut off", map[string][]byte{servingPrivateKey: good[servingPrivateKey][:100]}, true, false},
	} {
		data := maps.Clone(good)
		maps.Copy(data, row.change)
		if s := decode(data); (s.authority != nil) != row.ca || (s.serving != nil) != row.served {
			t.Errorf("%s: CA %v, certificate %v", row.what, s.authority != nil, s.serving != nil)
		}
	}
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
