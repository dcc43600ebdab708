package process

import (
	"os"
	"strings"
	"testing"
	"time"
)

// clock is a time that passes only by sleeping.
type clock struct{ at, slept time.Duration }

func (c *clock) now() time.Time        { return time.Unix(0, 0).Add(c.at) }
func (c *clock) sleep(d time.Duration) { c.at += d; c.slept += d }

func TestPace(t *testing.T) {
	c := &clock{}
	p := &pace{now: c.now, sleep: c.sleep}
	for range freeOutput / 1024 {
		p.add(1024)
	}
	if c.slept != 0 || p.slowed() {
		t.Errorf("%s for the first bytes", c.slept)
	}
	p.add(slowRate / 2)
	if c.slept != time.Second/2 || !p.slowed() {
		t.Errorf("%s for half of a second's bytes", c.slept)
	}
	c.at += time.Minute // nothing is saved
	for range 8 {
		p.add(slowRate / 4)
	}
	if c.slept != 2500*time.Millisecond {
		t.Errorf("%s for 2.5 seconds' bytes", c.slept)
	}
	c = &clock{}
	p = &pace{now: c.now, sleep: c.sleep}
	if p.add(freeOutput + slowRate); c.slept != time.Second {
		t.Errorf("%s when the limit is within one read", c.slept)
	}
}

// A run that prints a lot on both streams is slowed down, and loses nothing.
func TestMuchOutput(t *testing.T) {
	c := &clock{}
	e := New(Options{})
	e.now, e.sleep = c.now, c.sleep
	lines, bytes := 0, 0
	count := func(line []byte) { lines, bytes = lines+1, bytes+len(line)+1 }
	result, err := e.Execute(t.Context(), Invocation{
		Hook: "h", Path: "/bin/sh",
		Args: []string{"-c", "(yes 0123456789abcde | head -n 1000000 >&2) & yes 0123456789abcde | head -n 1000000; wait"}, Stdout: count,
		Stderr: count,
	})
	const printed = 2 * 16 * 1000000
	want := time.Duration(printed-freeOutput) * time.Second / slowRate
	if err != nil || lines != 2000000 || bytes != printed || !result.Slowed || c.slept < want-time.Second || c.slept > want+time.Second {
		t.Errorf("%v: %d lines of %d bytes, slowed %t by %s, want %s", err, lines, bytes, result.Slowed, c.slept, want)
	}
	c.slept = 0
	if result, err = e.Execute(t.Context(), Invocation{Hook: "h", Path: "/bin/sh", Args: []string{"-c", "echo a"}, Stdout: count,
		Stderr: count}); err != nil || result.Slowed || c.slept != 0 {
		t.Errorf("%v: slowed by %s", err, c.slept)
	}
}

// Lines beyond Output are read and dropped, so that the hook does not block.
func TestTooMuchOutput(t *testing.T) {
	for script, want := range map[string]string{
		"for n in {1..1000}; do echo $n; done; echo last":        "1 2 3 4 5 6 7 8 9 10 11 12",
		"echo first; head -c 3000000 /dev/zero; echo; echo last": "first",
		"echo 123456789; echo 123456789 >&2; echo 1234567":       "123456789 1234567",
	} {
		var stdout []string
		dropped := 0
		_, err := New(Options{}).Execute(t.Context(), Invocation{
			Hook: "h", Path: "/bin/bash", Args: []string{"-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Output: 28,
			Stdout: func(line []byte) { stdout = append(stdout, string(line)) }, Stderr: func([]byte) {}, Dropped: func() { dropped++ },
		})
		if got := strings.Join(stdout, " "); got != want || err != nil || (dropped != 1) != (want == "123456789 1234567") {
			t.Errorf("%s: %q %d %v", script, got, dropped, err)
		}
	}
}
