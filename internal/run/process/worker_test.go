package process

import (
	"testing"
	"time"
)

func TestServedInWords(t *testing.T) {
	for want, s := range map[string]Served{
		"":                                      {},
		"3, its 512th run":                      {Worker: 3, Run: 512},
		"1, its 1st run, after a start of 20ms": {Worker: 1, Run: 1, Started: 20 * time.Millisecond},
		"1, its 11th run":                       {Worker: 1, Run: 11},
		"1, its 22nd run":                       {Worker: 1, Run: 22},
		"1, its 113th run":                      {Worker: 1, Run: 113},
		"1, its 103rd run":                      {Worker: 1, Run: 103},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

// The protocol in whatever pieces it comes.
func TestTalk(t *testing.T) {
	var c talk
	step := func(received string, want word, status int) {
		t.Helper()
		if got, n, wrong := c.next([]byte(received)); got != want || n != status {
			t.Fatalf("%q: %d %d %q, want %d %d", received, got, n, wrong, want, status)
		}
	}
	step("rea", silence, 0)
	step("dy\n", ready, 0)
	c.send("17-2")
	step("17-", silence, 0)
	step("2 7", silence, 0)
	step("\n", answer, 7)
	step("", silence, 0)
	c.send("17-3")
	step("17-3 0\nmore", answer, 0)
	step("", breach, 0)
}
