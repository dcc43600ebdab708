package metric

// misfit are operations of one run on a metric that were skipped.
type misfit struct {
	name, problem string
	skipped       int
}

// misfits are those of one run. Each metric gets one log record.
type misfits struct {
	list   []*misfit
	byName map[string]*misfit
}

// maxMisfits limits the records of a run. The last one counts all other metrics, too.
const maxMisfits = 50

func (m *misfits) note(name, problem string) {
	if known := m.byName[name]; known != nil {
		known.skipped++
		return
	}
	if len(m.list) == maxMisfits {
		last := m.list[maxMisfits-1]
		last.name = "(several)"
		last.skipped++
		return
	}
	if m.byName == nil {
		m.byName = map[string]*misfit{}
	}
	one := &misfit{name, problem, 1}
	m.byName[name] = one
	m.list = append(m.list, one)
}
