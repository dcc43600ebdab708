package watch

import (
	"maps"
	"slices"

	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// source is the state of one subscription of a binding. The monitor's mu guards it.
type source struct {
	// parent has led to this subscription, which ends with it.
	parent *stream.Subscription
	// dispensable subscriptions do not hold up the initial list when they are forbidden.
	dispensable bool
	// selection is the text of the scope without what may differ between versions of a hook.
	selection string
	// awaited: no list has been delivered.
	awaited bool
	// applied is the version up to which everything has been processed, written are changes by the hook after that, by key.
	applied uint64
	written map[string]lastWrite
	// failing are the requests that fail now, by verb.
	failing map[string]failure
}

type failure struct {
	kind stream.Trouble
	text string
}

// delivers reports whether the subscription will deliver a change. Had: the binding has the object, from before the changes that are not
// processed.
func (s *source) delivers(key string, had bool, w lastWrite) bool {
	maps.DeleteFunc(s.written, func(_ string, w lastWrite) bool { return w.version <= s.applied })
	if last, ok := s.written[key]; ok {
		had = last.selected
	}
	if had || w.selected {
		if _, ok := s.written[key]; ok || len(s.written) < maxWritten {
			s.written[key] = w
		}
	}
	return had || w.selected
}

// sources are all subscriptions of a binding, including the one of a follower.
type sources map[*stream.Subscription]*source

// descendants returns sub and the subscriptions that it has led to.
func (s sources) descendants(sub *stream.Subscription) map[*stream.Subscription]bool {
	all := map[*stream.Subscription]bool{}
	for other := range s {
		for at := other; at != nil; at = s[at].parent {
			if at == sub {
				all[other] = true
				break
			}
		}
	}
	return all
}

// failing returns the texts of the requests that fail.
func (s sources) failing() (texts []string) {
	for _, of := range s {
		for _, f := range of.failing {
			texts = append(texts, f.text)
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}
