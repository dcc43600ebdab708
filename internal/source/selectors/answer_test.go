package selectors

import (
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// What is gone with its last finalizer is answered as an object.
func TestAnswerOfTheLastFinalizer(t *testing.T) {
	for _, row := range []struct {
		metadata string
		gone     bool
	}{
		{`"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0`, true},
		{`"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0,"finalizers":["a/b"]`, false},
		{`"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":30`, false},
		{`"name":"a"`, false},
	} {
		o := ReadAnswer(effect.Answered{Kind: "Pod", Text: []byte(`{"kind":"Pod","metadata":{"uid":"1",` + row.metadata + `}}`)})
		if o.Gone != row.gone || o.UID != "1" {
			t.Errorf("%s: %+v", row.metadata, o)
		}
	}
}

// The fields that an answer with nothing but metadata lacks come from the manifest that was sent.
func TestAnswerOfMetadata(t *testing.T) {
	o := ReadAnswer(effect.Answered{Kind: "Secret", Sent: []byte(`{"metadata":{"name":"a"},"type":"x"}`),
		Text: []byte(`{"kind":"PartialObjectMetadata","metadata":{"name":"a","namespace":"n","resourceVersion":"3"}}`)})
	if o.ResourceVersion != "3" || o.Namespace != "n" || o.Get("type") != "x" {
		t.Errorf("%+v", o)
	}
}
