package finalizer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Each line is an observation: the minute, and the heartbeats. Behind the arrow are the others afterwards: alive ones with an exclamation
// mark.
func TestOthers(t *testing.T) {
	for name, script := range map[string]string{
		"none":                                  "0 -> ; 3 -> ",
		"one that was there at the start":       "0 a=1 -> a; 3 a=1 -> a; 5 a=1 -> a; 6 a=1 -> a; 7 a=1 -> ",
		"it answers":                            "0 a=1 -> a; 0 a=2 -> a!; 3 a=3 -> a!; 6 a=3 -> a!; 10 a=3 -> ",
		"it appears":                            "0 -> ; 1 a=1 -> a!; 4 a=1 -> a!; 8 a=1 -> ; 9 a=2 -> a!",
		"its clock is set back":                 "0 a=7 -> a; 3 a=3 -> a!; 6 a=3 -> a!; 10 a=3 -> ",
		"it ends, and starts again":             "0 -> ; 1 a=1 -> a!; 2 -> a; 3 b=1 -> a b!; 6 b=2 -> a b!; 9 b=2 -> b!",
		"it ended before the start":             "0 -> ; 3 -> ",
		"nothing was observed for a while":      "0 a=1 -> a; 20 a=1 -> a; 23 a=1 -> a; 27 a=1 -> ",
		"it is gone before the interruption":    "0 a=1 -> a; 3 a=1 -> a; 7 a=1 -> ; 20 a=1 -> a; 21 -> a; 24 -> a; 28 -> ",
		"a watch that lags behind":              "0 a=5 @9 -> a; 1 a=4 @8 -> a; 2 a=5 @9 -> a; 4 a=5 @9 -> a; 7 a=5 @9 -> ",
		"another one is removed, and put again": "0 a=1 -> a; 3 -> a; 6 a=1 -> a!",
	} {
		o := others{known: map[string]*other{}}
		for line := range strings.SplitSeq(script, "; ") {
			did, want, _ := strings.Cut(line, "-> ")
			fields := strings.Fields(did)
			var minute int
			var version uint64
			heartbeats := map[string]string{}
			_, _ = fmt.Sscan(fields[0], &minute)
			for _, f := range fields[1:] {
				if name, value, ok := strings.Cut(f, "="); ok {
					heartbeats[name] = value
				} else {
					_, _ = fmt.Sscanf(f, "@%d", &version)
				}
			}
			if version == 0 {
				version = o.version
			}
			o.observe(time.Time{}.Add(time.Hour+time.Duration(minute)*time.Minute), version, heartbeats)
			var got []string
			for _, other := range o.present() {
				if other.Alive {
					other.Name += "!"
				}
				got = append(got, other.Name)
			}
			if strings.Join(got, " ") != strings.TrimSpace(want) {
				t.Errorf("%s: %q leaves %v", name, line, got)
			}
		}
	}
}

// process is an operator of the model, on a machine with a clock of its own: another origin, and faster or slower by up to a tenth.
type process struct {
	name          string
	seen          others
	started, next time.Duration
	// resumed is when a stopped process runs again; cut: its requests fail.
	resumed time.Duration
	cut     bool
	// due is when it should renew its heartbeat, overdue the time since then in which the API server was up. steady is the end of the last
	// time in which it could observe nothing.
	due, overdue, steady time.Duration
	offset               time.Duration
	rate                 float64
}

func (p *process) clock(now time.Duration) time.Time {
	return time.Time{}.Add(time.Hour + time.Duration(float64(now-p.started)*p.rate))
}

// world is a record that processes share.
type world struct {
	*rapid.T
	record  map[string]string
	version uint64
	live    []*process
	// ended are the names of processes that are gone, with the time.
	ended  map[string]time.Duration
	serial int
	now    time.Duration
	down   bool
}

// Processes start, end, are killed, are stopped, and lose their connection, and the API server is down at times. No process takes another
// one for gone unless that has missed a renewal and a retry; and one that has ended counts as present for less than four and a half
// renewals.
func TestOthersModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{T: t, record: map[string]string{}, ended: map[string]time.Duration{}}
		w.start()
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			w.step()
		}
	})
}

func (w *world) start() {
	w.serial++
	w.live = append(w.live, &process{
		name: fmt.Sprintf("p%d", w.serial), seen: others{known: map[string]*other{}}, started: w.now, next: w.now, steady: w.now,
		rate: rapid.Float64Range(0.9, 1.1).Draw(w.T, "rate"), offset: time.Duration(rapid.IntRange(-48, 48).Draw(w.T, "offset")) * time.Hour,
	})
}

func (w *world) step() {
	action := rapid.IntRange(0, 11).Draw(w.T, "action")
	switch {
	case action == 0 && len(w.live) < 3:
		w.start()
	case action == 1:
		w.down = !w.down
	case action <= 5 && len(w.live) > 0:
		p := w.live[rapid.IntRange(0, len(w.live)-1).Draw(w.T, "process")]
		switch action {
		case 2: // a kill
			w.end(p)
		case 3: // a regular end
			if w.end(p); !w.down && !p.cut {
				delete(w.record, p.name)
				w.version++
			}
		case 4: // as of a machine that is suspended
			p.resumed = w.now + time.Duration(rapid.IntRange(1, 30).Draw(w.T, "minutes"))*time.Minute
		case 5:
			p.cut = !p.cut
		}
	default:
		for range rapid.IntRange(1, 60).Draw(w.T, "tens") {
			w.tick(10 * time.Second)
		}
	}
}

func (w *world) end(p *process) {
	w.ended[p.name] = w.now
	w.live = slices.DeleteFunc(w.live, func(is *process) bool { return is == p })
}

func (w *world) tick(d time.Duration) {
	w.now += d
	for _, p := range w.live {
		if !w.down && p.due < w.now {
			p.overdue += d
		}
		stopped := p.resumed > w.now
		if stopped || p.cut || w.down {
			p.steady = w.now
		}
		if !stopped && p.next <= w.now {
			w.renew(p)
		}
	}
}

func (w *world) renew(p *process) {
	if w.down || p.cut {
		p.next, p.seen.missed = w.now+retryRenewal, true
		return
	}
	foreign := maps.Clone(w.record)
	delete(foreign, p.name)
	p.seen.observe(p.clock(w.now), w.version, foreign)
	w.version++
	w.record[p.name] = fmt.Sprint(w.now + p.offset)
	p.due = w.now + time.Duration(float64(renewal)/p.rate)
	p.overdue, p.next = 0, p.due
	present := map[string]bool{}
	for _, other := range p.seen.present() {
		present[other.Name] = true
	}
	for _, q := range w.live {
		if q != p && w.record[q.name] != "" && q.overdue <= retryRenewal && !present[q.name] {
			w.Fatalf("at %s, %s takes %s for gone, which is overdue for %s", w.now, p.name, q.name, q.overdue)
		}
	}
	for name, at := range w.ended {
		if since := max(at, p.steady); present[name] && w.now-since > renewal*9/2 {
			w.Fatalf("at %s, %s does not take %s for gone, which has ended at %s", w.now, p.name, name, at)
		}
	}
}
