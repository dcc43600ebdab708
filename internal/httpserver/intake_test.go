package httpserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// play runs a script of requests against an Intake of 64 bytes. Steps:
//
//	a 20     a request enters and asks for 20 bytes
//	read a   its body is complete
//	stop a   its client hangs up while it waits
//	leave a  it has ended
//
// After each step it prints which requests have got their bytes.
func play(t *testing.T, script string) string {
	t.Helper()
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		l := NewIntake(64).Limits(8, 8).of("")
		all, stop, sizes := map[string]*request{}, map[string]context.CancelFunc{}, map[string]int64{}
		granted := make(chan string, 16)
		for line := range strings.SplitSeq(script, "\n") {
			name, n := "", int64(0)
			if word, rest, _ := strings.Cut(line, " "); word == "read" {
				all[rest].complete(sizes[rest])
			} else if word == "stop" {
				stop[rest]()
			} else if word == "leave" {
				all[rest].leave()
			} else if _, err := fmt.Sscan(line, &name, &n); err == nil {
				ctx, cancel := context.WithCancel(t.Context())
				all[name], stop[name], sizes[name] = l.enter(), cancel, n
				go func() {
					if all[name].reserve(ctx, n) == nil {
						granted <- name
					}
				}()
			}
			synctest.Wait()
			var names []string
			for len(granted) > 0 {
				names = append(names, <-granted)
			}
			slices.Sort(names)
			fmt.Fprintf(&out, "%s: %s\n", line, strings.Join(names, " "))
		}
		for _, cancel := range stop {
			cancel()
		}
	})
	return out.String()
}

// The column after the colon has the requests that get their bytes.
func TestIntake(t *testing.T) {
	for name, script := range map[string]string{
		"requests wait for bytes in their order": `
			a 40: a
			b 30:
			c 10:
			leave a: b c`,
		"one that hangs up holds up no other": `
			a 40: a
			b 30:
			c 10:
			stop b: c`,
		"a large body counts as half of the budget, and others are read beside it": `
			a 10: a
			big 100: big
			b 10: b
			huge 200:
			c 12: c
			d 1:
			read big:
			leave big: d
			leave a: huge`,
		"a large body is not overtaken while it waits for bytes": `
			a 40: a
			read a:
			big 100:
			b 10:
			leave a: b big`,
	} {
		var steps []string
		want := ""
		for line := range strings.SplitSeq(strings.TrimSpace(script), "\n") {
			step, result, _ := strings.Cut(strings.TrimSpace(line), ":")
			steps = append(steps, step)
			want += step + ": " + strings.TrimSpace(result) + "\n"
		}
		if got := play(t, strings.Join(steps, "\n")); got != want {
			t.Errorf("%s: got\n%swant\n%s", name, got, want)
		}
	}
}

// Memory follows what arrives, not what is announced.
func TestBody(t *testing.T) {
	for _, test := range []struct {
		body      string
		announced int64
		want      string
	}{
		{"hello", 5, "hello, <nil>"},
		{"", 0, ", <nil>"},
		{"hello", -1, "hello, <nil>"},
		{strings.Repeat("x", 40), 40, ", http: request body too large"},
		{strings.Repeat("x", 40), -1, ", http: request body too large"},
	} {
		b := &Body{announced: test.announced, limit: 39}
		b.Reader = http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(strings.NewReader(test.body)), b.size())
		text, err := b.Bytes()
		if got := fmt.Sprintf("%s, %v", text, err); got != test.want || test.announced > 39 && b.read > 0 || cap(text) > 40 {
			t.Errorf("%+v: got %s, %d bytes were read into %d", test, got, b.read, cap(text))
		}
	}
}
