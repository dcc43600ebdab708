package queue

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// A lane that waits takes far less than the 1 KiB that is promised, besides its key and its task.
func TestSizeOfAWaitingLane(t *testing.T) {
	const lanes = 20_000
	keys, tasks := make([]string, lanes), make([]Task, lanes)
	for i := range lanes {
		keys[i], tasks[i] = fmt.Sprintf("Order.shop.example.com/namespace/order-%d", i), &hookTask{hook: i}
	}
	var opts Options
	before := heapInUse()
	c := newCore(&opts)
	for i := range lanes {
		c.add(time.Duration(i), keys[i], tasks[i])
	}
	each := (heapInUse() - before) / lanes
	t.Logf("%d bytes", each)
	if each > 600 {
		t.Errorf("a waiting lane takes %d bytes, want at most 600", each)
	}
	runtime.KeepAlive(c)
	runtime.KeepAlive(keys)
	runtime.KeepAlive(tasks)
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
