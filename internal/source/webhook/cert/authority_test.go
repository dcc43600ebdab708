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

// made is a state that was made at a time.
func made(t *testing.T, at time.Time) state {
	t.Helper()
	s := state{}
	if _, err := s.complete(at, true); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestComplete(t *testing.T) {
	now := time.Now()
	for _, row := range []struct {
		name string
		edit func(*state)
		want string
	}{
		{"complete", func(*state) {}, ""},
		{"old", func(s *state) { *s = made(t, now.Add(-authorityLifetime)) }, ""},
		{"no CA", func(s *state) { s.ca = nil }, "there is no CA that can sign"},
		{"no secret of paths", func(s *state) { s.secrets = [2]string{"", "old"} }, "there is no secret of the paths"},
	} {
		s := made(t, now)
		row.edit(&s)
		before := s
		why, err := s.complete(now, true)
		if got := strings.Join(why, ", "); err != nil || got != row.want {
			t.Errorf("%s: %q, want %q, %v", row.name, got, row.want, err)
		}
		if s.secrets[1] != before.secrets[1] || before.secrets[0] != "" && s.secrets != before.secrets || before.ca != nil && s.ca != before.ca {
			t.Errorf("%s: something else has changed", row.name)
		}
	}
	s := state{}
	if why, err := s.complete(now, false); err != nil || s.ca != nil || len(s.secrets[0]) != 64 {
		t.Errorf("without certificates: %q, %+v, %v", why, s, err)
	}
}

func TestEncodeAndBack(t *testing.T) {
	for _, signs := range []bool{true, false} {
		s := state{secrets: [2]string{"", "previous"}}
		_, err := s.complete(time.Now(), signs)
		if err != nil {
			t.Fatal(err)
		}
		data, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		back := decode(data)
		if again, err := back.encode(); err != nil || !maps.EqualFunc(data, again, slices.Equal[[]byte]) {
			t.Errorf("what was decoded is something else: %v", err)
		}
	}
}

// What is good of a damaged Secret is used.
func TestDamage(t *testing.T) {
	good, other, served := newPair(t), newPair(t), made(t, time.Now())
	data, err := served.encode()
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]map[string][]byte{
		"no certificate":         {caKey: nil},
		"a server's certificate": {caKey: good.cert, caPrivateKey: good.key},
		"another CA":             {caKey: other.ca},
		"a key cut off":          {caPrivateKey: data[caPrivateKey][:100]},
	} {
		damaged := maps.Clone(data)
		maps.Copy(damaged, change)
		if s := decode(damaged); s.ca != nil || s.secrets != served.secrets {
			t.Errorf("%s: it has a CA, or not the secrets", what)
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
