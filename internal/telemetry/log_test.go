package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// speak logs a bit of everything. Each record begins with what it shows.
func speak(log *slog.Logger) {
	for _, level := range []slog.Level{LevelTrace, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError, LevelFatal} {
		log.Log(context.Background(), level, "level "+LevelName(level))
	}
	component := log.With("logger", "shell-operator.queue")
	component.Info("component comes first")
	component.With("queue", "main", "hook", "a.sh").Info("fields come sorted", "task", "HookRun", "binding", "pods")
	component.With("hook", "a.sh").Info("last of equal names wins", "hook", "b.sh", "count", 1, "count", 2)

	log.Info("texts", "quotes", `a "b" 'c'`, "line", "a\nb\r\n", "tab", "a\tb", "terminal", "\x1b[31mred", "utf8", "naïve ☃", "empty", "")
	log.Info("message\nof 'two' \x1b[31mlines")
	log.Info("names", "with space", 1, "line\nend", 2, "\x1b[31mred", 3, `"quote"`, 4)
	log.Info("numbers", "int", -1, "uint", uint64(1<<63), "float", 1.5, "big", 1e300, "bool", true)
	log.Info("values", "duration", 1500*time.Millisecond, "error", errors.New("no\nluck"),
		"stringer", &url.URL{Scheme: "https", Host: "example.com"},
		"nil", nil, "list", []string{"a", "b"}, "map", map[string]int{"y": 2, "x": 1}, "html", "<a&b>", "valuer", secret("x"))
	log.Info("groups", slog.Group("request", "method", "GET", slog.Group("user", "name", "ann")), slog.Group("", "inline", true),
		slog.Group("none"))
	log.WithGroup("http").With("status", 200).Info("group of the logger", "path", "/")
	log.Info("JSON", "hook_object", json.RawMessage(`{"b": {"c": [1, {"d": null}], "": true}, "a": "x'y"}`),
		"hook_number", json.RawMessage(`12345678901234567890`), "hook_text", json.RawMessage(`"a\nb"`),
		"hook_none", json.RawMessage(`{}`), "hook_list", json.RawMessage(`[]`), "hook_odd", json.RawMessage(`{"line\nend\u001b[31m": 1}`))
}

// secret is a value that hides itself.
type secret string

func (secret) LogValue() slog.Value { return slog.StringValue("***") }

func TestFormats(t *testing.T) {
	for _, format := range []string{"text", "json", "color"} {
		t.Run(format, func(t *testing.T) {
			var got bytes.Buffer
			speak(NewLogger(&got, LogOptions{Type: format, NoTime: true}))
			golden.Compare(t, "testdata/"+format+".golden", got.String())
		})
	}
}

// One record is one line and one write; as JSON it has every name once.
func TestOneLineEach(t *testing.T) {
	for _, format := range []string{"text", "json", "color"} {
		var w lineWriter
		speak(NewLogger(&w, LogOptions{Type: format}))
		if len(w) < 10 {
			t.Fatalf("%s: %d records", format, len(w))
		}
		for _, record := range w {
			if strings.Count(record, "\n") != 1 || !strings.HasSuffix(record, "\n") {
				t.Errorf("%s: not one line: %q", format, record)
			}
			if format == "json" {
				if err := eachNameOnce(record); err != nil {
					t.Errorf("%v: %s", err, record)
				}
			}
		}
	}
}

// lineWriter keeps writes apart.
type lineWriter []string

func (w *lineWriter) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

func eachNameOnce(object string) error {
	d := json.NewDecoder(strings.NewReader(object))
	seen := map[any]bool{}
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("%q is there twice", name)
		}
		seen[name] = true
		var value any
		if err := d.Decode(&value); err != nil {
			return err
		}
	}
	return nil
}

func TestTime(t *testing.T) {
	now := func() time.Time { return time.Date(2025, 2, 3, 4, 5, 6, 789, time.UTC) }
	for format, want := range map[string]string{
		"text":  "2025-02-03T04:05:06Z INFO msg='hello'\n",
		"color": "2025-02-03T04:05:06Z \x1b[36mINFO\x1b[0m msg='hello'\n",
		"json":  `{"level":"info","msg":"hello","time":"2025-02-03T04:05:06Z"}` + "\n",
		"odd":   "2025-02-03T04:05:06Z INFO msg='hello'\n",
	} {
		var got bytes.Buffer
		NewLogger(&got, LogOptions{Type: format, now: now}).Info("hello")
		if got.String() != want {
			t.Errorf("%s: got %q", format, got.String())
		}
	}
}

func TestParseLevel(t *testing.T) {
	for name, want := range map[string]slog.Level{
		"trace": LevelTrace, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "warning": slog.LevelWarn,
		"error": slog.LevelError, "fatal": LevelFatal, "ERROR": slog.LevelError, "Trace": LevelTrace, "loud": slog.LevelInfo, "": slog.LevelInfo,
	} {
		if got := ParseLevel(name); got != want {
			t.Errorf("%q is %s", name, LevelName(got))
		}
	}
	for _, name := range []string{"trace", "debug", "info", "warn", "error", "fatal"} {
		if got := LevelName(ParseLevel(name)); got != name {
			t.Errorf("%s becomes %s", name, got)
		}
	}
	if got := LevelName(slog.LevelWarn + 1); got != "warn" {
		t.Errorf("a level in between is %s", got)
	}
}

// A change of the level takes effect immediately, also for existing loggers.
func TestLevelChangesAtRunTime(t *testing.T) {
	var level slog.LevelVar
	var w lineWriter
	log := NewLogger(&w, LogOptions{Level: &level, NoTime: true})
	child := log.With("logger", "child").WithGroup("g")
	for _, name := range []string{"error", "info", "debug", "trace", "fatal"} {
		level.Set(ParseLevel(name))
		w = nil
		for _, l := range []*slog.Logger{log, child} {
			l.Log(t.Context(), LevelTrace, "t")
			l.Debug("d")
			l.Info("i")
			l.Warn("w")
			l.Error("e")
			l.Log(t.Context(), LevelFatal, "f")
		}
		want := map[string]int{"trace": 6, "debug": 5, "info": 4, "error": 2, "fatal": 1}[name]
		if len(w) != 2*want {
			t.Errorf("level %s: %d records, want %d:\n%s", name, len(w), 2*want, strings.Join(w, ""))
		}
	}
}

// With debug, records contain their source, unless they set it themselves.
func TestSource(t *testing.T) {
	for format, want := range map[string]string{
		"text": `^DEBUG logger=x msg='hello' source='log_test\.go:\d+' a='1'\n$`,
		"json": `^\{"level":"debug","logger":"x","msg":"hello","source":"log_test\.go:\d+","a":1\}\n$`,
	} {
		var got bytes.Buffer
		NewLogger(&got, LogOptions{Level: slog.LevelDebug, Type: format, NoTime: true}).With("logger", "x").Debug("hello", "a", 1)
		if !regexp.MustCompile(want).MatchString(got.String()) {
			t.Errorf("%s: got %q", format, got.String())
		}
	}
	for format, want := range map[string]string{
		"text": "INFO msg='hello' source='klog'\n",
		"json": `{"level":"info","msg":"hello","source":"klog"}` + "\n",
	} {
		var got bytes.Buffer
		NewLogger(&got, LogOptions{Level: slog.LevelDebug, Type: format, NoTime: true}).Info("hello", "source", "klog")
		if got.String() != want {
			t.Errorf("%s: got %q", format, got.String())
		}
	}
}

func TestKlogGoesTheSameWay(t *testing.T) {
	defer klog.ClearLogger()
	var w lineWriter
	RouteKlog(NewLogger(&w, LogOptions{NoTime: true}), false)
	klog.Warningf("watch of %s ended", "pods")
	klog.ErrorS(errors.New("refused"), "Cannot reach the API server", "host", "example")
	klog.V(6).Info("a request that no setting shows")
	got := strings.Join(w, "")
	want := "INFO msg='watch of pods ended' source='klog'\n" + // klog knows no warnings any more when it has a logger
		"ERROR msg='Cannot reach the API server' err='refused' host='example' source='klog'\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestKlogShowsRequestsWhenAsked(t *testing.T) {
	defer klog.ClearLogger()
	defer func() {
		var level klog.Level
		_ = level.Set("0")
	}()
	var w lineWriter
	RouteKlog(NewLogger(&w, LogOptions{NoTime: true}), true)
	klog.V(6).InfoS("Response", "verb", "GET", "status", 200)
	klog.V(10).Info("curl -v")
	klog.V(11).Info("too much")
	got := strings.Join(w, "")
	want := "INFO msg='Response' source='klog' status='200' verb='GET'\nINFO msg='curl -v' source='klog'\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// What is not UTF-8 does not make a record that JSON readers refuse.
func TestBrokenText(t *testing.T) {
	var got bytes.Buffer
	NewLogger(&got, LogOptions{Type: "json", NoTime: true}).Info("a\xffb", "c\xff", "\xffd")
	if want := "{\"level\":\"info\",\"msg\":\"a\ufffdb\",\"c\ufffd\":\"\ufffdd\"}\n"; got.String() != want {
		t.Errorf("got %q", got.String())
	}
}
