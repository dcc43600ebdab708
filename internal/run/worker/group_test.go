package worker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// script drives a group by words: it names members and waiters by letters in the order of their appearance.
type script struct {
	group
	now     time.Time
	members map[string]*member
	waiters map[string]*waiter
}

func newScript(l limits, always bool) *script {
	return &script{group: group{limits: l, always: always}, now: time.Unix(0, 0), members: map[string]*member{}, waiters: map[string]*waiter{}}
}

// do does one step and returns the actions as text.
func (s *script) do(step string) string {
	words := strings.Fields(step)
	var todo []action
	switch arg := words[len(words)-1]; words[0] {
	case "want":
		s.waiters[arg] = &waiter{}
		todo = s.want(s.now, s.waiters[arg])
	case "left":
		s.left(s.waiters[arg])
	case "ready":
		todo = s.ready(s.now, s.members[arg])
	case "served":
		todo = s.served(s.now, s.members[arg])
	case "unsent":
		s.unsent(s.members[arg])
	case "fails":
		todo = s.ended(s.now, s.members[arg], false)
	case "ended":
		todo = s.ended(s.now, s.members[arg], true)
	case "retire":
		todo = s.retire()
	case "after":
		d, err := time.ParseDuration(arg)
		if err != nil {
			panic(err)
		}
		s.now = s.now.Add(d)
		todo = s.tick(s.now)
	case "next":
		if due := s.next(); !due.IsZero() {
			return due.Sub(s.now).String()
		}
		return "never"
	}
	var texts []string
	for _, a := range todo {
		name := ""
		for key, m := range s.members {
			if m == a.member {
				name = key
			}
		}
		if a.kind == start {
			name = string(rune('A' + len(s.members)))
			s.members[name] = a.member
			texts = append(texts, fmt.Sprintf("start %s for %s", name, a.member.reason))
			continue
		}
		run := ""
		for key, w := range s.waiters {
			if w == a.waiter {
				run = key
			}
		}
		texts = append(texts,
			strings.TrimSpace(map[actionKind]string{give: "give", fail: "fail", end: "end"}[a.kind]+" "+strings.TrimSpace(name+" "+run)))
	}
	return strings.Join(texts, ", ")
}

func TestGroup(t *testing.T) {
	for _, test := range []struct {
		name   string
		limits limits
		always bool
		// steps are "step: actions".
		steps string
	}{
		{"the one that served last", limits{}, false, `
want 1: start A for demand
want 2: start B for demand
ready A: give A 1
ready B: give B 2
served A:
served B:
want 3: give B 3
want 4: give A 4
want 5: start C for demand
`},
		{"the first that is free", limits{}, false, `
want 1: start A for demand
ready A: give A 1
want 2: start B for demand
served A: give A 2
ready B:
want 3: give B 3
`},
		{"a start whose run has another worker is for the next run", limits{}, false, `
want 1: start A for demand
ready A: give A 1
want 2: start B for demand
served A: give A 2
want 3:
ready B: give B 3
`},
		{"who waits longest is first, and the starts change their owners", limits{}, false, `
want 1: start A for demand
want 2: start B for demand
ready B: give B 1
fails A: fail 2
`},
		{"a failed start fails the run that waits for it", limits{}, false, `
want 1: start A for demand
want 2: start B for demand
fails B: fail 2
ready A: give A 1
served A:
`},
		{"a run that has gone", limits{}, false, `
want 1: start A for demand
left 1:
ready A:
want 2: give A 2
`},
		{"a failed start of which the run has gone", limits{}, false, `
want 1: start A for demand
left 1:
fails A:
want 2: start B for failure
`},
		{"maxRuns", limits{maxRuns: 2}, false, `
want 1: start A for demand
ready A: give A 1
served A:
want 2: give A 2
served A: end A
want 3: start B for renewal
ended A:
`},
		{"maxRuns while another run waits", limits{maxRuns: 1}, false, `
want 1: start A for demand
ready A: give A 1
want 2: start B for demand
served A: end A
ready B: give B 2
`},
		{"maxAge", limits{maxAge: time.Hour}, false, `
want 1: start A for demand
ready A: give A 1
after 30m:
served A:
next: 30m0s
after 29m:
want 2: give A 2
after 2m:
served A: end A
`},
		{"maxAge of an idle one", limits{maxAge: time.Hour}, false, `
want 1: start A for demand
ready A: give A 1
served A:
after 1h: end A
next: never
`},
		{"idleTimeout", limits{idleTimeout: time.Minute}, false, `
want 1: start A for demand
want 2: start B for demand
ready A: give A 1
ready B: give B 2
served A:
after 30s:
served B:
next: 30s
after 30s: end A
after 30s: end B
want 3: start C for demand
`},
		{"a worker that has ended before it got the run", limits{}, false, `
want 1: start A for demand
ready A: give A 1
unsent A:
want 1: start B for demand
fails A:
ready B: give B 1
`},
		{"files have changed", limits{}, false, `
want 1: start A for demand
want 2: start B for demand
ready A: give A 1
ready B: give B 2
served B:
retire: end B
served A: end A
want 3: start C for renewal
ready C: give C 3
served C: end C
`},
		{"always one", limits{maxRuns: 2, idleTimeout: time.Minute}, true, `
after 0s: start A for demand
ready A:
next: never
after 1h:
want 1: give A 1
served A:
want 2: give A 2
served A: start B for renewal
want 3: give A 3
served A:
ready B: end A
ended A:
want 4: give B 4
`},
		{"always one, the others rest", limits{idleTimeout: time.Minute}, true, `
after 0s: start A for demand
ready A:
want 1: give A 1
want 2: start B for demand
ready B: give B 2
served A:
served B:
after 1m: end A
after 1h:
`},
		{"always one, which cannot be started", limits{}, true, `
after 0s: start A for demand
fails A:
next: 1s
after 1s: start B for failure
fails B:
next: 2s
after 2s: start C for failure
ready C:
fails C:
next: 4s
want 1: start D for failure
fails D: fail 1
next: 8s
after 8s: start E for failure
ready E:
want 2: give E 2
served E:
fails E: start F for failure
`},
		{"always one, which is killed in a run", limits{}, true, `
after 0s: start A for demand
ready A:
want 1: give A 1
fails A:
next: 1s
after 1s: start B for failure
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScript(test.limits, test.always)
			for line := range strings.Lines(strings.TrimPrefix(test.steps, "\n")) {
				step, want, _ := strings.Cut(strings.TrimSpace(line), ":")
				if got := s.do(step); got != strings.TrimSpace(want) {
					t.Fatalf("%s: %q, want %q", step, got, strings.TrimSpace(want))
				}
			}
		})
	}
}

// The invariants hold in any order of events.
func TestGroupInvariants(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		g := &group{limits: limits{maxRuns: random.IntN(4), maxAge: time.Duration(random.IntN(3)) * time.Minute,
			idleTimeout: time.Duration(random.IntN(3)) * time.Minute}, always: random.IntN(2) == 0}
		now := time.Unix(0, 0)
		var alive []*member // processes, until ended is called
		running := map[*waiter]*member{}
		waiting := map[*waiter]bool{}
		var log []string
		do := func(what string, todo []action) {
			log = append(log, what)
			for _, a := range todo {
				switch a.kind {
				case start:
					alive = append(alive, a.member)
				case give:
					if !waiting[a.waiter] || !slices.Contains(alive, a.member) {
						t.Fatalf("seed %d: a run that does not wait, or a worker that has ended\n%v", seed, log)
					}
					for _, other := range running {
						if other == a.member {
							t.Fatalf("seed %d: a worker serves two runs\n%v", seed, log)
						}
					}
					delete(waiting, a.waiter)
					running[a.waiter] = a.member
				case fail:
					if !waiting[a.waiter] {
						t.Fatalf("seed %d: a run fails that does not wait\n%v", seed, log)
					}
					delete(waiting, a.waiter)
				}
			}
			in := map[state]int{}
			for _, m := range g.members {
				in[m.state]++
			}
			if len(waiting) > 0 && in[idle] > 0 || len(waiting) > in[starting] {
				t.Fatalf("seed %d: %d runs wait, workers by state: %v\n%v", seed, len(waiting), in, log)
			}
			if g.always && !g.retired && !slices.ContainsFunc(g.members, func(m *member) bool { return m.state != leaving }) &&
				!now.Before(g.retryAt) && what != "left" {
				t.Fatalf("seed %d: none is there\n%v", seed, log)
			}
		}
		do("tick", g.tick(now))
		for range 60 {
			switch pick := random.IntN(8); {
			case pick <= 1:
				w := &waiter{}
				waiting[w] = true
				do("want", g.want(now, w))
			case pick == 2 && len(waiting) > 0:
				for w := range waiting {
					delete(waiting, w)
					g.left(w)
					break
				}
				do("left", nil)
			case pick == 3:
				for _, m := range alive {
					if m.state == starting {
						do("ready", g.ready(now, m))
						break
					}
				}
			case pick <= 5 && len(running) > 0:
				for w, m := range running {
					delete(running, w)
					do("served", g.served(now, m))
					break
				}
			case pick == 6 && len(alive) > 0:
				i := random.IntN(len(alive))
				m := alive[i]
				alive = slices.Delete(alive, i, i+1)
				for w, other := range running {
					if other == m {
						delete(running, w)
					}
				}
				do("ended", g.ended(now, m, m.state == leaving))
			case pick == 7:
				now = now.Add(time.Duration(random.IntN(60)) * time.Second)
				do("tick", g.tick(now))
			}
		}
	}
}
