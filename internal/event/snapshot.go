package event

// Snapshot is the set of objects of a binding at one moment, ordered by namespace and name.
type Snapshot interface {
	// Len is the number of objects.
	Len() int
	// Each calls yield for each object, in order, until yield returns false.
	Each(yield func(Object) bool)
}

// NoObjects is the empty Snapshot.
type NoObjects struct{}

func (NoObjects) Len() int               { return 0 }
func (NoObjects) Each(func(Object) bool) {}
