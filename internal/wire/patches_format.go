package wire

import (
	"encoding/json"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// Operation is a Kubernetes operation in the form in which hooks write it: ParsePatches of its JSON is the operation. It has the keys of
// the operation only: the address of an object is in its manifest, the subresource of a Condition is left out.
type Operation struct {
	Operation   string          `json:"operation"`
	APIVersion  string          `json:"apiVersion,omitempty"`
	Kind        string          `json:"kind,omitempty"`
	Namespace   string          `json:"namespace,omitempty"`
	Name        string          `json:"name,omitempty"`
	Subresource string          `json:"subresource,omitempty"`
	Object      json.RawMessage `json:"object,omitempty"`
	MergePatch  json.RawMessage `json:"mergePatch,omitempty"`
	JSONPatch   json.RawMessage `json:"jsonPatch,omitempty"`
	JQFilter    string          `json:"jqFilter,omitempty"`
	// An Event has Regarding, Type, Reason, Action and Note; a Condition has Type, Status, Reason and Message.
	Regarding json.RawMessage `json:"regarding,omitempty"`
	Type      string          `json:"type,omitempty"`
	Status    string          `json:"status,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Message   string          `json:"message,omitempty"`
	Action    string          `json:"action,omitempty"`
	Note      string          `json:"note,omitempty"`
	// A Sync has the rest, but for the last two; an Apply has Force. Objects of an empty set are an empty list.
	Set        string          `json:"set,omitempty"`
	Owner      json.RawMessage `json:"owner,omitempty"`
	Objects    json.RawMessage `json:"objects,omitempty"`
	PruneKinds json.RawMessage `json:"pruneKinds,omitempty"`
	Drift      string          `json:"drift,omitempty"`
	AllowEmpty bool            `json:"allowEmpty,omitempty"`
	Force      bool            `json:"force,omitempty"`

	IgnoreMissingObject bool `json:"ignoreMissingObject,omitempty"`
	IgnoreHookError     bool `json:"ignoreHookError,omitempty"`
}

// Reference names an object.
type Reference struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	UID        string `json:"uid,omitempty"`
}

// FormatPatch returns the form of an operation. Its parts alias p.
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
		o.Regarding = textOf(Reference{p.APIVersion, p.Kind, p.Namespace, p.Name, e.UID})
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

// textOf is the JSON of a value that can be written as such.
func textOf(value any) json.RawMessage {
	text, _ := json.Marshal(value)
	return text
}

func (o *Operation) set(s *effect.ObjectSet) {
	o.Set, o.AllowEmpty, o.Force = s.Name, len(s.Objects) == 0, s.Force
	if !s.Restore {
		o.Drift = driftIgnore
	}
	if s.Owner != nil {
		o.Owner = textOf(Reference(*s.Owner))
	}
	if len(s.PruneKinds) > 0 {
		o.PruneKinds = textOf(s.PruneKinds)
	}
	objects := make([]json.RawMessage, len(s.Objects))
	for i := range s.Objects {
		objects[i] = s.Objects[i].Object
	}
	o.Objects = textOf(objects)
}
