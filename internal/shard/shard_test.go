package shard

import (
	"fmt"
	"hash/fnv"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestRuns(t *testing.T) {
	for _, test := range []struct {
		shard                 Shard
		none, object, divided bool
	}{
		{Shard{}, true, true, false}, {Shard{0, 1}, true, true, false}, {Shard{0, 3}, true, true, true}, {Shard{2, 3}, false, true, true},
		{Shard{Waiting, 3}, false, false, true},
	} {
		if got := test.shard.Runs(None); got != test.none {
			t.Errorf("%v runs a hook that divides nothing: %t", test.shard, got)
		}
		if got := test.shard.Runs(ByObject); got != test.object {
			t.Errorf("%v runs a hook that divides its objects: %t", test.shard, got)
		}
		if got := test.shard.Divided(); got != test.divided {
			t.Errorf("%v is divided: %t", test.shard, got)
		}
	}
}

func TestSelector(t *testing.T) {
	for _, test := range []struct {
		shard Shard
		want  string
	}{
		{Shard{0, 2}, "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"},
		{Shard{1, 2}, "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"},
		{Shard{0, 3}, "shardRange(object.metadata.uid, '0x0000000000000000', '0x5555555555555555')"},
		{Shard{1, 3}, "shardRange(object.metadata.uid, '0x5555555555555555', '0xaaaaaaaaaaaaaaaa')"},
		{Shard{2, 3}, "shardRange(object.metadata.uid, '0xaaaaaaaaaaaaaaaa', '0x10000000000000000')"},
		{Shard{}, ""},
	} {
		if got := test.shard.Part(ByObject).Selector(); got != test.want {
			t.Errorf("%v: %s, want %s", test.shard, got, test.want)
		}
	}
	for _, by := range []By{None, ByNamespace} {
		if got := (Shard{1, 3}).Part(by).Selector(); got != "" {
			t.Errorf("%q: %s", by, got)
		}
	}
}

// The bounds are ⌊2⁶⁴·i/N⌋ for every N, and the ranges are those that the API server is sent.
func TestBounds(t *testing.T) {
	for n := Min; n <= Max; n++ {
		for i := range n {
			want := new(big.Int).Lsh(big.NewInt(int64(i)), 64)
			want.Div(want, big.NewInt(int64(n)))
			if got := bound(i, n); got != want.Uint64() {
				t.Errorf("%d/%d: %x, want %x", i, n, got, want)
			}
			p := Shard{i, n}.Part(ByObject)
			if last := i == n-1; p.last != last || !last && p.to != bound(i+1, n) || p.from != bound(i, n) {
				t.Errorf("%d/%d: %+v", i, n, p)
			}
		}
	}
}

// The rules as the specification has them, in other words: an object has exactly one shard, by its uid or its namespace.
func TestRules(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "a", "default", "kube-system", "team-299", "8f3c1e7e-0000-4000-8000-000000000000"}
	for range 300 {
		texts = append(texts, fmt.Sprintf("team-%d", random.IntN(10_000)), fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", random.Uint32(),
			random.Uint32()>>16, random.Uint32()>>20, random.Uint32()>>16, random.Uint64()>>16))
	}
	for _, text := range texts {
		plain := fnv.New64a()
		plain.Write([]byte(text))
		h := plain.Sum64()
		if got := fnv1a(text); got != h {
			t.Errorf("%q: %x, want %x", text, got, h)
		}
		for n := Min; n <= Max; n++ {
			folded := int((h ^ h>>32) % uint64(n))
			for i := range n {
				s := Shard{i, n}
				if got := s.Part(ByNamespace).Has("other", text); got != (i == folded) {
					t.Errorf("namespace %q in shard %v: %t", text, s, got)
				}
				within := h >= bound(i, n) && (i == n-1 || h < bound(i+1, n)) // see TestBounds
				if got := s.Part(ByObject).Has(text, "other"); got != within {
					t.Errorf("uid %q in shard %v: %t", text, s, got)
				}
				if !s.Part(None).Has(text, text) {
					t.Fatalf("%v of a hook that divides nothing lacks an object", s)
				}
			}
		}
	}
}

func TestDivision(t *testing.T) {
	base := Division(3, map[string]By{"a": ByObject, "b": ByNamespace, "c": None})
	if len(base) != 8 {
		t.Errorf("%q has not 8 digits", base)
	}
	if got := Division(3, map[string]By{"b": ByNamespace, "a": ByObject, "d": None}); got != base {
		t.Error("hooks that divide nothing change the division")
	}
	for name, other := range map[string]string{
		"count":     Division(4, map[string]By{"a": ByObject, "b": ByNamespace}),
		"by":        Division(3, map[string]By{"a": ByObject, "b": ByObject}),
		"one less":  Division(3, map[string]By{"a": ByObject}),
		"other":     Division(3, map[string]By{"a": ByObject, "c": ByNamespace}),
		"swapped":   Division(3, map[string]By{"a": ByNamespace, "b": ByObject}),
		"one line":  Division(3, map[string]By{"a object\nb": ByNamespace}),
		"no hooks":  Division(3, nil),
		"two lines": Division(31, nil),
	} {
		if other == base {
			t.Errorf("%s: the division is the same", name)
		}
	}
}
