package schedule

import "time"

// The fields of a crontab.
const (
	second = iota
	minute
	hour
	dayOfMonth
	month
	dayOfWeek
)

// calendar is the schedule of a crontab with fields.
type calendar struct {
	// values has a bit for each value of a field that matches.
	values [len(fields)]uint64
	// bothDays is true if a star is in one of the two day fields: then both must match, otherwise one match is enough.
	bothDays bool
	location *time.Location
}

const day = 24 * time.Hour

// Next searches pieces of time with one offset from UTC, each at most a day. A time that is skipped when clocks are set forward is
// counted by the offset before, so that it is due later by as much as is skipped.
func (c *calendar) Next(t time.Time) time.Time {
	at := t.In(c.location).Truncate(time.Second).Add(time.Second)
	for last := at.Year() + 5; at.Year() <= last; {
		_, offset := at.Zone()
		begin, change := at.ZoneBounds()
		_, before := begin.Add(-time.Second).Zone()
		skipped := begin.Add(time.Duration(offset-before) * time.Second)
		end := at.Truncate(day).Add(day)
		for _, bound := range []time.Time{change, skipped} {
			// On the last day of a leap year package time may report a change that is over.
			if bound.After(at) && bound.Before(end) {
				end = bound
			}
		}
		next := c.first(at, end, offset)
		if skipped.After(at) {
			next = c.first(at, next, before)
		}
		if next.Before(end) {
			return next.In(t.Location())
		}
		at = end
	}
	return time.Time{}
}

// first returns the first matching time from at on, with an offset from UTC in seconds, or end if there is none before it.
func (c *calendar) first(at, end time.Time, offset int) time.Time {
	shift := time.Duration(offset) * time.Second
	for clock := at.UTC().Add(shift); clock.Before(end.Add(shift)); {
		switch {
		case !c.has(month, int(clock.Month())) || !c.hasDay(clock):
			clock = clock.Truncate(day).Add(day)
		case !c.has(hour, clock.Hour()):
			clock = clock.Truncate(time.Hour).Add(time.Hour)
		case !c.has(minute, clock.Minute()):
			clock = clock.Truncate(time.Minute).Add(time.Minute)
		case !c.has(second, clock.Second()):
			clock = clock.Add(time.Second)
		default:
			return clock.Add(-shift)
		}
	}
	return end
}

func (c *calendar) has(field, value int) bool { return c.values[field]>>value&1 == 1 }

func (c *calendar) hasDay(t time.Time) bool {
	inMonth, inWeek := c.has(dayOfMonth, t.Day()), c.has(dayOfWeek, int(t.Weekday()))
	if c.bothDays {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}
