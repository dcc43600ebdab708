package wire

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestParseMetrics runs the archives in testdata/metrics. For each file in an archive, which is what a hook wrote,
// there is a file NAME.want: the operations and the warnings that come of it, or the whole error.
func TestParseMetrics(t *testing.T) {
	golden.Wants(t, metricFiles, func(_ *testing.T, f txtar.File) string { return parsedMetrics(f.Data) })
}

const metricFiles = "testdata/metrics/*.txtar"

// parsedMetrics prints the result of a metrics file in lines.
func parsedMetrics(file []byte) string {
	metrics, warnings, err := ParseMetrics(file)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, m := range metrics {
		b.WriteString(showMetric(m) + "\n")
	}
	for _, w := range warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func showMetric(m effect.Metric) string {
	words := []string{m.Action.String()}
	if m.Name != "" {
		words = append(words, m.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		words = append(words, fmt.Sprintf("%s=%q", name, m.Labels[name]))
	}
	if m.Action != effect.Expire {
		words = append(words, fmt.Sprint(m.Value))
	}
	if m.Buckets != nil {
		words = append(words, fmt.Sprint("buckets ", m.Buckets))
	}
	if m.Group != "" {
		words = append(words, "group "+m.Group)
	}
	return strings.Join(words, " ")
}

// Invalid UTF-8 cannot be part of a text archive.
func TestParseMetricsInvalidUTF8(t *testing.T) {
	const want = "got bad metrics: 3 problems:\n" +
		"  * operation 1 (\"a\"), labels.pod is not valid UTF-8\n" +
		"  * operation 2 (\"a\"), labels.pod is not valid UTF-8\n" +
		"  * operation 3, name is not valid UTF-8"
	file := "{\"name\":\"a\",\"set\":1,\"labels\":{\"pod\":\"x\xff\"}}\n" +
		`{"name":"a","set":1,"labels":{"pod":"\ud800"}}` + "\n" +
		"{\"name\":\"b\xff\",\"set\":1}"
	if _, _, err := ParseMetrics([]byte(file)); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestParseMetricsBoundsItsMessages(t *testing.T) {
	_, _, err := ParseMetrics([]byte(strings.Repeat(`{"name":"a","action":"set"}`, 1000)))
	if lines := strings.Split(fmt.Sprint(err), "\n"); len(lines) != maxReported+2 || lines[len(lines)-1] != "  … and 950 more" {
		t.Errorf("the error has %d lines, the last one is %q", len(lines), lines[len(lines)-1])
	}
	_, warnings, err := ParseMetrics([]byte(strings.Repeat(`{"name":"a"}`, 1000)))
	if err != nil || len(warnings) != maxReported+1 || warnings[maxReported].String() != "950 more operations are dropped" {
		t.Errorf("%d warnings, error %v", len(warnings), err)
	}
}

// FuzzParseMetrics checks the invariants of the fields of effect.Metric, and that encoded metrics parse to the same
// values.
func FuzzParseMetrics(f *testing.F) {
	for _, path := range golden.Files(f, metricFiles) {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range archive.Files {
			if !strings.HasSuffix(file.Name, ".want") {
				f.Add(file.Data)
			}
		}
	}
	f.Add([]byte("{\"name\":\"a\",\"set\":1,\"labels\":{\"pod\":\"\xff\"}}"))
	f.Fuzz(func(t *testing.T, file []byte) {
		metrics, _, err := ParseMetrics(file)
		if err != nil && metrics != nil {
			t.Fatalf("metrics %v with error %v", metrics, err)
		}
		var again []byte
		for _, m := range metrics {
			checkMetric(t, m)
			again = append(again, written(t, m)...)
		}
		for i := range metrics {
			if len(metrics[i].Labels) == 0 {
				metrics[i].Labels = nil
			}
		}
		if same, _, err := ParseMetrics(again); err != nil || !reflect.DeepEqual(same, metrics) {
			t.Fatalf("%+v becomes %+v, error %v", metrics, same, err)
		}
	})
}

func checkMetric(t *testing.T, m effect.Metric) {
	if m.Action == effect.Expire {
		if m.Name != "" || m.Labels != nil {
			t.Fatalf("expire of one metric: %+v", m)
		}
		return
	}
	if !metricName.MatchString(m.Name) {
		t.Fatalf("name of %+v", m)
	}
	if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) || m.Action == effect.Add && m.Value < 0 {
		t.Fatalf("value of %+v", m)
	}
	for name, value := range m.Labels {
		if !labelName.MatchString(name) || strings.HasPrefix(name, "__") || !utf8.ValidString(value) {
			t.Fatalf("label %q of %+v", name, m)
		}
	}
}

func TestUnknownKeyOfMetricMayBeNoText(t *testing.T) {
	for _, file := range []string{"{\"name\":\"a\",\"set\":1,\"note\":\"\xff\"}", `{"note":"\ud800","name":"a","set":1}`} {
		if metrics, _, err := ParseMetrics([]byte(file)); err != nil || len(metrics) != 1 || metrics[0].Name != "a" {
			t.Errorf("%q is %v, %v", file, metrics, err)
		}
	}
	for _, file := range []string{
		"{\"note\":\"\xff\",\"name\":\"\xff\",\"set\":1}",
		"{\"note\":\"\xff\",\"name\":\"a\",\"set\":1,\"labels\":{\"x\":\"\xff\"}}",
	} {
		if metrics, _, err := ParseMetrics([]byte(file)); err == nil {
			t.Errorf("%q is %v", file, metrics)
		}
	}
}
