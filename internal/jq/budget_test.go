package jq

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Filters that never end, or that would need all memory, end with an error, and in time.
func TestFiltersThatExplode(t *testing.T) {
	short, long := NewCompiler(Options{Timeout: 20 * time.Millisecond}), NewCompiler(Options{Timeout: 10 * time.Minute})
	for name, tt := range map[string]struct{ filter, want string }{
		"a loop":                            {"def f: f; f", "takes longer than 20ms"},
		"a loop without outputs":            {"last(repeat(1))", "takes longer than 20ms"},
		"outputs without end":               {"repeat(1)", "more than 100000 outputs"},
		"a text that doubles":               {`reduce range(60) as $i ("x"; . + .)`, "more than 256 MiB of memory"},
		"an array that grows":               {"reduce range(1e12) as $i ([]; . + [$i, $i])", ""},
		"an array of all":                   {"[range(1e12)]", ""},
		"arrays of itself":                  {"reduce range(60) as $i (1; [., .])", "more than 67108864 bytes"},
		"nested without end":                {"reduce range(1e5) as $i (1; [.])", "nested more than 10000 deep"},
		"objects of itself":                 {"reduce range(60) as $i (1; {a: ., b: .})", "more than 67108864 bytes"},
		"a number that grows":               {"reduce range(60) as $i (10; . * .)", "takes longer than"},
		"recursion that never ends":         {"[recurse(.)]", ""},
		"a long text that is within reason": {`"x" * 1e7 | length`, "10000000"},
	} {
		t.Run(name, func(t *testing.T) {
			c := short
			if tt.want != "" && !strings.Contains(tt.want, "takes longer") {
				c = long
			}
			f, err := c.Compile(tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			started := time.Now()
			result, err := f.Apply(context.Background(), nil)
			if took := time.Since(started); took > 2*time.Minute {
				t.Errorf("it took %s", took)
			}
			switch {
			case name == "a long text that is within reason":
				if err != nil || string(result) != "10000000" {
					t.Errorf("result %s, error %v", result, err)
				}
			case err == nil:
				t.Errorf("result of %d bytes", len(result))
			case !strings.Contains(err.Error(), tt.want):
				t.Errorf("error %q, want %q", err, tt.want)
			}
			runtime.GC()
		})
	}
}

// Memory that grows elsewhere during a slow filter is not the filter's.
func TestMemoryThatGrowsElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills hundreds of MiB, which takes two seconds of make unit")
	}
	for filter, want := range map[string]string{"last(range(200000))": "199999",
		`reduce range(60) as $i ("x"; . + .)`: "more than 256 MiB of memory"} {
		f, err := NewCompiler(Options{Timeout: time.Hour}).Compile(filter)
		if err != nil {
			t.Fatal(err)
		}
		looks := uint64(0)
		f.inUse = func() uint64 { // the initial list of another binding, 60 MiB at each look
			looks++
			return inUse() + min(looks, 40)*60<<20
		}
		result, err := f.Apply(t.Context(), nil)
		if err != nil {
			result = []byte(err.Error())
		}
		if !strings.Contains(string(result), want) {
			t.Errorf("%s: got %s, want %s", filter, result, want)
		}
		if looks < 5 {
			t.Errorf("%s: memory was measured %d times", filter, looks)
		}
		runtime.GC()
	}
}

// A filter stops soon after its context is cancelled.
func TestFilterIsCancelled(t *testing.T) {
	f, err := NewCompiler(Options{Timeout: time.Hour}).Compile("def f: f; f")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := f.Apply(ctx, nil)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
