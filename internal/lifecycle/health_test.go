package lifecycle

import (
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
)

// TestMissingIsCurrent names every missing permission, and none that has been granted.
func TestMissingIsCurrent(t *testing.T) {
	h := &hook.Hook{Name: "a.sh", Kubernetes: make([]hook.Kubernetes, 3), Validating: make([]hook.Admission, 1)}
	missing := []string{`binding "cms": no permission to list configmaps`, `binding "pods": no permission to list pods`}
	s := NewHealth(func(*hook.Hook) []string { return missing })
	s.Expect([]*hook.Hook{h})
	expect := func(want string) {
		t.Helper()
		if notes, _ := s.Ready(); !slices.Equal(notes, []string{want}) {
			t.Errorf("notes %q", notes)
		}
	}
	expect(`hook "a.sh" waits: ` + strings.Join(missing, "; "))
	missing = missing[1:]
	expect(`hook "a.sh" waits: binding "pods": no permission to list pods`)
	missing = nil
	expect(`hook "a.sh" waits: its kubernetes bindings are being enabled`)
	s.Enabled(h)
	if notes, err := s.Ready(); len(notes) > 0 || err != nil {
		t.Errorf("notes %q, error %v", notes, err)
	}
}

// TestReadyStaysReady covers the steps of a start and a reload that adds a hook.
func TestReadyStaysReady(t *testing.T) {
	one := 1
	h := &hook.Hook{Name: "a.sh", OnStartup: &one, HTTP: make([]hook.HTTP, 1)}
	s := NewHealth(func(*hook.Hook) []string { return nil })
	if _, err := s.Ready(); err == nil {
		t.Error("ready before hooks are loaded")
	}
	s.Expect([]*hook.Hook{h})
	if _, err := s.Ready(); err == nil || s.Waiting(h) != isStarting {
		t.Errorf("error %v, waiting for %q", err, s.Waiting(h))
	}
	s.SetRole("standby", true)
	if notes, err := s.Ready(); err != nil || !slices.Equal(notes, []string{"standby"}) || s.Waiting(h) != "" {
		t.Errorf("a standby waits for onStartup: %q, %v", notes, err)
	}
	if !answers(s, h) {
		t.Error("a standby does not answer")
	}
	s.SetRole("leader", false)
	added := including("b.sh")
	s.Expect([]*hook.Hook{added})
	if s.Reloaded(map[string]hookset.Rejection{"c.sh": {Text: "x"}}); s.Rejected()["c.sh"].Text != "x" {
		t.Error("the rejected hook is not known")
	}
	notes, err := s.Ready()
	if err != nil || len(notes) != 2 {
		t.Errorf("a hook that was added makes the operator unready: %q, %v", notes, err)
	}
	if answers(s, added) {
		t.Error("the added hook cannot answer yet")
	}
	s.Hold(added, "its previous version runs")
	if notes, _ := s.Ready(); !slices.Contains(notes, `hook "b.sh" waits: its previous version runs`) ||
		s.Waiting(added) != "its previous version runs" {
		t.Errorf("notes %q, waiting for %q", notes, s.Waiting(added))
	}
	s.Hold(added, "")
	s.Enabled(added)
	if s.Waiting(added) != "" {
		t.Errorf("waiting for %q", s.Waiting(added))
	}
}

// including returns a hook with two kubernetes bindings, the first of which its reviews include.
func including(name string) *hook.Hook {
	return &hook.Hook{Name: name, Kubernetes: make([]hook.Kubernetes, 2),
		Validating: []hook.Admission{{Binding: hook.Binding{Includes: []int{0}}}}}
}

// A hook answers as soon as each snapshot that its requests include is filled or cannot be. Only its runs wait for its other bindings.
func TestAnswersWithoutWhatIsMissing(t *testing.T) {
	s := NewHealth(func(*hook.Hook) []string { return nil })
	h := including("a.sh")
	h.Kubernetes = append(h.Kubernetes, hook.Kubernetes{})
	h.Validating[0].Includes = []int{0, 2}
	s.Expect([]*hook.Hook{h})
	s.Answerable(h, 1)
	s.Answerable(h, 0) // its kind is missing
	if answers(s, h) {
		t.Error("it answers while the list of binding 2 is on its way")
	}
	if _, err := s.Ready(); err == nil {
		t.Error("the operator is ready")
	}
	if s.Answerable(h, 2); !answers(s, h) {
		t.Error("it does not answer")
	}
	if notes, err := s.Ready(); err != nil || s.Waiting(h) != isEnabling || !slices.Equal(notes,
		[]string{`hook "a.sh" waits: ` + isEnabling}) {
		t.Errorf("events of the hook wait for %q, notes %q, error %v", s.Waiting(h), notes, err)
	}
}

// A hook that waits holds up no other. The operator is ready when nothing only begins.
func TestHookByHook(t *testing.T) {
	one := 1
	plain := &hook.Hook{Name: "plain.sh", Validating: make([]hook.Admission, 1)}
	waits := including("waits.sh")
	starts := &hook.Hook{Name: "starts.sh", OnStartup: &one}
	behind := &hook.Hook{Name: "behind.sh", OnStartup: &one, HTTP: make([]hook.HTTP, 1)}
	var missing []string
	s := NewHealth(func(*hook.Hook) []string { return missing })
	changed := s.Changed()
	s.Expect([]*hook.Hook{plain, waits, starts, behind})
	expect := func(ready bool, answering ...*hook.Hook) {
		t.Helper()
		if _, err := s.Ready(); (err == nil) != ready {
			t.Errorf("error %v", err)
		}
		for _, h := range []*hook.Hook{plain, waits, starts, behind} {
			if answers(s, h) != slices.Contains(answering, h) {
				t.Errorf("%s answers: %t", h.Name, answers(s, h))
			}
		}
	}
	stuck := func(want ...string) {
		t.Helper()
		for i, h := range []*hook.Hook{plain, waits, starts, behind} {
			if got := s.Stuck(h); got != want[i] {
				t.Errorf("%s is stuck: %q", h.Name, got)
			}
		}
	}
	<-changed
	expect(false, plain)
	stuck("", "", "", "")
	missing = []string{"the kind is not served"}
	expect(false, plain) // behind.sh only begins
	stuck("", missing[0], "", missing[0])
	changed = s.Changed()
	s.StartupFailed(starts)
	<-changed
	expect(true, plain)
	stuck("", `the onStartup run of hook "starts.sh" fails`, `the onStartup run of hook "starts.sh" fails`,
		`the onStartup run of hook "starts.sh" fails`)
	missing = nil
	s.Started(starts)
	expect(true, plain) // and stays ready
	stuck("", "", "", "")
	changed = s.Changed()
	s.Enabled(waits)
	<-changed
	s.Started(behind)
	expect(true, plain, waits, behind)
	next := including("waits.sh")
	s.Expect([]*hook.Hook{plain, next})
	expect(true, plain, waits, behind) // those that leave, too
	if answers(s, next) {
		t.Error("the next version answers before it is enabled")
	}
	if s.Forget(waits); answers(s, waits) {
		t.Error("a hook that is gone answers")
	}
}

// answers reports whether a hook answers requests, with all bindings that get any.
func answers(s *Health, h *hook.Hook) bool { return serves(h) && len(waitingOf(s, h)) == 0 }

// waitingOf are the names of the bindings of a hook that do not answer yet.
func waitingOf(s *Health, h *hook.Hook) (names []string) {
	for a, b := range h.Bindings() {
		if a.Kind.Caller() != "" && !s.Answers(h, a) {
			names = append(names, b.Name)
		}
	}
	return names
}

// Each binding waits for the snapshots that it includes, a conversion not for lists that need conversions by hooks of this operator.
func TestBindingByBinding(t *testing.T) {
	one := 1
	binding := func(name string, includes ...int) hook.Binding { return hook.Binding{Name: name, Includes: includes} }
	const things, gadgets, maps = 0, 1, 2
	h := &hook.Hook{Name: "a.sh", OnStartup: &one, Kubernetes: make([]hook.Kubernetes, 3),
		Validating: []hook.Admission{{Binding: binding("reviews things", things)}, {Binding: binding("reviews")}},
		Conversions: []hook.Conversion{{Binding: binding("converts"), CRDName: "things.example.com"},
			{Binding: binding("converts with both", things, gadgets), CRDName: "things.example.com"},
			{Binding: binding("converts with maps", things, maps), CRDName: "things.example.com"}},
		HTTP: []hook.HTTP{{Binding: binding("serves gadgets", gadgets)}, {Binding: binding("serves")}},
	}
	other := &hook.Hook{Name: "b.sh", Conversions: []hook.Conversion{{CRDName: "gadgets.example.com"}}}
	var missing []string
	s := NewHealth(func(*hook.Hook) []string { return missing })
	s.Expect([]*hook.Hook{h, other})
	expect := func(ready bool, waiting ...string) {
		t.Helper()
		if _, err := s.Ready(); (err == nil) != ready {
			t.Errorf("error %v", err)
		}
		if got := waitingOf(s, h); !slices.Equal(got, waiting) {
			t.Errorf("%q wait", got)
		}
	}
	expect(false, "reviews things", "reviews", "converts", "converts with both", "converts with maps", "serves gadgets", "serves")
	s.Started(h)
	expect(false, "reviews things", "converts with both", "converts with maps", "serves gadgets")
	s.Listing(h, gadgets, "gadgets.example.com")
	s.Listing(h, maps, "configmaps")
	changed := s.Changed()
	s.Listing(h, things, "things.example.com")
	<-changed
	expect(false, "reviews things", "converts with maps", "serves gadgets")
	s.Answerable(h, maps)
	expect(true, "reviews things", "serves gadgets") // inside a cluster, the Service leads to ready Pods only
	s.Answerable(h, gadgets)
	s.Listing(h, gadgets, "gadgets.example.com") // after the end of its wait
	expect(true, "reviews things")
	s.Enabled(h)
	expect(true)
}
