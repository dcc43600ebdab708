package wire

import (
	"encoding/json"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// Operation is a Kubernetes operation in the form in which hooks write it: ParsePatches of its JSON is the operation. It has the keys of
// the operation only: the address of an object is in its manifest, the subresource of a Condition is left out.
type Operation struct {
	Operation   string          `json:"operation" holds:"word"`
	APIVersion  string          `json:"apiVersion,omitempty" holds:"word"`
	Kind        string          `json:"kind,omitempty" holds:"word"`
	Namespace   string          `json:"namespace,omitempty" holds:"word"`
	Name        string          `json:"name,omitempty" holds:"word"`
	Subresource string          `json:"subresource,omitempty" holds:"word"`
	Object      json.RawMessage `json:"object,omitempty" holds:"value"`
	MergePatch  json.RawMessage `json:"mergePatch,omitempty" holds:"value"`
	JSONPatch   json.RawMessage `json:"jsonPatch,omitempty" holds:"value"`
	JQFilter    string          `json:"jqFilter,omitempty" holds:"value"`
	// Regarding, Type, Reason, Action and Note are those of an Event; Type, Status, Reason and Message those of a Condition.
	Regarding *Reference `json:"regarding,omitempty" holds:"value"`
	Type      string     `json:"type,omitempty" holds:"value"`
	Status    string     `json:"status,omitempty" holds:"value"`
	Reason    string     `json:"reason,omitempty" holds:"text"`
	Message   string     `json:"message,omitempty" holds:"text"`
	Action    string     `json:"action,omitempty" holds:"text"`
	Note      string     `json:"note,omitempty" holds:"text"`
	// The rest, but for the last two, is that of a Sync, Force also that of an Apply. Objects of an empty set are an empty list.
	Set        string            `json:"set,omitempty" holds:"word"`
	Owner      *Reference        `json:"owner,omitempty" holds:"value"`
	Objects    []json.RawMessage `json:"objects,omitzero" holds:"value"`
	PruneKinds []string          `json:"pruneKinds,omitempty" holds:"word"`
	Drift      string            `json:"drift,omitempty" holds:"word"`
	AllowEmpty bool              `json:"allowEmpty,omitempty" holds:"word"`
	Migrate    bool              `json:"migrate,omitempty" holds:"word"`
	Force      bool              `json:"force,omitempty" holds:"word"`

	IgnoreMissingObject bool `json:"ignoreMissingObject,omitempty" holds:"word"`
	IgnoreHookError     bool `json:"ignoreHookError,omitempty" holds:"word"`
}

// Reference names an object.
type Reference struct {
	APIVersion string `json:"apiVersion,omitempty" holds:"word"`
	Kind       string `json:"kind,omitempty" holds:"word"`
	Namespace  string `json:"namespace,omitempty" holds:"word"`
	Name       string `json:"name,omitempty" holds:"word"`
	UID        string `json:"uid,omitempty" holds:"value"`
}

// FormatPatch returns the form of an operation. Its parts alias those of p.
func FormatPatch(p *effect.Patch) Operation {
	o := Operation{
		Operation: p.Operation.String(), Subresource: p.Subresource, JQFilter: p.Filter,
		Force: p.Force, IgnoreMissingObject: p.IgnoreMissingObject, IgnoreHookError: p.IgnoreHookError,
	}
	switch {
	case p.Set != nil:
		o.set(p.Set)
		return o
	case p.Event != nil:
		e := p.Event
		o.Regarding = &Reference{p.APIVersion, p.Kind, p.Namespace, p.Name, e.UID}
		o.Type, o.Reason, o.Action, o.Note = e.Type, e.Reason, e.Action, e.Note
		return o
	case p.Operation.HasObject():
		o.Object = p.Object
		return o
	}
	o.APIVersion, o.Kind, o.Namespace, o.Name = p.APIVersion, p.Kind, p.Namespace, p.Name
	if c := p.Condition; c != nil {
		o.Subresource = ""
		o.Type, o.Status, o.Reason, o.Message = c.Type, c.Status, c.Reason, c.Message
	}
	if p.Operation == effect.JSONPatch {
		o.JSONPatch = p.Body
	} else {
		o.MergePatch = p.Body
	}
	return o
}

func (o *Operation) set(s *effect.ObjectSet) {
	o.Set, o.Migrate, o.PruneKinds, o.AllowEmpty = s.Name, s.Migrate, s.PruneKinds, len(s.Objects) == 0
	o.Force = s.Force
	if !s.Restore {
		o.Drift = driftIgnore
	}
	if of := s.Owner; of != nil {
		o.Owner = &Reference{of.APIVersion, of.Kind, of.Namespace, of.Name, of.UID}
	}
	o.Objects = make([]json.RawMessage, len(s.Objects))
	for i := range s.Objects {
		o.Objects[i] = s.Objects[i].Object
	}
}
