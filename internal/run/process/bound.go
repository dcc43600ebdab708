package process

import "time"

// slowRead is the pause after each read of output that is dropped: a hook that prints in a loop would take a core. It waits in its writes.
const slowRead = 15 * time.Millisecond

// bound limits the lines of a run that are delivered, of all its streams together.
type bound struct {
	// most bounds the bytes of lines that are delivered; 0 means all. delivered counts them. dropped is called with the first line beyond.
	most, delivered int64
	dropped         func()
	over            bool
}

func boundOf(in Invocation) *bound { return &bound{most: in.Output, dropped: in.Dropped} }

// within returns what delivers lines as long as there are not too many.
func (b *bound) within(deliver func([]byte)) func([]byte) {
	if b.most == 0 {
		return deliver
	}
	return func(line []byte) {
		n := int64(len(line)) + 1
		switch {
		case b.over:
		case b.delivered+n > b.most:
			b.over = true
			if b.dropped != nil {
				b.dropped()
			}
		default:
			b.delivered += n
			deliver(line)
		}
	}
}

// longest is the length at which a line is split, as no longer one is delivered.
func (b *bound) longest() int {
	if b.most > 0 {
		return int(min(maxLine, max(b.most, firstRead)))
	}
	return maxLine
}
