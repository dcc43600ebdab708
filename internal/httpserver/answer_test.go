package httpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/test"
)

// send sends a request to a hook that runs run, and returns the answer or its error.
func send(ctx context.Context, limits *Limits, hook string, limit time.Duration, log *test.Text,
	run func(context.Context) (string, error)) (answer string, err error) {
	Answer(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil), Call[string]{
		Limits: limits, Key: hook, Limit: limit, MaxBytes: 10, Log: slog.New(slog.NewTextHandler(log, nil)),
		Parse: func(*Body) (func(context.Context) (string, error), error) { return run, nil },
		Write: func(a string, e error) { answer, err = a, e },
	})
	return answer, err
}

// Two requests run, one waits, the fourth is refused immediately. Other hooks are not affected.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, free, log := NewIntake(64).Limits(2, 1), make(chan struct{}), &test.Text{}
		ask := func(hook string) string {
			answer, err := send(t.Context(), limits, hook, time.Hour, log, func(context.Context) (string, error) {
				if hook == "a" {
					<-free
				}
				return "answer", nil
			})
			return fmt.Sprint(answer, err)
		}
		var asked sync.WaitGroup
		for range 3 {
			asked.Go(func() {
				if got := ask("a"); got != "answer<nil>" {
					t.Error(got)
				}
			})
		}
		synctest.Wait()
		for range 2 {
			if got := ask("a"); got != "too many requests are waiting for the hook: try again later" {
				t.Errorf("the fourth: %s", got)
			}
		}
		if got := ask("b"); got != "answer<nil>" {
			t.Errorf("another hook: %s", got)
		}
		close(free)
		asked.Wait()
		if got := ask("a"); got != "answer<nil>" {
			t.Errorf("afterwards: %s", got)
		}
		if n := strings.Count(log.String(), "A request is refused"); n != 1 {
			t.Errorf("%d records of refusals:\n%s", n, log)
		}
	})
}

// A hook that ignores SIGTERM does not delay the response. It keeps its slot, and Wait waits for it.
func TestStubborn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, begun := NewIntake(64).Limits(1, 1), time.Now()
		for i, want := range []string{"the hook gave no answer within 2s",
			"all slots of the hook were taken: the hook gave no answer within 2s"} {
			_, err := send(t.Context(), limits, "a", 2*time.Second, &test.Text{}, func(ctx context.Context) (string, error) {
				<-ctx.Done()
				time.Sleep(5 * time.Second)
				return "", ctx.Err()
			})
			if took := time.Since(begun); !errors.As(err, new(Late)) || !strings.HasPrefix(err.Error(), want) ||
				took != time.Duration(i+1)*2*time.Second {
				t.Errorf("got %v after %s", err, took)
			}
		}
		limits.Wait()
		if took := time.Since(begun); took != 7*time.Second {
			t.Errorf("Wait returned after %s", took)
		}
	})
}

// slowBody is a body that takes a while to arrive.
type slowBody struct {
	io.Reader
	takes time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	time.Sleep(b.takes)
	b.takes = 0
	return b.Reader.Read(p)
}

// client is a request at random: when it begins, how long its parts take, in ms, how many bytes it has, and what its run does.
type client struct {
	hook                                      int
	begins, reads, runs, lingers, hangsUp, by int
	size, announced                           int64
	does                                      string
}

// Requests of several hooks, in any order of their ends: each is answered exactly once, by its time limit and by what has happened, the
// bounds hold at each moment, and slots and bytes come back.
func TestAnswerRandom(t *testing.T) {
	const limit, most, inFlight, backlog = 1000, 1500, 2, 4
	rapid.Check(t, func(rt *rapid.T) {
		clients := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) client {
			ms := func(most int, name string) int { return rapid.IntRange(0, most).Draw(rt, name) }
			c := client{hook: ms(2, "hook"), begins: ms(2000, "begins"), reads: ms(100, "reads"), runs: ms(500, "runs"),
				lingers: ms(300, "lingers"), hangsUp: 1 + ms(3000, "hangsUp"), by: 150 + ms(2000, "by"), size: int64(ms(1600, "size")),
				does: rapid.SampledFrom([]string{"answers", "answers", "fails", "panics", "unreadable", "nothing"}).Draw(rt, "does")}
			c.announced = rapid.SampledFrom([]int64{c.size, -1}).Draw(rt, "announced")
			return c
		}), 1, 40).Draw(rt, "clients")
		synctest.Test(t, func(t *testing.T) {
			in := NewIntake(limit)
			limits := in.Limits(inFlight, backlog)
			var mu sync.Mutex
			held, running := int64(0), [3]int{}
			count := func(hook int, bytes int64, runs int) {
				mu.Lock()
				defer mu.Unlock()
				held += bytes
				running[hook] += runs
				if held > limit || running[hook] > inFlight {
					t.Errorf("%d bytes are held, %v run", held, running)
				}
			}
			var asked sync.WaitGroup
			for _, c := range clients {
				asked.Go(func() {
					time.Sleep(time.Duration(c.begins) * time.Millisecond)
					c.ask(t, limits, most, count)
				})
			}
			asked.Wait()
			limits.Wait()
			if held != 0 || !in.free.TryAcquire(limit) || len(in.large) > 0 {
				t.Errorf("%d bytes are held, or not free, %d large", held, len(in.large))
			}
			for _, l := range limits.by {
				if len(l.entered)+len(l.running) > 0 {
					t.Errorf("%d have not left, %d run", len(l.entered), len(l.running))
				}
			}
		})
		if t.Failed() {
			rt.Fatalf("%+v", clients)
		}
	})
}

var errRun, errParse = errors.New("the hook failed"), errors.New("not readable")

// ask sends the request, and checks what it gets. Count counts bytes and runs.
func (c *client) ask(t *testing.T, limits *Limits, most int64, count func(hook int, bytes int64, runs int)) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(c.hangsUp)*time.Millisecond)
	defer cancel()
	body := &slowBody{strings.NewReader(strings.Repeat("x", int(c.size))), time.Duration(c.reads) * time.Millisecond}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", body)
	r.ContentLength = c.announced
	begun, written, ran := time.Now(), 0, atomic.Bool{}
	Answer(httptest.NewRecorder(), r, Call[string]{
		Limits: limits, Key: c.hook, Limit: time.Duration(c.by) * time.Millisecond, MaxBytes: most, Log: slog.New(slog.DiscardHandler),
		Parse: func(b *Body) (func(context.Context) (string, error), error) {
			reserved := b.size()
			if reserved > 1000 {
				reserved = 500
			}
			count(c.hook, reserved, 0)
			text, err := b.Bytes()
			count(c.hook, -reserved, 0)
			switch {
			case err != nil:
				return nil, err
			case c.does == "unreadable":
				return nil, errParse
			case c.does == "nothing":
				return nil, nil
			}
			kept := min(int64(len(text)), reserved)
			return func(ctx context.Context) (string, error) {
				count(c.hook, kept, 1)
				defer count(c.hook, -kept, -1)
				ran.Store(true)
				select {
				case <-time.After(time.Duration(c.runs) * time.Millisecond):
				case <-ctx.Done():
					time.Sleep(time.Duration(c.lingers) * time.Millisecond)
					return "", context.Cause(ctx)
				}
				switch c.does {
				case "fails":
					return "", errRun
				case "panics":
					panic("a bug")
				}
				return "answer", nil
			}, nil
		},
		Write: func(answer string, err error) {
			written++
			took, refusal := time.Since(begun), (*Refusal)(nil)
			gone, late := ctx.Err() != nil, took >= time.Duration(c.by)*time.Millisecond
			is := errors.As(err, &refusal)
			switch {
			case took > time.Duration(min(c.by, c.hangsUp)+c.reads)*time.Millisecond:
				t.Errorf("answered after %s", took)
			case gone && !is && !errors.Is(err, ErrGone), !gone && errors.Is(err, ErrGone):
				t.Errorf("gone: %t, but got %v", gone, err)
			case errors.As(err, new(Late)) && !late:
				t.Errorf("late after %s", took)
			case err == nil && answer == "answer" && (!ran.Load() || c.does != "answers"):
				t.Errorf("got an answer of a run that %s: %t", c.does, ran.Load())
			case errors.Is(err, errRun) && c.does != "fails", errors.Is(err, errParse) && c.does != "unreadable":
				t.Errorf("got %v of a run that %s", err, c.does)
			case is && ran.Load(), is && refusal.Status == http.StatusRequestEntityTooLarge && c.size <= most:
				t.Errorf("refused with %v, run: %t", err, ran.Load())
			}
		},
	})
	if written != 1 {
		t.Errorf("answered %d times", written)
	}
}

// The API server sends its timeout; a tenth of it is for the network.
func TestTimeLimit(t *testing.T) {
	for _, row := range []struct {
		query     string
		byDefault int
		want      time.Duration
	}{
		{"", 10, 9 * time.Second},
		{"", 4, 3600 * time.Millisecond},
		{"", 30, 29 * time.Second},
		{"?timeout=10s", 30, 9 * time.Second},
		{"?timeout=1s", 10, 900 * time.Millisecond},
		{"?timeout=1h", 10, 29 * time.Second},
		{"?timeout=-5s", 10, 9 * time.Second},
		{"?timeout=soon", 10, 9 * time.Second},
	} {
		r := httptest.NewRequest("POST", "/"+row.query, nil)
		if got := TimeLimit(r, time.Duration(row.byDefault)*time.Second); got != row.want {
			t.Errorf("%q, by default %d s: got %s, want %s", row.query, row.byDefault, got, row.want)
		}
	}
}
