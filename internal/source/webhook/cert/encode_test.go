package cert

import (
	"maps"
	"strings"
	"testing"
	"time"
)

func TestEncodeAndBack(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := parseState(t, now, "CA 1 made 700d ago without key; CA 2 made 50d ago; serves by 2 made 3d ago; retired by 1 made 60d ago")
	data, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := decode(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := back.encode()
	if err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(data, again, func(a, b []byte) bool { return string(a) == string(b) }) {
		t.Error("what was decoded is something else")
	}
	if back.authorities[0].key != nil || back.authorities[1].key == nil {
		t.Error("the keys went to other CAs")
	}
}

// What is damaged is named, what is good is used, and no error shows any of it.
func TestDamage(t *testing.T) {
	now := time.Now()
	good, err := parseState(t, now, "CA 1 made 10d ago; serves by 1 made 3d ago").encode()
	if err != nil {
		t.Fatal(err)
	}
	other, err := parseState(t, now, "CA 1 made 10d ago; serves by 1 made 3d ago").encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		what        string
		change      map[string][]byte
		want        string // part of the error; empty for none
		cas, served bool   // what can be used
	}{
		{"as it was", nil, "", true, true},
		{"no bundle", map[string][]byte{bundleKey: nil}, "ca.crt holds no certificate", false, false},
		{"text for a bundle", map[string][]byte{bundleKey: []byte("garbage")}, "ca.crt is not PEM", false, false},
		{"a server's certificate for a bundle", map[string][]byte{bundleKey: good[servingKey]},
			"ca.crt holds a certificate that is not that of a CA", false, false},
		{"another bundle", map[string][]byte{bundleKey: other[bundleKey]}, "tls.crt is signed by none of the CAs in ca.crt", true, false},
		{"text for a CA key", map[string][]byte{authorityKeyKey: []byte("garbage")}, "ca.key is not PEM", true, true},
		{"no CA key", map[string][]byte{authorityKeyKey: nil}, "", true, true},
		{"the other's key", map[string][]byte{servingPrivateKey: other[servingPrivateKey]}, "tls.crt does not fit tls.key", true, false},
		{"a key cut off", map[string][]byte{servingPrivateKey: good[servingPrivateKey][:100]}, "tls.crt does not fit tls.key", true, false},
		{"no pair", map[string][]byte{servingKey: nil, servingPrivateKey: nil}, "", true, false},
		{"text for retired ones", map[string][]byte{retiredKey: good[authorityKeyKey]}, "retired.crt is no certificate", true, true},
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
		if (len(s.authorities) > 0) != row.cas || s.usable() != row.served {
			t.Errorf("%s: %d CAs, certificate: %t", row.what, len(s.authorities), s.usable())
		}
		for line := range strings.Lines(string(good[authorityKeyKey]) + string(good[servingPrivateKey])) {
			if strings.Contains(text, strings.TrimSpace(line)) {
				t.Errorf("%s: the error shows a key: %s", row.what, text)
			}
		}
	}
}
