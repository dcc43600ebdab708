// Package metric stores the metrics that hooks return, and exposes them to Prometheus.
//
// Callers may rely on this:
//   - A scrape never fails because of a hook: an operation that conflicts with the existing metrics is logged and skipped.
//   - A scrape sees all operations of a run or none.
//   - Cardinality is limited: operations beyond the maximum number of series, names or bytes of a hook are logged and skipped. No hook
//     takes the share of another one.
//   - A series is its name and its labels; the last group that wrote it owns it. A label with an empty value is the
//     same as no label.
//   - Gauges are removed when their group is written without them. Counters and histograms of a hook's own group stay and
//     accumulate, in a named group as long as each run names them.
//
// Operations must be valid as package effect defines it. Metrics do not survive a restart.
package metric

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// Options of a Store.
type Options struct {
	// Log receives operations that are skipped; nil discards them.
	Log *slog.Logger
	// Restart resets counters and histograms with each run that writes their group, as flant/shell-operator does since 1.9.
	Restart bool
	// MaxBytes is the maximum of what the series of a hook take in memory; 0 means no limit.
	MaxBytes int
}

// Store has the metrics of all hooks. It is safe for concurrent use.
type Store struct {
	opts Options

	mu sync.Mutex
	// families are never removed: the first operation on a name fixes its type.
	families map[string]*family
	// groups have each series once, under the group that owns it.
	groups map[string]map[*series]struct{}
	// hooks has the usage of each hook.
	hooks map[string]*usage
	// applied counts calls of Apply.
	applied uint64
}

// usage counts the series of a hook.
type usage struct {
	series int
	// bytes is the approximate memory of its series, families and label names. The families of which it has written the first operation stay.
	bytes int
}

var _ prometheus.Collector = (*Store)(nil)

// New returns a Store without metrics.
func New(opts Options) *Store {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{opts: opts, families: map[string]*family{}, groups: map[string]map[*series]struct{}{}, hooks: map[string]*usage{}}
}

// Apply applies the operations of one run of a hook. No operations change nothing.
func (s *Store) Apply(hookName string, ops []effect.Metric) {
	hookName = strings.ToValidUTF8(hookName, "\uFFFD")
	misfits := s.apply(hookName, ops)
	for _, m := range misfits { // not under the lock: a log may be slow
		s.opts.Log.Error("The operation does not fit to the metrics that are there, it is skipped", "hook", hookName,
			"metric", m.name, "error", m.problem, "skipped", m.skipped)
	}
}

func (s *Store) apply(hookName string, ops []effect.Metric) (misfits misfits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied++
	if s.hooks[hookName] == nil {
		s.hooks[hookName] = &usage{}
	}
	groups := groupsOf(hookName, ops)
	if s.opts.Restart {
		for _, group := range groups {
			s.expire(group)
		}
	}
	for i := range ops {
		if problem := s.do(hookName, &ops[i]); problem != "" {
			misfits.note(ops[i].Name, problem)
		}
	}
	for _, group := range groups {
		s.sweep(group, group == hookName)
	}
	return misfits
}

// groupOf returns the group of an operation. A hook's own group has the name of the hook.
func groupOf(hookName string, op *effect.Metric) string { return cmp.Or(op.Group, hookName) }

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

// do applies one operation. It returns why that is impossible, or "".
func (s *Store) do(hookName string, op *effect.Metric) (problem string) {
	group := groupOf(hookName, op)
	if op.Action == effect.Expire {
		s.expire(group)
		return ""
	}
	u := s.hooks[hookName]
	f, problem := s.family(u, op)
	if problem != "" {
		return problem
	}
	if f.shares[hookName] == nil && !s.take(u, shareBytes) {
		return tooLarge
	}
	mine := f.shareOf(hookName)
	more, cost := mine.unknown(op.Labels)
	switch {
	case len(mine.labels)+len(more) > maxLabels:
		return fmt.Sprintf("the metric would have more than %d labels: use other values, not other labels", maxLabels)
	case !s.take(u, cost):
		return tooLarge
	case len(more) > 0:
		f.learn(mine, more)
	}
	key := mine.key(hookName, op.Labels)
	sr := f.series[key]
	if sr == nil {
		cost := f.costOf(key, op.Labels)
		if !s.take(u, cost) {
			return tooLarge
		}
		sr = f.add(key, hookName, op.Labels)
		sr.cost = cost
		u.series++
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

// tooLarge is the problem of an operation beyond Options.MaxBytes.
const tooLarge = "the series of the hook take as much memory as they may"

// take adds to the bytes of a hook. It reports false if the hook would have more than it may have.
func (s *Store) take(u *usage, bytes int) bool {
	if s.opts.MaxBytes > 0 && bytes > 0 && u.bytes+bytes > s.opts.MaxBytes {
		return false
	}
	u.bytes += bytes
	return true
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
	u := s.hooks[sr.labels[hookLabel]]
	u.series--
	u.bytes -= sr.cost
}

// Forget removes all series of a hook.
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
	if u := s.hooks[hookName]; u != nil && u.bytes == 0 { // the names that it has taken stay
		delete(s.hooks, hookName)
	}
}

// Series returns the number of series of each hook.
func (s *Store) Series() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]int{}
	for name, u := range s.hooks {
		if u.series > 0 {
			all[name] = u.series
		}
	}
	return all
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

// maxLabels limits the labels of a hook for one name: each of its series has all of them in a scrape.
const maxLabels = 1_000

// family returns the family of an operation, a new one if there is none, or why the operation conflicts.
func (s *Store) family(u *usage, op *effect.Metric) (f *family, problem string) {
	if f := s.families[op.Name]; f != nil {
		if f.action != op.Action {
			return nil, "the metric is a " + typeName(f.action) + ", not a " + typeName(op.Action) + ": give it another name"
		}
		return f, ""
	}
	if problem := s.clash(op); problem != "" {
		return nil, problem + ": give it another name"
	}
	if !s.take(u, familyBytes+4*len(op.Name)) {
		return nil, tooLarge
	}
	f = newFamily(op)
	s.families[op.Name] = f
	return f, ""
}

// suffixes are the endings that Prometheus appends to the name of a histogram.
var suffixes = []string{"_bucket", "_count", "_sum"}

// ofTheHandler is the prefix of metrics that the HTTP handler adds to a scrape.
const ofTheHandler = "promhttp_metric_handler_"

// clash returns why samples of a new metric would have the names of another metric's, which makes a scrape fail.
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
