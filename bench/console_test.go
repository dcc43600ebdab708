package bench

import (
	"io"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug"
)

// consoleOpen polls what an overview and the page of a queue show, every 2 s, while 10,000 lanes wait. Idle times and
// polled ones take turns.
func consoleOpen(b *bench) {
	const n, rounds, lasts, every = 10_000, 3, 20 * time.Second, 2 * time.Second
	paths := []string{"/status.json", "/queue/lanes/lanes.json", "/status.json", "/queue/lanes/lanes.json?key=object-99"}
	namespace := b.laneObjects(n)
	op := b.start(b.hooks(keyed(namespace, "", 1, "exit 0")))
	op.untilCount("Kubernetes bindings for hook are enabled successfully", 1)
	op.act("queue", "pause", "lanes")
	b.changeAll(namespace, n)
	op.untilCount("queue task", n)
	used := func(poll func()) (percent float64) {
		began, before := time.Now(), op.cpu()
		for ticks := time.NewTicker(every); time.Since(began) < lasts; {
			poll()
			<-ticks.C
		}
		return 100 * (op.cpu() - before) / time.Since(began).Seconds()
	}
	time.Sleep(settle)
	resident := op.resident()
	client := debug.NewClient(debug.Place{Socket: op.Socket, Chosen: true}, 10*time.Second)
	bytes := 0
	var idle, polled []float64
	for range rounds {
		idle = append(idle, used(func() {}))
		polled = append(polled, used(func() {
			for _, path := range paths {
				body, err := client.Get(b.Context(), path)
				if err != nil {
					b.Fatal(err)
				}
				text, err := io.ReadAll(body)
				if body.Close(); err != nil || !strings.HasPrefix(string(text), "{") {
					b.Fatalf("%s: %v %s", path, err, text)
				}
				bytes += len(text)
			}
		}))
		b.progress("idle %.2f %%, polled %.2f %% of a core, %d bytes", idle[len(idle)-1], polled[len(polled)-1], bytes)
	}
	b.add("10,000 lanes, an overview and a queue that are polled every 2 s", "% of a core", polled...).against("without a console", idle...).
		times(1, 3)
	b.add("the same, memory above that without a console", "MiB", op.resident()-resident).most(5)
}
