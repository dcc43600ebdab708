package jq

import (
	"maps"
	"slices"
)

// Need is what filters read of a value. What it leaves out may be left out when the value is decoded. Nil stands for
// nothing, not even whether the value is there; of what is touched only the type counts.
type Need struct {
	// members are by name, rest is for all others, and for the elements of an array.
	members map[string]*Need
	rest    *Need
}

var (
	everything = func() *Need { n := &Need{}; n.rest = n; return n }()
	touched    = &Need{}
)

// NeedOf returns what all of the filters together read.
func NeedOf(filters ...*Filter) *Need {
	var n *Need
	for _, f := range filters {
		n = merge(n, f.reads)
	}
	return n
}

// member is what is needed of a member, at least its type.
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

// elements is what is needed of each element of an array, at least its type.
func (n *Need) elements() *Need {
	if n.rest != nil {
		return n.rest
	}
	return touched
}

// without leaves out what paths lead to, but not that the way there is one.
func (n *Need) without(paths [][]string) *Need {
	// The way of a longer path counts, even if a shorter one leads to it: it may be an error.
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
