// Package selectors evaluates label and field selectors on objects, as the API server does, for simulations and for answers to changes.
package selectors

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// Decoded is an object with its decoded JSON, for label and field selectors.
type Decoded struct {
	Raw  []byte
	Tree map[string]any
}

func (o *Decoded) Labels() labels.Set {
	set, _, _ := unstructured.NestedStringMap(o.Tree, "metadata", "labels")
	return set
}

// Get returns the text of a field by its path, such as status.phase, for field selectors.
func (o *Decoded) Get(path string) string {
	var value any = o.Tree
	for key := range strings.SplitSeq(path, ".") {
		within, _ := value.(map[string]any)
		value = within[key]
	}
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// Has reports whether an object has a field.
func (o *Decoded) Has(path string) bool { return o.Get(path) != "" }

// Answered is the object of an answer. A field that the answer lacks is read from the manifest.
type Answered struct {
	Decoded
	stream.Object
	// Gone: the object does not exist after the change.
	Gone bool
}

// ReadAnswer returns an object without a version if the answer is about another kind.
func ReadAnswer(a effect.Answered) *Answered {
	o := &Answered{Object: stream.Object{Namespace: a.Namespace, Name: a.Name, UID: a.Gone}, Gone: a.Gone != ""}
	if o.Gone || json.Unmarshal(a.Text, &o.Tree) != nil {
		return o
	}
	switch kind := o.Get("kind"); {
	case kind == "Status":
		o.UID = o.Get("details.uid")
		o.Gone = o.UID != ""
		return o
	case kind == "PartialObjectMetadata" && a.Sent != nil:
		metadata := o.Tree["metadata"]
		if json.Unmarshal(a.Sent, &o.Tree) == nil {
			o.Tree["metadata"] = metadata
		}
	case kind != a.Kind && kind != "PartialObjectMetadata":
		return o
	}
	o.Namespace, o.Name, o.UID = o.Get("metadata.namespace"), o.Get("metadata.name"), o.Get("metadata.uid")
	finalizers, _, _ := unstructured.NestedSlice(o.Tree, "metadata", "finalizers")
	if o.Has("metadata.deletionTimestamp") && o.Get("metadata.deletionGracePeriodSeconds") == "0" && len(finalizers) == 0 {
		o.Gone = true // with its last finalizer
		return o
	}
	o.ResourceVersion = o.Get("metadata.resourceVersion")
	return o
}

// Selects reports whether a subscription delivers an object.
func Selects(s *stream.Subscription, o *Answered) bool {
	if s.Scope.Namespace != "" && s.Scope.Namespace != o.Namespace || !s.Wants(&o.Object) || !s.Scope.Part.Has(&o.Object) {
		return false
	}
	byLabels, err := labels.Parse(s.Scope.Labels)
	byFields, failed := fields.ParseSelector(s.Scope.Fields)
	return err == nil && failed == nil && byLabels.Matches(o.Labels()) && byFields.Matches(o)
}
