// Package shard divides objects among the replicas that share the work.
//
// Callers may rely on this:
//   - Each object belongs to exactly one of N shards, which depends on its uid or its namespace, on N, and on nothing else.
//   - To decide that costs one hash of the uid or namespace, and no memory.
//   - The zero values mean an operator without shards: one shard has all objects, and runs all hooks.
package shard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
)

// Limits of the number of shards.
const (
	Min = 2
	Max = 64
)

// By is how the objects of a hook are divided. Its text is the value of the setting shardBy.
type By string

const (
	// None: the hook runs on shard 0 only, which has all objects.
	None By = ""
	// ByNamespace keeps the objects of a namespace together.
	ByNamespace By = "namespace"
	// ByObject divides by uid. The API server can do the same.
	ByObject By = "object"
)

// Shard is one of Count. The zero value means an operator without shards.
type Shard struct {
	// Index is between 0 and Count-1, or Waiting.
	Index, Count int
}

// Waiting is the Index of a process that waits for a shard.
const Waiting = -1

// Divided reports whether there are shards.
func (s Shard) Divided() bool { return s.Count > 1 }

func (s Shard) String() string {
	if s.Index == Waiting {
		return "none/" + strconv.Itoa(s.Count)
	}
	return strconv.Itoa(s.Index) + "/" + strconv.Itoa(s.Count)
}

// Runs reports whether hooks that divide their objects like this run on the shard.
func (s Shard) Runs(by By) bool {
	return s.Index != Waiting && (!s.Divided() || s.Index == 0 || by != None)
}

// Part returns the objects of a hook on the shard, which is not Waiting. The part of a hook that divides nothing is everything.
func (s Shard) Part(by By) Part {
	if !s.Divided() || by == None {
		return Part{}
	}
	p := Part{by: by, index: uint64(s.Index), count: uint64(s.Count), from: bound(s.Index, s.Count)}
	if p.last = s.Index == s.Count-1; !p.last {
		p.to = bound(s.Index+1, s.Count)
	}
	return p
}

// bound is ⌊2⁶⁴·i/n⌋ for i below n.
func bound(i, n int) uint64 {
	q, _ := bits.Div64(uint64(i), 0, uint64(n))
	return q
}

// Part is a part of all objects. The zero value is all of them. Parts can be compared.
type Part struct {
	by           By
	index, count uint64
	// from and to are the hashes of uids, to exclusive. If last, there is no upper bound.
	from, to uint64
	last     bool
}

// By is how the objects are divided; None for all objects.
func (p Part) By() By { return p.by }

// Has reports whether the part has an object. The namespace of a Namespace is its name.
func (p Part) Has(uid, namespace string) bool { return has(p, uid, namespace) }

// HasBytes is Has for a text that is being read.
func (p Part) HasBytes(uid, namespace []byte) bool { return has(p, uid, namespace) }

func has[T string | []byte](p Part, uid, namespace T) bool {
	switch p.by {
	case ByObject:
		h := fnv1a(uid)
		return h >= p.from && (p.last || h < p.to)
	case ByNamespace:
		h := fnv1a(namespace)
		return (h^h>>32)%p.count == p.index
	}
	return true
}

// Selector is the shardSelector of lists and watches, empty if there is none: ranges of hashes would keep similar names of namespaces
// together.
func (p Part) Selector() string {
	if p.by != ByObject {
		return ""
	}
	to := "0x10000000000000000"
	if !p.last {
		to = fmt.Sprintf("0x%016x", p.to)
	}
	return fmt.Sprintf("shardRange(object.metadata.uid, '0x%016x', '%s')", p.from, to)
}

// fnv1a is the hash that the API server has for shards, of 64 bits. That of hash/fnv needs memory for the bytes of a string.
func fnv1a[T string | []byte](s T) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// Lease returns the name of the Lease of a shard, made of the name for leader election. It does not depend on hooks, so a Role can have it.
func Lease(elected string, index int) string { return elected + "-shard-" + strconv.Itoa(index) }

// Division names the division of work: the number of shards, and how each hook divides its objects, by the name of the hook. Replicas with
// equal divisions share the work.
func Division(count int, hooks map[string]By) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%d\n", count)
	for _, name := range slices.Sorted(maps.Keys(hooks)) {
		if by := hooks[name]; by != None {
			fmt.Fprintf(sum, "%q %s\n", name, by)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:4])
}
