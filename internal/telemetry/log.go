// Package telemetry builds the logger of the operator and its metrics.
//
// Callers may rely on this:
//   - A record is one line and one write, in the formats of docs/reference/logs.md.
//   - Fields come sorted by name, so equal records are equal text.
//   - client-go logs through it.
package telemetry

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Levels that slog has no names for.
const (
	LevelTrace = slog.LevelDebug - 4
	LevelFatal = slog.LevelError + 4
)

// LogOptions configure a logger.
type LogOptions struct {
	// Level is the lowest level that is logged; nil means info. It may be changed at any time.
	Level slog.Leveler
	// Type is "text", "json" or "color"; anything else is text.
	Type string
	// NoTime leaves the time out.
	NoTime bool

	now func() time.Time
}

// NewLogger returns a logger that writes to w.
func NewLogger(w io.Writer, o LogOptions) *slog.Logger {
	if o.Level == nil {
		o.Level = slog.LevelInfo
	}
	if o.now == nil {
		o.now = time.Now
	}
	sink := &sink{w: w, opts: o, format: textFormat{}}
	switch o.Type {
	case "json":
		sink.format = jsonFormat{}
	case "color":
		sink.format = textFormat{color: true}
	}
	return slog.New(&handler{sink: sink})
}

// levels are the levels of records, the lowest first.
var levels = []struct {
	name  string
	level slog.Level
}{{"trace", LevelTrace}, {"debug", slog.LevelDebug}, {"info", slog.LevelInfo}, {"warn", slog.LevelWarn}, {"error", slog.LevelError},
	{"fatal", LevelFatal}}

// LevelNames are the names of all levels, the lowest first.
func LevelNames() (names []string) {
	for _, l := range levels {
		names = append(names, l.name)
	}
	return names
}

// ParseLevel returns the level of a name, in any case. Unknown names are info.
func ParseLevel(name string) slog.Level {
	name = strings.ToLower(name)
	for _, l := range levels {
		if l.name == name || l.name == "warn" && name == "warning" {
			return l.level
		}
	}
	return slog.LevelInfo
}

// LevelName is the name of a level, or of the one below it.
func LevelName(level slog.Level) string {
	name := levels[0].name
	for _, l := range levels {
		if level >= l.level {
			name = l.name
		}
	}
	return name
}

// RouteKlog sends client-go's log to log, which NewLogger has made: warnings and errors, and with verbose also requests.
func RouteKlog(log *slog.Logger, verbose bool) {
	if h, ok := log.Handler().(*handler); ok && verbose {
		var level klog.Level
		_ = level.Set(strconv.Itoa(klogVerbosity))
		raising := *h
		raising.klog = true
		log = slog.New(&raising)
	}
	klog.SetSlogLogger(log.With("source", "klog"))
}

// RouteStderr sends lines that libraries and their children write to os.Stderr to log until the returned function is called: client-go
// lets a credential plugin of a kubeconfig write there. Panics do not go through os.Stderr.
func RouteStderr(log *slog.Logger) (restore func()) {
	r, w, err := os.Pipe()
	if err != nil {
		log.Warn("Output of credential plugins is not routed to the log", "error", err.Error())
		return func() {}
	}
	before, read := os.Stderr, make(chan struct{})
	os.Stderr = w
	go func() {
		defer close(read)
		for lines := bufio.NewReader(r); ; {
			line, _, err := lines.ReadLine() // a longer line is several records
			if err != nil {
				return
			}
			if len(line) > 0 {
				log.Warn(string(line), "output", "stderr")
			}
		}
	}()
	return func() {
		os.Stderr = before
		w.Close()
		r.Close() // a child may still have the other end
		<-read
	}
}

// klogVerbosity logs whole requests and responses. The verbosity n of klog is level -n, which is below trace.
const klogVerbosity = 10

// logRecord is a log record with all its fields.
type logRecord struct {
	time   time.Time // zero: not shown
	level  slog.Level
	msg    string
	source string // empty: not shown
	fields []slog.Attr
}

// format writes a record as one line.
type format interface {
	append(buf []byte, r *logRecord) []byte
}

// sink is the writer that derived loggers share.
type sink struct {
	opts   LogOptions
	format format

	mu sync.Mutex // guards w and buf
	w  io.Writer
	// buf is used again for each record.
	buf []byte
}

func (s *sink) write(r *logRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = s.format.append(s.buf[:0], r)
	_, err := s.w.Write(s.buf)
	if cap(s.buf) > 1<<20 {
		s.buf = nil
	}
	return err
}

// handler implements slog.Handler. Groups become dotted prefixes of names.
type handler struct {
	sink   *sink
	prefix string
	// fields are sorted by name, the last of equal names wins.
	fields []slog.Attr
	// klog: records up to klogVerbosity are raised to info.
	klog bool
}

// raised is the level at which a record is logged.
func (h *handler) raised(l slog.Level) slog.Level {
	if h.klog && l >= -klogVerbosity {
		return max(l, slog.LevelInfo)
	}
	return l
}

func (h *handler) Enabled(_ context.Context, l slog.Level) bool {
	return h.raised(l) >= h.sink.opts.Level.Level()
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.fields = merge(h.fields, h.prefix, attrs)
	return &with
}

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	with.prefix += name + "."
	return &with
}

func (h *handler) Handle(_ context.Context, in slog.Record) error {
	r := logRecord{level: h.raised(in.Level), msg: in.Message, fields: h.fields}
	if !h.sink.opts.NoTime {
		r.time = h.sink.opts.now()
	}
	if h.sink.opts.Level.Level() < slog.LevelInfo && in.PC != 0 {
		frame, _ := runtime.CallersFrames([]uintptr{in.PC}).Next()
		r.source = filepath.Base(frame.File) + ":" + strconv.Itoa(frame.Line)
	}
	if in.NumAttrs() > 0 {
		attrs := make([]slog.Attr, 0, in.NumAttrs())
		in.Attrs(func(a slog.Attr) bool {
			attrs = append(attrs, a)
			return true
		})
		r.fields = merge(h.fields, h.prefix, attrs)
	}
	if slices.ContainsFunc(r.fields, func(f slog.Attr) bool { return f.Key == "source" }) {
		r.source = "" // the record has its own
	}
	return h.sink.write(&r)
}

// merge returns sorted fields with attrs added, groups taken apart.
func merge(fields []slog.Attr, prefix string, attrs []slog.Attr) []slog.Attr {
	all := append(make([]slog.Attr, 0, len(fields)+len(attrs)), fields...)
	var add func(prefix string, attrs []slog.Attr)
	add = func(prefix string, attrs []slog.Attr) {
		for _, a := range attrs {
			v := a.Value.Resolve()
			if v.Kind() == slog.KindGroup {
				inner := prefix
				if a.Key != "" {
					inner += a.Key + "."
				}
				add(inner, v.Group())
				continue
			}
			if a.Key == "" {
				continue
			}
			named := slog.Attr{Key: prefix + a.Key, Value: v}
			at, found := slices.BinarySearchFunc(all, named, func(x, y slog.Attr) int { return strings.Compare(x.Key, y.Key) })
			if found {
				all[at] = named
			} else {
				all = slices.Insert(all, at, named)
			}
		}
	}
	add(prefix, attrs)
	return all
}
