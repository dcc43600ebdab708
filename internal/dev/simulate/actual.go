package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
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
		Object:  r.expectedObject, Missing: r.missingObject,
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
