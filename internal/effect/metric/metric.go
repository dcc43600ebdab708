// Package metric keeps the metrics that hooks return, and shows them to Prometheus.
//
// Callers may rely on this:
//   - A scrape never fails, whatever hooks do: what does not fit to the metrics that are there is logged and left out.
//   - A scrape sees the operations of a run together or not at all.
//   - Hooks cannot take all memory: how many series each of them has is limited. What is too much is logged and left out.
//   - A series is its name and its labels; the last group that wrote it owns it. A label with an empty value is the
//     same as no label.
//   - Gauges go when their group is written without them. Counters and histograms of a hook's own group stay and
//     accumulate, those of a named group as long as each run names them.
//
// Operations have to be valid as package effect defines it. Not attempted: keeping anything over a restart.
package metric

import (
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// Options of a Store.
type Options struct {
	// Log is told of operations that do not fit; nil means nobody is.
	Log *slog.Logger
	// Restart makes counters and histograms begin anew with each run that writes their group, as flant/shell-operator
	// does since 1.9.
	Restart bool
	// MaxSeries is how many series a hook may have at a time; 0 means any number.
	MaxSeries int
}

// Store keeps the metrics of all hooks. It is safe for concurrent use.
type Store struct {
	opts Options

	mu sync.Mutex
	// families are there for ever: the first operation on a name fixes its type.
	families map[string]*family
	// groups hold each series once, under the group that owns it.
	groups map[string]map[*series]struct{}
	// hooks count the series of each hook.
	hooks map[string]int
	// applied counts calls of Apply.
	applied uint64
}

var _ prometheus.Collector = (*Store)(nil)

// New returns a Store without metrics.
func New(opts Options) *Store {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{opts: opts, families: map[string]*family{}, groups: map[string]map[*series]struct{}{}, hooks: map[string]int{}}
}

// manySeries is how many series of a hook are worth a warning: Prometheus scrapes all of them each time.
const manySeries = 100_000

// Apply does the operations that one run of a hook asked for. No operations change nothing.
func (s *Store) Apply(hookName string, ops []effect.Metric) {
	hookName = strings.ToValidUTF8(hookName, "\uFFFD")
	misfits, before, after := s.apply(hookName, ops)
	for _, m := range misfits.list { // not under the lock: a log may be slow
		s.opts.Log.Error("The operation does not fit to the metrics that are there, it is skipped", "hook", hookName,
			"metric", m.name, "error", m.problem, "skipped", m.skipped)
	}
	if before < manySeries && after >= manySeries {
		s.opts.Log.Warn("The hook has very many series of metrics: use fewer values of labels, or let groups expire", "hook", hookName, "series", after)
	}
}

func (s *Store) apply(hookName string, ops []effect.Metric) (misfits misfits, before, after int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied++
	before = s.hooks[hookName]
	groups := groupsOf(hookName, ops)
	if s.opts.Restart {
		for _, group := range groups {
			s.expire(group)
		}
	}
	swept := false
	for i := range ops {
		problem := s.do(hookName, &ops[i])
		if problem == tooMany && !swept {
			swept = true
			s.makeRoom(groups)
			problem = s.do(hookName, &ops[i])
		}
		if problem != "" {
			misfits.note(ops[i].Name, problem)
		}
	}
	for _, group := range groups {
		s.sweep(group, group == hookName)
	}
	return misfits, before, s.hooks[hookName]
}

// groupOf is the operation's group. The group that belongs to a hook has the hook's name.
func groupOf(hookName string, op *effect.Metric) string {
	if op.Group == "" {
		return hookName
	}
	return op.Group
}

func groupsOf(hookName string, ops []effect.Metric) []string {
	var groups []string
	known := map[string]bool{}
	for i := range ops {
		if group := groupOf(hookName, &ops[i]); !known[group] {
			known[group] = true
			groups = append(groups, group)
		}
	}
	return groups
}

// do does one operation and says why, if it cannot.
func (s *Store) do(hookName string, op *effect.Metric) (problem string) {
	group := groupOf(hookName, op)
	if op.Action == effect.Expire {
		s.expire(group)
		return ""
	}
	f, problem := s.family(op)
	if problem != "" {
		return problem
	}
	if problem := f.learn(op.Labels); problem != "" {
		return problem
	}
	key := f.key(hookName, op.Labels)
	sr := f.series[key]
	if sr == nil {
		if s.opts.MaxSeries > 0 && s.hooks[hookName] >= s.opts.MaxSeries {
			return tooMany
		}
		sr = f.add(key, hookName, op.Labels)
		s.hooks[hookName]++
	}
	s.own(sr, group)
	sr.written = s.applied
	switch op.Action {
	case effect.Add:
		sr.value += op.Value
	case effect.Set:
		sr.value = op.Value
	case effect.Observe:
		sr.observe(op.Value)
	}
	return ""
}

// tooMany is the problem that Options.MaxSeries makes.
const tooMany = "the hook has as many series as --hook-series-limit allows"

// makeRoom removes gauges that the run has not written so far. If it writes them later, they are what they would be without
// this; if not, they go at its end anyway.
func (s *Store) makeRoom(groups []string) {
	for _, group := range groups {
		for sr := range s.groups[group] {
			if sr.written != s.applied && sr.family.action == effect.Set {
				s.remove(sr)
			}
		}
	}
}

// own makes group the owner of a series.
func (s *Store) own(sr *series, group string) {
	if sr.group == group {
		return
	}
	s.disown(sr)
	if s.groups[group] == nil {
		s.groups[group] = map[*series]struct{}{}
	}
	s.groups[group][sr] = struct{}{}
	sr.group = group
}

func (s *Store) disown(sr *series) {
	delete(s.groups[sr.group], sr)
	if len(s.groups[sr.group]) == 0 {
		delete(s.groups, sr.group)
	}
}

func (s *Store) remove(sr *series) {
	s.disown(sr)
	delete(sr.family.series, sr.key)
	hookName := sr.labels[hookLabel]
	if s.hooks[hookName]--; s.hooks[hookName] == 0 {
		delete(s.hooks, hookName)
	}
}

// Forget removes all series of a hook that has gone.
func (s *Store) Forget(hookName string) {
	hookName = strings.ToValidUTF8(hookName, "\uFFFD")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.families {
		for _, sr := range f.series {
			if sr.labels[hookLabel] == hookName {
				s.remove(sr)
			}
		}
	}
}

// Series returns how many series each hook has.
func (s *Store) Series() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.hooks)
}

// expire removes all series of a group.
func (s *Store) expire(group string) {
	for sr := range s.groups[group] {
		s.remove(sr)
	}
}

// sweep removes what the run has not written. In a hook's own group that means gauges only: counters and histograms
// are about all runs.
func (s *Store) sweep(group string, own bool) {
	for sr := range s.groups[group] {
		if sr.written != s.applied && (!own || sr.family.action == effect.Set) {
			s.remove(sr)
		}
	}
}

// maxFamilies is how many names there may be, and maxLabels how many labels one of them may have: both are kept for as
// long as the operator runs, and each series has all labels of its name in a scrape.
const (
	maxFamilies = 100_000
	maxLabels   = 1_000
)

// family returns the family of an operation, a new one if there is none, or says why the operation does not fit.
func (s *Store) family(op *effect.Metric) (f *family, problem string) {
	if f := s.families[op.Name]; f != nil {
		if f.action != op.Action {
			return nil, "the metric is a " + typeName(f.action) + ", not a " + typeName(op.Action) + ": give it another name"
		}
		return f, ""
	}
	if problem := s.clash(op); problem != "" {
		return nil, problem + ": give it another name"
	}
	if len(s.families) >= maxFamilies {
		return nil, fmt.Sprintf("there are %d metrics already: use labels, not new names", maxFamilies)
	}
	f = newFamily(op)
	s.families[op.Name] = f
	return f, ""
}

// suffixes are what Prometheus appends to the name of a histogram.
var suffixes = []string{"_bucket", "_count", "_sum"}

// ofTheHandler begins the names of metrics that the HTTP handler adds to a scrape.
const ofTheHandler = "promhttp_metric_handler_"

// clash tells why samples of a new metric would have the same names as those of another one. Then a scrape would fail.
func (s *Store) clash(op *effect.Metric) (problem string) {
	if strings.HasPrefix(op.Name, ofTheHandler) {
		return "the operator itself has metrics whose names begin with " + ofTheHandler
	}
	for _, suffix := range suffixes {
		whole, isPart := strings.CutSuffix(op.Name, suffix)
		if f := s.families[whole]; isPart && f != nil && f.action == effect.Observe {
			return "it would be a part of the histogram " + whole
		}
		if op.Action == effect.Observe && s.families[op.Name+suffix] != nil {
			return "the metric " + op.Name + suffix + " would be a part of this histogram"
		}
	}
	return ""
}

func typeName(a effect.MetricAction) string {
	switch a {
	case effect.Add:
		return "counter"
	case effect.Set:
		return "gauge"
	}
	return "histogram"
}
