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

// step is an event in the life of a hook.
type step int

const (
	startupQueued step = iota
	startupSucceeded
	bindingsEnabled
	tasksQueued
	schedulesEnabled
	paused
	resumed
	retired
	drained
)

// transitions are all that there are.
var transitions = map[State]map[step]State{
	Loaded:        {startupQueued: StartupQueued, startupSucceeded: Started, paused: Paused, retired: Draining},
	StartupQueued: {startupSucceeded: Started, paused: Paused, retired: Draining},
	Started:       {bindingsEnabled: Enabled, paused: Paused, retired: Draining},
	Enabled:       {tasksQueued: Released, paused: Paused, retired: Draining},
	Released:      {schedulesEnabled: Ticking, paused: Paused, retired: Draining},
	Ticking:       {paused: Paused, retired: Draining},
	Paused:        {resumed: Loaded, retired: Draining},
	Draining:      {drained: Gone},
}

// next returns the state after a step. It returns false for a step that comes too late: a task of a hook that has been
// retired may still be running.
func (s State) next(e step) (State, bool) {
	to, ok := transitions[s][e]
	return to, ok
}
