package debug

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestParameters(t *testing.T) {
	type step struct {
		set      string // empty: only wait
		duration time.Duration
		wait     time.Duration
		wrong    bool
		want     string // the value that counts after it
		passing  bool
	}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"for good", []step{{set: "warn", wait: 24 * time.Hour, want: "warn"}}},
		{"for a while", []step{{set: "warn", duration: time.Minute, wait: 59 * time.Second, want: "warn", passing: true}, {wait: 2 * time.Second, want: "info"}}},
		{"debug always passes", []step{{set: "debug", wait: 29 * time.Minute, want: "debug", passing: true}, {wait: 2 * time.Minute, want: "info"}}},
		{"debug for longer", []step{{set: "DEBUG", duration: time.Hour, wait: 59 * time.Minute, want: "debug", passing: true}, {wait: 2 * time.Minute, want: "info"}}},
		{"back to the last permanent value", []step{{set: "error", want: "error"}, {set: "warn", duration: time.Minute, wait: 2 * time.Minute, want: "error"}}},
		{"a permanent value ends a passing one", []step{{set: "warn", duration: time.Minute, want: "warn", passing: true}, {set: "error", wait: time.Hour, want: "error"}}},
		{"a new term replaces the old one", []step{{set: "warn", duration: time.Minute, wait: 30 * time.Second, want: "warn", passing: true}, {set: "error", duration: time.Minute, wait: 45 * time.Second, want: "error", passing: true}, {wait: time.Minute, want: "info"}}},
		{"a wrong value changes nothing", []step{{set: "warn", duration: time.Minute, want: "warn", passing: true}, {set: "loud", wrong: true, want: "warn", passing: true}, {wait: time.Hour, want: "info"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var applied atomic.Value // timers apply, too
				p := NewParameters(Parameter{
					Name: "log.level", Default: "info", Values: []string{"debug", "info", "warn", "error"},
					Passing: map[string]time.Duration{"debug": 30 * time.Minute}, Apply: func(v string) error { applied.Store(v); return nil },
				})
				defer p.Close()
				for i, s := range test.steps {
					if s.set != "" {
						if err := p.Set("log.level", s.set, s.duration); (err != nil) != s.wrong {
							t.Fatalf("step %d: %v", i, err)
						}
					}
					time.Sleep(s.wait)
					synctest.Wait()
					d := p.dump()[0]
					if applied.Load() != s.want || d.Value != s.want || (d.ExpireAt != "") != s.passing {
						t.Errorf("step %d: %v counts, shown %+v", i, applied.Load(), d)
					}
				}
			})
		})
	}
}

func TestParameterThatCannotBeApplied(t *testing.T) {
	broken := true
	p := NewParameters(Parameter{Name: "p", Default: "a", Values: []string{"a", "b"}, Description: "about it", Apply: func(string) error {
		if broken {
			return errors.New("no luck")
		}
		return nil
	}})
	defer p.Close()
	if err := p.Set("p", "b", 0); err == nil || statusCode(err) != 500 {
		t.Errorf("got %v", err)
	}
	if d := p.dump()[0]; d.Value != "a" || d.LastError != "no luck" {
		t.Errorf("shown %+v", d)
	}
	broken = false
	if err := p.Set("p", "b", 0); err != nil {
		t.Error(err)
	}
	if d := p.dump()[0]; d.Value != "b" || d.LastError != "" {
		t.Errorf("then %+v", d)
	}
}

func statusCode(err error) int {
	var r *refusal
	errors.As(err, &r)
	return r.status
}
