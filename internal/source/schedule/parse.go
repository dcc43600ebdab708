package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schedule computes when a crontab is due.
type Schedule interface {
	// Next returns the first activation after t, or the zero time if there is none until the end of the fifth year after it.
	Next(t time.Time) time.Time
}

// field is one column of a crontab.
type field struct {
	name     string
	min, max int
	names    []string // of min, min+1, …; nil when there are only numbers
}

var fields = [...]field{
	{name: "second", min: 0, max: 59},
	{name: "minute", min: 0, max: 59},
	{name: "hour", min: 0, max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", min: 0, max: 6, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// descriptors are the names of crontabs with seconds.
var descriptors = map[string]string{
	"@yearly": "0 0 0 1 1 *", "@annually": "0 0 0 1 1 *", "@monthly": "0 0 0 1 * *", "@weekly": "0 0 0 * * 0",
	"@daily": "0 0 0 * * *", "@midnight": "0 0 0 * * *", "@hourly": "0 0 * * * *",
}

// Parse reads a crontab of five or six fields, a descriptor such as @hourly, or "@every <duration>". A time zone may
// precede it as TZ=<zone>.
func Parse(text string) (Schedule, error) {
	spec, location := strings.TrimSpace(text), time.Local
	if zone, rest, ok := strings.Cut(spec, " "); ok && strings.HasPrefix(zone, "TZ=") {
		loc, err := time.LoadLocation(strings.TrimPrefix(zone, "TZ="))
		if err != nil {
			return nil, fmt.Errorf("unknown time zone in %q: use a name such as TZ=Europe/Berlin (%w)", zone, err)
		}
		spec, location = strings.TrimSpace(rest), loc
	}
	switch {
	case spec == "":
		return nil, errors.New(`the crontab is empty: use five fields ("*/5 * * * *"), six with seconds, or a descriptor such as @hourly`)
	case strings.HasPrefix(spec, "CRON_TZ="):
		return nil, errors.New("CRON_TZ= is not supported: write TZ= instead")
	case strings.HasPrefix(spec, "@every "):
		return every(strings.TrimPrefix(spec, "@every "))
	case strings.HasPrefix(spec, "@"):
		if descriptors[spec] == "" {
			return nil, fmt.Errorf("unknown descriptor %q: use @yearly, @monthly, @weekly, @daily, @hourly or \"@every <duration>\"; "+
				"to run at start use onStartup", spec)
		}
		spec = descriptors[spec]
	}
	columns := strings.Fields(spec)
	if len(columns) == 5 {
		columns = append([]string{"0"}, columns...)
	}
	if len(columns) != 6 {
		return nil, fmt.Errorf("found %d fields in %q: a crontab has five, or six with seconds first", len(columns), spec)
	}
	c := &calendar{location: location}
	for i, column := range columns {
		if err := c.set(i, column); err != nil {
			return nil, fmt.Errorf("field %q (%s): %w", column, fields[i].name, err)
		}
	}
	return c, nil
}

// set parses the column of fields[i]. Empty elements of a list are ignored.
func (c *calendar) set(i int, column string) error {
	for part := range strings.SplitSeq(column, ",") {
		if part == "" {
			continue
		}
		low, high, step, err := fields[i].parse(part)
		if err != nil {
			return err
		}
		for v := low; v <= high; v++ {
			if (v-low)%step == 0 {
				c.values[i] |= 1 << v
			}
		}
	}
	if c.values[i] == 0 {
		return errors.New("the list has no value")
	}
	c.bothDays = c.bothDays || (i == dayOfMonth || i == dayOfWeek) && strings.ContainsAny(column, "*?")
	return nil
}

// parse returns the range of an element of a list, and its step, which may be larger than the range.
func (f field) parse(part string) (low, high, step int, err error) {
	span, steps, hasStep := strings.Cut(part, "/")
	step = 1
	if hasStep {
		step, err = strconv.Atoi(steps)
		switch {
		case err != nil || step < 0:
			return 0, 0, 0, fmt.Errorf("the step %q is not a number", steps)
		case step == 0:
			return 0, 0, 0, errors.New("the step is 0: use 1 or more")
		}
	}
	if span == "*" || span == "?" {
		return f.min, f.max, step, nil
	}
	from, to, isRange := strings.Cut(span, "-")
	if low, err = f.value(from); err != nil {
		return 0, 0, 0, err
	}
	switch {
	case isRange:
		if high, err = f.value(to); err != nil {
			return 0, 0, 0, err
		}
	case hasStep:
		high = f.max
	default:
		high = low
	}
	if high < low {
		return 0, 0, 0, fmt.Errorf("the range %q is reversed", span)
	}
	return low, high, step, nil
}

func (f field) value(text string) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.min + i, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number or a name from this field", text)
	}
	if n < f.min || n > f.max {
		hint := ""
		if n == 7 && f.max == 6 {
			hint = ": Sunday is 0"
		}
		return 0, fmt.Errorf("%d is not between %d and %d%s", n, f.min, f.max, hint)
	}
	return n, nil
}

// every returns the schedule of "@every d".
func every(text string) (Schedule, error) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("the duration of @every: %w: use for instance 90s or 1h30m", err)
	}
	return interval(max(time.Second, d.Truncate(time.Second))), nil
}

// interval is due again and again after the same time, on whole seconds. Wall clocks that are set do not matter to it.
type interval time.Duration

func (i interval) Next(t time.Time) time.Time { return t.Add(time.Duration(i)).Truncate(time.Second) }
