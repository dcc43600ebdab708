package process

import "time"

const (
	// freeOutput is what a run prints at full speed, slowRate how many bytes in a second are read of it afterwards: a hook in a loop would
	// fill the log with gigabytes, and take a core for it. The hook waits in its writes.
	freeOutput = 10 << 20
	slowRate   = 4 << 20
)

// pace delays the reading of a run that prints a lot.
type pace struct {
	now   func() time.Time
	sleep func(time.Duration)
	read  int
	// due is when the next bytes may be read.
	due time.Time
}

// add counts what has been read, and waits until more may be.
func (p *pace) add(n int) {
	p.read += n
	over := min(n, p.read-freeOutput)
	if over <= 0 {
		return
	}
	now := p.now()
	if p.due.Before(now) { // a pause is not saved for later
		p.due = now
	}
	p.due = p.due.Add(time.Duration(over) * time.Second / slowRate)
	p.sleep(p.due.Sub(now))
}

// slowed reports whether reading was delayed.
func (p *pace) slowed() bool { return p.read > freeOutput }
