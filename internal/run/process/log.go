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

// LineLogger makes log records of the lines that a hook prints.
type LineLogger struct {
	base   *slog.Logger
	stream string
	// log is made of base when there is a line: most hooks print nothing on one of the streams.
	log   *slog.Logger
	proxy bool
	// started are the lines of a JSON object that is not complete yet.
	started [][]byte
	size    int
}

// NewLineLogger returns a LineLogger for one stream of one run. With proxy, JSON objects that the hook
// prints, on one or several lines, become records of their own.
func NewLineLogger(log *slog.Logger, stream string, proxy bool) *LineLogger {
	return &LineLogger{base: log, stream: stream, proxy: proxy}
}

// An object that is not complete after so much text is logged as lines.
const (
	maxObjectLines = 10_000
	maxObjectBytes = 1 << 20
	// maxProxied is the size of an object's fields above which they are logged as one cut text.
	maxProxied = 10_000
)

// Line logs a line, or keeps it until the JSON object that it belongs to is complete.
func (l *LineLogger) Line(line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	if l.log == nil {
		l.log = l.base.With("output", l.stream)
	}
	if !l.proxy || len(l.started) == 0 && line[0] != '{' {
		l.log.Info(string(line))
		return
	}
	l.started = append(l.started, bytes.Clone(line))
	l.size += len(line)
	if len(l.started) == 1 || line[len(line)-1] == '}' {
		text := bytes.Join(l.started, []byte("\n"))
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) == nil {
			l.started, l.size = nil, 0
			l.object(object)
			return
		}
		if broken(text) {
			l.Close()
			return
		}
	}
	if len(l.started) >= maxObjectLines || l.size >= maxObjectBytes {
		l.Close()
	}
}

// broken tells that no JSON object begins like text.
func broken(text []byte) bool {
	err := json.NewDecoder(bytes.NewReader(text)).Decode(new(json.RawMessage))
	return !errors.Is(err, io.ErrUnexpectedEOF)
}

// Close logs what is still kept.
func (l *LineLogger) Close() {
	for _, line := range l.started {
		l.log.Info(string(line))
	}
	l.started, l.size = nil, 0
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
		attrs = append(attrs, slog.Any("hook", map[string]string{"truncated": string(rest[:maxProxied]) + ":truncated"}))
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
