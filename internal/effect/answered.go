package effect

import "context"

// Answered is the API server's answer to a request of a run that changed an object.
type Answered struct {
	// Group, Resource and Kind name the kind that the request addresses, in any version.
	Group, Resource, Kind string
	Namespace, Name       string
	// Text is the object, or its metadata only, or the Status of a deletion. Sent is the manifest, if there is one and Text lacks it.
	Text, Sent []byte
	// Gone is the uid of an object that was seen to be gone, without Text.
	Gone string
}

// Write is a change by a run in the eyes of a stream of objects.
type Write struct {
	// Stream delivers the change. Version is the object's resource version; 0 means that it is gone, and Stream is its resource.
	Stream               string
	Namespace, Name, UID string
	Version              uint64
}

// answers is the key of what receives answers.
type answers struct{}

// WithAnswers makes receive get the answers to requests with the context that changed an object. It may be called concurrently.
func WithAnswers(ctx context.Context, receive func(Answered)) context.Context {
	return context.WithValue(ctx, answers{}, receive)
}

// Known is the state of an object in a hook's bindings.
type Known struct {
	// Version is the object's resource version after all changes by the hook; empty for none.
	Version string
	// Generation is one that the hook has seen, or will see in an event: all changes after it, up to Version, are the hook's own.
	Generation int64
}

// Owned prepares a request that changes an object, of which the hook's bindings have what is known. Written, which is nil if no binding
// distinguishes own changes, receives the version that the request was sent on and the version in its answer, or empty ones.
type Owned func(group, resource, namespace, name string) (known Known, written func(before, after string))

type owned struct{}

// WithOwned makes requests with the context prepared by own. It may be called concurrently.
func WithOwned(ctx context.Context, own Owned) context.Context {
	return context.WithValue(ctx, owned{}, own)
}

// Own prepares a request with the context.
func Own(ctx context.Context, group, resource, namespace, name string) (known Known, written func(before, after string)) {
	if own, ok := ctx.Value(owned{}).(Owned); ok && name != "" {
		return own(group, resource, namespace, name)
	}
	return known, nil
}

// Report hands an answer to its receiver, if there is one.
func Report(ctx context.Context, a Answered) {
	if receive, ok := ctx.Value(answers{}).(func(Answered)); ok {
		receive(a)
	}
}
