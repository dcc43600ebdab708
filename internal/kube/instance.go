package kube

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Installation names an operator among the operators of a cluster.
type Installation struct {
	// Name is the given one; empty means NAMESPACE.LEASE.
	Name string
	// Namespace is the given namespace of the operator; it may be empty. Lease is the name of its Lease.
	Namespace, Lease string
}

// Instance returns the name of the installation.
func (c *Cluster) Instance(i Installation) string {
	if i.Name != "" {
		return i.Name
	}
	namespace, _ := c.OwnNamespace(i.Namespace) // unknown only where the files of a Pod's ServiceAccount are incomplete
	return cmp.Or(namespace, "default") + "." + i.Lease
}

// maxManager is the number of bytes that the API allows in the name of a field manager.
const maxManager = 128

// FieldManager returns the name of a field manager: shell-operator and the parts, with slashes between them. A hash replaces the end of a
// long one.
func FieldManager(parts ...string) string {
	name := "shell-operator/" + strings.Join(parts, "/")
	if len(name) <= maxManager {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	end := "-" + hex.EncodeToString(hash[:4])
	return strings.ToValidUTF8(name[:maxManager-len(end)], "") + end
}
