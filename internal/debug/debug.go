// Package debug shows a running operator: the debug API, the status page, and the client of the command line.
//
// Callers may rely on this:
//   - A request costs what its answer needs and never holds up runs: no lock is held while a client reads, and a slow reader of
//     a tail loses entries. Requests that are open at one time are bounded, and so is the memory of all tails.
//   - The formats of queues, snapshots and parameters are upstream's. YAML is made from JSON.
//   - The socket belongs to its user: mode 0600, in a directory of mode 0700 where it is alone in it.
//   - The status page shows names, counts and how runs ended, but no content of objects and no output of hooks.
//   - The HTTP status is the outcome, and an error names the next step.
//
// What the operator shows is a list of topics, each in a file of this package: above the stages, which do not know of it.
//
// The API has no authentication: a client that can open the socket can read everything and change the log level.
package debug

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// Options of an API. Only Hooks and Log are required for one that shows no status.
type Options struct {
	Hooks    *Hooks
	Queues   queueReader
	Bindings bindingReader
	Workers  workerReader
	History  *history.History
	// NotReady is why requests are not answered; empty if they are.
	NotReady func() string
	Version  string
	// Cluster is the address of the API server, Instance the name of the installation. Role is the replica's role in an election, empty
	// without one; it may be nil.
	Cluster, Instance string
	Role              func() string
	// Shard is this replica's share in the work; nil, or it returns nil, without shards.
	Shard func() *ShardStatus
	// Later are the routes of a complete operator: until they are there, they are answered with 503.
	Later []Route
	Log   *slog.Logger
}

// API serves the debug API over HTTP.
type API struct {
	o      Options
	topics atomic.Pointer[[]Topic]
	// address bounds all requests that do not come over the socket, the others the streams that do.
	address, userStreams, hookStreams places

	mu sync.Mutex
	// reported is when each trouble that was there at the last look was first reported, by kind and subject.
	reported map[string]time.Time
}

// New returns an API without topics.
func New(o Options) *API {
	a := &API{o: o, address: make(places, addressPlaces), userStreams: make(places, userStreams), hookStreams: make(places, hookStreams)}
	a.Show(nil)
	return a
}
