package cert

import (
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

var testPolicy = policy{names: []string{"a"}, lifetime: 90 * day, authorityLifetime: 900 * day, overlap: day}

// A state is written as its parts: "CA 1 made 10d ago", perhaps "without key"; "serves by 1 made 10d ago", perhaps
// "for a,b"; "retired by 1 made 10d ago". Certificates live as long as testPolicy says.
func parseState(t *testing.T, now time.Time, text string) state {
	t.Helper()
	var s state
	byNumber := map[string]authority{}
	leaf := func(words []string) *serving {
		names := []string{"a"}
		if len(words) > 7 {
			names = strings.Split(words[7], ",")
		}
		made, err := makeServing(now.Add(-age(t, words[4])), byNumber[words[2]], testPolicy.lifetime, names)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	for part := range strings.SplitSeq(text, "; ") {
		words := strings.Fields(part)
		switch {
		case len(words) == 0:
		case words[0] == "CA":
			a, err := makeAuthority(now.Add(-age(t, words[3])), testPolicy.authorityLifetime)
			if err != nil {
				t.Fatal(err)
			}
			byNumber[words[1]] = a
			if strings.HasSuffix(part, "without key") {
				a.key = nil
			}
			s.authorities = append(s.authorities, a)
		case words[0] == "serves":
			s.serving = leaf(words)
		case words[0] == "retired":
			s.retired = append(s.retired, leaf(words).cert)
		default:
			t.Fatalf("unknown part %q", part)
		}
	}
	return s
}

func age(t *testing.T, text string) time.Duration {
	t.Helper()
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(n * float64(day))
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d decision) text(now time.Time) string {
	switch d.do {
	case nothing:
		return fmt.Sprintf("nothing for %gd", d.again.Sub(now).Round(time.Hour).Hours()/24)
	case addAuthority:
		return "add: " + d.why
	case issue:
		return fmt.Sprintf("issue by %d: %s", d.authority+1, d.why)
	}
	return fmt.Sprintf("drop %d: %s", d.authority+1, d.why)
}

func TestNext(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, row := range []struct{ state, want string }{
		// A beginning.
		{"", "add: there is no CA that can sign"},
		{"CA 1 made 0d ago", "issue by 1: there is no usable certificate"},
		{"CA 1 made 0d ago; serves by 1 made 0d ago", "nothing for 1d"},
		{"CA 1 made 10d ago; serves by 1 made 10d ago", "nothing for 50d"},
		// A certificate.
		{"CA 1 made 70d ago; serves by 1 made 59d ago", "nothing for 1d"},
		{"CA 1 made 70d ago; serves by 1 made 60d ago", "issue by 1: two thirds of the life of the certificate are over"},
		{"CA 1 made 200d ago; serves by 1 made 100d ago", "issue by 1: the certificate is not valid now"},
		{"CA 1 made 70d ago; serves by 1 made -1d ago", "issue by 1: the certificate is not valid now"},
		{"CA 1 made 10d ago; serves by 1 made 10d ago for b", "issue by 1: the certificate lacks a name"},
		{"CA 1 made 10d ago; serves by 1 made 10d ago for a,b", "nothing for 50d"},
		{"CA 1 made 0d ago; serves by 1 made 0d ago for b", "issue by 1: the certificate lacks a name"},
		// A CA. The new one waits for callers to learn of it, while the old one signs.
		{"CA 1 made 599d ago; serves by 1 made 10d ago", "nothing for 1d"},
		{"CA 1 made 600d ago; serves by 1 made 10d ago", "add: two thirds of the life of the CA are over"},
		{"CA 1 made 600d ago; CA 2 made 0d ago; serves by 1 made 10d ago", "nothing for 1d"},
		{"CA 1 made 600d ago; CA 2 made 0d ago; serves by 1 made 60d ago", "issue by 1: two thirds of the life of the certificate are over"},
		{"CA 1 made 600d ago; CA 2 made 1d ago; serves by 1 made 10d ago", "issue by 2: a newer CA signs from now on"},
		{"CA 1 made 601d ago without key; CA 2 made 1d ago; serves by 2 made 0d ago; retired by 1 made 10d ago", "nothing for 60d"},
		{"CA 1 made 601d ago without key; CA 2 made 79d ago; serves by 2 made 10d ago; retired by 1 made 89d ago", "nothing for 1d"},
		{"CA 1 made 601d ago without key; CA 2 made 80d ago; serves by 2 made 10d ago; retired by 1 made 90d ago",
			"drop 1: all that the CA signed has expired"},
		{"CA 1 made 601d ago without key; CA 2 made 80d ago; serves by 2 made 10d ago; retired by 2 made 89d ago",
			"drop 1: all that the CA signed has expired"},
		// An administrator removed the key to get a new CA. The certificate is valid until callers trust the new one.
		{"CA 1 made 10d ago without key; serves by 1 made 10d ago", "add: there is no CA that can sign"},
		{"CA 1 made 10d ago without key; CA 2 made 0d ago; serves by 1 made 10d ago", "nothing for 1d"},
		{"CA 1 made 10d ago without key; CA 2 made 0d ago; serves by 1 made 10d ago for b", "nothing for 1d"},
		{"CA 1 made 10d ago without key; CA 2 made 1d ago; serves by 1 made 10d ago", "issue by 2: a newer CA signs from now on"},
		// The operator was down for long: a delay without benefit is skipped.
		{"CA 1 made 890d ago; serves by 1 made 100d ago", "add: two thirds of the life of the CA are over"},
		{"CA 1 made 890d ago; CA 2 made 0d ago; serves by 1 made 100d ago", "issue by 1: the certificate is not valid now"},
		{"CA 1 made 1000d ago; serves by 1 made 200d ago", "add: there is no CA that can sign"},
		{"CA 1 made 1000d ago; CA 2 made 0d ago; serves by 1 made 200d ago", "issue by 2: the certificate is not valid now"},
		{"CA 1 made 1000d ago; CA 2 made 0d ago; serves by 2 made 0d ago", "drop 1: all that the CA signed has expired"},
		// No certificate outlives its CA, and none is replaced by one that ends at the same time.
		{"CA 1 made 899.9d ago; CA 2 made 0d ago; serves by 1 made 899.9d ago", "issue by 1: the certificate is not valid now"},
		{"CA 1 made 899.99d ago; CA 2 made 0d ago; serves by 1 made 0d ago", "nothing for 0d"},
		// A clock that was wrong when the CA was made.
		{"CA 1 made -1000d ago; serves by 1 made -1000d ago", "add: there is no CA that can sign"},
	} {
		s := parseState(t, now, row.state)
		if got := next(now, s, testPolicy).text(now); got != row.want {
			t.Errorf("%s\n got: %s\nwant: %s", row.state, got, row.want)
		}
	}
}

// A hundred years with a keeper that is sometimes late and sometimes down for weeks: a client that receives a bundle
// within the overlap accepts each certificate as long as it is valid.
func TestHundredYears(t *testing.T) {
	p, err := newPolicy([]string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	end := now.AddDate(100, 0, 0)
	var s state
	var issued []*x509.Certificate // and not expired
	known := map[string]time.Time{}
	changes := map[step]int{}
	for now.Before(end) {
		if s.usable() && !now.Before(s.serving.cert.NotAfter) {
			t.Fatalf("%s: the certificate has expired", now)
		}
		planned, done, err := plan(now, s, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range planned.authorities {
			if _, ok := known[string(a.cert.SubjectKeyId)]; !ok {
				known[string(a.cert.SubjectKeyId)] = now
			}
		}
		if !s.usable() || !s.serving.cert.Equal(planned.serving.cert) {
			issued = append(issued, planned.serving.cert)
			if learned := known[string(planned.serving.cert.AuthorityKeyId)]; s.usable() && now.Sub(learned) < p.overlap-time.Second {
				t.Errorf("%s: signed by a CA that callers know since %s", now, learned)
			}
		}
		s = planned
		issued = slices.DeleteFunc(issued, func(c *x509.Certificate) bool { return !now.Before(c.NotAfter) })
		for _, c := range issued {
			trusts(t, s.bundle(), c, "a", now)
		}
		if len(s.authorities) > 2 {
			t.Errorf("%s: %d CAs in the bundle", now, len(s.authorities))
		}
		for _, d := range done {
			changes[d.do]++
		}
		again := next(now, s, p).again
		if !again.After(now) {
			t.Fatalf("%s: looks again at %s", now, again)
		}
		now = again
		switch rng.IntN(4) {
		case 0:
			now = now.Add(time.Duration(rng.Int64N(int64(longestSleep))))
		case 1:
			now = now.Add(time.Duration(rng.Int64N(int64(25 * day))))
		}
		if t.Failed() {
			return
		}
	}
	if changes[addAuthority] < 14 || changes[dropAuthority] < 13 || changes[issue] < 400 {
		t.Errorf("too few changes in a hundred years: %v", changes)
	}
}
