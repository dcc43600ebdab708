package wire

import (
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Context is one binding context: an event and snapshots.
type Context struct {
	Event event.Event
	// Previous is the state of the object that the hook has seen before, for a Change of a binding with IncludePrevious; nil if it has not.
	Previous *event.Object
	// Objects is the initial list of a Synchronization, nil otherwise.
	Objects event.Snapshot
	// Snapshots are the included ones, in order.
	Snapshots []NamedSnapshot
	// Review is the review as JSON text, for Validating, Mutating and Conversion.
	Review []byte
	// Request is the request of an HTTP event.
	Request *event.Request
	// Step is the requested conversion, with the versions as in the configuration.
	Step hook.ConversionStep
}

// NamedSnapshot is a snapshot and its name in "snapshots".
type NamedSnapshot struct {
	Name     string
	Snapshot event.Snapshot
}

// WriteContexts writes the file at BINDING_CONTEXT_PATH: a JSON array and a newline. Objects are written byte by byte; a
// Gatherer receives them without a copy. It fails when w or a payload fails.
func WriteContexts(w io.Writer, form hook.ContextForm, contexts iter.Seq[Context]) error {
	nothing := func() {}
	return writeContexts(newOutput(w), form, contexts, nothing, nothing)
}

// writeContexts calls before and after around each context.
func writeContexts(w output, form hook.ContextForm, contexts iter.Seq[Context], before, after func()) error {
	out := &contextWriter{w: w}
	out.raw("[")
	separator := ""
	for c := range contexts {
		out.raw(separator)
		separator = ","
		before()
		out.context(form, &c)
		after()
	}
	out.raw("]\n")
	if out.err != nil {
		return out.err
	}
	return w.Flush()
}

// ContextSize is the number of bytes that WriteContexts writes for a context. It reads no payload.
func ContextSize(form hook.ContextForm, c Context) int {
	size := &counting{}
	(&contextWriter{w: size}).context(form, &c)
	return size.n
}

// counting is an output that only counts.
type counting struct{ n int }

func (c *counting) Write(p []byte) (int, error)       { c.n += len(p); return len(p), nil }
func (c *counting) WriteString(s string) (int, error) { c.n += len(s); return len(s), nil }
func (c *counting) share(p []byte)                    { c.n += len(p) }
func (c *counting) Flush() error                      { return nil }

// contextWriter writes JSON and keeps its first error; the output keeps its own.
type contextWriter struct {
	w       output
	scratch []byte
	err     error
}

func (o *contextWriter) raw(s string) { _, _ = o.w.WriteString(s) }

func (o *contextWriter) quoted(s string) {
	quoted, err := jsontext.AppendQuote(o.scratch[:0], s)
	if err != nil && o.err == nil {
		// Invalid UTF-8 has been replaced; names of hooks and bindings come from JSON and have none.
		o.err = fmt.Errorf("cannot write %q as JSON: %w", s, err)
	}
	o.scratch = quoted
	_, _ = o.w.Write(quoted)
}

func (o *contextWriter) field(name, value string) {
	o.raw(`,"` + name + `":`)
	o.quoted(value)
}

func (o *contextWriter) payload(name string, p event.Payload) {
	if size, ok := o.w.(*counting); ok {
		size.n += len(`"":`) + len(name) + p.Len()
		return
	}
	text, err := p.Bytes()
	if err != nil {
		if o.err == nil {
			o.err = fmt.Errorf("cannot read back %s of a waiting event: %w", name, err)
		}
		return
	}
	o.raw(`"`)
	o.raw(name)
	o.raw(`":`)
	o.w.share(text)
}

func (o *contextWriter) context(form hook.ContextForm, c *Context) {
	if form == hook.NameContexts {
		o.names(c)
	} else {
		o.full(c)
	}
}

// names writes a context of version 0.
func (o *contextWriter) names(c *Context) {
	o.raw(`{"binding":`)
	o.quoted(c.Event.Binding().Name)
	if c.Event.Type == event.Change {
		o.field("resourceEvent", legacyWatch[c.Event.Watch])
		o.field("resourceNamespace", c.Event.Object.Namespace)
		o.field("resourceKind", c.Event.Object.Kind)
		o.field("resourceName", c.Event.Object.Name)
	}
	o.raw("}")
}

var legacyWatch = map[event.Watch]string{event.Added: "add", event.Modified: "update", event.Deleted: "delete"}

func (o *contextWriter) full(c *Context) {
	binding := c.Event.Binding()
	o.raw(`{"binding":`)
	o.quoted(binding.Name)
	switch {
	case c.Event.Type == event.Startup:
	case binding.Group != "" && groups(c.Event.Type):
		o.raw(`,"type":"Group"`)
		o.field("groupName", binding.Group)
	case c.Event.Type == event.Tick && c.Event.Watch == event.Requeued:
		o.raw(`,"type":"Requeue"`)
	case c.Event.Type == event.Tick:
		o.raw(`,"type":"Schedule"`)
	case c.Event.Type == event.Synchronization:
		o.raw(`,"type":"Synchronization","objects":`)
		o.snapshot(c.Objects, false)
		if c.Event.Hook.Kubernetes[c.Event.Index].Finalizer != "" {
			o.raw(`,"deleting":`)
			o.snapshot(c.Objects, true)
		}
	case c.Event.Type == event.Change:
		if c.Event.Watch == event.Requeued {
			o.raw(`,"type":"Requeue"`)
		} else {
			o.raw(`,"type":"Event","watchEvent":"` + c.Event.Watch.String() + `"`)
		}
		if c.Event.Object.Full != nil {
			o.raw(",")
			o.payload("object", c.Event.Object.Full)
		}
		if c.Event.Object.Filtered != nil {
			o.raw(",")
			o.payload("filterResult", c.Event.Object.Filtered)
		}
		if c.Event.Hook.Kubernetes[c.Event.Index].IncludePrevious {
			o.previous(c)
		}
	default:
		o.review(c)
	}
	if len(c.Snapshots) > 0 {
		o.raw(`,"snapshots":{`)
		for i, s := range c.Snapshots {
			if i > 0 {
				o.raw(",")
			}
			o.quoted(s.Name)
			o.raw(":")
			o.snapshot(s.Snapshot, false)
		}
		o.raw("}")
	}
	o.raw("}")
}

// previous writes what the hook has seen before. Of an object that is new, and of one that has not changed, that is null.
func (o *contextWriter) previous(c *Context) {
	k := &c.Event.Hook.Kubernetes[c.Event.Index]
	before := event.Object{}
	if w := c.Event.Watch; c.Previous != nil && w != event.Added && w != event.Requeued {
		before = *c.Previous
	}
	write := func(name string, p event.Payload) {
		if o.raw(","); p == nil {
			o.raw(`"` + name + `":null`)
			return
		}
		o.payload(name, p)
	}
	if k.JQFilter != "" {
		write("previousFilterResult", before.Filtered)
	}
	if k.KeepFullObjects {
		write("previousObject", before.Full)
	}
}

// review writes the request that the run answers.
func (o *contextWriter) review(c *Context) {
	o.raw(`,"type":"` + answered[c.Event.Type] + `"`)
	switch c.Event.Type {
	case event.HTTP:
		o.raw(`,"request":`)
		o.request(c.Request)
		return
	case event.Conversion:
		o.field("fromVersion", c.Step.From)
		o.field("toVersion", c.Step.To)
	}
	o.raw(`,"review":`)
	_, _ = o.w.Write(c.Review)
}

// answered are the values of "type" in contexts whose runs answer a request.
var answered = map[event.Type]string{
	event.Validating: "Validating", event.Mutating: "Mutating", event.Conversion: "Conversion", event.HTTP: "HTTP",
}

// groups reports whether a group replaces the type of the context. A group only adds snapshots to reviews.
func groups(t event.Type) bool {
	return t == event.Tick || t == event.Synchronization || t == event.Change
}

// snapshot writes all objects, or only those that are being deleted.
func (o *contextWriter) snapshot(s event.Snapshot, deleting bool) {
	o.raw("[")
	o.inSnapshot(true)
	first := true
	s.Each(func(obj event.Object) bool {
		if deleting && !obj.Deleting {
			return true
		}
		if !first {
			o.raw(",")
		}
		first = false
		o.raw("{")
		if obj.Full != nil {
			o.payload("object", obj.Full)
		}
		if obj.Filtered != nil {
			if obj.Full != nil {
				o.raw(",")
			}
			o.payload("filterResult", obj.Filtered)
		}
		o.raw("}")
		return o.err == nil
	})
	o.inSnapshot(false)
	o.raw("]")
}

// inSnapshot leaves what follows out of the heads.
func (o *contextWriter) inSnapshot(is bool) {
	if n, ok := o.w.(*noting); ok {
		n.inSnapshot = is
	}
}
