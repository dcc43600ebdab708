package worker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// script drives a group by words: it names members and waiters by letters in the order of their appearance.
type script struct {
	group
	now     time.Time
	members map[string]*member
	waiters map[string]*waiter
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
		s.members[arg].state = leaving
	case "fails":
		todo = s.ended(s.now, s.members[arg], errors.New("killed"))
	case "ended":
		todo = s.ended(s.now, s.members[arg], nil)
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
			texts = append(texts, "start "+name)
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

// TestGroup runs testdata/group.txt: a line begins a group with its limits, or is a step and, behind a colon, what comes of it.
func TestGroup(t *testing.T) {
	golden.Scripts(t, "testdata/group.txt", func(t *testing.T, text string) string {
		var s *script
		var played strings.Builder
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			switch options, isGroup := strings.CutPrefix(line, "group"); {
			case line == "" || line[0] == '#':
			case isGroup:
				s = groupOf(t, strings.Fields(options))
			default:
				step, _, _ := strings.Cut(line, ":")
				line = strings.TrimSpace(step + ": " + s.do(step))
			}
			fmt.Fprintln(&played, line)
		}
		return played.String()
	})
}

// groupOf returns a group with these limits.
func groupOf(t *testing.T, options []string) *script {
	s := &script{now: time.Unix(0, 0), members: map[string]*member{}, waiters: map[string]*waiter{}}
	for _, option := range options {
		var err error
		switch name, value, _ := strings.Cut(option, "="); name {
		case "always":
			s.always = true
		case "maxRuns":
			s.limits.maxRuns, err = strconv.Atoi(value)
		case "maxAge":
			s.limits.maxAge, err = time.ParseDuration(value)
		case "idleTimeout":
			s.limits.idleTimeout, err = time.ParseDuration(value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
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
		hadReady := 0
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
			if ready := in[idle] + in[serving]; g.always && hadReady > 0 && ready == 0 && what != "ended" {
				t.Fatalf("seed %d: the last one that was ready ends without a successor\n%v", seed, log)
			} else {
				hadReady = ready
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
				var err error
				if m.state != leaving {
					err = errors.New("killed")
				}
				do("ended", g.ended(now, m, err))
			case pick == 7:
				now = now.Add(time.Duration(random.IntN(60)) * time.Second)
				do("tick", g.tick(now))
			}
		}
	}
}
