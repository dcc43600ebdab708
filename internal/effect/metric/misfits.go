package metric

// misfit is operations of one run on a metric that cannot be done.
type misfit struct {
	name, problem string
	skipped       int
}

// misfits are those of one run, one for each metric: one record of each is enough.
type misfits struct {
	list   []*misfit
	byName map[string]*misfit
}

// maxMisfits is how many metrics are named. The last one stands for all others, too.
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
