package httpserver

import (
	"context"
	"testing"
	"testing/synctest"
)

// Two requests run, one waits, the fourth is rejected. A finished run starts the next one.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewLimiter(2, 1)
		started := make(chan error, 3)
		for range 3 {
			if !g.Enter() {
				t.Fatal("there is room for three")
			}
			go func() { started <- g.Start(t.Context()) }()
		}
		synctest.Wait()
		if len(started) != 2 || g.Enter() {
			t.Fatalf("%d run", len(started))
		}
		g.Finish()
		synctest.Wait()
		if len(started) != 3 {
			t.Fatal("the third does not run")
		}
		g.Leave()
		if !g.Enter() {
			t.Fatal("one has left, so there is room")
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := g.Start(ended); err == nil {
			t.Error("started a run whose client is gone")
		}
	})
}
