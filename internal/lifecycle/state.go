package lifecycle

// State is how far a hook has come.
type State int

const (
	// Loaded: nothing has been done, or the run of a previous version has not ended.
	Loaded State = iota
	// StartupQueued: the onStartup run is in the queue.
	StartupQueued
	// Started: the onStartup run has succeeded, or there is none. The kubernetes bindings are being enabled.
	Started
	// Enabled: every kubernetes binding has its initial list.
	Enabled
	// Released: the Synchronizations are queued, and the task that enables the schedules.
	Released
	// Ticking: the schedules are enabled.
	Ticking
	// Paused: a user has stopped the runs for queues. Requests are answered.
	Paused
	// Draining: the hook has been changed or removed. A run or a request may still use it.
	Draining
	// Gone: nothing uses the hook.
	Gone
)

func (s State) String() string {
	return [...]string{"Loaded", "StartupQueued", "Started", "Enabled", "Released", "Ticking", "Paused", "Draining", "Gone"}[s]
}

// successors are the states that may follow a state.
var successors = map[State][]State{
	Loaded:        {StartupQueued, Started, Paused, Draining},
	StartupQueued: {Started, Paused, Draining},
	Started:       {Enabled, Paused, Draining},
	Enabled:       {Released, Paused, Draining},
	Released:      {Ticking, Paused, Draining},
	Ticking:       {Paused, Draining},
	Paused:        {Loaded, Draining},
	Draining:      {Gone},
}
