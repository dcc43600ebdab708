// Recorder is the hook of the chaos tests. It records what it received, misbehaves as the test requests, and
// hands back copies of objects.
//
// Everything that it needs lies in $CHAOS_DIR: HOOK.yaml is its configuration, HOOK.act what it does wrong, once for
// each line, HOOK.record what it has seen.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/test/chaos/record"
)

func main() {
	do := run
	if os.Getenv("HOOK_WORKER_FD") != "" {
		do = serve
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "recorder:", err)
		os.Exit(1)
	}
}

func run() error {
	own := filepath.Join(os.Getenv("CHAOS_DIR"), filepath.Base(os.Args[0]))
	if len(os.Args) > 1 && os.Args[1] == "--config" {
		config, err := os.ReadFile(own + ".yaml")
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(config)
		return err
	}
	contexts, err := read(os.Getenv("BINDING_CONTEXT_PATH"))
	if err != nil {
		return err
	}
	line := record.Line{
		Operator: os.Getenv("CHAOS_OPERATOR"), Run: fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano()), At: time.Now().UnixNano(),
		Act: nextAct(own + ".act"),
	}
	for _, c := range contexts {
		line.Contexts = append(line.Contexts, c.short())
	}
	if err := record.Append(own+".record", line); err != nil {
		return err
	}
	if err := misbehave(line.Act, own); err != nil {
		return err
	}
	if spoils(line.Act) {
		return nil // the operator cannot take such a run for a good one, and neither does the record
	}
	if to := os.Getenv("CHAOS_MIRROR"); to != "" && filepath.Base(own) == "mirror" {
		if err := mirror(contexts, to); err != nil {
			return err
		}
	}
	return record.Append(own+".record", record.Line{Operator: line.Operator, Run: line.Run, At: time.Now().UnixNano(), Done: true})
}

// context is a binding context as the operator writes it.
type context struct {
	Binding, Type, GroupName, WatchEvent string
	Object                               *object
	FilterResult                         *filtered
	Objects                              *[]item
	Snapshots                            map[string][]item
}

type item struct {
	Object       *object
	FilterResult *filtered
}

type object struct {
	Kind     string
	Metadata struct {
		Namespace, Name, UID string
		Annotations          map[string]string
	}
}

// filtered is what the filters of the tests make of an object.
type filtered struct {
	Namespace, Kind, Name, UID string
	Count                      int
}

func (i item) state() record.State {
	switch {
	case i.FilterResult != nil:
		return record.State(*i.FilterResult)
	case i.Object != nil:
		m := i.Object.Metadata
		count, _ := strconv.Atoi(m.Annotations["count"])
		return record.State{Namespace: m.Namespace, Kind: i.Object.Kind, Name: m.Name, UID: m.UID, Count: count}
	}
	return record.State{}
}

func states(items []item) []record.State {
	all := make([]record.State, len(items))
	for i, it := range items {
		all[i] = it.state()
	}
	return all
}

func (c context) short() record.Context {
	short := record.Context{Binding: c.Binding, Type: c.Type, Group: c.GroupName, Watch: c.WatchEvent}
	if c.Object != nil || c.FilterResult != nil {
		s := item{c.Object, c.FilterResult}.state()
		short.Object = &s
	}
	if c.Objects != nil {
		short.HasObjects, short.Objects = true, states(*c.Objects)
	}
	for name, items := range c.Snapshots {
		if short.Snapshots == nil {
			short.Snapshots = map[string][]record.State{}
		}
		short.Snapshots[name] = states(items)
	}
	return short
}

func read(path string) (contexts []context, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return contexts, json.Unmarshal(text, &contexts)
}

// mirror requests a copy of every object, and the deletion of copies of deleted objects.
func mirror(contexts []context, to string) error {
	var out strings.Builder
	put := func(s record.State) {
		if s.Count == 0 {
			return // not the test's
		}
		// Two objects in each run: one without the other would be a half-applied request.
		for _, part := range []string{"left", "right"} {
			fmt.Fprintf(&out,
				`{"operation":"CreateOrUpdate","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q,`+
					`"annotations":{"count":"%d"}}}}`+"\n", to, s.Name+"."+part, s.Count)
		}
	}
	remove := func(name string) {
		for _, part := range []string{"left", "right"} {
			fmt.Fprintf(&out, `{"operation":"Delete","apiVersion":"v1","kind":"ConfigMap","namespace":%q,"name":%q}`+"\n", to, name+"."+part)
		}
	}
	for _, c := range contexts {
		switch {
		case c.Objects != nil:
			exists := map[string]bool{}
			for _, it := range *c.Objects {
				exists[it.state().Name] = true
				put(it.state())
			}
			for _, copied := range c.Snapshots["copies"] {
				if name, _, _ := strings.Cut(copied.state().Name, "."); !exists[name] {
					remove(name)
				}
			}
		case c.WatchEvent == "Deleted":
			remove(c.Object.Metadata.Name)
		case c.Object != nil:
			put(item{c.Object, nil}.state())
		}
	}
	return os.WriteFile(os.Getenv("KUBERNETES_PATCH_PATH"), []byte(out.String()), 0o600)
}
