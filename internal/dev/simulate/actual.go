package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// Actual returns the result in the form of expectations.
func (r *Result) Actual() (*testfile.Actual, error) {
	a := &testfile.Actual{
		Exit:    r.Exit,
		Present: func(ref string) bool { _, err := find(r.server, ref); return err == nil },
		Known:   r.known,
		Object:  r.expectedObject,
	}
	if r.Err != nil {
		a.Error = r.Err.Error()
	}
	if r.Failed != nil {
		a.Failed = r.Failed.Error()
	}
	operations := make([]wire.Operation, len(r.Patches))
	for i := range r.Patches {
		operations[i] = wire.FormatPatch(&r.Patches[i])
	}
	text, err := json.Marshal(map[string]any{
		"runs": r.Runs, "stdout": append([]string{}, r.Stdout...), "stderr": append([]string{}, r.Stderr...), "operations": operations,
		"metrics": append([]effect.Metric{}, r.Metrics...), "calls": append([][]string{}, r.Calls...),
		"result": cmp.Or(r.File, &effect.Result{}), "admission": r.Admission, "conversion": expectedConversion(r.Conversion),
		"http": expectedHTTP(r.HTTP),
	})
	if err != nil {
		return nil, err
	}
	tree, err := testfile.Tree(text)
	a.Values, _ = tree.(map[string]any)
	return a, err
}

// known reports whether an object of a reference existed at some time, or a run deleted it.
func (r *Result) known(ref string) bool {
	for _, p := range r.Patches {
		if kind, found := r.server.Resolve(p.APIVersion, p.Kind); found && p.Operation.Deletes() &&
			refersTo(ref, memory.Object{Kind: kind, Namespace: p.Namespace, Name: p.Name}) {
			return true
		}
	}
	return slices.ContainsFunc(r.seen, func(o memory.Object) bool { return refersTo(ref, o) })
}

// expectedConversion returns a response in the form of expectations.
func expectedConversion(c *effect.ConversionAnswer) map[string]any {
	switch {
	case c == nil:
		return nil
	case c.Failure != "":
		return map[string]any{"failure": c.Failure}
	}
	return map[string]any{"objects": append([]json.RawMessage{}, c.Objects...)}
}

// expectedHTTP returns a response in the form of expectations, whose headers are texts.
func expectedHTTP(h *wire.HTTP) map[string]any {
	if h == nil {
		return nil
	}
	headers := map[string]any{}
	for name, values := range h.Headers {
		headers[name] = strings.Join(values, ", ")
	}
	tree := map[string]any{"status": h.Status, "headers": headers}
	if h.BodyBase64 == nil {
		tree["body"] = h.Body
	}
	return tree
}

// expectedObject returns the object of the cluster for an expected one, or why there is none.
func (r *Result) expectedObject(expected map[string]any) (object any, why string) {
	kind, _ := expected["kind"].(string)
	metadata, _ := expected["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	apiVersion, _ := expected["apiVersion"].(string)
	k, known := r.server.Resolve(apiVersion, kind)
	if !known {
		return nil, fmt.Sprintf("there is no %s %s, and the kind is unknown: no object has it, and no CRD among the objects defines it",
			kind, name)
	}
	at := memory.Object{Kind: k, Name: name}
	if k.Namespaced {
		at.Namespace = cmp.Or(namespace, "default")
	}
	o, found := r.server.Get(at)
	if !found {
		return nil, missing(r.server, at)
	}
	tree, err := testfile.Tree(o.JSON)
	if err != nil {
		return err.Error(), ""
	}
	return tree, ""
}
