package watch

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// lifetime is what bindings with a finalizer or conditions, or that ignore own changes, read of an object. It is nil for an object
// without any of it.
type lifetime struct {
	terminating bool
	// generation is the text of the number.
	generation string
	finalizers []string
}

// readLifetime reads the object's JSON, which scan has found valid.
func readLifetime(raw []byte) *lifetime {
	var o struct {
		Metadata struct {
			DeletionTimestamp string         `json:"deletionTimestamp"`
			Generation        jsontext.Value `json:"generation"`
			Finalizers        []string       `json:"finalizers"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(raw, &o, lenient...)
	l := lifetime{o.Metadata.DeletionTimestamp != "", string(o.Metadata.Generation), o.Metadata.Finalizers}
	if !l.terminating && len(l.finalizers) == 0 && l.generation == "" {
		return nil
	}
	return &l
}

func (o *object) terminating() bool { return o.lifetime != nil && o.lifetime.terminating }

func (o *object) generation() string {
	if o.lifetime == nil {
		return ""
	}
	return o.lifetime.generation
}

func (o *object) finalizers() []string {
	if o.lifetime == nil {
		return nil
	}
	return o.lifetime.finalizers
}

func (o *object) has(finalizer string) bool { return slices.Contains(o.finalizers(), finalizer) }
