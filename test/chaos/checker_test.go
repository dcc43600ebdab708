package chaos

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shell-operator/shell-operator/test/chaos/record"
)

// version is one state of one object in the history of the API server: it came to be between began and known.
type version struct {
	uid          string
	count        int
	gone         bool
	began, known time.Time
	// until is when the last of the states came to be that look the same; zero for known.
	until time.Time
}

// history is what has happened to each object, in order.
type history map[string][]version

// window is a time in which the watch may have been lost: for changes meanwhile a hook receives the difference only.
type window struct{ from, to time.Time }

func (w window) touches(v version) bool {
	until := v.until
	if until.IsZero() {
		until = v.known
	}
	return !until.Before(w.from) && !v.began.After(w.to)
}

// run is one run of a hook, as it wrote it down itself.
type run struct {
	at       time.Time
	done     bool
	contexts []record.Context
}

// session is what one hook saw of one start of the operator.
type session struct {
	started time.Time
	runs    []run
}

// view is one binding, as the checker sees it.
type view struct {
	binding string
	// sees reports which objects belong to the binding.
	sees func(key string) bool
	// coarse makes of a count what the binding's filter shows of it; nil shows all.
	coarse func(count int) int
	// lost are the times in which changes may have been missed.
	lost []window
	// hidden are the times in which an object may vanish from the binding's sight and come back; nil means none.
	hidden func(key string) []window
	// divides is true if the disk may have been full, so that a run may get the beginning of what another one has failed with.
	divides bool
}

// key names an object.
func key(s record.State) string { return s.Kind + "/" + s.Namespace + "/" + s.Name }

// project is the history of one object as a binding sees it: neighbours that look the same are one.
func (v *view) project(all []version) []version {
	var seen []version
	for _, one := range all {
		if v.coarse != nil {
			one.count = v.coarse(one.count)
		}
		if n := len(seen); n > 0 && seen[n-1].uid == one.uid && seen[n-1].count == one.count && seen[n-1].gone == one.gone {
			seen[n-1].until = one.known
			continue
		}
		seen = append(seen, one)
	}
	return seen
}

// check compares what a hook has seen with what has happened, and returns what is wrong. The promise is: one
// Synchronization with a complete list, then each change once and in order for each object; of what happened in a
// window the difference only; and in the end the last state of each object.
func check(h history, v view, sessions []session) (wrong []string) {
	projected := map[string][]version{}
	for k, all := range h {
		if v.sees(k) {
			projected[k] = v.project(all)
		}
	}
	for i, s := range sessions {
		c := &checker{view: v, history: projected, started: s.started, objects: map[string]*follow{}}
		c.attempts(s)
		for _, r := range s.runs {
			if r.done {
				c.run(r)
			}
		}
		if i == len(sessions)-1 {
			c.end()
		}
		for _, text := range c.wrong {
			wrong = append(wrong, fmt.Sprintf("start %d, binding %s: %s", i+1, v.binding, text))
		}
	}
	return wrong
}

// checker follows one session.
type checker struct {
	view
	history map[string][]version
	started time.Time
	// synchronized is true once the list has been received; objects is what the hook has received since then.
	synchronized bool
	objects      map[string]*follow
	wrong        []string
}

// follow is the state of one object as a hook received it.
type follow struct {
	// at is the place in the object's history, -1 before its beginning.
	at int
	// open is set while the deletion that the hook received is not yet matched with one in the history: it is at or
	// after at.
	open bool
	// vanished is set when the object went out of sight without being gone.
	vanished bool
}

func (c *checker) complain(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// events are the changes of a run that belong to the binding.
func (c *checker) events(r run) (events []record.Context) {
	for _, ctx := range r.contexts {
		if ctx.Binding == c.binding && ctx.Type == "Event" {
			events = append(events, ctx)
		}
	}
	return events
}

// attempts checks that the contexts of a failed run are delivered again by the next one, before anything else.
func (c *checker) attempts(s session) {
	var failed []record.Context
	for _, r := range s.runs {
		events := c.events(r)
		left := failed[min(len(events), len(failed)):]
		same := slices.EqualFunc(failed[:len(failed)-len(left)], events[:len(failed)-len(left)], func(a, b record.Context) bool {
			return a.Watch == b.Watch && *a.Object == *b.Object
		})
		part := c.divides && len(events) > 0 && len(left) > 0
		switch {
		case !same, len(left) > 0 && !part:
			c.complain("a failed run received %s, the one after it %s", describe(failed), describe(events))
			failed = nil
		case part && !r.done:
			continue
		default:
			failed = left
		}
		if !r.done {
			failed = events
		}
	}
}

func describe(events []record.Context) string {
	text := ""
	for i, e := range events {
		if i == 5 {
			return fmt.Sprintf("%s, … (%d)", text, len(events))
		}
		text += fmt.Sprintf(" %s %s %d", e.Watch, e.Object.Name, e.Object.Count)
	}
	return "[" + text + " ]"
}

func (c *checker) run(r run) {
	for _, ctx := range r.contexts {
		switch {
		case ctx.Binding != c.binding || ctx.Group != "":
		case ctx.Type == "Synchronization":
			c.synchronization(r, ctx.Objects)
		case ctx.Type == "Event" && !c.synchronized:
			c.complain("%s of %s came before the Synchronization", ctx.Watch, key(*ctx.Object))
		case ctx.Type == "Event":
			c.event(r, ctx.Watch, *ctx.Object)
		}
	}
}

// synchronization checks that a list shows each object as it was at one time after the operator's start.
func (c *checker) synchronization(r run, objects []record.State) {
	if c.synchronized {
		c.complain("there was a second Synchronization")
	}
	c.synchronized = true
	listed := map[string]record.State{}
	for _, o := range objects {
		if _, twice := listed[key(o)]; twice {
			c.complain("%s is in the list twice", key(o))
		}
		listed[key(o)] = o
	}
	for _, k := range slices.Sorted(maps.Keys(listed)) {
		if _, known := c.history[k]; !known {
			c.complain("the list shows %s, which never was", k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c.history)) {
		o, isListed := listed[k]
		c.begin(k, r, o, isListed)
	}
}

// begin notes the first event of an object that a hook receives.
func (c *checker) begin(k string, r run, o record.State, listed bool) {
	all := c.history[k]
	oldest := -1 // the last state that was certain when the operator started
	for i, v := range all {
		if v.known.Before(c.started) {
			oldest = i
		}
	}
	f := &follow{at: oldest}
	c.objects[k] = f
	if !listed {
		f.open = true
		if oldest >= 0 && !all[oldest].gone && !slices.ContainsFunc(all[oldest+1:], func(v version) bool {
			return v.gone && v.began.Before(r.at)
		}) {
			if f.vanished = c.mayHide(k, r.at); !f.vanished {
				c.complain("the list does not show %s", k)
			}
		}
		return
	}
	at := slices.IndexFunc(all, func(v version) bool { return v.uid == o.UID && v.count == o.Count && !v.gone })
	switch {
	case at < 0:
		c.complain("the list shows %s in a state (%d) that never was", k, o.Count)
	case at < oldest:
		c.complain("the list shows %s in a state (%d) from before the operator's start", k, o.Count)
	default:
		f.at = at
	}
}

func (c *checker) hides(k string) []window {
	if c.hidden == nil {
		return nil
	}
	return c.hidden(k)
}

func (c *checker) mayHide(k string, at time.Time) bool {
	return slices.ContainsFunc(c.hides(k), func(w window) bool { return !at.Before(w.from) && !at.After(w.to) })
}

// event checks one change against the place in the history where the hook was.
func (c *checker) event(r run, watch string, o record.State) {
	k := key(o)
	all := c.history[k]
	f := c.objects[k]
	if all == nil || f == nil {
		c.complain("%s of %s, which never was", watch, k)
		return
	}
	gone := watch == "Deleted"
	at := slices.IndexFunc(all, func(v version) bool { return v.uid == o.UID && v.gone == gone && (gone || v.count == o.Count) })
	exists := !f.open && !f.vanished && f.at >= 0 && !all[f.at].gone
	switch {
	case gone && exists && all[f.at].uid == o.UID && c.mayHide(k, r.at) &&
		(at < 0 || c.mayHide(k, all[at].known) || all[at].began.After(r.at)):
		// Out of sight. If it is really gone as well, nothing more will be heard of this one.
		f.vanished = true
		return
	case at < 0:
		c.complain("%s of %s in a state (%d) that never was", watch, k, o.Count)
		return
	case f.vanished && watch == "Added":
		if at < f.at {
			c.complain("%s went back to state %d", k, o.Count)
		}
		f.at, f.vanished = at, false
		return
	case at <= f.at:
		c.complain("%s of %s (%d) came twice, or after a later state", watch, k, o.Count)
		return
	case watch == "Added" && exists:
		c.complain("%s was Added (%d) but it was there", k, o.Count)
	case watch != "Added" && !exists:
		c.complain("%s of %s (%d), which was not there", watch, k, o.Count)
	case watch == "Modified" && all[f.at].uid != o.UID, gone && all[f.at].uid != o.UID:
		c.complain("%s of %s (%d): it is another object of this name", watch, k, o.Count)
	}
	c.missed(k, f, at)
	*f = follow{at: at}
}

// missed checks the states between the previous one of the hook and its current one.
func (c *checker) missed(k string, f *follow, at int) {
	all := c.history[k]
	from := f.at + 1
	if f.open {
		// It knew that there was no object, at some time: the last one before this state will do.
		for from = at; from > f.at+1 && !all[from-1].gone; from-- {
		}
	}
	for _, v := range all[from:at] {
		touches := func(w window) bool { return w.touches(v) }
		if !slices.ContainsFunc(c.lost, touches) && !slices.ContainsFunc(c.hides(k), touches) {
			c.complain("of %s the state %d (gone %t) was never shown, but a later one was, or nothing any more", k, v.count, v.gone)
		}
	}
}

// end checks that the hook has the last state of all objects.
func (c *checker) end() {
	if !c.synchronized {
		c.complain("there was no Synchronization")
		return
	}
	for _, k := range slices.Sorted(maps.Keys(c.history)) {
		all := c.history[k]
		last, f := all[len(all)-1], c.objects[k]
		switch {
		case f == nil:
			c.complain("of %s nothing was heard", k)
		case last.gone && (f.open || f.vanished):
		case last.gone && all[f.at].gone:
			c.missed(k, f, len(all)) // what came and went unseen
		case f.open, f.vanished, f.at != len(all)-1:
			c.complain("the last that was heard of %s is not its last state (%d, gone %t)", k, last.count, last.gone)
		}
	}
}

// checkSnapshot compares a snapshot with how everything is in the end.
func checkSnapshot(h history, v view, snapshot []record.State) (wrong []string) {
	shown := map[string]record.State{}
	for _, s := range snapshot {
		if s.Name == rootCertificate {
			continue
		}
		shown[key(s)] = s
	}
	for _, k := range slices.Sorted(maps.Keys(h)) {
		if !v.sees(k) {
			continue
		}
		all := v.project(h[k])
		last := all[len(all)-1]
		s, isShown := shown[k]
		delete(shown, k)
		if isShown == last.gone || isShown && (s.UID != last.uid || s.Count != last.count) {
			wrong = append(wrong, fmt.Sprintf("snapshot %s: %s is shown %t with %d, but its last state is %d (gone %t)", v.binding, k, isShown,
				s.Count, last.count, last.gone))
		}
	}
	for k := range shown {
		wrong = append(wrong, fmt.Sprintf("snapshot %s shows %s, which never was", v.binding, k))
	}
	return wrong
}
