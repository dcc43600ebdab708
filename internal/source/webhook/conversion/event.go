package conversion

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// readEvent reads the next event of a watch.
func readEvent(dec *jsontext.Decoder) (watch.Event, error) {
	var raw struct {
		Type   watch.EventType `json:"type"`
		Object jsontext.Value  `json:"object"`
	}
	if err := json.UnmarshalDecode(dec, &raw); err != nil {
		return watch.Event{}, err
	}
	if raw.Type == watch.Error {
		status := &metav1.Status{}
		err := json.Unmarshal(raw.Object, status, json.MatchCaseInsensitiveNames(true))
		kube.Redact(status)
		return watch.Event{Type: raw.Type, Object: status}, err
	}
	c, err := readCRD(raw.Object)
	return watch.Event{Type: raw.Type, Object: c}, err
}
