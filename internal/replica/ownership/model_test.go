package ownership

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The model is three processes, an API server with Leases, and the requests between them. A step is anything that can happen next; nothing
// has to happen soon, so that each process may be slow or stopped at any point.

// The Leases of the model: divisions of two shards, of which some or all names are equal, and the Lease of leader election.
var (
	divisions = [][]string{{"0", "1"}, {"1", "2"}, {"elected"}, {"0", "1"}}
	names     = []string{"a", "b", "", "c"}
	allLeases = []string{"0", "1", "2", "elected"}
)

const elected = 2 // the division that is leader election

// numbers are texts for identities and versions, which are compared for equality only.
var numbers = func() (all [1 << 14]string) {
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return all
}()

// fault is a rule that is broken on purpose.
type fault string

const (
	none             fault = ""
	noList           fault = "no list"
	listBefore       fault = "list before taking"
	bareDeletion     fault = "deletion without precondition"
	servedAtOnce     fault = "new Lease served at once"
	identityOld      fault = "own identity counted as old"
	clearedUnserved  fault = "an unserved Lease given back as a served one"
	fenceFromAnswer  fault = "fence from the answer"
	deadEarly        fault = "dead after less than the fence"
	noFence          fault = "no fence after a stop"
	releasedEarly    fault = "released before the last run ends"
	identityTwice    fault = "identity used twice"
	divisionUnread   fault = "a division is not read"
	lateAnswerCounts fault = "an answer counts that is later than the deadline, and the dead stay"
)

// setting is a configuration of the model.
type setting struct {
	name string
	// of is the division with which each process starts.
	of [3]int
	// speeds are the units of each clock per tick of the model.
	speeds                   [3]int
	duration, renewal, retry int
	// next are the divisions with which a process may start again.
	next  []int
	fault fault
}

type lease struct {
	Lease
	exists bool
}

// message is a request, with its answer once it has been executed.
type message struct {
	action Action
	// holder and division are those that it writes.
	holder, division string
	started          int
	executed         bool
	answer           Answer
}

type process struct {
	m        *Machine
	division int
	// clock is in units, at one speed for ever.
	clock, speed int
	sent         bool
	message      message
	// before are the Leases at the time of its last request to take one, for a fault.
	before []Lease
	// running: a run of what it serves has not ended.
	running bool
}

type world struct {
	s      *setting
	leases []lease
	procs  [3]process
	// late are requests that their process has given up, and that may still arrive.
	late                 []message
	versions, identities int
	// deleted: a user has deleted a Lease, so that divisions are not kept apart.
	deleted bool
}

func newWorld(s *setting) *world {
	w := &world{s: s}
	for _, name := range allLeases {
		w.leases = append(w.leases, lease{Lease: Lease{Name: name}})
	}
	for i := range w.procs {
		w.procs[i].speed = s.speeds[i]
		w.start(i, s.of[i])
	}
	return w
}

func (w *world) start(i, division int) {
	w.identities++
	identity := numbers[w.identities]
	if w.s.fault == identityTwice {
		identity = "same"
	}
	c := &Config{
		Identity: identity, Division: names[division], Names: divisions[division], First: i % 2,
		Settle:   division != elected && w.s.fault != servedAtOnce,
		Duration: unit(w.s.duration), RenewDeadline: unit(w.s.renewal), RetryPeriod: unit(w.s.retry),
		Jitter: func(time.Duration) time.Duration { return unit(i) },
	}
	if division != elected {
		c.Elected = divisions[elected][0]
	}
	if w.s.fault == deadEarly {
		c.Duration = unit(w.s.renewal / 2)
	}
	p := &w.procs[i]
	p.m, p.division, p.sent, p.running, p.before = New(c), division, false, false, nil
}

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func unit(n int) time.Duration { return time.Duration(n) * time.Second }

func moment(clock int) Moment { return At(epoch.Add(unit(clock))) }

// kind of a step.
type kind uint8

const (
	tick    kind = iota // time passes
	act                 // a process does what its machine returns
	execute             // the API server executes a request
	deliver             // its answer arrives
	fail                // the process gives up: the request was lost, or its answer, or arg 1: it is late
	arrive              // a late request arrives
	observe             // a process observes the state of Lease arg
	stop                // SIGTERM
	end                 // the last run ends
	kill                // SIGKILL; another process starts with division arg
	remove              // a user deletes Lease arg
)

type step struct {
	kind kind
	proc uint8
	arg  uint8
}

// steps appends those that are possible.
func (w *world) steps(to []step) []step {
	to = append(to, step{kind: tick})
	for i := range w.procs {
		p := &w.procs[i]
		n := uint8(i)
		switch {
		case p.m.phase == Ended && p.m.lost == "" && !p.running, p.m.phase == Ended && p.m.lost != "":
			for _, d := range w.s.next {
				to = append(to, step{kill, n, uint8(d)})
			}
			continue
		case !p.sent && p.m.phase != Ended:
			to = append(to, step{act, n, 0})
		case p.sent && !p.message.executed:
			to = append(to, step{execute, n, 0}, step{fail, n, 0}, step{fail, n, 1})
		case p.sent:
			to = append(to, step{deliver, n, 0}, step{fail, n, 0})
		}
		if !p.m.stopping {
			to = append(to, step{stop, n, 0})
		} else if p.running {
			to = append(to, step{end, n, 0})
		}
		for _, d := range w.s.next {
			to = append(to, step{kill, n, uint8(d)})
		}
		to = append(to, step{observe, n, uint8(w.versions) % uint8(len(allLeases))}) // at random
	}
	for i := range w.late {
		to = append(to, step{arrive, 0, uint8(i)})
	}
	for i := range w.leases {
		if w.leases[i].exists {
			to = append(to, step{remove, 0, uint8(i)})
		}
	}
	return to
}

func (w *world) apply(s step) {
	p := &w.procs[s.proc]
	switch s.kind {
	case tick:
		for i := range w.procs {
			w.procs[i].clock += w.procs[i].speed
		}
	case act:
		w.act(p)
	case execute:
		p.message.answer, p.message.executed = w.execute(&p.message), true
	case deliver:
		w.deliver(p)
	case fail:
		if s.arg == 1 && len(w.late) < 2 {
			w.late = append(w.late, p.message)
		}
		p.sent = false
		p.m.Answer(p.message.action, moment(p.message.started), moment(p.clock), Answer{Result: Unknown})
	case arrive:
		w.execute(&w.late[s.arg])
		w.late = slices.Delete(w.late, int(s.arg), int(s.arg)+1)
	case observe:
		var l *Lease
		if at := &w.leases[s.arg]; at.exists {
			l = &at.Lease
		}
		p.m.Observe(moment(p.clock), allLeases[s.arg], l)
	case stop:
		p.m.Stop()
		if w.s.fault == releasedEarly && p.m.phase == Serving {
			p.m.Idle()
		}
	case end:
		p.running = false
		p.m.Idle()
	case kill:
		w.start(int(s.proc), int(s.arg))
	case remove:
		w.deleted = true
		w.leases[s.arg].exists = false
	}
	if p.m.phase == Serving && !p.m.idle {
		p.running = true
	}
	if p.m.phase == Ended && p.m.lost != "" {
		p.running = false
	}
}

func (w *world) act(p *process) {
	a := p.m.Next(moment(p.clock))
	switch a.Op {
	case Wait, End:
		return
	case Create, Take:
		p.before = w.list("")
	case Delete:
		if w.s.fault == clearedUnserved && a.Lease.Name == p.m.held.Name {
			a.Op = Clear
		}
	}
	p.sent, p.message = true, message{action: a, holder: p.m.c.Identity, division: p.m.c.Division, started: p.clock}
}

func (w *world) list(but string) (all []Lease) {
	for i := range w.leases {
		if w.leases[i].exists && w.leases[i].Name != but {
			all = append(all, w.leases[i].Lease)
		}
	}
	return all
}

// execute is the API server.
func (w *world) execute(m *message) Answer {
	a := m.action
	if a.Op == List {
		return Answer{Leases: w.list(divisions[elected][0])}
	}
	at := &w.leases[slices.Index(allLeases, a.Lease.Name)]
	switch {
	case a.Op == Create && at.exists:
		return Answer{Result: Changed}
	case a.Op == Create:
		w.versions++
		at.UID, at.exists = numbers[w.versions], true
	case !at.exists:
		return Answer{Result: Missing}
	case a.Op == Get:
		return Answer{Lease: at.Lease}
	case w.s.fault == bareDeletion && a.Op == Delete:
	case at.Version != a.Lease.Version || a.Op == Delete && at.UID != a.Lease.UID:
		return Answer{Result: Changed}
	}
	w.versions++
	at.Version = numbers[w.versions]
	switch a.Op {
	case Delete:
		at.exists = false
		return Answer{}
	case Clear:
		at.Holder = ""
	default:
		at.Holder, at.Division, at.Duration = m.holder, m.division, unit(w.s.duration)
	}
	return Answer{Lease: at.Lease}
}

func (w *world) deliver(p *process) {
	a, r := p.message.action, p.message.answer
	started, now := moment(p.message.started), moment(p.clock)
	switch {
	case w.s.fault == noList && p.m.phase == Checking && a.Op == List:
		r = Answer{}
	case w.s.fault == noList && p.m.phase == Checking && a.Op == Get && !p.m.doubted:
		r = Answer{Result: Missing}
	case w.s.fault == listBefore && p.m.phase == Checking && a.Op == List:
		r = Answer{Leases: slices.DeleteFunc(slices.Clone(p.before), func(l Lease) bool { return l.Name == divisions[elected][0] })}
	case w.s.fault == listBefore && p.m.phase == Checking && a.Op == Get && !p.m.doubted:
		r = Answer{Result: Missing}
		for _, l := range p.before {
			if l.Name == a.Lease.Name {
				r = Answer{Lease: l}
			}
		}
	case w.s.fault == identityOld && p.m.phase == Standby && a.Op == List:
		r.Leases = slices.Clone(r.Leases)
		for i := range r.Leases {
			if r.Leases[i].Holder == p.m.c.Identity {
				r.Leases[i].Holder = ""
			}
		}
	case w.s.fault == divisionUnread:
		r.Lease.Division = p.m.c.Division
		r.Leases = slices.Clone(r.Leases)
		for i := range r.Leases {
			r.Leases[i].Division = p.m.c.Division
		}
	case w.s.fault == deadEarly:
		r.Lease.Duration = 0
		r.Leases = slices.Clone(r.Leases)
		for i := range r.Leases {
			r.Leases[i].Duration = 0
		}
	case w.s.fault == fenceFromAnswer:
		started = now
	case w.s.fault == lateAnswerCounts && a.Op == Renew:
		now = started
	case w.s.fault == lateAnswerCounts && p.m.phase == Checking && a.Op == List:
		r.Leases = slices.DeleteFunc(slices.Clone(r.Leases), func(l Lease) bool { return w.dead(p, l) })
	}
	p.sent = false
	p.m.Answer(a, started, now, r)
}

// dead reports whether a process counts the holder of a Lease as dead.
func (w *world) dead(p *process, l Lease) bool {
	for s := range p.m.foreign() {
		if s.Name == l.Name && s.Version == l.Version {
			return !moment(p.clock).Steady.Before(p.m.death(s))
		}
	}
	return false
}

// serves reports whether a process may start a run, or send a request of one, now.
func (w *world) serves(p *process) bool {
	switch {
	case !p.running:
		return false
	case w.s.fault == noFence:
		return true
	case w.s.fault == releasedEarly:
		return moment(p.clock).Since(p.m.renewed) < p.m.c.RenewDeadline
	}
	return p.m.phase == Serving && !p.m.idle && moment(p.clock).Since(p.m.renewed) < p.m.c.RenewDeadline
}

// violation returns which promise is broken, or "".
func (w *world) violation() string {
	for i := range w.procs {
		p := &w.procs[i]
		if !w.serves(p) {
			continue
		}
		for j := range i {
			q := &w.procs[j]
			switch {
			case !w.serves(q):
			case p.division != q.division:
				if !w.deleted {
					return "two divisions are served"
				}
			case slices.Index(divisions[p.division], p.m.held.Name) == slices.Index(divisions[q.division], q.m.held.Name):
				if p.division != elected || !w.deleted {
					return "a shard is served twice"
				}
			}
		}
	}
	return ""
}

// weights make rare what is rare.
var weights = [...]int{tick: 30, act: 200, execute: 200, deliver: 200, fail: 6, arrive: 6, observe: 10, stop: 1, end: 20,
	kill: 1, remove: 1}

// walk is a path through the model.
type walk struct {
	*world
	path []step
	// broken is the promise that is broken first.
	broken string
}

func (w *walk) do(s ...step) {
	for _, s := range s {
		if w.broken == "" {
			w.path = append(w.path, s)
			w.apply(s)
			w.broken = w.violation()
		}
	}
}

// request makes a process send its next request, if it has one, and receive the answer.
func (w *walk) request(proc uint8) (sent bool) {
	w.do(step{act, proc, 0})
	if !w.procs[proc].sent {
		return false
	}
	w.do(step{execute, proc, 0}, step{deliver, proc, 0})
	return true
}

// until lets time pass while some processes work, until a condition holds.
func (w *walk) until(holds func() bool, procs ...uint8) {
	for range 100 {
		for moved := true; moved; {
			moved = false
			for _, p := range procs {
				if holds() {
					return
				}
				moved = w.request(p) || moved
			}
		}
		if holds() {
			return
		}
		w.do(step{kind: tick})
	}
}

// serving is the condition that a process serves.
func (w *walk) serving(proc uint8) func() bool {
	return func() bool { return w.serves(&w.procs[proc]) }
}

// next is the condition that the next request of a process is sent, with this operation, and nothing more.
func (w *walk) next(proc uint8, op Op) func() bool {
	return func() bool {
		p := &w.procs[proc]
		if !p.sent {
			w.do(step{act, proc, 0})
		}
		switch {
		case !p.sent:
			return false
		case p.message.action.Op == op:
			return true
		}
		w.do(step{execute, proc, 0}, step{deliver, proc, 0})
		return false
	}
}

// wander takes random steps, in walks of some hundred, and returns what was broken first. Begin, if set, has the first steps of each walk.
// Visit, if set, gets the world at the end of each.
func wander(s *setting, random *rand.Rand, begin func(*walk), total int, visit func(*world)) (broken string) {
	const long = 400
	var possible, path []step
	for taken := 0; taken < total; {
		w := &walk{world: newWorld(s), path: path[:0]}
		if begin != nil {
			begin(w)
		}
		for len(w.path) < long && w.broken == "" {
			possible = w.steps(possible[:0])
			w.do(choose(random, possible))
		}
		if w.broken != "" {
			return w.broken + ": " + describe(w.path)
		}
		taken += len(w.path)
		path = w.path
		if visit != nil {
			visit(w.world)
		}
	}
	return ""
}

func choose(random *rand.Rand, possible []step) step {
	sum := 0
	for _, s := range possible {
		sum += weights[s.kind]
	}
	n := random.IntN(sum)
	for _, s := range possible {
		if n -= weights[s.kind]; n < 0 {
			return s
		}
	}
	return possible[0]
}

func describe(path []step) string {
	words := [...]string{"tick", "act", "execute", "deliver", "fail", "arrive", "observe", "stop", "end", "kill", "remove"}
	var all []string
	for _, s := range path {
		all = append(all, words[s.kind]+" "+strconv.Itoa(int(s.proc))+" "+strconv.Itoa(int(s.arg)))
	}
	return strings.Join(all, ", ")
}

// recover ends all faults, and returns after how many ticks all shards of one division are served. All processes get that division; those
// that have it continue.
func (w *world) recover(random *rand.Rand, limit int) (ticks int) {
	division := w.procs[random.IntN(len(w.procs))].division
	for i := range w.late {
		w.execute(&w.late[i])
	}
	w.late = nil
	for i := range w.procs {
		if p := &w.procs[i]; p.division != division || p.m.phase == Ended || p.m.stopping {
			w.start(i, division)
		}
		w.procs[i].m.c.Jitter = func(limit time.Duration) time.Duration { return rand.N(limit) }
	}
	for ticks = 0; ticks < limit; ticks++ {
		for moved := true; moved; {
			moved = false
			for i := range w.procs {
				p := &w.procs[i]
				switch {
				case p.sent && !p.message.executed:
					w.apply(step{execute, uint8(i), 0})
				case p.sent:
					w.apply(step{deliver, uint8(i), 0})
				default:
					if w.apply(step{act, uint8(i), 0}); !p.sent {
						if p.m.phase == Ended {
							w.start(i, division)
							moved = true
						}
						continue
					}
				}
				moved = true
			}
		}
		if w.complete(division) {
			return ticks
		}
		w.apply(step{kind: tick})
	}
	return limit
}

// complete reports whether all shards of a division are served.
func (w *world) complete(division int) bool {
	for _, name := range divisions[division] {
		if !slices.ContainsFunc(w.procs[:], func(p process) bool {
			return p.division == division && p.m.phase == Serving && p.m.held.Name == name
		}) {
			return false
		}
	}
	return true
}
