package effect

import (
	"maps"
	"regexp"
	"slices"
)

// MaxSetName keeps the set's name and the name of its hook readable beside each other.
const MaxSetName = 40

// dnsLabel is the name of a DNS label.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// IsSetName reports whether a set may have a name: it is a part of the parent's name.
func IsSetName(name string) bool { return len(name) <= MaxSetName && dnsLabel.MatchString(name) }

// ObjectSet is a complete list of objects: those that are not in it are pruned.
type ObjectSet struct {
	// Name is unique for the hook and the owner.
	Name string
	// Owner is the object that the set belongs to; nil means none.
	Owner   *Owner
	Objects []Member
	// Force adopts existing objects and takes fields from other managers.
	Force bool
	// Restore applies members again that other clients have changed.
	Restore bool
	// Finalizers are those that bindings of the hook add to their objects, so that a run can prune before an owner is gone.
	Finalizers []string
	// PruneKinds are the KeptKinds that are pruned nevertheless.
	PruneKinds []string
}

// Owner is the owner of a set. Its UID may be empty.
type Owner struct{ APIVersion, Kind, Namespace, Name, UID string }

// Member is an object of a set. Its namespace may be empty.
type Member struct {
	APIVersion, Kind, Namespace, Name string
	// Object is the manifest as JSON, without the metadata that only the API server sets.
	Object []byte
}

// keptKinds are kinds, with their groups, whose deletion loses data.
var keptKinds = map[string]string{
	"Namespace": "", "PersistentVolume": "", "PersistentVolumeClaim": "", "CustomResourceDefinition": "apiextensions.k8s.io",
}

// KeptKinds are the kinds that a Sync does not prune unless the hook names them.
func KeptKinds() []string { return slices.Sorted(maps.Keys(keptKinds)) }

// Keeps reports whether the set does not prune objects of a kind.
func (s *ObjectSet) Keeps(group, kind string) bool {
	of, kept := keptKinds[kind]
	return kept && of == group && !slices.Contains(s.PruneKinds, kind)
}
