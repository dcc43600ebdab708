package simulate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// Actual returns the result in the form of expectations.
func (r *Result) Actual() (*testfile.Actual, error) {
	a := &testfile.Actual{
		Runs: r.Runs, Exit: r.Exit, Stdout: r.Stdout, Stderr: r.Stderr, Calls: r.Calls, HTTP: expectedHTTP(r.HTTP),
		Present: func(ref string) bool { _, err := findIn(r.server, ref); return err == nil },
		Object:  r.expectedObject, Missing: r.missingObject,
	}
	if r.Err != nil {
		a.Error = r.Err.Error()
	}
	if r.Failed != nil {
		a.Failed = r.Failed.Error()
	}
	var errs []error
	tree := func(form any) any {
		text, err := json.Marshal(form)
		if err == nil {
			form, err = testfile.Tree(text)
		}
		errs = append(errs, err)
		return form
	}
	a.Result, _ = tree(r.File).(map[string]any)
	a.Admission, _ = tree(r.Admission).(map[string]any)
	switch c := r.Conversion; {
	case c == nil:
	case c.Failure != "":
		a.Conversion = map[string]any{"failure": c.Failure}
	default:
		a.Conversion = map[string]any{"objects": tree(append([]json.RawMessage{}, c.Objects...))}
	}
	for _, p := range r.Patches {
		a.Operations = append(a.Operations, tree(wire.FormatPatch(&p)))
	}
	for _, m := range r.Metrics {
		a.Metrics = append(a.Metrics, tree(m))
	}
	return a, errors.Join(errs...)
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
	tree := map[string]any{"status": int64(h.Status), "headers": headers}
	if h.BodyBase64 == nil {
		tree["body"] = h.Body
	}
	return tree
}

// missingObject explains why expectedObject has returned none.
func (r *Result) missingObject(expected map[string]any) string {
	at, known := r.expectedPlace(expected)
	if !known {
		return fmt.Sprintf("there is no %s %s, and the kind is unknown: no object has it, and no CRD among the objects defines it",
			at.Kind.Kind, at.Name)
	}
	return missing(r.server, at)
}

// expectedObject returns the object of the cluster for an expected one.
func (r *Result) expectedObject(expected map[string]any) any {
	at, known := r.expectedPlace(expected)
	if !known {
		return nil
	}
	o, found := r.server.Get(at)
	if !found {
		return nil
	}
	tree, err := testfile.Tree(o.JSON)
	if err != nil {
		return err.Error()
	}
	return tree
}

// expectedPlace returns where an expected object would be.
func (r *Result) expectedPlace(expected map[string]any) (at memory.Object, known bool) {
	kind, _ := expected["kind"].(string)
	metadata, _ := expected["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	apiVersion, _ := expected["apiVersion"].(string)
	k, known := r.server.Resolve(apiVersion, kind)
	if !known {
		k.Kind = kind
	}
	if k.Namespaced {
		namespace = cmp.Or(namespace, "default")
	} else {
		namespace = ""
	}
	return memory.Object{Kind: k, Namespace: namespace, Name: name}, known
}
