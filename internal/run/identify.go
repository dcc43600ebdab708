package run

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/shell-operator/shell-operator/internal/event"
)

// Identify returns uid and generation of an object as the contexts of a run have it; nothing if they have it not, or not in full. It is nil
// if the run has no contexts with objects.
type Identify func(group, kind, namespace, name string) (uid string, generation int64)

// identify finds objects in the contexts of the task: in its events, the last one first, and in initial lists. It searches only when it is
// called: few runs set conditions. The result is safe for concurrent use.
func (t *Task) identify(lists []event.Snapshot) Identify {
	found := sync.OnceValue(func() map[objectName][]event.Payload {
		full := map[objectName][]event.Payload{}
		for o := range t.objects(lists) {
			if at := (objectName{o.Namespace, o.Name}); o.Full != nil {
				full[at] = append([]event.Payload{o.Full}, full[at]...)
			}
		}
		return full
	})
	return func(group, kind, namespace, name string) (uid string, generation int64) {
		for _, payload := range found()[objectName{namespace, name}] {
			var o struct {
				APIVersion, Kind string
				Metadata         struct {
					UID        string
					Generation int64
				}
			}
			text, err := payload.Bytes()
			if err != nil || json.Unmarshal(text, &o) != nil || !strings.EqualFold(o.Kind, kind) {
				continue
			}
			if of, _, grouped := strings.Cut(o.APIVersion, "/"); grouped && of != group || !grouped && group != "" {
				continue
			}
			return o.Metadata.UID, o.Metadata.Generation
		}
		return "", 0
	}
}
