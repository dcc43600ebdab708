package history

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/run"
)

// one is a run of a hook from its beginning to its end.
func one(h *History, hook string, task int, status Status, output ...string) {
	r := h.Begin(Run{Task: strconv.Itoa(task), Hook: hook, Attempt: 1, Why: []string{"onStartup"}, Events: 1})
	for _, line := range output {
		r.Output([]byte(line))
	}
	exit := "exit status 0"
	if status.Bad() {
		exit = "exit status 1"
	}
	r.End(Outcome{Status: status, Took: Duration(time.Second), Exit: exit})
}

func ids(runs []Run) string {
	var all []string
	for _, r := range runs {
		all = append(all, r.ID)
	}
	return strings.Join(all, " ")
}

// In a bubble each run has a time of its own.
func TestOldRunsGo(t *testing.T) {
	for _, test := range []struct {
		name     string
		statuses string // s, f, a for each run in order
		want     string
	}{
		{"few stay", "sf", "2-1 1-1"},
		{"the oldest go", "sssss", "5-1 4-1 3-1"},
		{"the last failure stays", "ffsssss", "7-1 6-1 2-1"},
		{"an allowed failure is one", "asssss", "6-1 5-1 1-1"},
		{"of failures the oldest go", "fffff", "5-1 4-1 3-1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := New()
				h.perHook = 3
				for i, c := range test.statuses {
					one(h, "h", i+1, map[rune]Status{'s': Succeeded, 'f': Failed, 'a': Allowed}[c])
					one(h, "other", 100+i, Succeeded)
					time.Sleep(time.Second)
				}
				if got := ids(h.Runs("h")); got != test.want {
					t.Errorf("got %s, want %s", got, test.want)
				}
			})
		})
	}
}

func TestBytesAreBounded(t *testing.T) {
	h := New()
	h.bytes, h.output = 20<<10, 4<<10
	long := strings.Repeat("x", 4<<10)
	for i := range 100 {
		hook := fmt.Sprintf("hook-%d", i%50)
		r := h.Begin(Run{Task: strconv.Itoa(i), Hook: hook, Attempt: 1, Why: make([]string, 10_000), Events: 10_000})
		r.Output([]byte(long + long))
		r.End(Outcome{Status: Failed, Error: long + long, Patches: make([]run.Change, 10_000)})
		if h.size > 20<<10 {
			t.Fatalf("after run %d: %d bytes", i, h.size)
		}
	}
	runs := h.Runs("")
	if len(runs) == 0 || len(runs) != h.ended.Len() || len(h.hooks) > len(runs) {
		t.Fatalf("%d runs of %d hooks, %d in the list", len(runs), len(h.hooks), h.ended.Len())
	}
	r := runs[0]
	if len(r.Output) > 4<<10 || !r.OutputCut || len(r.Error) > maxError+8 || len(r.Patches) != maxPatches || r.PatchCount != 10_000 ||
		len(r.Why) != maxWhy {
		t.Errorf("output %d (cut %t), error %d, %d of %d patches, %d reasons", len(r.Output), r.OutputCut, len(r.Error), len(r.Patches),
			r.PatchCount, len(r.Why))
	}
}

func TestRunningRunsAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		h.perHook = 1
		r := h.Begin(Run{Task: "1", Hook: "h", Attempt: 2, Why: []string{"a", "b", "c"}, Events: 5})
		r.Output([]byte("so far"))
		time.Sleep(3 * time.Second)
		one(h, "h", 2, Succeeded)
		one(h, "h", 3, Succeeded) // pushes out 2, not the running one
		got, ok := h.Run("1")
		if !ok || got.Status != Running || got.Took != Duration(3*time.Second) || got.Output != "so far\n" || got.ID != "1-2" {
			t.Errorf("got %+v", got)
		}
		if got.Reason() != "a, b, c and 2 more" {
			t.Errorf("reason %q", got.Reason())
		}
		if got := ids(h.Runs("h")); got != "3-1 1-2" {
			t.Errorf("runs %s", got)
		}
		if _, ok := h.Run("2-1"); ok {
			t.Error("the oldest run is still there")
		}
		r.End(Outcome{Status: Interrupted})
	})
}

func TestFollowersGetWhatHappens(t *testing.T) {
	h := New()
	all, mine := h.Follow("", 0), h.Follow("b", 0)
	defer all.Close()
	one(h, "a", 1, Succeeded, "hello")
	one(h, "b", 2, Failed)
	<-all.More()
	<-mine.More()
	text := func(f *Follower) string {
		var b strings.Builder
		for _, e := range f.Take() {
			fmt.Fprintf(&b, "%s %s: %s; ", e.Run, e.Kind, e.Text)
		}
		return b.String()
	}
	want := "1-1 began: onStartup; 1-1 printed: hello; 1-1 ended: succeeded after 1s: exit status 0; " +
		"2-1 began: onStartup; 2-1 ended: failed after 1s: exit status 1; "
	if got := text(all); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := text(mine); got != want[strings.Index(want, "2-1 began"):] {
		t.Errorf("the follower of b got %s", got)
	}
	mine.Close()
	mine.Close()
	late := h.Follow("", 1)
	defer late.Close()
	<-late.More()
	if got := text(late); got != "2-1 ended: failed after 1s: exit status 1; " {
		t.Errorf("a follower that begins with the last run got %s", got)
	}
	for last, want := range map[int]string{0: "", 9: "1-1 ended: succeeded after 1s: exit status 0; "} {
		f := h.Follow("a", last)
		if got := text(f); got != want {
			t.Errorf("the last %d runs of a: %s", last, got)
		}
		f.Close()
	}
	one(h, "b", 3, Succeeded)
	if got := text(mine); got != "" {
		t.Errorf("after its end a follower got %s", got)
	}
}

func TestSlowFollowersLoseEntries(t *testing.T) {
	h := New()
	f := h.Follow("", 0)
	defer f.Close()
	r := h.Begin(Run{Task: "1", Hook: "h", Attempt: 1})
	for range 2 * maxWaiting {
		r.Output([]byte("line"))
	}
	entries := f.Take()
	if last := entries[len(entries)-1]; len(entries) != maxWaiting+1 || last.Kind != Lost || last.Count != maxWaiting+1 {
		t.Errorf("%d entries, the last one %+v", len(entries), last)
	}
	for range 100 { // their bytes are bounded, too
		r.Output([]byte(strings.Repeat("x", 10*maxLine)))
	}
	if got := f.Take(); len(got) != MaxWaitingBytes/maxLine+1 || len(got[0].Text) != maxLine {
		t.Errorf("after that: %d entries", len(got))
	}
}

// Each object keeps its last failed and its last successful run beside the last runs of the hooks, and nothing else is kept.
func TestRunsByObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		h.perHook = 5
		random := rand.New(rand.NewPCG(1, 2))
		last := map[string]string{}
		for task := range 3000 {
			hook, status := strconv.Itoa(random.IntN(2)), []Status{Succeeded, Succeeded, Failed, Allowed, Interrupted}[random.IntN(5)]
			var why []string
			for range 1 + random.IntN(3) {
				object := fmt.Sprintf("shop/%d (orders)", random.IntN(200))
				if why = append(why, []string{"Added ", "Requeued "}[random.IntN(2)]+object); status != Interrupted {
					last[fmt.Sprint(hook, object, status.Bad())] = strconv.Itoa(task)
				}
			}
			h.Begin(Run{Task: strconv.Itoa(task), Hook: hook, Attempt: 1, Why: why, Events: len(why)}).End(Outcome{Status: status})
			time.Sleep(time.Millisecond)
		}
		wanted := map[string]bool{}
		for _, task := range last {
			wanted[task] = true
		}
		for _, r := range h.Runs("") {
			wanted[r.Task] = true
		}
		all := h.All("")
		for _, r := range all {
			if one, ok := h.Run(r.ID); !wanted[r.Task] || !ok || one.ID != r.ID {
				t.Errorf("run %s is wanted %t, found %t", r.ID, wanted[r.Task], ok)
			}
		}
		if len(all) != len(wanted) || len(h.Runs("")) > 2*6 || len(h.All("1"))+len(h.All("0")) != len(all) {
			t.Errorf("%d runs, %d of the hooks, want %d", len(all), len(h.Runs("")), len(wanted))
		}
	})
}

// Runs by object take the bytes that the last runs of hooks leave.
func TestBytesOfRunsByObject(t *testing.T) {
	h := New()
	h.perHook, h.bytes = 5, 20<<10
	for i := range 10 {
		one(h, "few", i, Succeeded)
	}
	for i := range 10_000 {
		why := []string{fmt.Sprintf("Added shop/%d (orders)", i)}
		h.Begin(Run{Task: strconv.Itoa(100 + i), Hook: "many", Attempt: 1, Why: why, Events: 1}).End(Outcome{Status: Failed})
		if h.size > h.bytes {
			t.Fatalf("after run %d: %d bytes", i, h.size)
		}
	}
	if got := ids(h.Runs("few")); len(h.Runs("many")) != 5 || strings.Count(got, "-") != 5 {
		t.Errorf("%d runs of one hook, of the other %s", len(h.Runs("many")), got)
	}
	all := h.All("many")
	if len(all) < 10 || all[len(all)-1].Task != strconv.Itoa(10_100-len(all)) || len(h.last) != len(all) {
		t.Errorf("%d runs, the first of task %s, %d objects", len(all), all[len(all)-1].Task, len(h.last))
	}
}

// Recording, reading and following are safe concurrently.
func TestConcurrentUse(t *testing.T) {
	h := New()
	h.perHook, h.bytes = 2, 8<<10
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 100 {
				one(h, strconv.Itoa(worker%3), worker*1000+i, []Status{Succeeded, Failed}[i%2], "line", "line")
			}
		})
		all.Go(func() {
			f := h.Follow("", 0)
			defer f.Close()
			for range 50 {
				h.Runs("1")
				h.Run("1001-1")
				f.Take()
			}
		})
	}
	all.Wait()
	for _, r := range h.Runs("") {
		if r.Status == Running {
			t.Errorf("%s still runs", r.ID)
		}
	}
}

func TestTailKeepsWholeCharacters(t *testing.T) {
	for _, test := range []struct {
		limit int
		lines []string
		want  string
		cut   bool
	}{
		{10, []string{"abc"}, "abc\n", false},
		{4, []string{"abc"}, "abc\n", false},
		{4, []string{"abcd"}, "bcd\n", true},
		{4, []string{"ä", "öü"}, "ü\n", true},
		{4, nil, "", false},
		{3, []string{"1", "2", "3", "4"}, "\n4\n", true},
	} {
		tail := tail{limit: test.limit}
		for _, line := range test.lines {
			tail.add([]byte(line))
		}
		if got, cut := tail.text(); got != test.want || cut != test.cut {
			t.Errorf("limit %d, %q: got %q %t", test.limit, test.lines, got, cut)
		}
	}
}

// TestWarningsAreKept: of more operations than a run keeps, those with warnings are kept.
func TestWarningsAreKept(t *testing.T) {
	h := New()
	patches := make([]run.Change, 1000)
	patches[900].Warnings = []string{"unknown field"}
	h.Begin(Run{Task: "1", Hook: "a.sh"}).End(Outcome{Status: Succeeded, Patches: patches})
	run := h.Runs("a.sh")[0]
	if len(run.Patches) != maxPatches || len(run.Patches[0].Warnings) != 1 || run.PatchCount != 1000 {
		t.Errorf("%d of %d, the first one %+v", len(run.Patches), run.PatchCount, run.Patches[0])
	}
}
