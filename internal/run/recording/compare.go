package recording

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Differences lists what is different in another result, but not in its output.
func (r *Result) Differences(now Result) []string {
	d := &differences{}
	if !isRejected(r.Exit) || !isRejected(now.Exit) {
		d.value("exit", r.Exit, now.Exit)
	}
	d.value("operations", asList(r.Operations), asList(now.Operations))
	d.value("metrics", asList(r.Metrics), asList(now.Metrics))
	d.value("admission", r.Admission, now.Admission)
	d.value("conversion", r.Conversion, now.Conversion)
	d.value("http", r.HTTP, now.HTTP)
	d.value("result", r.File, now.File)
	return d.found
}

// isRejected reports whether the process succeeded and the run failed. A replay has no API server, so that is known of both, and no more.
func isRejected(exit string) bool { return strings.HasPrefix(exit, "exit status 0,") }

func asList(list []any) any {
	if list == nil {
		return []any{}
	}
	return list
}

type differences struct{ found []string }

func (d *differences) add(at string, recorded, now any) {
	d.found = append(d.found, fmt.Sprintf("%s: recorded %s, now %s", at, short(recorded), short(now)))
}

func (d *differences) value(at string, recorded, now any) {
	switch r := recorded.(type) {
	case map[string]any:
		if n, ok := now.(map[string]any); ok {
			keys := maps.Clone(r)
			maps.Copy(keys, n)
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				d.value(at+"."+key, r[key], n[key])
			}
			return
		}
	case []any:
		if n, ok := now.([]any); ok {
			for i := range max(len(r), len(n)) {
				d.value(fmt.Sprintf("%s[%d]", at, i), item(r, i), item(n, i))
			}
			return
		}
	}
	if !same(recorded, now) {
		d.add(at, recorded, now)
	}
}

func item(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

func same(a, b any) bool {
	n, ok := a.(json.Number)
	m, also := b.(json.Number)
	if ok && also {
		x, _ := n.Float64()
		y, _ := m.Float64()
		return n == m || x == y
	}
	return a == b // two maps or two lists, which Go cannot compare, do not get here
}

// short is a value on one line.
func short(v any) string {
	if v == nil {
		return "nothing"
	}
	text, err := marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return cut(string(text), 200)
}

// cut shortens a text.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + " …"
}
