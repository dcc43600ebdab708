package debug

import (
	"bufio"
	"fmt"
	"io"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/httpserver"
	"github.com/shell-operator/shell-operator/internal/source/watch"
)

// operations counts what happened to the objects of a binding, in the words of dumps.
type operations struct {
	SinceStart         tally `json:"sinceStart"`
	SinceLastExecution tally `json:"sinceLastExecution"`
}

type tally struct {
	Count    int `json:"count"`
	Added    int `json:"added"`
	Deleted  int `json:"deleted"`
	Modified int `json:"modified"`
	Cleaned  int `json:"cleaned"`
}

func tallyOf(c watch.Changes, objects int) tally {
	return tally{Count: objects, Added: c.Added, Deleted: c.Deleted, Modified: c.Modified}
}

// writeSnapshots writes object by object, because a snapshot may be too large to be held twice.
func writeSnapshots(out io.Writer, bindings bindingReader, h *hook.Hook) error {
	if len(h.Kubernetes) == 0 {
		_, err := io.WriteString(out, "null\n")
		return err
	}
	w := bufio.NewWriterSize(out, 64<<10)
	used, before := map[string]int{}, "{"
	for i := range h.Kubernetes {
		b := bindings.Binding(h, i)
		name := h.Kubernetes[i].Name
		if used[name]++; used[name] > 1 {
			name = fmt.Sprintf("%s#%d", name, used[name]) // a key must be unique
		}
		key, err := marshal(name)
		if err != nil {
			return err
		}
		ops, err := marshal(operations{tallyOf(b.Total, b.Objects.Len()), tallyOf(b.Recent, 0)})
		if err != nil {
			return err
		}
		_, _ = w.WriteString(before)
		before = ","
		_, _ = w.Write(key)
		_, _ = w.WriteString(`:{"snapshot":[`)
		if err := writeObjects(w, b.Objects); err != nil {
			return err
		}
		_, _ = w.WriteString(`],"operations":`)
		_, _ = w.Write(ops)
		_, _ = w.WriteString("}")
	}
	_, _ = w.WriteString("}\n")
	return w.Flush() // it keeps the first error
}

func writeObjects(w *bufio.Writer, objects event.Snapshot) (err error) {
	before := "{"
	objects.Each(func(o event.Object) bool {
		separator := ""
		_, _ = w.WriteString(before)
		before = ",{"
		for _, part := range []struct {
			name    string
			payload event.Payload
		}{{"object", o.Full}, {"filterResult", o.Filtered}} {
			if part.payload == nil {
				continue
			}
			var text []byte
			if text, err = part.payload.Bytes(); err != nil {
				return false
			}
			_, _ = w.WriteString(separator + `"` + part.name + `":`)
			_, err = w.Write(httpserver.HideTokensOfObject(text))
			separator = ","
		}
		_, _ = w.WriteString("}")
		return err == nil // the client has disconnected
	})
	return err
}
