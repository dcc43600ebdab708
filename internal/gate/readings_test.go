package gate

import "testing"

// The slowest has to go when there are too many; who has ended is in nobody's way.
func TestReadings(t *testing.T) {
	r := NewReadings(2)
	broken := ""
	begin := func(name string) *Reading { return r.Begin(func() { broken += name }) }
	a, b := begin("a"), begin("b")
	if broken != "" {
		t.Fatalf("%s was broken off, although there is room for two", broken)
	}
	c := begin("c")
	if broken != "a" || !a.End() {
		t.Fatalf("%q was broken off, want a", broken)
	}
	if b.End() {
		t.Error("b was broken off")
	}
	d := begin("d")
	if broken != "a" {
		t.Errorf("%q was broken off although b had ended", broken)
	}
	e := begin("e")
	if broken != "ac" || !c.End() || d.End() || e.End() {
		t.Errorf("%q was broken off, want a and c", broken)
	}
}
