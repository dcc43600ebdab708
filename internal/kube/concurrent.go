package kube

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Concurrently calls do for each number below n, for at most limit of them at the same time. A panic continues on the
// caller's goroutine once all have returned: on another one it would end the process.
func Concurrently(n, limit int, do func(i int)) {
	slots, panics := make(chan struct{}, limit), make(chan string, 1)
	var running sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		running.Go(func() {
			defer func() {
				if reason := recover(); reason != nil {
					select {
					case panics <- fmt.Sprintf("%v\n%s", reason, debug.Stack()):
					default: // the first one is enough
					}
				}
				<-slots
			}()
			do(i)
		})
	}
	running.Wait()
	select {
	case reason := <-panics:
		panic(reason)
	default:
	}
}
