package process

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// logged returns the records that are made of what a hook prints, one a line, and of the end of the run.
func logged(proxy bool, level slog.Level, printed string) string {
	var out bytes.Buffer
	l := NewLineLogger(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})), "stdout", proxy)
	for line := range strings.SplitSeq(printed, "\n") {
		l.Line([]byte(line))
	}
	l.Close()
	return out.String()
}

const everything = slog.LevelDebug - 8

// TestLogLines compares the records of what hooks print with testdata/log.golden.
func TestLogLines(t *testing.T) {
	var all strings.Builder
	for _, test := range []struct {
		name, printed string
		proxy         bool
	}{
		{name: "plain", printed: "one\n  two \r\n\n \nthree"},
		{name: "tracebacks", proxy: true,
			printed: "{\"a\":1}\n" + traceback + "\n  File \"a.py\"\n\n    run()\r\nKeyError: 'a'\nafter\n" +
				"Traceback (most recent call last):\n  File"},
		{name: "JSON without proxy", printed: `{"level":"error","msg":"x"}`},
		{name: "one object", proxy: true,
			printed: `{"level":"warn","msg":"quota low","time":"2024-05-05T10:00:00Z","left":3,"source":"quota.py:7"}`},
		{name: "fields come sorted, values stay JSON", proxy: true,
			printed: `{"z":{"y":[1,{"x":null}]},"a":1.50,"n":12345678901234567890}`},
		{name: "an object on several lines between others", proxy: true,
			printed: "before\n{\n  \"msg\": \"long\",\n  \"in\": {\n  }\n}\nafter"},
		{name: "two objects", proxy: true, printed: "{\"msg\":\"one\"}\n{\"msg\":\"two\"}"},
		{name: "level and msg that are no text", proxy: true, printed: `{"level":30,"msg":null,"a":1}`},
		{name: "JSON that is no object", proxy: true, printed: "[1,2]\n\"text\"\n7"},
		{name: "what is no object does not keep the next one", proxy: true,
			printed: "{not JSON\n{oops}\n{\"a\":1} {}\n{\"msg\":\"x\"}"},
		{name: "several lines that are no object", proxy: true, printed: "{\n\"a\": oops\n}\n{\"msg\":\"x\"}"},
		{name: "brackets and quotes in strings", proxy: true, printed: "{\n\"a\": \"}\\\"]\\\\\",\n\"b\": [{}\n]\n}"},
		{name: "a bracket before an object", proxy: true, printed: "{\n{\"msg\":\"x\"}\n{\"msg\":\"y\"}"},
		{name: "an object that never ends is lines", proxy: true, printed: "{\"a\":1,\n\"b\":2"},
	} {
		fmt.Fprintf(&all, "# %s\n%s\n\n", test.name, strings.TrimSpace(logged(test.proxy, everything, test.printed)))
	}
	golden.Compare(t, "testdata/log.golden", all.String())
}

func TestProxiedLevels(t *testing.T) {
	for level, want := range map[string]string{
		"trace": "DEBUG-4", "debug": "DEBUG", "info": "INFO", "Warn": "WARN", "WARNING": "WARN",
		"error": "ERROR", "fatal": "ERROR+4", "loud": "INFO", "": "INFO",
	} {
		got := logged(true, everything, fmt.Sprintf(`{"level":%q}`, level))
		if !strings.HasPrefix(got, fmt.Sprintf(`{"level":%q,`, want)) {
			t.Errorf("%q is logged as %s", level, got)
		}
	}
	if got := logged(true, slog.LevelInfo, `{"level":"debug","msg":"x"}`); got != "" {
		t.Errorf("below the logger's level, but logged: %s", got)
	}
}

// What belongs together is not kept for ever when it never becomes an object.
func TestUnfinishedObjectIsLimited(t *testing.T) {
	for name, line := range map[string]string{"lines": "1,", "bytes": strings.Repeat("1", 1000) + ","} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			l := NewLineLogger(slog.New(slog.NewTextHandler(&out, nil)), "stdout", true)
			l.Line([]byte(`{"a":[`))
			for range maxObjectLines - 2 {
				if l.Line([]byte(line)); out.Len() > 0 {
					break
				}
			}
			if name == "lines" && out.Len() > 0 {
				t.Error("it was given up too early")
			}
			if l.Line([]byte(line)); out.Len() == 0 || l.size > 2*maxObjectBytes {
				t.Errorf("%d bytes are kept", l.size)
			}
		})
	}
}

func TestLargeObjectIsCut(t *testing.T) {
	text := strings.Repeat("x", maxProxied)
	got := logged(true, everything, `{"msg":"big","text":"`+text+`"}`)
	want := `{"level":"INFO","msg":"big","output":"stdout","proxyJsonLog":true,"hook_truncated":"{\"text\":\"` +
		text[:maxProxied-len(`{"text":"`)] + `:truncated"}` + "\n"
	if got != want {
		t.Errorf("got %d bytes, want %d: %.200s", len(got), len(want), got)
	}
}

// Lines from the reader are only valid until the next; an object keeps copies.
func TestObjectKeepsCopies(t *testing.T) {
	var out bytes.Buffer
	l := NewLineLogger(slog.New(slog.NewTextHandler(&out, nil)), "stdout", true)
	line := []byte(`{"a":1,`)
	l.Line(line)
	copy(line, "xxxxxxx")
	l.Line([]byte(`"b":2}`))
	if !strings.Contains(out.String(), "proxyJsonLog=true") {
		t.Errorf("got %s", out.String())
	}
}

// The cost of an object grows with its length only, however many of its lines look like its end.
func TestLongObjectIsParsedFewTimes(t *testing.T) {
	l := NewLineLogger(slog.New(slog.DiscardHandler), "stdout", true)
	line := fmt.Appendf(nil, `,{%q:%q}`, strings.Repeat("k", 34), strings.Repeat("v", 60))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l.Line([]byte(`{"a":[{}`))
	for range maxObjectLines - 10 {
		l.Line(line)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 20<<20 {
		t.Errorf("%d MiB were allocated for 1 MiB of output", got>>20)
	}
}
