package gate

import "sync"

// Readings bounds how many questions are being read, which takes as long as those want who ask. When there are too many,
// the one that takes longest is broken off for the one that comes: so nobody can keep others out by sending slowly.
type Readings struct {
	most int

	mu sync.Mutex
	// underWay are in the order in which they began.
	underWay []*Reading
}

// Reading is one question that is being read.
type Reading struct {
	of       *Readings
	breakOff func()
	broken   bool
}

// NewReadings returns Readings for so many questions at a time.
func NewReadings(most int) *Readings { return &Readings{most: most} }

// Begin never waits. breakOff is called, at most once, to end the reading early.
func (r *Readings) Begin(breakOff func()) *Reading {
	reading := &Reading{of: r, breakOff: breakOff}
	var slowest *Reading
	r.mu.Lock()
	if len(r.underWay) >= r.most {
		slowest = r.underWay[0]
		slowest.broken = true
		r.underWay = r.underWay[1:]
	}
	r.underWay = append(r.underWay, reading)
	r.mu.Unlock()
	if slowest != nil {
		slowest.breakOff()
	}
	return reading
}

// End is to be called when the question has been read, or could not be. It tells whether it was broken off.
func (g *Reading) End() (broken bool) {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	for i, other := range g.of.underWay {
		if other == g {
			g.of.underWay = append(g.of.underWay[:i], g.of.underWay[i+1:]...)
			break
		}
	}
	return g.broken
}
