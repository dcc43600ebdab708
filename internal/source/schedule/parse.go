package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// Schedule computes when a crontab is due.
type Schedule interface {
	// Next returns the first activation after t, or the zero time if there is none within five years.
	Next(t time.Time) time.Time
}

// field is one column of a crontab.
type field struct {
	name     string
	min, max int
	names    []string // of min, min+1, …; nil when there are only numbers
}

var fields = []field{
	{name: "second", min: 0, max: 59},
	{name: "minute", min: 0, max: 59},
	{name: "hour", min: 0, max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", min: 0, max: 6, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

var descriptors = map[string]bool{
	"@yearly": true, "@annually": true, "@monthly": true, "@weekly": true, "@daily": true, "@midnight": true, "@hourly": true,
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
		if !descriptors[spec] {
			return nil, fmt.Errorf("unknown descriptor %q: use @yearly, @monthly, @weekly, @daily, @hourly or \"@every <duration>\"; "+
				"to run at start use onStartup", spec)
		}
		return compile(spec, location)
	}
	columns := strings.Fields(spec)
	if len(columns) == 5 {
		columns = append([]string{"0"}, columns...)
	}
	if len(columns) != 6 {
		return nil, fmt.Errorf("found %d fields in %q: a crontab has five, or six with seconds first", len(columns), spec)
	}
	for i, column := range columns {
		if err := fields[i].check(column); err != nil {
			return nil, err
		}
	}
	return compile(strings.Join(columns, " "), location)
}

// compile passes validated text to the library that computes calendars.
func compile(spec string, location *time.Location) (Schedule, error) {
	parser, err :=
		cron.TryNewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(spec)
	if err != nil {
		return nil, err
	}
	schedule, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("crontab %q is not made of fields", spec)
	}
	if columns := strings.Fields(spec); len(columns) == 6 {
		markStar(&schedule.Dom, columns[3])
		markStar(&schedule.Dow, columns[5])
	}
	schedule.Location = location
	return schedule, nil
}

// markStar makes a day field with a star, even one with a step, count as unrestricted: then the other day
// field decides alone with it. The library's bit for that is the highest one.
func markStar(bits *uint64, column string) {
	if strings.ContainsAny(column, "*?") {
		*bits |= 1 << 63
	}
}

func (f field) check(column string) error {
	for part := range strings.SplitSeq(column, ",") {
		if err := f.checkPart(part); err != nil {
			return fmt.Errorf("field %q (%s): %w", column, f.name, err)
		}
	}
	return nil
}

func (f field) checkPart(part string) error {
	span, step, hasStep := strings.Cut(part, "/")
	if hasStep {
		n, err := strconv.Atoi(step)
		switch {
		case err != nil || n < 0:
			return fmt.Errorf("the step %q is not a number", step)
		case n == 0:
			return errors.New("the step is 0: use 1 or more")
		}
	}
	if span == "*" || span == "?" {
		return nil
	}
	from, to, isRange := strings.Cut(span, "-")
	low, err := f.value(from)
	if err != nil {
		return err
	}
	if !isRange {
		return nil
	}
	high, err := f.value(to)
	if err != nil {
		return err
	}
	if high < low {
		return fmt.Errorf("the range %q is reversed", span)
	}
	return nil
}

func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || strings.HasPrefix(text, "+") {
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

// interval is due again and again after the same time. Wall clocks that are set do not matter to it.
type interval time.Duration

func (i interval) Next(t time.Time) time.Time { return t.Add(time.Duration(i)) }
