package watch

import (
	"slices"

	"github.com/shell-operator/shell-operator/internal/shard"
)

// part is the objects of a resource that a shard has. The zero value is all of them. Parts can be compared.
type part struct {
	shard.Part
	// named: objects are Namespaces, which belong to themselves.
	named bool
}

// everything is the part of an operator without shards.
var everything part

func (p part) has(o *object) bool {
	if p.named {
		return p.Has(o.uid, o.name)
	}
	return p.Has(o.uid, o.namespace)
}

// hasBytes is has, before there is an object.
func (p part) hasBytes(uid, namespace, name []byte) bool {
	if p.named {
		return p.HasBytes(uid, name)
	}
	return p.HasBytes(uid, namespace)
}

// ownNamespaces returns the namespaces of a binding that the part has.
func (p part) ownNamespaces(names []string) []string {
	if p.By() != shard.ByNamespace {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !p.Has("", name) })
}
