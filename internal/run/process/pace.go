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
	// most is how many bytes of lines are delivered; 0 means all. delivered counts them. dropped is called with the first line beyond.
	most, delivered int64
	dropped         func()
	over            bool
}

// newPace returns that of a run.
func (e *Executor) newPace(in Invocation) *pace {
	return &pace{now: e.now, sleep: e.sleep, most: in.Output, dropped: in.Dropped}
}

// within returns what delivers lines as long as there are not too many.
func (p *pace) within(deliver func([]byte)) func([]byte) {
	if p.most == 0 {
		return deliver
	}
	return func(line []byte) {
		n := int64(len(line)) + 1
		switch {
		case p.over:
		case p.delivered+n > p.most:
			p.over = true
			if p.dropped != nil {
				p.dropped()
			}
		default:
			p.delivered += n
			deliver(line)
		}
	}
}

// longest is the length at which a line is split, as no longer one is delivered; 0 means maxLine.
func (p *pace) longest() int {
	if p.most > 0 {
		return int(min(maxLine, max(p.most, firstRead)))
	}
	return 0
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
