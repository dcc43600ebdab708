package recording

import (
	"bytes"
	"encoding/json"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// outcome returns what the files of a run contain, as far as they are valid: the error of the run names what is not. Of a failed hook only
// the operations are kept that are applied nevertheless; the others are unsent. Those are not kept as trees, which take ten times as much.
func outcome(run *Run, filters *jq.Compiler) (o Outcome, unsent []effect.Patch, valid bool) {
	out := run.Outputs
	patches, err := wire.ParsePatches(out.Patch, filters)
	for i := range patches {
		if !run.HookFailed || patches[i].IgnoreHookError {
			o.Operations = append(o.Operations, treeOf(wire.FormatPatch(&patches[i])))
		} else {
			unsent = append(unsent, patches[i])
		}
	}
	valid = err == nil
	if out.Result != nil {
		o.File = treeOf(wire.FormatResult(run.File))
	}
	if run.HookFailed {
		return o, unsent, valid
	}
	if metrics, _, err := wire.ParseMetrics(out.Metrics); err == nil {
		for _, m := range metrics {
			o.Metrics = append(o.Metrics, treeOf(wire.FormatMetric(m)))
		}
	}
	if answer, err := wire.ParseAdmission(out.Admission); err == nil && out.Admission != nil {
		o.Admission = treeOf(wire.FormatAdmission(answer))
	}
	if answer, err := wire.ParseConversion(out.Conversion); err == nil && out.Conversion != nil {
		o.Conversion = treeOf(wire.FormatConversion(answer))
	}
	if answer, err := wire.ParseHTTP(out.HTTP); err == nil && out.HTTP != nil {
		o.HTTP = treeOf(wire.FormatHTTP(answer))
	}
	return o, unsent, valid
}

// removeTexts removes every text that a hook may have made of what it has read.
func (r *Result) removeTexts() {
	r.Error, r.Output = "", nil
	removeTextsOf[wire.Operation](r.Operations...)
	removeTextsOf[wire.Metric](r.Metrics...)
	removeTextsOf[wire.Admission](r.Admission)
	removeTextsOf[wire.Conversion](r.Conversion)
	removeTextsOf[wire.HTTP](r.HTTP)
	removeTextsOf[wire.Result](r.File)
}

func removeTextsOf[Form any](trees ...any) {
	texts := wire.KeysOf[Form]("text")
	for _, tree := range trees {
		m, _ := tree.(map[string]any)
		for _, key := range texts {
			delete(m, key)
		}
	}
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
	exit string, operations []wire.Operation, metrics []wire.Metric, admission *wire.Admission, conversion *wire.Conversion, http *wire.HTTP,
	file *wire.Result,
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
