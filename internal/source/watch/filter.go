package watch

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/source/stream"
	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// filtering applies the filters of one binding to objects, and reports the failures.
type filtering struct {
	address
	binding *hook.Kubernetes
	meter   Meter
	log     *slog.Logger
	program *jq.Filter // nil without jqFilter
	// keyProgram is nil unless the binding's queue has a jq key. filters has program and keyProgram, unless nil.
	keyProgram *jq.Filter
	filters    []*jq.Filter
	// filterErrors makes one record a minute of all failures of jqFilter.
	filterErrors, keyErrors logonce.Dedup
	// filterError is the last failure of jqFilter.
	filterError atomic.Pointer[string]
}

// compile compiles the filters of a binding.
func (f *filtering) compile(compiler *jq.Compiler) (err error) {
	b := f.binding
	if b.JQFilter != "" {
		if f.program, err = compiler.Compile(b.JQFilter); err != nil {
			return fmt.Errorf("cannot compile jqFilter of hook %q, binding %q: %w", f.hook.Name, b.Name, err)
		}
		f.filters = append(f.filters, f.program)
	}
	if text := b.Lanes.Key.Filter(); text != "" && b.Group == "" {
		if f.keyProgram, err = compiler.Compile(text); err != nil {
			return fmt.Errorf("cannot compile queue.key of hook %q, binding %q: %w", f.hook.Name, b.Name, err)
		}
		f.filters = append(f.filters, f.keyProgram)
	}
	return nil
}

// null is the result of a filter that failed. No other result has its memory.
var null = []byte("null")

func isFailure(filtered []byte) bool { return len(filtered) > 0 && &filtered[0] == &null[0] }

func (f *filtering) Filter(ctx context.Context, o *stream.Object, content *jq.Object) (r stream.Filtered) {
	if f.program != nil {
		if r.Filtered = f.applyFilter(ctx, o, content); r.Filtered == nil {
			return r
		}
	}
	if f.keyProgram != nil {
		text, err := f.keyProgram.ApplyTo(ctx, content)
		switch {
		case err == nil:
			r.Key = event.KeyText(text)
		case ctx.Err() != nil:
			return stream.Filtered{}
		default:
			f.keyFailed(o, err)
		}
	}
	r.Done = true
	return r
}

func (f *filtering) keyFailed(o *stream.Object, err error) {
	f.meter.KeyFailed(f.hook, f.index, err)
	if _, due := f.keyErrors.Due(err.Error(), ""); due {
		f.log.Error("The key of the queue failed, the key of the object is used; later failures are only counted",
			"queue", f.binding.Queue, "namespace", o.Namespace, "name", o.Name, "kind", o.Kind, "error", err.Error(),
			"hint", "correct queue.key in all bindings of the queue")
	}
}

// applyFilter returns nil when ctx has ended.
func (f *filtering) applyFilter(ctx context.Context, o *stream.Object, content *jq.Object) []byte {
	started := time.Now()
	result, err := f.program.ApplyTo(ctx, content)
	f.meter.Filtered(f.hook, f.index, time.Since(started))
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		f.meter.FilterFailed(f.hook, f.index, err)
		f.filterFailed(o, err.Error())
		return null
	}
	return result
}

func (f *filtering) filterFailed(o *stream.Object, problem string) {
	f.filterError.Store(&problem)
	if before, due := f.filterErrors.Due("filter", ""); due {
		f.log.Error("jqFilter failed, the object's filterResult is null",
			"namespace", o.Namespace, "name", o.Name, "kind", o.Kind, "failures", before+1, "error", problem)
	}
}

// contents returns the parts of an object that events of the binding have.
func (f *filtering) contents(e stream.Digested, keep func([]byte) event.Payload) event.Object {
	o := event.Object{Namespace: e.Object.Namespace, Name: e.Object.Name, Kind: e.Object.Kind}
	if f.binding.KeepFullObjects {
		o.Full = keep(e.Object.JSON)
	}
	if f.program != nil {
		o.Filtered = keep(e.Filtered)
	}
	return o
}

func inMemory(text []byte) event.Payload { return event.Memory(text) }

// laneKey returns the key of an object in the binding's queue, which is keyed.
func (f *filtering) laneKey(group string, e stream.Digested) string {
	o := e.Object
	return event.KeyOf(f.binding.Lanes.Key, event.ObjectName{Group: group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}, e.Key)
}
