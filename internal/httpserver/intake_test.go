package httpserver

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
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
		l := NewIntake(64).Limiter(8, 8)
		all, stop, sizes := map[string]*Request{}, map[string]context.CancelFunc{}, map[string]int64{}
		granted := make(chan string, 16)
		for line := range strings.SplitSeq(script, "\n") {
			name, n := "", int64(0)
			if word, rest, _ := strings.Cut(line, " "); word == "read" {
				all[rest].Complete(sizes[rest])
			} else if word == "stop" {
				stop[rest]()
			} else if word == "leave" {
				all[rest].Leave()
			} else if _, err := fmt.Sscan(line, &name, &n); err == nil {
				ctx, cancel := context.WithCancel(t.Context())
				all[name], stop[name], sizes[name] = l.Enter(), cancel, n
				go func() {
					if all[name].Reserve(ctx, n) == nil {
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

// Requests of several hooks enter, are read, run, outlive their clients and leave, at random: the bounds hold at each moment, everything
// is given back, and a request that waits long enough gets its bytes.
func TestIntakeRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type client struct {
			begins, reads, runs, hangsUp int
			size, arrives                int64
			hook                         int
		}
		clients := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) client {
			ms := rapid.IntRange(0, 5000)
			c := client{begins: ms.Draw(rt, "begins"), reads: ms.Draw(rt, "reads") / 20, runs: ms.Draw(rt, "runs") / 20,
				hangsUp: ms.Draw(rt, "hangsUp") * 10, size: rapid.Int64Range(0, 1600).Draw(rt, "size"), hook: rapid.IntRange(0, 2).Draw(rt, "hook")}
			c.arrives = rapid.Int64Range(0, c.size).Draw(rt, "arrives")
			return c
		}), 1, 40).Draw(rt, "clients")
		synctest.Test(t, func(t *testing.T) {
			const limit, inFlight, backlog = 1000, 2, 10
			in := NewIntake(limit)
			limiters := []*Limiter{in.Limiter(inFlight, backlog), in.Limiter(inFlight, backlog), in.Limiter(inFlight, backlog)}
			held, running, done := int64(0), [3]int{}, make(chan func(), 1000)
			for _, c := range clients {
				go func() {
					defer func() { done <- nil }()
					time.Sleep(time.Duration(c.begins) * time.Millisecond)
					r := limiters[c.hook].Enter()
					if r == nil {
						return
					}
					defer r.Leave()
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(c.hangsUp)*time.Millisecond)
					defer cancel()
					if r.Reserve(ctx, c.size) != nil {
						return
					}
					add := func(n int64) { done <- func() { held += n } }
					add(r.bytes)
					time.Sleep(time.Duration(c.reads) * time.Millisecond)
					add(-r.bytes)
					r.Complete(c.arrives)
					add(r.bytes)
					kept, free := r.bytes, r.Keep()
					if r.Start(ctx) != nil {
						add(-kept)
						free()
						return
					}
					done <- func() { running[c.hook]++ }
					go func() {
						time.Sleep(time.Duration(c.runs) * time.Millisecond)
						done <- func() { running[c.hook]-- }
						add(-kept)
						r.Finish()
						free()
						done <- nil
					}()
					done <- func() { clients = append(clients, client{}) } // one more to wait for
				}()
			}
			for ended := 0; ended < len(clients); {
				if f := <-done; f != nil {
					f()
				} else {
					ended++
				}
				if held > limit || slices.Max(running[:]) > inFlight {
					rt.Fatalf("%d bytes are held, %v run", held, running)
				}
			}
			synctest.Wait()
			if held != 0 || in.free != limit || len(in.waiting)+len(in.large) > 0 {
				rt.Fatalf("%d bytes are held, %d of %d free, %d wait, %d large", held, in.free, limit, len(in.waiting), len(in.large))
			}
			for _, l := range limiters {
				if len(l.entered)+len(l.running) > 0 {
					rt.Fatalf("%d have not left, %d run", len(l.entered), len(l.running))
				}
			}
		})
	})
}

// Memory follows what arrives, not what is announced.
func TestReadBody(t *testing.T) {
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
		in := NewIntake(64)
		r := in.Limiter(1, 1).Enter()
		req := httptest.NewRequest("POST", "/", strings.NewReader(test.body))
		req.ContentLength = test.announced
		text, err := r.ReadBody(t.Context(), httptest.NewRecorder(), req, 39)
		if got := fmt.Sprintf("%s, %v", text, err); got != test.want || in.free != 64-r.bytes || err == nil && r.bytes != int64(len(text)) {
			t.Errorf("%+v: got %s, %d bytes are free", test, got, in.free)
		}
		r.Leave()
		if in.free != 64 {
			t.Errorf("%+v: %d bytes are free", test, in.free)
		}
	}
}
