package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
)

// figure is one measured value with what it should not exceed.
type figure struct {
	Scenario string `json:"scenario"`
	What     string `json:"what"`
	Unit     string `json:"unit"`
	spread
	// Bound is the bare thing, measured in the same run.
	Bound *bound `json:"bound,omitempty"`
	// Limit is what Rule comes to in this run; nil for figures that only inform.
	Limit   *float64 `json:"limit,omitempty"`
	Rule    string   `json:"rule,omitempty"`
	Reached *bool    `json:"reached,omitempty"`
}

type bound struct {
	What string `json:"what"`
	spread
}

// spread is a median and where it comes from.
type spread struct {
	Median  float64   `json:"median"`
	Least   float64   `json:"least"`
	Most    float64   `json:"most"`
	Samples int       `json:"samples"`
	all     []float64 // sorted
}

func spreadOf(samples []float64) spread {
	s := slices.Sorted(slices.Values(samples))
	return spread{Median: percentile(s, 50), Least: s[0], Most: s[len(s)-1], Samples: len(s), all: s}
}

// percentile of sorted samples.
func percentile(sorted []float64, p int) float64 {
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

// figures are all that have been measured so far.
var figures []*figure

// add reports a figure whose value is the median of samples.
func (b *bench) add(what, unit string, samples ...float64) *figure {
	f := &figure{Scenario: b.name, What: what, Unit: unit, spread: spreadOf(samples)}
	figures = append(figures, f)
	return f
}

// against names the bound of a figure.
func (f *figure) against(what string, samples ...float64) *figure {
	f.Bound = &bound{what, spreadOf(samples)}
	return f
}

// times limits a figure to a multiple of its bound and something more.
func (f *figure) times(factor, more float64) *figure {
	rule := "bound"
	if factor != 1 {
		rule = fmt.Sprintf("%g × bound", factor)
	}
	if more != 0 {
		rule += fmt.Sprintf(" + %.3g %s", more, f.Unit)
	}
	return f.limit(f.Bound.Median*factor+more, rule)
}

// most limits a figure to a value.
func (f *figure) most(limit float64) *figure {
	return f.limit(limit, fmt.Sprintf("%g %s", limit, f.Unit))
}

func (f *figure) limit(limit float64, rule string) *figure {
	reached := f.Median <= limit
	f.Limit, f.Rule, f.Reached = &limit, rule, &reached
	return f
}

func printTable(w io.Writer) {
	fmt.Fprintln(w)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "SCENARIO\tFIGURE\tMEDIAN\tSPREAD\tBOUND\tAT MOST\t")
	for _, f := range figures {
		text, limit, verdict := "", "", ""
		if f.Bound != nil {
			text = fmt.Sprintf("%s (%s)", number(f.Bound.Median), f.Bound.What)
		}
		if f.Limit != nil {
			limit, verdict = fmt.Sprintf("%s (%s)", number(*f.Limit), f.Rule), "reached"
			if !*f.Reached {
				verdict = "MISSED"
			}
		}
		fmt.Fprintf(out, "%s\t%s\t%s %s\t%s–%s of %d\t%s\t%s\t%s\n", f.Scenario, f.What, number(f.Median), f.Unit, number(f.Least),
			number(f.Most), f.Samples, text, limit, verdict)
	}
	out.Flush()
}

func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// writeResults writes all figures with what is needed to compare them with others.
func writeResults(path string) error {
	results := struct {
		Time     time.Time         `json:"time"`
		Machine  map[string]string `json:"machine"`
		Versions map[string]string `json:"versions"`
		Figures  []*figure         `json:"figures"`
	}{time.Now().UTC().Truncate(time.Second), machine(), versions(), figures}
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

func machine() map[string]string {
	m := map[string]string{"system": runtime.GOOS + "/" + runtime.GOARCH, "processors": fmt.Sprint(runtime.NumCPU())}
	find := func(key, path, expr string) {
		text, _ := os.ReadFile(path)
		if found := regexp.MustCompile(expr).FindSubmatch(text); found != nil {
			m[key] = strings.TrimSpace(string(found[1]))
		}
	}
	find("processor", "/proc/cpuinfo", `(?m)^model name\s*:(.*)$`)
	find("memory", "/proc/meminfo", `(?m)^MemTotal:(.*)$`)
	find("kernel", "/proc/sys/kernel/osrelease", `(.*)`)
	find("load before the end", "/proc/loadavg", `^(\S+)`)
	return m
}

func versions() map[string]string {
	v := map[string]string{"go": runtime.Version()}
	ask := func(key, name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Dir = test.Root()
		if out, err := cmd.Output(); err == nil {
			v[key] = strings.TrimSpace(string(out))
		}
	}
	ask("commit", "git", "describe", "--always", "--dirty", "--exclude", "*")
	ask("kubernetes", "sed", "-n", `s/^\tk8s.io\/kubernetes //p`, "testcluster/go.mod")
	ask("client-go", "sed", "-n", `s/^\tk8s.io\/client-go //p`, "go.mod")
	ask("controller-runtime", "sed", "-n", `s/^\tsigs.k8s.io\/controller-runtime //p`, "bench/peers/go.mod")
	return v
}
