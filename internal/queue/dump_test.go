package queue

import "iter"

// dumped is a State with descriptions of the tasks.
type dumped struct {
	State
	Tasks []string
}

// dump returns the states of all queues, as Look shows them.
func dump(set *Set) (all []dumped) {
	set.Look("main", func(s State, tasks iter.Seq2[int, Task]) {
		d := dumped{State: s}
		for _, t := range tasks {
			d.Tasks = append(d.Tasks, t.String())
		}
		all = append(all, d)
	})
	return all
}
