package httpserver

import "testing"

// A full BodyReads aborts its oldest read; ended reads do not count.
func TestBodyReads(t *testing.T) {
	r := NewBodyReads(2)
	aborted := ""
	begin := func(name string) *BodyRead { return r.Begin(func() { aborted += name }) }
	a, b := begin("a"), begin("b")
	if aborted != "" {
		t.Fatalf("%s was aborted, although there is room for two", aborted)
	}
	c := begin("c")
	if aborted != "a" || !a.End() {
		t.Fatalf("%q was aborted, want a", aborted)
	}
	if b.End() {
		t.Error("b was aborted")
	}
	d := begin("d")
	if aborted != "a" {
		t.Errorf("%q was aborted although b had ended", aborted)
	}
	e := begin("e")
	if aborted != "ac" || !c.End() || d.End() || e.End() {
		t.Errorf("%q was aborted, want a and c", aborted)
	}
}
