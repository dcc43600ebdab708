package metric

import "slices"

// misfit are operations of one run on a metric that were skipped.
type misfit struct {
	name, problem string
	skipped       int
}

// misfits are the skipped operations of one run. Each metric gets one log record.
type misfits []misfit

// maxMisfits limits the records of a run. The last one counts all other metrics, too.
const maxMisfits = 50

func (m *misfits) note(name, problem string) {
	all := *m
	switch i := slices.IndexFunc(all, func(known misfit) bool { return known.name == name }); {
	case i >= 0:
		all[i].skipped++
	case len(all) == maxMisfits:
		all[maxMisfits-1].name = "(several)"
		all[maxMisfits-1].skipped++
	default:
		*m = append(all, misfit{name, problem, 1})
	}
}
