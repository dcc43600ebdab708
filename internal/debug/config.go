package debug

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// LogLevel is the lowest level of records in the log, the one setting that can be changed while the operator runs.
type LogLevel struct {
	level   *slog.LevelVar
	log     *slog.Logger
	initial string

	mu sync.Mutex // guards what follows
	// permanent is what the level goes back to at expires, which is zero if it does not.
	permanent string
	expires   time.Time
	timer     *time.Timer
}

// logLevel is the name of the parameter.
const logLevel = "log.level"

// debugLasts is how long the level debug lasts unless another duration is set.
const debugLasts = 30 * time.Minute

// NewLogLevel returns the parameter of a log. A level that is set for a while ends by a timer, which Close stops.
func NewLogLevel(level *slog.LevelVar, log *slog.Logger) *LogLevel {
	name := telemetry.LevelName(level.Level())
	return &LogLevel{level: level, log: log, initial: name, permanent: name}
}

// Close stops the timer; a temporary level stays.
func (l *LogLevel) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
}

// Set changes the level, for a while if duration is not 0. The record of the change has the fields who.
func (l *LogLevel) Set(name string, duration time.Duration, who ...any) error {
	name = strings.ToLower(name)
	if names := telemetry.LevelNames(); !slices.Contains(names, name) {
		return refuse(http.StatusBadRequest, "%s cannot be %q", logLevel, name).hint("use one of %s", strings.Join(names, ", "))
	}
	if duration == 0 && name == "debug" {
		duration = debugLasts
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
	l.apply(name, who...)
	if duration == 0 {
		l.permanent = name
		return nil
	}
	l.expires = time.Now().Add(duration)
	l.timer = time.AfterFunc(duration, l.expire)
	return nil
}

// expire restores the permanent level, unless another one was set while the timer fired.
func (l *LogLevel) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.expires.IsZero() && !time.Now().Before(l.expires) {
		l.stop()
		l.apply(l.permanent)
	}
}

// apply logs the change at the lower one of both levels, so that the record is never filtered out.
func (l *LogLevel) apply(name string, who ...any) {
	record := func() { l.log.Info("Change log level", append([]any{"value", name}, who...)...) }
	next := telemetry.ParseLevel(name)
	if next <= l.level.Level() {
		defer record()
	} else {
		record()
	}
	l.level.Set(next)
}

func (l *LogLevel) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer, l.expires = nil, time.Time{}
}

type parameterDump struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Default     string `json:"default"`
	Value       string `json:"value"`
	ExpireAt    string `json:"expireAt,omitempty"`
}

func (l *LogLevel) dump() parameterDump {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := parameterDump{Name: logLevel, Description: "Lowest level of records in the log", Default: l.initial,
		Value: telemetry.LevelName(l.level.Level())}
	if !l.expires.IsZero() {
		d.ExpireAt = l.expires.Format(time.RFC3339)
	}
	return d
}

// Topic shows and changes the parameter.
func (l *LogLevel) Topic() Topic {
	return Topic{Name: "config", About: "Show and change runtime parameters", Routes: []Route{
		{Method: "GET", Path: "/config/list", About: "runtime parameters", show: l.list, upstream: true, Command: &Command{
			Use: "config list", Short: "List the runtime parameters",
			Example: "  shell-operator config list\n  shell-operator config list -o json",
		}},
		{Method: "POST", Path: "/config/set", About: "change a parameter: form fields `name`, `value` and optionally `duration`", show: l.set,
			upstream: true, Command: &Command{
				Use: "config set NAME VALUE [DURATION]", Short: "Change a runtime parameter, temporarily or until the operator ends",
				Args:  [][]string{{"name", "value"}, {"name", "value", "duration"}},
				Takes: "a name, a value and perhaps a duration, such as log.level debug 10m",
				Long: `Change a runtime parameter. With a duration the previous value is restored afterwards; without one the
new value stays until the operator ends. The log level debug without a duration is restored after 30 minutes.`,
				Example: "  shell-operator config set log.level debug 10m\n  shell-operator config set log.level warn",
			}},
	}}
}

func (l *LogLevel) list(request) (answer, error) {
	const columns = "%-30s %-20s %-20s %-40s\n"
	d := l.dump()
	text := fmt.Sprintf(columns, "NAME", "VALUE", "EXPIRE AT", "DESCRIPTION") + fmt.Sprintf(columns, d.Name, d.Value, d.ExpireAt,
		d.Description)
	return answer{value: []parameterDump{d}, text: text}, nil
}

// set changes a parameter. It answers as upstream does.
func (l *LogLevel) set(r request) (answer, error) {
	uid, err := actor(r)
	if err != nil {
		return answer{}, err
	}
	r.Body = http.MaxBytesReader(nil, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		return answer{}, refuse(http.StatusBadRequest, "the form cannot be read: %v", err)
	}
	for _, field := range []string{"name", "value"} {
		if r.PostForm.Get(field) == "" {
			return answer{}, refuse(http.StatusBadRequest, "the form field %q is missing", field)
		}
	}
	var duration time.Duration
	if text := r.PostForm.Get("duration"); text != "" {
		if duration, err = time.ParseDuration(text); err != nil || duration <= 0 {
			return answer{}, refuse(http.StatusBadRequest, "the duration %q is not one", text).hint("write for instance 90s, 10m or 1h30m")
		}
	}
	if name := r.PostForm.Get("name"); name != logLevel {
		return answer{}, refuse(http.StatusBadRequest, "there is no parameter %q", name).hint("shell-operator config list names all")
	}
	return answer{plain: true}, l.Set(r.PostForm.Get("value"), duration, "command", "config/set", "arguments", r.PostForm.Encode(), "uid", uid)
}
