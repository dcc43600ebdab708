package kube

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// A panic in one request is one of the caller, which can recover it, and the others are carried out.
func TestConcurrentPanic(t *testing.T) {
	var done atomic.Int64
	defer func() {
		if reason := fmt.Sprint(recover()); !strings.HasPrefix(reason, "number 3\n") || done.Load() != 9 {
			t.Errorf("got %.20q after %d calls", reason, done.Load())
		}
	}()
	Concurrently(10, 4, func(i int) {
		if i == 3 {
			panic("number 3")
		}
		done.Add(1)
	})
	t.Error("no panic")
}
