package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// dumped is a State with descriptions of the tasks.
type dumped struct {
	State
	lanes []dumpedLane
	// Tasks are the tasks of all lanes.
	Tasks []string
}

type dumpedLane struct {
	Lane
	tasks []string
}

// dump returns the states of all queues, as Look shows them.
func dump(set *Set) (all []dumped) {
	for _, name := range set.Names("main") {
		set.Look(name, "", -1, func(s State, lanes []Lane) {
			d := dumped{State: s}
			for _, l := range lanes {
				shown := dumpedLane{Lane: l}
				for t := range l.All() {
					shown.tasks = append(shown.tasks, fmt.Sprint(t))
				}
				d.lanes = append(d.lanes, shown)
				d.Tasks = append(d.Tasks, shown.tasks...)
			}
			all = append(all, d)
		})
	}
	return all
}

// plain is embedded in tasks of tests that are always ready, and that nothing distinguishes.
type plain struct{}

func (plain) Ready() (time.Duration, func()) { return 0, nil }
func (plain) Absorb(Task) bool               { return false }
func (plain) Owner() string                  { return "" }
func (plain) Policy() Policy                 { return Policy{} }
func (plain) Initial() bool                  { return false }

// funcTask is a task that is always ready, absorbs nothing and does what the function does.
type funcTask struct {
	plain
	owner string
	run   func(context.Context) error
}

func funcTaskOf(run func(context.Context) error) *funcTask { return &funcTask{run: run} }

func (f *funcTask) Run(ctx context.Context) error { return f.run(ctx) }
func (f *funcTask) Owner() string                 { return f.owner }
func (*funcTask) String() string                  { return "func" }

// failing is a task that fails, waiting one that runs until its context ends.
func failing() *funcTask {
	return funcTaskOf(func(context.Context) error { return errors.New("fails") })
}
func waiting() *funcTask {
	return funcTaskOf(func(ctx context.Context) error { <-ctx.Done(); return nil })
}
