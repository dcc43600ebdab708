package health

import (
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// TestMissingIsCurrent names every missing permission, and none that has been granted.
func TestMissingIsCurrent(t *testing.T) {
	h := &hook.Hook{Name: "a.sh", Kubernetes: make([]hook.Kubernetes, 3), Validating: make([]hook.Admission, 1)}
	missing := []string{`binding "cms": no permission to list configmaps`, `binding "pods": no permission to list pods`}
	s := New(func(*hook.Hook) []string { return missing })
	s.Expect([]*hook.Hook{h})
	expect := func(want string) {
		t.Helper()
		notes, err := s.Ready()
		if err == nil || !slices.Equal(notes, []string{want}) {
			t.Errorf("notes %q, error %v", notes, err)
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
	s := New(func(*hook.Hook) []string { return nil })
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
	<-s.Answering()
	s.SetRole("leader", false)
	added := &hook.Hook{Name: "b.sh", Kubernetes: make([]hook.Kubernetes, 1), Validating: make([]hook.Admission, 1)}
	s.Expect([]*hook.Hook{added})
	if s.Reloaded(map[string]string{"c.sh": "x"}); s.Rejected()["c.sh"] != "x" {
		t.Error("the rejected hook is not known")
	}
	notes, err := s.Ready()
	if err != nil || len(notes) != 2 {
		t.Errorf("a hook that was added makes the operator unready: %q, %v", notes, err)
	}
	select {
	case <-s.Answering():
		t.Error("the added hook cannot answer yet")
	default:
	}
	s.Hold(added, "its previous version runs")
	if notes, _ := s.Ready(); !slices.Contains(notes, `hook "b.sh" waits: its previous version runs`) || s.Waiting(added) != "its previous version runs" {
		t.Errorf("notes %q, waiting for %q", notes, s.Waiting(added))
	}
	s.Hold(added, "")
	s.Enabled(added)
	if s.Waiting(added) != "" {
		t.Errorf("waiting for %q", s.Waiting(added))
	}
}
