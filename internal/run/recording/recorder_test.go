package recording

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// kept is a Recorder and its log.
type kept struct {
	*Recorder
	t   *testing.T
	log strings.Builder
}

func newRecorder(t *testing.T, o Options) *kept {
	k := &kept{t: t}
	o.Dir, o.Filters, o.Log = filepath.Join(t.TempDir(), "recordings"), jq.NewCompiler(jq.Options{}),
		slog.New(slog.NewTextHandler(&k.log, nil))
	var err error
	if k.Recorder, err = New(o); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *kept) run(h *hook.Hook, id string, failed bool, contexts string) {
	k.t.Helper()
	if mode, always := k.mode(h); !always && (!failed || mode == hook.RecordNone) {
		return
	}
	path := filepath.Join(k.t.TempDir(), "contexts")
	if err := os.WriteFile(path, []byte(contexts), 0o600); err != nil {
		k.t.Fatal(err)
	}
	k.keepRun(Run{
		Hook: h, ID: id, Attempt: 1, Contexts: path, Exit: "exit status 1",
		Output: "hunter22\n",
		Outputs: workspace.Outputs{Patch: []byte(`{"operation": "Delete", "kind": "Pod", "name": "hunter22"}`), Metrics: []byte("not JSON"),
			Admission: []byte(`{"allowed": true}`)},
	})
}

// runs are the recorded ones, by their files.
func (k *kept) runs() string {
	entries, err := os.ReadDir(k.opts.Dir)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode() != 0o600 {
			k.t.Errorf("%s has mode %s (%v)", e.Name(), info.Mode(), err)
		}
	}
	var names []string
	for _, f := range k.kept {
		text, err := k.Read(f.run)
		if text == nil { // removed by another program
			continue
		}
		if err != nil || !strings.Contains(string(text), `"run":"`+f.run+`"`) {
			k.t.Errorf("the recording of %s is %s (%v)", f.run, text, err)
		}
		names = append(names, f.run)
	}
	if len(entries) != len(names) {
		k.t.Errorf("%d files of %d recordings", len(entries), len(names))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (k *kept) want(want string) {
	k.t.Helper()
	if got := k.runs(); got != want {
		k.t.Errorf("recorded are %q, want %q; log:\n%s", got, want, k.log.String())
	}
}

const someContexts = `[{"binding":"maps","type":"Event","object":{"kind":"ConfigMap","data":{"a":"hunter22"}}}]`

// Line 7: which runs are recorded, and their bounds.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &hook.Hook{Name: "a.sh"}, &hook.Hook{Name: "b.sh"}
		all, none := &hook.Hook{Name: "all.sh"}, &hook.Hook{Name: "none.sh"}
		all.Settings.Record, none.Settings.Record = hook.RecordAll, hook.RecordNone
		k := newRecorder(t, Options{})
		k.run(a, "1-1", true, someContexts)
		k.run(a, "1-2", true, `[{"binding": "`+strings.Repeat("x", block)+`"}]`) // replaces the failure before it
		k.run(a, "1-2", true, someContexts)                                      // also if it is shorter
		k.run(a, "2-1", false, someContexts)
		k.run(b, "3-1", true, someContexts)
		k.run(all, "4-1", false, someContexts)
		k.run(all, "5-1", true, someContexts)
		k.run(none, "6-1", true, someContexts)
		k.want("1-2 3-1 4-1 5-1")

		soon := time.Now().Add(time.Minute)
		if k.RecordAll(none, soon, false) || !k.RecordAll(a, soon, true) || len(k.until) > 0 {
			t.Error("a dry run has recorded, or a hook of which nothing is recorded")
		}
		k.RecordAll(a, time.Now().Add(10*time.Minute), false)
		k.run(a, "7-1", false, someContexts)
		k.run(a, "8-1", true, someContexts)
		k.run(b, "9-1", false, someContexts)
		k.want("1-2 3-1 4-1 5-1 7-1 8-1")
		time.Sleep(30 * time.Minute)
		k.run(a, "10-1", false, someContexts)
		k.run(b, "11-1", true, someContexts)
		k.want("1-2 11-1 4-1 5-1 7-1 8-1")

		// A size of five blocks: the oldest are removed. One that is larger is not recorded.
		k.limit = 5 * block
		for i := range 6 {
			k.run(all, fmt.Sprintf("2%d-1", i), false, someContexts)
		}
		k.want("21-1 22-1 23-1 24-1 25-1")
		k.run(all, "30-1", false, `[{"binding": "`+strings.Repeat("x", 5*block)+`"}]`)
		k.run(all, "31-1", false, `[{"binding": "`+strings.Repeat("x", 5*block-50)+`"}]`) // with the rest of the recording
		k.run(all, "32-1", false, `not contexts`)
		k.want("21-1 22-1 23-1 24-1 25-1")
		for _, want := range []string{"run=30-1 error=\"it is larger than", "run=31-1 error=\"it is larger than",
			"run=32-1 error=\"cannot read the binding contexts"} {
			if !strings.Contains(k.log.String(), want) {
				t.Errorf("the log has no %s:\n%s", want, k.log.String())
			}
		}
		if err := os.RemoveAll(k.opts.Dir); err != nil { // a cleaner of temporary files
			t.Fatal(err)
		}
		if text, err := k.Read("25-1"); text != nil || err != nil {
			t.Errorf("got %s, %v", text, err)
		}
		k.run(all, "33-1", false, `[{"binding": "`+strings.Repeat("x", 3*block)+`"}]`)
		k.want("33-1")

		if err := k.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(k.opts.Dir); !os.IsNotExist(err) {
			t.Errorf("the directory is left: %v", err)
		}
		k.run(all, "40-1", false, someContexts) // of a run that ends late

		k = newRecorder(t, Options{})
		path := filepath.Join(t.TempDir(), "contexts")
		if err := os.WriteFile(path, []byte(`[{"binding": "a", "password": "hunter22"}]`), 0o600); err != nil {
			t.Fatal(err)
		}
		k.keepRun(Run{Hook: a, ID: "41-1", Contexts: path, ContextsChanged: true})
		if k.want(""); !strings.Contains(k.log.String(), "the hook has changed or replaced the file") {
			t.Errorf("contexts that the hook has changed: %s", k.log.String())
		}
		k.keepRun(Run{Hook: a, ID: "42-1", Contexts: path, Outputs: workspace.Outputs{Large: io.NewSectionReader(nil, 0, 9<<20)}})
		if k.want(""); !strings.Contains(k.log.String(), "its file of operations is large: 9437184 bytes") {
			t.Errorf("operations that are not in memory: %s", k.log.String())
		}

		k = newRecorder(t, Options{Default: hook.RecordNone})
		k.run(all, "1-1", true, someContexts)
		if k.want(""); k.RecordAll(a, time.Now().Add(time.Hour), false) {
			t.Error("--record=none is overridden")
		}
	})
}

// One recording is written at a time, so that one of them is in memory.
func TestOneRecordingAtATime(t *testing.T) {
	k := newRecorder(t, Options{})
	defer k.Close()
	k.writing.Lock() // a run that is being recorded
	path := filepath.Join(t.TempDir(), "contexts")
	if err := os.WriteFile(path, []byte(someContexts), 0o600); err != nil {
		t.Fatal(err)
	}
	k.keepRun(Run{Hook: &hook.Hook{Name: "failing.sh"}, ID: "1-0", Contexts: path})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		k.keepRun(Run{Hook: &hook.Hook{Name: "all.sh", Settings: hook.Settings{Record: hook.RecordAll}}, ID: "1-1", Contexts: path})
	})
	k.want("")
	k.writing.Unlock()
	waiting.Wait()
	k.want("1-1")
}

// A worker may print in one run what it had in another one.
func TestWorkersRememberSecrets(t *testing.T) {
	kubernetes := func(kind string) []hook.Kubernetes {
		return []hook.Kubernetes{{Kind: kind, Binding: hook.Binding{Name: "other"}}}
	}
	rules := func(resource string) []hook.Admission {
		return []hook.Admission{{Rules: []hook.Rule{{Resources: []string{"pods", resource}}}}}
	}
	worker := hook.Settings{Worker: &hook.Worker{}}
	for name, row := range map[string]struct {
		hook hook.Hook
		want bool
	}{
		"Secrets":            {hook.Hook{Settings: worker, Kubernetes: kubernetes("Secret")}, true},
		"HTTP":               {hook.Hook{Settings: worker, HTTP: []hook.HTTP{{}}}, true},
		"reviews of Secrets": {hook.Hook{Settings: worker, Validating: rules("secrets")}, true},
		"reviews of all":     {hook.Hook{Settings: worker, Mutating: rules("*/*")}, true},
		"other reviews":      {hook.Hook{Settings: worker, Mutating: rules("nodes")}, false},
		"other objects":      {hook.Hook{Settings: worker, Kubernetes: kubernetes("ConfigMap")}, false},
		"a process each":     {hook.Hook{Kubernetes: kubernetes("Secret"), HTTP: []hook.HTTP{{}}, Validating: rules("secrets")}, false},
	} {
		k := newRecorder(t, Options{})
		row.hook.Name = "a.sh"
		k.run(&row.hook, "1-1", true, `[{"binding": "tick", "type": "Schedule"}]`)
		text, err := k.Read("1")
		if got := strings.Contains(string(text), `"withoutValues":"`+secretWorker); err != nil || got != row.want ||
			got == strings.Contains(string(text), `"output":["hunter22"]`) {
			t.Errorf("%s: %v, %s", name, err, text)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRecording(t *testing.T) {
	k := newRecorder(t, Options{})
	defer k.Close()
	const contexts = `[{"binding":"maps","type":"Event","object":{"kind":"ConfigMap"}}]`
	k.run(&hook.Hook{Name: "a.sh"}, "17-2", true, contexts)
	for _, id := range []string{"17-2", "17"} {
		text, err := k.Read(id)
		if err != nil || !Is(text) {
			t.Fatalf("%s: %v", text, err)
		}
		rec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(rec.Hook, rec.Run, rec.Attempt, rec.Result.Exit, rec.WithoutValues, rec.Result.Output,
			rec.Result.Operations, rec.Result.Metrics, rec.Result.Admission)
		if want := "a.sh17-21exit status 1[hunter22] [map[kind:Pod name:hunter22 operation:Delete]] [] map[allowed:true]"; got != want ||
			string(rec.Contexts) != contexts {
			t.Errorf("got  %s\nwant %s\n%s", got, want, rec.Contexts)
		}
	}
	if text, err := k.Read("1"); text != nil || err != nil {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`{"version": 1, "contexts": []}`:    "",
		`{"version": 2, "contexts": {}}`:    "the recording has version 2, this program reads versions up to 1",
		`{"contexts": []}`:                  "it is no recording: its version must be a number from 1",
		`{"version": 1}`:                    "it is no recording: it has no contexts",
		`[{"binding": "a"}]`:                "it is no recording",
		`{"version": 1, "result": []}`:      "it is no recording",
		`{"version": "1", "contexts": null`: "it is no recording",
	} {
		if _, err := Parse([]byte(text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

// FuzzParse: what Parse accepts can be written and parsed again, and whatever Is accepts is no binding context.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"hook":"a","result":{"exit":"e","operations":[{"a":1e400}],"http":{"status":1}},"contexts":[]}`))
	f.Add([]byte(`{"version":1,"contexts":null,"result":{"metrics":[null,[],{}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		rec, err := Parse(text)
		if err != nil {
			return
		}
		again, err := marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(again); err != nil || !Is(again) {
			t.Errorf("%s is no recording: %v", again, err)
		}
	})
}
