package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/test/chaos/record"
)

// at is a moment of a story, in seconds.
func at(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

// received parses the contexts of a hook: runs are divided by "|", a failed one ends with "!". A word is the list
// ("=x:1,y:2"), or +, ~ or - for a change, the object's name, and its count.
func received(text string) session {
	s := session{started: at(10)}
	for i, part := range strings.Split(text, "|") {
		r := run{at: at(20 + 10*i), done: !strings.HasSuffix(strings.TrimSpace(part), "!")}
		for _, word := range strings.Fields(strings.TrimSuffix(strings.TrimSpace(part), "!")) {
			c := record.Context{Binding: "b", Type: "Event"}
			if list, isList := strings.CutPrefix(word, "="); isList {
				c.Type, c.HasObjects = "Synchronization", true
				for one := range strings.SplitSeq(list, ",") {
					if one != "" {
						c.Objects = append(c.Objects, stateOf(one))
					}
				}
			} else {
				c.Watch = map[byte]string{'+': "Added", '~': "Modified", '-': "Deleted"}[word[0]]
				o := stateOf(word[1:])
				c.Object = &o
			}
			r.contexts = append(r.contexts, c)
		}
		s.runs = append(s.runs, r)
	}
	return s
}

// stateOf reads "x:3", or "x:3'" for the second object of that name.
func stateOf(text string) record.State {
	name, count, _ := strings.Cut(text, ":")
	s := record.State{Name: name, Kind: "K", Namespace: "n", UID: "first"}
	if trimmed, second := strings.CutSuffix(count, "'"); second {
		count, s.UID = trimmed, "second"
	}
	_, _ = fmt.Sscan(count, &s.Count)
	return s
}

// happened reads a history: words are a second, "@", the object's name and its count, or "-" and its count.
func happened(text string) history {
	h := history{}
	for word := range strings.FieldsSeq(text) {
		second, what, _ := strings.Cut(word, "@")
		what, gone := strings.CutPrefix(what, "-")
		s := stateOf(what)
		n := 0
		_, _ = fmt.Sscan(second, &n)
		h[key(s)] = append(h[key(s)], version{uid: s.UID, count: s.Count, gone: gone, began: at(n), known: at(n)})
	}
	return h
}

const story = "1@x:1 2@y:2 30@x:3 31@x:4 32@y:5 33@-y:5 34@y:6' 35@z:7"

func TestChecker(t *testing.T) {
	if !all {
		t.Skip("a test of the checker: run 'make chaos'")
	}
	for _, tt := range []struct {
		name, story, received string
		lost, hidden          []window
		// want is a part of each complaint.
		want []string
	}{
		{name: "all is well", received: "=x:1,y:2 | ~x:3 ~x:4 ~y:5 | -y:5 +y:6' | +z:7"},
		{name: "a failed run is received again", received: "=x:1,y:2 | ~x:3 ! | ~x:3 ~x:4 ! | ~x:3 ~x:4 ~y:5 | -y:5 +y:6' | +z:7"},
		{name: "the difference after a loss", received: "=x:1,y:2 | ~x:4 -y:2 +y:6' +z:7", lost: []window{{at(29), at(35)}}},
		{name: "out of sight and back", received: "=x:1,y:2 | ~x:3 ~x:4 ~y:5 -x:4 | -y:5 +y:6' +z:7 +x:4", hidden: []window{{at(25), at(45)}}},

		{name: "came and went unseen without a loss", story: "1@x:1 30@-x:1 31@x:2' 32@-x:2'", received: "=x:1 | -x:1",
			want: []string{"state 2 (gone false)", "state 2 (gone true)"}},
		{name: "missed", received: "=x:1,y:2 | ~x:4 ~y:5 -y:5 +y:6' +z:7", want: []string{"K/n/x the state 3 (gone false) was never shown"}},
		{name: "missed deletion", received: "=x:1,y:2 | ~x:3 ~x:4 ~y:5 +y:6' +z:7",
			want: []string{"was Added (6) but it was there", "y the state 5 (gone true)"}},
		{name: "twice", received: "=x:1,y:2 | ~x:3 ~x:4 ~x:4 ~y:5 -y:5 +y:6' +z:7", want: []string{"x (4) came twice"}},
		{name: "order", received: "=x:1,y:2 | ~x:4 ~x:3 ~y:5 -y:5 +y:6' +z:7",
			want: []string{"x the state 3", "x (3) came twice, or after a later state"}},
		{name: "the last state is missing", received: "=x:1,y:2 | ~x:3 ~x:4 ~y:5 -y:5 +y:6'", want: []string{"z is not its last state"}},
		{name: "incomplete list", received: "=x:1 | ~x:3 ~x:4 ~y:5 -y:5 +y:6' +z:7",
			want: []string{"does not show K/n/y", "which was not there"}},
		{name: "two lists", received: "=x:4,y:6' | =x:4,y:6' | +z:7", want: []string{"second Synchronization"}},
		{name: "a failed run is not received again", received: "=x:1,y:2 | ~x:3 ! | ~x:4 ~y:5 -y:5 +y:6' +z:7",
			want: []string{"a failed run received", "x the state 3"}},
		{name: "a modification of another object", received: "=x:1,y:2 | ~x:3 ~x:4 ~y:6' +z:7", lost: []window{{at(32), at(35)}},
			want: []string{"it is another object of this name"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.story == "" {
				tt.story = story
			}
			v := view{binding: "b", sees: func(string) bool { return true }, lost: tt.lost, hidden: func(string) []window { return tt.hidden }}
			wrong := check(happened(tt.story), v, []session{received(tt.received)})
			if len(wrong) != len(tt.want) {
				t.Fatalf("complaints %q, want %d", wrong, len(tt.want))
			}
			for _, part := range tt.want {
				if !slices.ContainsFunc(wrong, func(text string) bool { return strings.Contains(text, part) }) {
					t.Errorf("no complaint has %q: %q", part, wrong)
				}
			}
		})
	}
}

func TestCheckSnapshot(t *testing.T) {
	if !all {
		t.Skip("a test of the checker: run 'make chaos'")
	}
	v := view{binding: "b", sees: func(string) bool { return true }}
	for text, complaints := range map[string]int{
		"x:4 y:6' z:7":     0,
		"x:3 y:6' z:7":     1,
		"x:4 y:6 z:7":      1,
		"x:4 y:6'":         1,
		"x:4 y:6' z:7 q:1": 1,
		"":                 3,
	} {
		var states []record.State
		for word := range strings.FieldsSeq(text) {
			states = append(states, stateOf(word))
		}
		if wrong := checkSnapshot(happened(story), v, states); len(wrong) != complaints {
			t.Errorf("%s: %q", text, wrong)
		}
	}
}

// The first object of a name belongs to shard 1, the second one, whose uid is "other", to shard 0.
func TestCheckParts(t *testing.T) {
	if !all {
		t.Skip("a test of the checker: run 'make chaos'")
	}
	h := happened("1@y:2 33@-y:2 34@y:6'")
	h["K/n/y"][2].uid = "other"
	v := view{binding: "b", sees: func(string) bool { return true }}
	for text, complaints := range map[string][2]int{ // of shard 0 and of shard 1
		"= | +y:6'":           {0, 2},
		"=y:2 | -y:2":         {3, 0},
		"=y:2 | -y:2 | +y:6'": {2, 1},
	} {
		for s, want := range complaints {
			seen := received(text)
			for _, r := range seen.runs {
				for _, c := range r.contexts {
					if c.Object != nil && c.Object.UID == "second" {
						c.Object.UID = "other"
					}
				}
			}
			if wrong := check(ofShard(h, s, shard.ByObject), v, []session{seen}); len(wrong) != want {
				t.Errorf("shard %d, %s: %d complaints: %q", s, text, len(wrong), wrong)
			}
		}
	}
}
