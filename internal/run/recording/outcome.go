package recording

import (
	"bytes"
	"encoding/json"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// outcome returns what the files of a run contain, as far as they are valid: the error of the run names what is not. Of a failed hook only
// the operations are kept that are applied nevertheless. addresses are of all operations, and secret reports that one of them or a
// response may have a Secret. No operation is kept as a tree, which takes ten times as much.
func outcome(run *Run, filters *jq.Compiler) (o Outcome, addresses []wire.Operation, secret bool) {
	out := run.Outputs
	patches, err := wire.ParsePatches(out.Patch, filters)
	secret = mayBeOnSecrets(out.Patch, err == nil)
	for i := range patches {
		p := &patches[i]
		form, err := marshal(wire.FormatPatch(p))
		secret = secret || err != nil || hasSecret(form)
		addresses = append(addresses, wire.Operation{Operation: p.Operation.String(), APIVersion: p.APIVersion, Kind: p.Kind,
			Namespace: p.Namespace, Name: p.Name, Subresource: p.Subresource})
		if !run.HookFailed || p.IgnoreHookError {
			o.Operations = append(o.Operations, json.RawMessage(form))
		}
	}
	if out.Result != nil {
		o.File = treeOf(run.File)
	}
	if run.HookFailed {
		return o, addresses, secret
	}
	if metrics, _, err := wire.ParseMetrics(out.Metrics); err == nil {
		for _, m := range metrics {
			o.Metrics = append(o.Metrics, treeOf(m))
		}
	}
	if answer, err := wire.ParseAdmission(out.Admission); err == nil && out.Admission != nil {
		o.Admission = treeOf(wire.FormatAdmission(answer))
	}
	if answer, err := wire.ParseConversion(out.Conversion); err == nil && out.Conversion != nil {
		o.Conversion = treeOf(answer)
	}
	if answer, err := wire.ParseHTTP(out.HTTP); err == nil && out.HTTP != nil {
		o.HTTP = treeOf(wire.FormatHTTP(answer))
	}
	answers, err := marshal([]any{o.Admission, o.Conversion, o.HTTP})
	secret = secret || err != nil || hasSecret(answers)
	return o, addresses, secret
}

// treeOf returns a value as a tree of JSON. What it is called with has no value that JSON lacks.
func treeOf(v any) any {
	text, err := marshal(v)
	if err != nil {
		return nil
	}
	var tree any
	if unmarshal(text, &tree) != nil {
		return nil
	}
	return tree
}

// unmarshal keeps numbers as they are written.
func unmarshal(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// ResultOf returns the result of a run that is not recorded, to compare it.
func ResultOf(
	exit string, operations []wire.Operation, metrics []effect.Metric, admission *wire.Admission, conversion *effect.ConversionAnswer,
	http *wire.HTTP, file *effect.Result,
) Result {
	r := Result{Exit: exit}
	for _, o := range operations {
		r.Operations = append(r.Operations, treeOf(o))
	}
	for _, m := range metrics {
		r.Metrics = append(r.Metrics, treeOf(m))
	}
	r.Admission, r.Conversion, r.HTTP, r.File = treeOf(admission), treeOf(conversion), treeOf(http), treeOf(file)
	return r
}
