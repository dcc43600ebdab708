package event

// Snapshot is the set of objects of a binding at one moment, ordered by namespace and name.
type Snapshot interface {
	// Len is the number of objects.
	Len() int
	// Each calls yield for each object, in order, until yield returns false.
	Each(yield func(Object) bool)
}

// Divided is a Snapshot that may have objects which are delivered by another replica.
type Divided interface {
	Snapshot
	// Own returns those that this replica delivers.
	Own() Snapshot
}

// Own returns the objects of a snapshot that this replica delivers.
func Own(s Snapshot) Snapshot {
	if d, ok := s.(Divided); ok {
		return d.Own()
	}
	return s
}

// NoObjects is the empty Snapshot.
type NoObjects struct{}

func (NoObjects) Len() int               { return 0 }
func (NoObjects) Each(func(Object) bool) {}
