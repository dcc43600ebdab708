package jq

import (
	"maps"
	"slices"
)

// Need is the part of a value that filters read. The rest need not be decoded. Nil is nothing, not even the presence of the
// value; of a touched value only the type is read.
type Need struct {
	// members are by name; rest is for all other members and for the elements of an array.
	members map[string]*Need
	rest    *Need
}

var (
	everything = func() *Need { n := &Need{}; n.rest = n; return n }()
	touched    = &Need{}
)

// NeedOf returns the union of what filters read.
func NeedOf(filters ...*Filter) *Need {
	var n *Need
	for _, f := range filters {
		n = merge(n, f.reads)
	}
	return n
}

// member is the need of a member, at least its type.
func (n *Need) member(name string) *Need {
	if m := n.lookup(name); m != nil {
		return m
	}
	return touched
}

func (n *Need) lookup(name string) *Need {
	if m, ok := n.members[name]; ok {
		return m
	}
	return n.rest
}

// elements is the need of each element of an array, at least its type.
func (n *Need) elements() *Need {
	if n.rest != nil {
		return n.rest
	}
	return touched
}

// without removes the values at paths, but not the objects on the way.
func (n *Need) without(paths [][]string) *Need {
	// Shorter paths first: the objects on the way of a longer path are still read, as they may cause an error.
	paths = slices.SortedFunc(slices.Values(paths), func(a, b []string) int { return len(a) - len(b) })
	for _, path := range paths {
		n = n.withoutPath(path)
	}
	return n
}

func (n *Need) withoutPath(path []string) *Need {
	var inner *Need
	if len(path) > 1 {
		inner = n.member(path[0]).withoutPath(path[1:])
	}
	c := &Need{members: maps.Clone(n.members), rest: n.rest}
	if c.members == nil {
		c.members = map[string]*Need{}
	}
	c.members[path[0]] = inner
	return c
}

func merge(a, b *Need) *Need {
	switch {
	case a == nil || b == everything:
		return b
	case b == nil || a == everything:
		return a
	}
	c := &Need{rest: merge(a.rest, b.rest)}
	for _, side := range []map[string]*Need{a.members, b.members} {
		for name := range side {
			if c.members == nil {
				c.members = map[string]*Need{}
			}
			c.members[name] = merge(a.lookup(name), b.lookup(name))
		}
	}
	return c
}
