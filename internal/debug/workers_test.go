package debug

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/worker"
	"github.com/shell-operator/shell-operator/internal/source/watch"
)

// status, why and the page show the workers of a hook, as text and as JSON.
func TestWorkersAreShown(t *testing.T) {
	began := time.Now().Add(-5 * time.Hour)
	state := worker.State{Workers: []worker.Status{
		{Number: 3, Phase: "ready", PID: 4711, Started: began, Runs: 512}, {Number: 4, Phase: "serving", PID: 4712, Started: began, Runs: 1},
		{Number: 7, Phase: "starting", Client: true, Started: began},
	}}
	f := &fake{
		hooks: []*hook.Hook{
			{Name: "a.sh", Settings: hook.Settings{Worker: &hook.Worker{}}, Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "pods"}}}},
			{Name: "b.sh"},
		},
		bindings: map[string][]watch.State{"a.sh": {{Objects: event.NoObjects{}, Complete: true, Unlocked: true}}},
		progress: map[string]Progress{"a.sh": {StartedUp: true}, "b.sh": {StartedUp: true}},
		workers:  map[string]worker.State{"a.sh": state, "b.sh": state},
	}
	o := operate(f)
	get := func(path string) string { return ask(o.api(), "GET", path, nil).Body.String() }
	page := ask(o.page(), "GET", "/", nil).Body.String()
	for _, row := range []string{`<td class="number">4711</td><td>5h</td><td class="number">512</td>`,
		`<span class="state serving">serving</span>`, "<td>requests</td>"} {
		if strings.Count(page, row) != 1 {
			t.Errorf("%q is missing on the page:\n%s", row, page)
		}
	}
	for _, path := range []string{"/status.text", "/hook/a.sh/why.text"} {
		if text := get(path); !strings.Contains(text, "workers: 3 (1 ready, 1 serving, 1 starting)\n") {
			t.Error(text)
		}
	}
	var answer struct {
		Hooks []struct{ Workers []map[string]any }
	}
	if err := json.Unmarshal([]byte(get("/status.json")), &answer); err != nil {
		t.Fatal(err)
	}
	first := answer.Hooks[0].Workers[0]
	if len(answer.Hooks[0].Workers) != 3 || first["worker"] != 3.0 || first["pid"] != 4711.0 || first["state"] != "ready" ||
		first["runs"] != 512.0 || answer.Hooks[0].Workers[2]["requests"] != true || answer.Hooks[1].Workers != nil {
		t.Errorf("%v", answer)
	}
	if started, err := time.Parse(time.RFC3339, first["started"].(string)); err != nil || !started.Equal(began.Round(0)) {
		t.Errorf("%v, error %v", first["started"], err)
	}
	if why := get("/hook/b.sh/why.text"); strings.Contains(why, "worker") {
		t.Error(why)
	}
}

func TestWhyOfWorkers(t *testing.T) {
	for want, used := range map[string]bool{"no worker is there: the next run starts one": true,
		"settings.worker has no effect: each run is a process of its own, because --workers is false": false} {
		if reasons := servedBy(worker.State{}, used); len(reasons) != 1 || reasons[0].Text != want || reasons[0].Blocks {
			t.Errorf("%+v", reasons)
		}
	}
}
