package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A flood is 2,000 events a second for a minute. An API server and etcd need more than a millisecond of CPU time for a
// write, so two processors cannot write that often: each write is an event for four hooks.
const (
	floodHooks   = 4
	floodObjects = 20
	floodRate    = 2000 / floodHooks
	floodWrites  = floodRate * 60
)

// floodSmall floods blocked hooks, then unblocks them: first with objects, then with next to nothing
// but the address of a change.
func floodSmall(b *bench) {
	const events = floodHooks * floodWrites
	for _, what := range []struct{ name, binding string }{
		{"objects", ""},
		{"one number", "jqFilter: .data.n, keepFullObjectsInMemory: false, "},
	} {
		f := b.newFlood(what.binding)
		idle := f.op.resident()
		took := f.write()
		waits := f.op.resident() - idle
		opened := time.Now()
		size := f.open()
		recovered := time.Since(opened).Seconds()
		for i := range floodHooks {
			if last, changes := f.received(i); changes != floodWrites {
				b.Errorf("hook %d received %d changes, not %d, the last are %v", i, changes, floodWrites, last)
			}
		}
		b.add(fmt.Sprintf("%s: %d events", what.name, events), "s", took).most(63)
		b.add(what.name+": resident above idle while they wait", "MiB", waits).against("their contexts", size).times(2, 0)
		b.add(what.name+": peak above idle", "MiB", f.op.peak()-idle).against("their contexts", size).times(2, 0)
		b.add(what.name+": until all are received, in order", "s", recovered)
		f.op.stop()
	}
}

// flooded are hooks that block in their first run until open is called.
type flooded struct {
	b         *bench
	op        *operator
	namespace string
	dir       string
	// queued counts the events that have reached a queue.
	queued atomic.Int64
}

func (b *bench) newFlood(more string) *flooded {
	f := &flooded{b: b, namespace: b.cluster.Namespace(b.T), dir: b.TempDir()}
	var texts []string
	for i := range floodHooks {
		if err := syscall.Mkfifo(f.gate(i), 0o600); err != nil {
			b.Fatal(err)
		}
		// Each run appends its events to a file, in order, and the size of its context to another.
		texts = append(texts,
			hook(fmt.Sprintf("{configVersion: v1, kubernetes: [{kind: ConfigMap, queue: q%d, %sexecuteHookOnSynchronization: false, "+
				"executeHookOnEvent: [Modified], namespace: {nameSelector: {matchNames: [%s]}}}]}", i, more, f.namespace),
				fmt.Sprintf(`grep -o '"[0-9][0-9]*:[0-9]*"' $BINDING_CONTEXT_PATH >> %[1]s/received-%[2]d
wc -c < $BINDING_CONTEXT_PATH >> %[1]s/size-%[2]d
if [ -e %[3]s ]; then cat %[3]s; rm %[3]s; fi`, f.dir, i, f.gate(i))))
	}
	client := b.client()
	for i := range floodObjects {
		if _, err := client.CoreV1().ConfigMaps(f.namespace).Create(b.Context(), floodObject(i, 0), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	f.op = b.startIgnoring(b.hooks(texts...), func(line string) bool {
		is := strings.Contains(line, `"msg":"queue task"`)
		if is {
			f.queued.Add(1)
		}
		return is
	})
	f.op.untilCount("Unlock kubernetes.Event tasks", floodHooks)
	time.Sleep(settle)
	return f
}

func (f *flooded) gate(i int) string { return filepath.Join(f.dir, fmt.Sprint("gate-", i)) }

func floodObject(i, n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("map-", i)},
		Data:       map[string]string{"n": fmt.Sprintf("%d:%d", i, n), "text": strings.Repeat("x", 700)},
	}
}

// write changes the objects for a minute, no faster than that, and returns when all events are in their queues, and how
// many seconds that took.
func (f *flooded) write() float64 {
	f.b.Helper()
	started := time.Now()
	var writing sync.WaitGroup
	for i := range floodObjects {
		client := f.b.client()
		writing.Go(func() {
			for n := 1; n <= floodWrites/floodObjects; n++ {
				if _, err := client.CoreV1().ConfigMaps(f.namespace).
					Update(context.Background(), floodObject(i, n), metav1.UpdateOptions{}); err != nil {
					f.b.Error(err)
					return
				}
				time.Sleep(time.Until(started.Add(time.Duration(n) * time.Second * floodObjects / floodRate)))
			}
		})
	}
	writing.Wait()
	for f.queued.Load() < floodHooks*floodWrites && !f.b.Failed() && time.Since(started) < 5*time.Minute {
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(started).Seconds()
	f.b.progress("%d of %d events in %.1f s", f.queued.Load(), floodHooks*floodWrites, took)
	return took
}

// open unblocks the hooks, waits until all events are delivered, and returns the size of all their contexts in MiB.
func (f *flooded) open() (mib float64) {
	f.b.Helper()
	for i := range floodHooks {
		if err := os.WriteFile(f.gate(i), nil, 0o600); err != nil {
			f.b.Fatal(err)
		}
	}
	// Each hook has run once for the first events and once for all others.
	f.op.untilCount("Hook executed successfully", 2*floodHooks)
	for i := range floodHooks {
		text, err := os.ReadFile(filepath.Join(f.dir, fmt.Sprint("size-", i)))
		if err != nil {
			f.b.Fatal(err)
		}
		for _, size := range strings.Fields(string(text)) {
			var n float64
			fmt.Sscan(size, &n)
			mib += n / (1 << 20)
		}
	}
	return mib
}

// received counts the changes that a hook has received and returns the last of each object. It checks that none is missing
// and that they are in order.
func (f *flooded) received(i int) (last map[int]int, changes int) {
	f.b.Helper()
	file, err := os.Open(filepath.Join(f.dir, fmt.Sprint("received-", i)))
	if err != nil {
		f.b.Fatal(err)
	}
	defer file.Close()
	last = map[int]int{}
	for lines := bufio.NewScanner(file); lines.Scan(); changes++ {
		var object, n int
		_, err := fmt.Sscanf(lines.Text(), `"%d:%d"`, &object, &n)
		if before := last[object]; err != nil || n != before+1 {
			f.b.Errorf("hook %d received %s after %d", i, lines.Text(), before)
		}
		last[object] = n
	}
	return last, changes
}
