package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// LineLogger logs the lines that a hook prints.
type LineLogger struct {
	base   *slog.Logger
	stream string
	// log is derived from base with the first line: most hooks print nothing on one of the streams.
	log   *slog.Logger
	proxy bool
	// pending are the lines of a JSON object that is not complete yet, size is their length and open its brackets.
	pending [][]byte
	size    int
	open    brackets
	// parsed is the size at which the text was last found to be the beginning of an object.
	parsed int
	// inTraceback reports that the pending lines belong to a Python traceback instead.
	inTraceback bool
}

// NewLineLogger returns a LineLogger for one stream of one run. With proxy, it logs JSON objects, on one or several lines, as
// records of their own.
func NewLineLogger(log *slog.Logger, stream string, proxy bool) *LineLogger {
	return &LineLogger{base: log, stream: stream, proxy: proxy}
}

// An object that is not complete after so much text is logged as lines.
const (
	maxObjectLines = 10_000
	maxObjectBytes = 1 << 20
	// maxProxied is the size of an object's fields above which they are logged as one truncated string.
	maxProxied = 10_000
)

// Line logs a line, or keeps it until the JSON object or the traceback that it belongs to is complete.
func (l *LineLogger) Line(line []byte) {
	whole := bytes.TrimRight(line, " \t\r\n")
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	if l.log == nil {
		l.log = l.base.With("output", l.stream)
	}
	if l.inTraceback || len(l.pending) == 0 && string(whole) == traceback {
		l.pending = append(l.pending, bytes.Clone(whole))
		l.size += len(whole)
		began := l.inTraceback
		l.inTraceback = true
		if began && whole[0] != ' ' || len(l.pending) >= maxObjectLines || l.size >= maxObjectBytes {
			l.Close()
		}
		return
	}
	if !l.proxy || len(l.pending) == 0 && line[0] != '{' {
		l.log.Info(string(line))
		return
	}
	l.pending = append(l.pending, bytes.Clone(line))
	l.size += len(line)
	switch closed := l.open.add(line); {
	case closed:
		var object map[string]json.RawMessage
		if json.Unmarshal(l.text(), &object) != nil {
			l.Close()
			return
		}
		l.reset()
		l.object(object)
	case l.open.inString, l.broken(), len(l.pending) >= maxObjectLines, l.size >= maxObjectBytes:
		l.Close()
	}
}

// broken reports whether no JSON object begins with the pending lines. It parses them only when they have doubled: to do
// so with each line takes quadratic time.
func (l *LineLogger) broken() bool {
	if l.size < 2*l.parsed {
		return false
	}
	l.parsed = l.size
	err := json.NewDecoder(bytes.NewReader(l.text())).Decode(new(json.RawMessage))
	return !errors.Is(err, io.ErrUnexpectedEOF)
}

func (l *LineLogger) text() []byte { return bytes.Join(l.pending, []byte("\n")) }

// brackets counts the open ones of a JSON text that comes line by line. No string of it spans lines.
type brackets struct {
	depth    int
	inString bool
}

// add reports whether the outermost bracket has been closed.
func (b *brackets) add(line []byte) (closed bool) {
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case b.inString && c == '\\':
			i++
		case c == '"':
			b.inString = !b.inString
		case b.inString:
		case c == '{', c == '[':
			b.depth++
		case c == '}', c == ']':
			b.depth--
			closed = closed || b.depth <= 0
		}
	}
	return closed
}

// Close logs what is still kept.
func (l *LineLogger) Close() {
	if l.inTraceback {
		l.pending = [][]byte{l.text()}
	}
	for _, line := range l.pending {
		l.log.Info(string(line))
	}
	l.reset()
}

func (l *LineLogger) reset() {
	l.pending, l.size, l.open, l.parsed, l.inTraceback = nil, 0, brackets{}, 0, false
}

func (l *LineLogger) object(object map[string]json.RawMessage) {
	level, msg := slog.LevelInfo, "hook result"
	if text, ok := stringOf(object["level"]); ok {
		level = levelOf(text)
	}
	if text, ok := stringOf(object["msg"]); ok {
		msg = text
	}
	for _, own := range []string{"level", "msg", "time"} {
		delete(object, own)
	}
	attrs := []slog.Attr{slog.Bool("proxyJsonLog", true)}
	if rest, _ := json.Marshal(object); len(rest) > maxProxied {
		attrs = append(attrs, slog.String("hook_truncated", string(rest[:maxProxied])+":truncated")) // hook is the hook's name
	} else {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			attrs = append(attrs, slog.Any("hook_"+name, object[name]))
		}
	}
	l.log.LogAttrs(context.Background(), level, msg, attrs...)
}

func stringOf(raw json.RawMessage) (string, bool) {
	var s string
	ok := len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil
	return s, ok
}

func levelOf(text string) slog.Level {
	switch strings.ToLower(text) {
	case "trace":
		return slog.LevelDebug - 4
	case "debug":
		return slog.LevelDebug
	case "warn", "warning":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	case "fatal":
		return slog.LevelError + 4
	}
	return slog.LevelInfo
}
