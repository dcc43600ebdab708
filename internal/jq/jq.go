// Package jq compiles a filter once and applies it to many objects, and walks through the text of objects.
//
// Callers may rely on this:
//   - A program of a configuration is compiled once, however many bindings use it. Those that hooks send are not kept.
//   - Equal values give equal bytes: keys are sorted, numbers keep their text.
//   - Every evaluation ends: time, memory and output are limited. The limits do not apply within a single function of jq, such
//     as tojson; inputs of those whose time grows with their square are bounded, but for modules.
//   - Only what filters read is decoded, without an effect on results. Filters that only select values are evaluated without
//     gojq's interpreter.
//   - A filter has no access to the environment, to files but modules, or to further inputs.
//   - Errors show types, and no values. A panic in a filter is an error of the filter.
//
// The dialect is gojq.
package jq

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/itchyny/gojq"
)

// Options of a Compiler.
type Options struct {
	// LibraryPath are directories with modules that filters may import.
	LibraryPath []string
	// Timeout ends one application of a filter; 0 means 5 s.
	Timeout time.Duration
}

// Limits on the result of one application.
const (
	defaultTimeout = 5 * time.Second
	maxOutputs     = 100_000
	maxBytes       = 64 << 20
	maxDepth       = 10_000
)

// Compiler compiles filters. It is safe for concurrent use.
type Compiler struct {
	opts Options

	mu       sync.Mutex
	compiled map[string]*Filter
}

// NewCompiler returns a Compiler.
func NewCompiler(opts Options) *Compiler {
	if opts.Timeout == 0 {
		opts.Timeout = defaultTimeout
	}
	return &Compiler{opts: opts, compiled: map[string]*Filter{}}
}

// Compile returns the filter for a program of a configuration, and keeps it. An error has the reason and the position.
func (c *Compiler) Compile(text string) (*Filter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.compiled[text]; ok {
		return f, nil
	}
	f, err := c.CompileOnce(text)
	if err == nil {
		c.compiled[text] = f
	}
	return f, err
}

// CompileOnce is Compile for a program that a hook has sent, which often contains a value. It takes some 30 µs.
func (c *Compiler) CompileOnce(text string) (*Filter, error) {
	query, err := gojq.Parse(text)
	if err != nil {
		return nil, parseError(text, err)
	}
	if len(query.Imports) > 0 && len(c.opts.LibraryPath) == 0 {
		return nil, fmt.Errorf("cannot import %q: there is no module directory: start the operator with --jq-library-path", modules(query))
	}
	options := []gojq.CompilerOption{gojq.WithEnvironLoader(func() []string { return nil })}
	if len(c.opts.LibraryPath) > 0 {
		options = append(options, gojq.WithModuleLoader(gojq.NewModuleLoader(c.opts.LibraryPath)))
	}
	f := &Filter{timeout: c.opts.Timeout, inUse: inUse, reads: everything}
	if len(c.opts.LibraryPath) == 0 { // modules may redefine functions
		if direct, reads, ok := compileDirect(query); ok {
			f.direct, f.reads = &direct, reads
		}
	}
	f.slow = bound(reflect.ValueOf(query), map[string]bool{}) || len(query.Imports) > 0
	if f.code, err = gojq.Compile(query, options...); err != nil {
		return nil, err
	}
	return f, nil
}

func parseError(text string, err error) error {
	var parse *gojq.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	before := text[:min(len(text), parse.Offset)]
	line := 1 + strings.Count(before, "\n")
	column := len(before) - strings.LastIndexByte(before, '\n')
	return fmt.Errorf("%w at line %d, column %d", err, line, column)
}

func modules(q *gojq.Query) string {
	var names []string
	for _, i := range q.Imports {
		names = append(names, i.ImportPath+i.IncludePath)
	}
	return strings.Join(names, ", ")
}

// Filter is a compiled program. It is safe for concurrent use.
type Filter struct {
	code    *gojq.Code
	timeout time.Duration
	inUse   func() uint64
	// direct is nil if only gojq can evaluate the filter.
	direct *code
	// reads has the members that direct reads; without direct all.
	reads *Need
	// slow reports native functions, which ignore the budget.
	slow bool
}

// Slow reports that the filter has a function that no limit of time ends, or imports modules, which may have one.
func (f *Filter) Slow() bool { return f.slow }

// Apply returns the result for a decoded value as JSON text: null for no output, the output for one, an array for
// more.
func (f *Filter) Apply(ctx context.Context, v any) (text []byte, err error) {
	defer recovered(&err)
	if text, ok := f.applyDirectly(v); ok {
		return text, nil
	}
	return f.applyByGojq(ctx, v)
}

// recovered turns a panic into an error of the filter. The text of a panic may contain values, unless it is a runtime.Error.
func recovered(err *error) {
	r := recover()
	if r == nil {
		return
	}
	*err = errors.New("the filter causes a panic in the jq library, which is a bug: rewrite the filter")
	if bug, ok := r.(runtime.Error); ok {
		*err = fmt.Errorf("%w (%w)", *err, bug)
	}
}

// applyDirectly returns false when only gojq can compute the result.
func (f *Filter) applyDirectly(v any) (text []byte, ok bool) {
	if f.direct == nil {
		return nil, false
	}
	var m machine
	if f.direct.one != nil {
		out, ok := f.direct.one(&m, v)
		if !ok {
			return nil, false
		}
		text, err := marshalOne(out)
		return text, err == nil
	}
	outputs, ok := f.direct.outputs(&m, v)
	if !ok {
		return nil, false
	}
	text, err := marshal(outputs)
	return text, err == nil
}

// applyByGojq evaluates the filter with gojq.
func (f *Filter) applyByGojq(ctx context.Context, v any) ([]byte, error) {
	b := newBudget(ctx, f.timeout, f.inUse)
	text, err := f.evaluate(b, v)
	for try := 0; try < maxTries && errors.Is(err, errTooBig) && !b.released(); try++ {
		b = newBudget(ctx, f.timeout, f.inUse)
		text, err = f.evaluate(b, v)
	}
	return text, err
}

func (f *Filter) evaluate(b *budget, v any) ([]byte, error) {
	var outputs []any
	iter := f.code.RunWithContext(b, v)
	for {
		out, ok := iter.Next()
		if !ok {
			break
		}
		if err, failed := out.(error); failed {
			var halt *gojq.HaltError
			if errors.As(err, &halt) && halt.Value() == nil {
				break // halt is no error
			}
			if errors.Is(err, errTooLong) {
				return nil, fmt.Errorf("the filter takes longer than %s: simplify it", f.timeout)
			}
			return nil, withoutValues(err)
		}
		if outputs = append(outputs, out); len(outputs) > maxOutputs {
			return nil, fmt.Errorf("the filter has more than %d outputs: does it end?", maxOutputs)
		}
	}
	return marshal(outputs)
}

func marshal(outputs []any) ([]byte, error) {
	var result any = outputs
	switch len(outputs) {
	case 0:
		result = nil
	case 1:
		result = outputs[0]
	}
	return marshalOne(result)
}
