package debug

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/queue"
)

// keyed is a queue with lanes in trouble and others.
func keyed() Queue {
	task := func(hook string) Task {
		return Task{hook, "kubernetes", "orders", "HookRun:orders:kubernetes:" + hook + ":orders", ""}
	}
	return Queue{Name: "orders", Keyed: true, Concurrency: 2, Tasks: 1203, Lanes: 1200, Running: 1, Delayed: 1, Phase: queue.Running,
		FirstLanes: []Lane{
			{Key: "Order/eu/o-17", Tasks: 2, Phase: queue.Sleeping, RetryIn: history.Duration(90 * time.Second), Failures: 3,
				Task: task("orders.sh"), Error: "orders.sh FAILED: " + strings.Repeat("x", 600)},
			{Key: "Order/us/o-1", Tasks: 1, Phase: queue.Running, Task: task("orders.sh")},
			{Key: "Order/us/o-2", Tasks: 1, Task: task("orders.sh")},
		}}
}

func TestLanes(t *testing.T) {
	f := theOperator()
	f.queues = append(f.queues, keyed())
	api := operate(f).api()
	text := rowsText(t, listIn(0, (*Lanes).Table), ask(api, "GET", "/queue/orders/lanes.json", nil).Body.Bytes(), false)
	rows := strings.Split(text, "\n")
	for i, want := range []string{
		"KEY | TASKS | STATE | FOR | FAILURES | NEXT ATTEMPT | HOOK | ERROR",
		"Order/eu/o-17 | 2 | sleeping | 0s | 3 | in 1m30s | orders.sh | orders.sh FAILED: xxx",
		"Order/us/o-1 | 1 | running | 0s | - | - | orders.sh | -",
		"Order/us/o-2 | 1 | idle | 0s | - | - | orders.sh | -",
	} {
		if !strings.HasPrefix(rows[i], want) {
			t.Errorf("row %d is %q, want %q", i, rows[i], want)
		}
	}
	if want := "3 of 3 lanes that match, 1200 in all"; rows[4] != want {
		t.Errorf("below the table: %q, want %q", rows[4], want)
	}
	var all Lanes
	if err := json.Unmarshal(ask(api, "GET", "/queue/orders/lanes.json?key=us/", nil).Body.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Lanes) != 2 || all.Matching != 2 || all.Count != 1200 || all.Concurrency != 2 || all.Tasks != 1203 ||
		all.Lanes[0].Hook != "orders.sh" {
		t.Errorf("%+v", all)
	}
}
