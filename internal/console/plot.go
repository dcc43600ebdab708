package console

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// waterfallWidth is the width of a plot in its own units; the style sheet scales it.
const waterfallWidth = 1000

// span is the time that a waterfall shows.
type span struct{ From, To time.Time }

// spanOf covers runs. A run that waited for an hour does not make all others invisible: what is earlier than limit is cut off.
func spanOf(runs []history.Run, limit time.Duration) (s span) {
	for i := range runs {
		for _, p := range runs[i].Parts() {
			if s.From.IsZero() || p.Started.Before(s.From) {
				s.From = p.Started
			}
			if end := p.Started.Add(time.Duration(p.Took)); end.After(s.To) {
				s.To = end
			}
		}
	}
	if limit > 0 && s.To.Sub(s.From) > limit {
		s.From = s.To.Add(-limit)
	}
	return s
}

// x is a place of the time, in units of the plot.
func (s span) x(t time.Time) float64 {
	whole := s.To.Sub(s.From)
	if whole <= 0 {
		return 0
	}
	return min(max(float64(t.Sub(s.From))/float64(whole), 0), 1) * waterfallWidth
}

// waterfall plots the phases of a run: waiting is a thin line, the process a full box, applying an outlined one.
func waterfall(s span, r history.Run) template.HTML {
	var b, about strings.Builder
	for i, p := range r.Parts() {
		if i > 0 {
			about.WriteString(", ")
		}
		fmt.Fprintf(&about, "%s %s", template.HTMLEscapeString(plain(string(p.Name))), p.Took)
	}
	fmt.Fprintf(&b, `<svg class="waterfall" viewBox="0 0 %d 14" preserveAspectRatio="none" role="img" aria-label="%s"><title>%[2]s</title>`,
		waterfallWidth, about.String())
	for _, p := range r.Parts() {
		from, to := s.x(p.Started), s.x(p.Started.Add(time.Duration(p.Took)))
		y, height, class := 2, 10, "process"
		switch p.Name {
		case history.Waiting:
			y, height, class = 6, 2, "wait"
		case history.Applying:
			y, height, class = 3, 8, "applying"
		}
		fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/>`, class, min(from, waterfallWidth-2), y,
			max(2, to-from), height)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}
