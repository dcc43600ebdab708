package httpserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// play runs a script of requests against an Intake of 64 bytes, and a Limiter of 8 runs and 8 more slots. Steps:
//
//	known a 20     a request of a caller enters and asks for 20 bytes; also client, any, stranger
//	read a         its body is complete
//	start a        its run may start
//	leave a        the run and the request have ended
//	wait           as long as a slow body may take
//
// After each step it prints what has changed: + has its bytes, - was evicted, ! was refused, * runs.
func play(t *testing.T, script string) string {
	t.Helper()
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		in := NewIntake(64)
		l := in.Limiter(8, 8)
		words := map[string]Caller{"known": KnownCaller, "client": HTTPClient, "any": AnyCaller, "stranger": Stranger}
		all, running, asked := map[string]*Request{}, map[string]bool{}, map[string]int64{}
		var mu sync.Mutex
		var news []string
		note := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			news = append(news, text)
		}
		ctx, end := context.WithCancel(t.Context())
		for _, line := range strings.Split(strings.TrimSpace(script), "\n") {
			line = strings.TrimSpace(line)
			var word, name string
			var n int64
			_, _ = fmt.Sscan(line, &word, &name, &n)
			r := all[name]
			switch word {
			case "wait":
				time.Sleep(bodyGrace)
			case "read":
				_ = r.Complete(max(r.want, asked[name]))
			case "start":
				go func() {
					if r.Start(ctx) == nil {
						running[name] = true
						note("*" + name)
					}
				}()
			case "leave":
				if running[name] {
					r.Finish()
				}
				r.Leave()
				delete(all, name)
			default:
				r := l.Enter(words[word], func() { note("-" + name) })
				if r == nil {
					note("!" + name)
					break
				}
				all[name], asked[name] = r, n
				go func() {
					switch err := r.Reserve(ctx, n); {
					case err == nil:
						note("+" + name)
					case errors.Is(err, ErrTooLarge):
						note("!" + name)
					}
				}()
			}
			synctest.Wait()
			mu.Lock()
			slices.Sort(news)
			fmt.Fprintf(&out, "%s: %s\n", line, strings.Join(news, " "))
			news = nil
			mu.Unlock()
		}
		end()
	})
	return out.String()
}

// The column after the colon is what each step changes.
func TestIntake(t *testing.T) {
	for name, script := range map[string]string{
		"a known caller waits for others of its kind in order, and evicts only slow ones": `
			known a 40: +a
			known b 30:
			known c 10:
			wait: -a
			leave a: +b +c`,
		"a large body counts as half of the budget, and others are read beside it": `
			known a 10: +a
			known big 100: +big
			known b 10: +b
			known huge 200:
			known c 12: +c
			known d 1:
			read big:
			leave big: +huge
			leave a: +d`,
		"a large body is not overtaken while it waits for bytes": `
			known a 40: +a
			read a:
			known big 100:
			known b 10:
			leave a: +b +big`,
		"a large body evicts a slow one of another large body": `
			any slow 100: +slow
			any big 100: -slow
			any small 10: +small
			leave slow: +big
			known huge 100: -big
			leave big: +huge`,
		"strangers have a quarter, and the newest one wins": `
			stranger a 17: !a
			stranger b 10: +b
			stranger c 6: +c
			stranger d 5: -b
			leave b: +d
			known k 64: +k`,
		"incomplete strangers make room for the API server": `
			known k 50: +k
			read k:
			stranger a 14: +a
			known l 10: -a
			leave a: +l`,
		"complete requests are not evicted": `
			known k 50: +k
			stranger a 14: +a
			read a:
			known l 10:
			leave a: +l`,
		"strangers come last": `
			known k 60: +k
			read k:
			stranger a 10:
			client c 10:
			known l 10:
			leave k: +a +c +l`,
		"HTTP clients have a quarter, but one alone has what it needs": `
			client a 20: +a
			client b 2:
			read a:
			leave a: +b`,
		"where callers cannot be known, the newest one wins as well, in the whole budget": `
			any a 40: +a
			any b 30: -a
			leave a: +b
			any c 64: -b
			leave b: +c
			any d 100: -c
			leave c: +d`,
	} {
		var steps strings.Builder
		want := ""
		for _, line := range strings.Split(strings.TrimSpace(script), "\n") {
			step, result, _ := strings.Cut(strings.TrimSpace(line), ":")
			fmt.Fprintln(&steps, step)
			want += step + ": " + strings.TrimSpace(result) + "\n"
		}
		if got := play(t, steps.String()); got != want {
			t.Errorf("%s: got\n%swant\n%s", name, got, want)
		}
	}
}

// A quarter of the slots and of the runs is for strangers; the API server gets the next free run.
func TestLimiterShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewIntake(0).Limiter(4, 4)
		evicted := 0
		enter := func(caller Caller) *Request { return l.Enter(caller, func() { evicted++ }) }
		var strangers []*Request
		for range 5 {
			r := enter(Stranger)
			strangers = append(strangers, r)
			_ = r.Complete(0)
			if len(strangers) == 2 {
				break
			}
		}
		if enter(Stranger) != nil {
			t.Error("a third stranger has a slot of eight")
		}
		running := make(chan Caller, 20)
		run := func(r *Request) {
			go func() {
				if r.Start(t.Context()) == nil {
					running <- r.caller
				}
			}()
			synctest.Wait()
		}
		for _, r := range strangers {
			run(r)
		}
		if len(running) != 1 {
			t.Errorf("%d strangers run, want a quarter of four", len(running))
		}
		var known []*Request
		for range 6 {
			r := enter(KnownCaller)
			if r == nil {
				t.Fatal("the API server has no slot")
			}
			known = append(known, r)
			run(r)
		}
		if len(running) != 4 {
			t.Errorf("%d run", len(running))
		}
		if enter(KnownCaller) != nil {
			t.Error("a ninth request has a slot")
		}
		strangers[0].Finish()
		known[0].Finish()
		synctest.Wait()
		for range 4 {
			<-running
		}
		if a, b := <-running, <-running; a != KnownCaller || b != KnownCaller {
			t.Error("a stranger ran before the API server")
		}
		if evicted != 0 {
			t.Errorf("%d were evicted", evicted)
		}
		strangers[0].Leave()
		if r := enter(Stranger); r == nil { // incomplete
			t.Error("there is room again")
		}
		if r := enter(KnownCaller); r == nil || evicted != 1 {
			t.Errorf("the API server does not take the place of an incomplete stranger: %v, %d", r, evicted)
		}
	})
}

// Whatever clients do: the bytes are within the budget, no stranger delays the API server, and everything ends.
func TestIntakeRandom(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			const limit = 1000
			in := NewIntake(limit)
			limiters := []*Limiter{in.Limiter(3, 5), in.Limiter(2, 2), in.Limiter(1, 0)}
			check := func() {
				in.mu.Lock()
				defer in.mu.Unlock()
				total, large := int64(0), 0
				for caller, n := range in.held {
					total += n
					several := 0
					for _, r := range in.requests {
						if r.caller == Caller(caller) && r.bytes > 0 {
							several++
							if r.large {
								large++
							}
						}
					}
					if n < 0 || several > 1 && n > Caller(caller).bytes(limit) {
						t.Errorf("seed %d: %d requests of caller %d hold %d bytes", seed, several, caller, n)
					}
				}
				if max := int64(limit + limit/4 + 1600); total > max || large > 1 {
					t.Errorf("seed %d: %d bytes are held, %d large", seed, total, large)
				}
			}
			var clients sync.WaitGroup
			for i := range 60 {
				caller, size := Caller(random.IntN(int(callers))), int64(random.IntN(400))
				if random.IntN(10) == 0 && caller != Stranger {
					size = 1600
				}
				begin, reads, runs := time.Duration(random.IntN(5000))*time.Millisecond, time.Duration(random.IntN(100))*time.Millisecond,
					time.Duration(random.IntN(300))*time.Millisecond
				if caller >= AnyCaller && random.IntN(2) == 0 {
					reads = time.Hour // it holds its body
				}
				l := limiters[random.IntN(len(limiters))]
				clients.Go(func() {
					time.Sleep(begin)
					aborted := make(chan struct{})
					r := l.Enter(caller, func() { close(aborted) })
					if r == nil {
						return
					}
					defer r.Leave()
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					err := r.Reserve(ctx, size)
					if caller == KnownCaller && err != nil {
						t.Errorf("seed %d: request %d of the API server: %v", seed, i, err)
					}
					if err != nil {
						return
					}
					check()
					select {
					case <-time.After(reads):
					case <-aborted:
						if caller == KnownCaller {
							t.Errorf("seed %d: request %d of the API server was evicted", seed, i)
						}
						return
					case <-ctx.Done():
						return
					}
					if r.Complete(size) != nil || r.Start(ctx) != nil {
						return
					}
					done := r.Keep()
					time.Sleep(runs)
					r.Finish()
					done()
				})
			}
			clients.Wait()
			if len(in.requests)+len(in.waiting) > 0 || in.held != [callers]int64{} {
				t.Errorf("seed %d: left are %d requests, %d waiting, %v bytes", seed, len(in.requests), len(in.waiting), in.held)
			}
			for _, l := range limiters {
				if l.entered != [callers]int{} || l.running != [callers]int{} || len(l.pending) > 0 {
					t.Errorf("seed %d: left in a limiter: %v %v %d", seed, l.entered, l.running, len(l.pending))
				}
			}
		})
	}
}

// Memory follows what arrives, not what is announced.
func TestReadBody(t *testing.T) {
	for _, test := range []struct {
		body      string
		announced int64
		caller    Caller
		want      string
	}{
		{"hello", 5, Stranger, "hello, <nil>"},
		{"", 0, KnownCaller, ", <nil>"},
		{"hello", -1, KnownCaller, "hello, <nil>"},
		{strings.Repeat("x", 40), 40, Stranger, ", http: request body too large"},
		{strings.Repeat("x", 17), 17, Stranger, ", " + ErrTooLarge.Error()},
		{strings.Repeat("x", 17), -1, Stranger, ", http: request body too large"},
		{strings.Repeat("x", 40), -1, KnownCaller, ", http: request body too large"},
	} {
		in := NewIntake(64)
		r := in.Limiter(1, 1).Enter(test.caller, func() {})
		req := httptest.NewRequest("POST", "/", strings.NewReader(test.body))
		req.ContentLength = test.announced
		text, err := r.ReadBody(t.Context(), httptest.NewRecorder(), req, 39)
		if got := fmt.Sprintf("%s, %v", text, err); got != test.want {
			t.Errorf("%+v: got %s", test, got)
		}
		r.Leave()
		if in.held != [callers]int64{} {
			t.Errorf("%+v: %v bytes are held", test, in.held)
		}
	}
}
