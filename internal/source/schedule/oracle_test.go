package schedule

import (
	"io"
	"log"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gopkg.in/robfig/cron.v2"
	"pgregory.net/rapid"
)

// draw draws crontabs. Those that are odd have values and forms that are invalid.
type draw struct {
	*rapid.T
	odd bool
}

func (d draw) pick(all ...string) string { return rapid.SampledFrom(all).Draw(d.T, "form") }

func (d draw) number(low, high int) string {
	return strconv.Itoa(rapid.IntRange(low, high).Draw(d.T, "number"))
}

// oddly returns one of a few invalid texts in some cases, if the crontab is odd; otherwise "".
func (d draw) oddly(all ...string) string {
	if !d.odd || rapid.IntRange(0, 9).Draw(d.T, "odd") > 0 {
		return ""
	}
	return d.pick(all...)
}

func (d draw) value(f field) string {
	if odd := d.oddly("60", "32", "24", "13", "7", "0", "-1", "", "x", "L", "sund"); odd != "" {
		return odd
	}
	n := rapid.IntRange(f.min, f.max).Draw(d.T, "value")
	if f.names != nil && d.pick("number", "name") == "name" {
		name := f.names[n-f.min]
		return d.pick(name, strings.ToUpper(name), strings.ToUpper(name[:1])+name[1:])
	}
	return d.pick("", "", "", "+", "0") + strconv.Itoa(n)
}

// element draws an element of a list.
func (d draw) element(f field) string {
	span := d.oddly("-", "1-", "1-2-3", "*-9", "?-9", "**", "5-1")
	if span == "" {
		switch d.pick("*", "*", "?", "value", "value", "value", "range", "empty") {
		case "*":
			span = "*"
		case "?":
			span = "?"
		case "value":
			span = d.value(f)
		case "range":
			n := rapid.IntRange(f.min, f.max).Draw(d.T, "from")
			span = strconv.Itoa(n) + "-" + d.number(n, f.max)
		case "empty":
			return ""
		}
	}
	if step := d.oddly("0", "00", "-0", "-1", "", "x", "2/2", "9223372036854775808"); step != "" {
		return span + "/" + step
	}
	switch d.pick("none", "none", "small", "size", "large") {
	case "small":
		span += "/" + d.number(1, 7)
	case "size":
		span += "/" + d.number(f.max-f.min-1, f.max+2)
	case "large":
		span += "/" + d.pick("100", "+60", "9223372036854775807")
	}
	return span
}

// crontab draws a crontab without a time zone, with seconds if first is 0, without if it is 1.
func (d draw) crontab(first int) string {
	if text := d.oddly("@every x", "@reboot", "@", "@Daily", "* * * *", "* * * * * * *"); text != "" {
		return text
	}
	if rapid.IntRange(0, 9).Draw(d.T, "kind") == 0 {
		return d.pick("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly",
			"@every 90s", "@every 1.9s", "@every -1m", "@every 1h30m")
	}
	var columns []string
	for _, f := range fields[first:] {
		column := d.element(f)
		for rapid.IntRange(0, 3).Draw(d.T, "more") == 0 {
			column += "," + d.element(f)
		}
		if strings.Trim(column, ",") == "" && !d.odd {
			column += "*"
		}
		columns = append(columns, column)
	}
	return strings.Join(columns, d.pick(" ", "  ", "\t"))
}

// refused matches crontabs that the library accepts or never returns from, and Parse rejects: a list without values, a range from
// a star, a step of 0.
var refused = regexp.MustCompile(`(^|\s),+(\s|$)|[*?]-|/[+-]?0+(,|\s|$)`)

// The library of the program that this one replaces decides which crontabs are valid, and when they are due in UTC.
func TestCrontabsAsUpstream(t *testing.T) {
	log.SetOutput(io.Discard) // The library logs each error.
	defer log.SetOutput(os.Stderr)
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			d := draw{t, rapid.Bool().Draw(t, "odd")}
			text := d.pick("TZ=UTC ", "TZ= ", "TZ=UTC  ") + d.crontab(rapid.IntRange(0, 1).Draw(t, "first"))
			got, err := Parse(text)
			if refused.MatchString(text) {
				if err == nil {
					t.Fatalf("%q is accepted", text)
				}
				continue
			}
			want, wantErr := cron.Parse(text)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("%q: error %v, want %v", text, err, wantErr)
			}
			if err != nil {
				continue
			}
			at := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "at"), rapid.Int64Range(0, 999_999_999).Draw(t, "fraction")).UTC()
			for range 5 {
				next, due := got.Next(at), want.Next(at)
				if !next.Equal(due) {
					t.Fatalf("%q is due after %s at %s, want %s", text, at, next, due)
				}
				if at = next; at.IsZero() {
					break
				}
			}
		}
	})
}

// A walk over the minutes around changes of clocks, and in the last days of years, gives the times of each clock: two if clocks
// were set back, and for a skipped time a later one by as much as was skipped.
func TestChangesOfClocks(t *testing.T) {
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	for _, zone := range []string{"Africa/Cairo", "America/New_York", "America/Santiago", "Asia/Kolkata", "Atlantic/Azores",
		"Australia/Lord_Howe", "Europe/Berlin", "Pacific/Apia"} {
		t.Run(path.Base(zone), func(t *testing.T) {
			location, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			days := remarkable(location)
			rapid.Check(t, func(t *rapid.T) {
				from := rapid.SampledFrom(days).Draw(t, "day").Add(-day)
				to := from.Add(4 * day)
				at, first, last := walk(from, to)
				for range 4 {
					text := draw{T: t}.crontab(1)
					s, err := Parse("TZ=" + zone + " " + text)
					if err != nil {
						t.Fatal(err)
					}
					if _, ok := s.(*calendar); !ok {
						continue
					}
					clocks, err := cron.Parse("TZ=UTC " + text)
					if err != nil {
						t.Fatal(err)
					}
					var got, want []time.Time
					for clock := clocks.Next(first.Add(-time.Second)); !clock.IsZero() && !clock.After(last); clock = clocks.Next(clock) {
						want = append(want, at[clock]...)
					}
					slices.SortFunc(want, time.Time.Compare)
					want = slices.CompactFunc(want, time.Time.Equal)
					for next := s.Next(from.Add(-time.Second)); !next.IsZero() && next.Before(to); next = s.Next(next) {
						got = append(got, next)
					}
					for i := range max(len(got), len(want)) {
						if i >= len(got) || i >= len(want) || !got[i].Equal(want[i]) {
							t.Fatalf("%q from %s on: due at %s…, want %s…", text, from, got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
						}
					}
				}
			})
		})
	}
}

// remarkable returns days before those on which clocks change, and the last ones of years.
func remarkable(location *time.Location) (days []time.Time) {
	for at := time.Date(1940, 1, 1, 0, 0, 0, 0, location); at.Year() < 2033; at = at.Add(day) {
		if at.Year() == 1947 { // Kolkata has changed its clocks until 1945.
			at = at.AddDate(61, 0, 0)
		}
		_, offset := at.Zone()
		if _, after := at.Add(day).Zone(); offset != after || at.Month() == 12 && at.Day() == 31 {
			days = append(days, at)
		}
	}
	return days
}

// walk returns the times of each clock (as a time in UTC), and the first and the last clock.
func walk(from, to time.Time) (at map[time.Time][]time.Time, first, last time.Time) {
	at = map[time.Time][]time.Time{}
	for t := from; t.Before(to); t = t.Add(time.Minute) {
		clock := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
		if first.IsZero() {
			first, last = clock, clock
		}
		for skipped := last.Add(time.Minute); skipped.Before(clock); skipped = skipped.Add(time.Minute) {
			at[skipped] = append(at[skipped], t.Add(skipped.Sub(last)-time.Minute))
		}
		at[clock] = append(at[clock], t)
		last = clock
	}
	return at, first, last
}
