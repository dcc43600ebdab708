package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/spelling"
)

// The values of drift; the first is the default.
const driftRestore, driftIgnore = "restore", "ignore"

// syncKeys are the keys of a Sync.
var syncKeys = []string{"operation", "set", "owner", "objects", "drift", "allowEmpty", "force", "pruneKinds"}

// set reads a Sync. Unlike the other operations it rejects unknown keys: a mistyped one could delete or overwrite objects.
func (p *patchParser) set(out *effect.Patch, d *patchDocument) {
	number := out.Number
	unknown := d.unknown
	for _, key := range keys {
		if !slices.Contains(syncKeys, key) && !reflect.ValueOf(d.field(key)).Elem().IsZero() {
			unknown = append(unknown, key)
		}
	}
	for _, key := range unknown {
		p.unknownKey(number, key)
	}
	s := &effect.ObjectSet{Name: d.Set, Force: d.Force, Restore: d.Drift != driftIgnore}
	out.Name, out.Set = d.Set, s
	switch {
	case d.Set == "":
		p.wrong(number, "set", "is required for Sync", "write a name that is unique for this hook and owner")
	case !effect.IsSetName(d.Set):
		p.wrong(number, "set", fmt.Sprintf("%.100q is not a DNS label of at most %d characters", d.Set, effect.MaxSetName), "")
	}
	if d.Drift != "" && d.Drift != driftRestore && d.Drift != driftIgnore {
		p.wrong(number, "drift", notOneOf(d.Drift, []string{driftRestore, driftIgnore}), "")
	}
	p.owner(number, s, d.Owner)
	p.pruneKinds(number, s, d.PruneKinds)
	raw, ok := p.part(number, "objects", d.Objects)
	if !ok {
		return
	}
	var objects []json.RawMessage
	if json.Unmarshal(raw, &objects) != nil {
		p.wrong(number, "objects", "must be a list of manifests", "")
		return
	}
	if len(objects) == 0 && !d.AllowEmpty {
		p.wrong(number, "objects", "is empty, which prunes the whole set", "set \"allowEmpty: true\" if that is meant")
	}
	seen := map[identity]int{}
	for i, object := range objects {
		at := indexed("objects", i)
		m, ok := p.member(number, at, object)
		if !ok {
			continue
		}
		if first, twice := seen[identify(s, &m)]; twice {
			p.wrong(number, at, fmt.Sprintf("is the same object as objects[%d]", first), "")
		}
		seen[identify(s, &m)] = i
		s.Objects = append(s.Objects, m)
	}
}

// identity is an object as far as it is known without the API server.
type identity struct{ group, kind, namespace, name string }

func identify(s *effect.ObjectSet, m *effect.Member) identity {
	return identity{groupOf(m.APIVersion), m.Kind, cmp.Or(m.Namespace, ownerNamespace(s)), m.Name}
}

func (p *patchParser) unknownKey(number int, name string) {
	hint := "a Sync has " + strings.Join(syncKeys, ", ")
	if near := spelling.Nearest(name, syncKeys); near != "" && near != name {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	p.wrong(number, name, "is not a key of Sync", hint)
}

func (p *patchParser) owner(number int, s *effect.ObjectSet, raw json.RawMessage) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	raw, ok := p.part(number, "owner", raw)
	if !ok {
		return
	}
	var o map[string]string
	if json.Unmarshal(raw, &o) != nil {
		p.wrong(number, "owner", "must have apiVersion, kind, name, and for a namespaced kind namespace, as strings", "")
		return
	}
	s.Owner = &effect.Owner{APIVersion: o["apiVersion"], Kind: o["kind"], Namespace: o["namespace"], Name: o["name"], UID: o["uid"]}
	p.required(number, "", "owner.apiVersion", s.Owner.APIVersion, "owner.kind", s.Owner.Kind, "owner.name", s.Owner.Name)
	p.inPath(number, "owner.name", s.Owner.Name, "owner.namespace", s.Owner.Namespace)
	for name := range o {
		if !slices.Contains([]string{"apiVersion", "kind", "namespace", "name", "uid"}, name) {
			p.wrong(number, "owner."+name, "is unknown", "an owner has apiVersion, kind, namespace, name and uid")
		}
	}
}

func (p *patchParser) pruneKinds(number int, s *effect.ObjectSet, raw json.RawMessage) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	raw, ok := p.part(number, "pruneKinds", raw)
	if ok && json.Unmarshal(raw, &s.PruneKinds) != nil {
		p.wrong(number, "pruneKinds", "must be a list of kinds", "")
	}
	for i, kind := range s.PruneKinds {
		if !slices.Contains(effect.KeptKinds(), kind) {
			p.wrong(number, indexed("pruneKinds", i), notOneOf(kind, effect.KeptKinds()), "all other kinds are pruned in any case")
		}
	}
}

// member reads a manifest of a set.
func (p *patchParser) member(number int, at string, raw json.RawMessage) (effect.Member, bool) {
	before := p.violations.count()
	one := effect.Patch{Operation: effect.Sync, Number: number}
	p.manifest(&one, at, raw)
	if strings.HasSuffix(one.Kind, "List") && member(one.Object, "items") != nil {
		p.wrong(number, at, "is a list of objects", "write its items into objects")
	}
	return effect.Member{APIVersion: one.APIVersion, Kind: one.Kind, Namespace: one.Namespace, Name: one.Name, Object: one.Object},
		p.violations.count() == before
}

// ownerNamespace is the default of the namespaces of members, as far as it is known without the API server.
func ownerNamespace(s *effect.ObjectSet) string {
	if s.Owner == nil {
		return ""
	}
	return s.Owner.Namespace
}

func groupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

// lastOfEachSet drops each Sync that a later one of the same set replaces.
func lastOfEachSet(patches []effect.Patch) []effect.Patch {
	type set struct {
		name  string
		owner identity
	}
	of := func(s *effect.ObjectSet) set {
		if s.Owner == nil {
			return set{name: s.Name}
		}
		return set{s.Name, identity{groupOf(s.Owner.APIVersion), s.Owner.Kind, s.Owner.Namespace, s.Owner.Name}}
	}
	last := map[set]int{}
	for i := range patches {
		if patches[i].Set != nil {
			last[of(patches[i].Set)] = i
		}
	}
	kept := patches[:0]
	for i, p := range patches {
		if p.Set == nil || last[of(p.Set)] == i {
			kept = append(kept, p)
		}
	}
	return kept
}
