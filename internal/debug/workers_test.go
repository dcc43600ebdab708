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
	lines := []string{
		"worker 3: ready, pid 4711, started 5h ago, 512 runs", "worker 4: serving, pid 4712, started 5h ago, 1 run",
		"worker 7, for requests: starting, started 5h ago, 0 runs",
	}
	page, why := ask(o.page(), "GET", "/", nil).Body.String(), get("/hook/a.sh/why.text")
	for i, line := range lines {
		row := []string{`<td class="number">4711</td><td>5h</td><td class="number">512</td>`, `<span class="state serving">serving</span>`,
			"<td>requests</td>"}[i]
		if strings.Count(page, row) != 1 || !strings.Contains(why, "\n- "+line+"\n") {
			t.Errorf("%q is missing on the page, or %q in why:\n%s\n%s", row, line, page, why)
		}
	}
	if status := get("/status.text"); !strings.Contains(status, "\nworkers: 3 (1 ready, 1 serving, 1 starting)\n") {
		t.Error(status)
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
	now := time.Now()
	for name, test := range map[string]struct {
		state  worker.State
		unused bool
		want   string // of the first reason
	}{
		"none":   {want: "no worker is there: the next run starts one"},
		"unused": {unused: true, want: "settings.worker has no effect: each run is a process of its own, because --workers is false"},
		"many":   {state: worker.State{Workers: make([]worker.Status, 8)}, want: "worker 0: , started"},
	} {
		t.Run(name, func(t *testing.T) {
			reasons := servedBy(test.state, !test.unused, now)
			if r := reasons[0]; r.Kind != InWorker || !strings.HasPrefix(r.Text, test.want) || r.Blocks {
				t.Errorf("%+v", reasons)
			}
			if name == "many" && (len(reasons) != shownWorkers+1 || reasons[shownWorkers].Text != "3 more workers") {
				t.Errorf("%+v", reasons)
			}
		})
	}
}
