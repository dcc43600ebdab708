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

// Parameter is a setting that can be changed while the operator runs.
type Parameter struct {
	Name, Description string
	// Default is the value at the start, Values are those that are allowed.
	Default string
	Values  []string
	// Passing values are temporary, with this duration unless another is set.
	Passing map[string]time.Duration
	// Apply makes a value count.
	Apply func(value string) error
}

// Parameters are all settings that can be changed. Values that are set for a while end by a timer; Close stops the timers.
type Parameters struct {
	mu   sync.Mutex
	list []*parameter
}

type parameter struct {
	Parameter
	// value is what counts; permanent is what it goes back to at expires, which is zero if it does not.
	value, permanent string
	expires          time.Time
	timer            *time.Timer
	// term counts changes, so that an outdated timer is recognized.
	term      int
	lastError string
}

// NewParameters returns parameters with their defaults, which are not applied.
func NewParameters(list ...Parameter) *Parameters {
	p := &Parameters{}
	for _, one := range list {
		p.list = append(p.list, &parameter{Parameter: one, value: one.Default, permanent: one.Default})
	}
	return p
}

// Close stops the timers; temporary values stay.
func (p *Parameters) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.list {
		one.stop()
	}
}

// Set changes a parameter, for a while if duration is not 0.
func (p *Parameters) Set(name, value string, duration time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.list, func(one *parameter) bool { return one.Name == name })
	if i < 0 {
		return refuse(http.StatusBadRequest, "there is no parameter %q: shell-operator config list names all", name)
	}
	one := p.list[i]
	value = strings.ToLower(value)
	if !slices.Contains(one.Values, value) {
		return refuse(http.StatusBadRequest, "%s cannot be %q: use one of %s", name, value, strings.Join(one.Values, ", "))
	}
	if duration == 0 {
		duration = one.Passing[value]
	}
	if err := one.apply(value); err != nil {
		return refuse(http.StatusInternalServerError, "%s is not changed: %v", name, err)
	}
	one.stop()
	if duration == 0 {
		one.permanent = value
		return nil
	}
	one.expires = time.Now().Add(duration)
	term := one.term
	one.timer = time.AfterFunc(duration, func() { p.expire(one, term) })
	return nil
}

// expire restores the permanent value, unless the value was changed again.
func (p *Parameters) expire(one *parameter, term int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.term != term {
		return
	}
	one.stop()
	_ = one.apply(one.permanent) // it has worked before; otherwise lastError has the cause
}

func (one *parameter) apply(value string) error {
	err := one.Apply(value)
	one.lastError = ""
	if err != nil {
		one.lastError = err.Error()
		return err
	}
	one.value = value
	return nil
}

func (one *parameter) stop() {
	if one.timer != nil {
		one.timer.Stop()
	}
	one.timer, one.expires = nil, time.Time{}
	one.term++
}

type parameterDump struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Default     string `json:"default"`
	Value       string `json:"value"`
	ExpireAt    string `json:"expireAt,omitempty"`
	LastError   string `json:"lastError,omitempty"`
}

func (p *Parameters) dump() []parameterDump {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []parameterDump{}
	for _, one := range p.list {
		d := parameterDump{Name: one.Name, Description: one.Description, Default: one.Default, Value: one.value, LastError: one.lastError}
		if !one.expires.IsZero() {
			d.ExpireAt = one.expires.Format(time.RFC3339)
		}
		list = append(list, d)
	}
	return list
}

func configList(a *API, _ request) (answer, error) {
	list := a.Parameters.dump()
	var b strings.Builder
	row := func(name, value, expires, description string) {
		b.WriteString(fmt.Sprintf("%-30s %-20s %-20s %-40s", name, value, expires, description) + "\n")
	}
	row("NAME", "VALUE", "EXPIRE AT", "DESCRIPTION")
	for _, d := range list {
		if d.LastError != "" {
			d.Description = "Error: " + oneLine(d.LastError)
		}
		row(d.Name, d.Value, d.ExpireAt, d.Description)
	}
	return answer{value: list, text: b.String()}, nil
}

func configSet(a *API, r request) (answer, error) {
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
		var err error
		if duration, err = time.ParseDuration(text); err != nil || duration <= 0 {
			return answer{}, refuse(http.StatusBadRequest, "the duration %q is not one: write for instance 90s, 10m or 1h30m", text)
		}
	}
	return answer{plain: true}, a.Parameters.Set(r.PostForm.Get("name"), r.PostForm.Get("value"), duration)
}

// LogLevel is the parameter of the lowest level of records in the log.
func LogLevel(level *slog.LevelVar, log *slog.Logger) Parameter {
	return Parameter{
		Name: "log.level", Description: "Lowest level of records in the log", Default: telemetry.LevelName(level.Level()),
		Values:  []string{"trace", "debug", "info", "warn", "error", "fatal"},
		Passing: map[string]time.Duration{"debug": 30 * time.Minute},
		Apply: func(value string) error {
			// Logged at the lower one of both levels, so that the record is never filtered out.
			next := telemetry.ParseLevel(value)
			record := func() { log.Info("Change log level", "value", value) }
			if next <= level.Level() {
				defer record()
			} else {
				record()
			}
			level.Set(next)
			return nil
		},
	}
}
