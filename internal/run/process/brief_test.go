package process

import "testing"

// The error of a Python hook is its exception, the error of another hook its last lines; the rest is in the output.
func TestBrief(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    run()\n"
	for text, want := range map[string]string{
		"":                           "",
		"one\ntwo":                   "one\ntwo",
		"1\n2\n3\n4\n5\n6":           "… 2\n3\n4\n5\n6",
		trace + "RuntimeError: no\n": "RuntimeError: no",
		"before\n" + trace + "KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n" + trace +
			"ValueError: bad\nsecond line\n": "ValueError: bad",
		trace: trace,
	} {
		if got := Brief(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	failed := &ExitError{Hook: "a.py", Status: "exit status 1", Stderr: trace + "RuntimeError: no"}
	if got := failed.Error(); got != "a.py FAILED: RuntimeError: no" {
		t.Errorf("got %q", got)
	}
	killed := &ExitError{Hook: "a.sh", Status: "signal: killed"}
	if got := killed.Error(); got != "a.sh FAILED: cmd run: signal: killed (SIGKILL: perhaps the memory was not enough)" {
		t.Errorf("got %q", got)
	}
}
