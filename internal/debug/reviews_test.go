package debug

import "testing"

// TestReviews plays reviews: + succeeds, - fails. A binding is failing when its last three have failed.
func TestReviews(t *testing.T) {
	for script, want := range map[string]int{"": 0, "+": 0, "--": 0, "---": 3, "+-----": 5, "---+": 0, "---+--": 0} {
		r, of := Reviews{}, Reviewed{"a.sh", "b"}
		for _, one := range script {
			r.Add(of, one == '-')
		}
		if got := r.Failing(of); got != want || r.Failing(Reviewed{"other.sh", "b"}) > 0 {
			t.Errorf("%q: %d, want %d", script, got, want)
		}
		if r.Forget(); r.Failing(of) > 0 {
			t.Errorf("%q: it is not forgotten", script)
		}
	}
}
