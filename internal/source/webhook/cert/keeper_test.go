package cert

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a store in memory with troubles.
type scripted struct {
	memory
	writeErr error
	// conflict is called before the next write, which then fails.
	conflict func()
	writes   int
}

func (s *scripted) write(ctx context.Context, old kept, next state) error {
	s.writes++
	if conflict := s.conflict; conflict != nil {
		s.conflict = nil
		conflict()
		return errConflict
	}
	if s.writeErr != nil {
		return s.writeErr
	}
	return s.memory.write(ctx, old, next)
}

func newTestKeeper(t *testing.T, s store, names ...string) (*keeper, *recorder) {
	t.Helper()
	log, lines := record(t)
	if names == nil {
		names = []string{"a"}
	}
	k, err := newKeeper(t.Context(), s, names, log)
	if err != nil {
		t.Fatal(err)
	}
	return k, lines
}

func look(t *testing.T, k *keeper) {
	t.Helper()
	if err := k.look(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestFirstWriterWins(t *testing.T) {
	s := &scripted{}
	var first *keeper
	s.conflict = func() { first, _ = newTestKeeper(t, &s.memory) }
	second, _ := newTestKeeper(t, s)
	if !slices.Equal(first.Bundle(), second.Bundle()) || !leaf(t, &first.Source).Equal(leaf(t, &second.Source)) {
		t.Error("the second writer has something else than the first one")
	}
	if s.writes != 1 {
		t.Errorf("%d writes", s.writes)
	}
}

// Who cannot write still takes what others wrote.
func TestCannotWrite(t *testing.T) {
	s := &scripted{}
	other, _ := newTestKeeper(t, &s.memory, "a")
	s.writeErr = errors.New("no")
	k, _ := newTestKeeper(t, s, "b")
	if !leaf(t, &k.Source).Equal(leaf(t, &other.Source)) {
		t.Error("it does not show what there is")
	}
	if err := k.look(t.Context()); err == nil {
		t.Error("no error about writing")
	}
}

// Replicas that want different names do not take the certificate from each other.
func TestDifferentNames(t *testing.T) {
	s := &scripted{}
	a, _ := newTestKeeper(t, s, "a", "10.0.0.1")
	b, _ := newTestKeeper(t, s, "b")
	for range 3 {
		look(t, a)
		look(t, b)
	}
	if got := strings.Join(namesOf(leaf(t, &a.Source)), " "); got != "a b 10.0.0.1" {
		t.Errorf("names are %q", got)
	}
	if s.writes != 2 {
		t.Errorf("%d writes", s.writes)
	}
}

// A process that lives for two years.
func TestInMemoryStaysFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := InMemory("localhost", "127.0.0.1", "0:0:0:0:0:0:0:1")
		if err != nil {
			t.Fatal(err)
		}
		run(t, s)
		if got := leaf(t, s).IPAddresses; len(got) != 2 || !got[1].Equal(net.IPv6loopback) {
			t.Errorf("IP addresses are %v", got)
		}
		first, certificates := s.Bundle(), map[string]bool{}
		for range 2 * 52 {
			time.Sleep(7 * day)
			trusts(t, first, leaf(t, s), "127.0.0.1", time.Now())
			certificates[leaf(t, s).SerialNumber.String()] = true
		}
		if !slices.Equal(first, s.Bundle()) || len(certificates) < 12 {
			t.Errorf("%d certificates in two years", len(certificates))
		}
	})
}

func TestOptions(t *testing.T) {
	for _, row := range []struct {
		o    ManagedOptions
		want string
	}{
		{ManagedOptions{}, "need the namespace"},
		{ManagedOptions{Names: []string{"a", ""}}, "none of them empty"},
		{ManagedOptions{Names: []string{"a"}}, "need the namespace"},
		{ManagedOptions{Names: []string{"a"}, Namespace: "ns"}, "the name of a Secret"},
	} {
		if _, err := Managed(t.Context(), row.o); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: error %v, want %q", row.o, err, row.want)
		}
	}
}
