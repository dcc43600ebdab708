package hook

// MainQueue is the default queue. It is never keyed.
const MainQueue = "main"

// Lanes divide a queue by a key. The zero value is one lane: strict FIFO. Equal values divide a queue equally.
type Lanes struct {
	// Key selects the key of an event; empty means that the queue is not keyed.
	Key Key
	// Concurrency is the largest number of runs in flight: 1 to 1000 with a Key, 0 without one, which means 1.
	Concurrency int
}

// Keyed reports whether the queue has a lane for each key.
func (l Lanes) Keyed() bool { return l.Key != "" }

// Key is how a keyed queue finds the key of an object: ByObject, ByNamespace, or a jq expression that begins with a dot and compiles.
type Key string

const (
	ByObject    Key = "object"
	ByNamespace Key = "namespace"
)

// Filter returns the jq expression, or "" for a Key that needs none.
func (k Key) Filter() string {
	if k == ByObject || k == ByNamespace {
		return ""
	}
	return string(k)
}

// LanesOf returns the keyed queues of hooks by name. All kubernetes bindings of a queue agree in a set from package hookset.
func LanesOf(hooks []*Hook) map[string]Lanes {
	keyed := map[string]Lanes{}
	for _, h := range hooks {
		for i := range h.Kubernetes {
			if k := &h.Kubernetes[i]; k.Lanes.Keyed() {
				keyed[k.Queue] = k.Lanes
			}
		}
	}
	return keyed
}
