package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestValues renders the values in testdata/values.txtar, and shows what differs from the default, which is in
// manifests/shell-operator.yaml.
func TestValues(t *testing.T) {
	before := rendered(t, "")
	golden.Wants(t, "testdata/values.txtar", func(t *testing.T, f txtar.File) string {
		return differences(before, rendered(t, string(f.Data)))
	})
}

// differences are the objects that are in one of two sets only, and the fields of the others that are.
func differences(before, after objects) string {
	var out strings.Builder
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		old, now := fields(before, key), fields(after, key)
		sign := " "
		switch {
		case before[key] == nil:
			sign, now = "+", slices.DeleteFunc(now, ofEach)
		case after[key] == nil:
			sign, old = "-", nil
		case slices.Equal(old, now):
			continue
		}
		fmt.Fprintf(&out, "%s %s\n", sign, key)
		for _, line := range old {
			if !slices.Contains(now, line) {
				fmt.Fprintf(&out, "  - %s\n", line)
			}
		}
		for _, line := range now {
			if !slices.Contains(old, line) {
				fmt.Fprintf(&out, "  + %s\n", line)
			}
		}
	}
	return out.String()
}

// fields are the fields of an object, one a line.
func fields(all objects, key string) []string {
	if all[key] == nil {
		return nil
	}
	return flat("", all[key].Object)
}

// ofEach reports whether a field is one that each object has.
func ofEach(line string) bool {
	return slices.ContainsFunc([]string{"apiVersion: ", "kind: ", "metadata.name: ", "metadata.namespace: ",
		"metadata.labels.app.kubernetes.io/instance: ", "metadata.labels.app.kubernetes.io/managed-by: Helm",
		"metadata.labels.app.kubernetes.io/name: ", "metadata.labels.app.kubernetes.io/version: ", "metadata.labels.helm.sh/chart: "},
		func(start string) bool { return strings.HasPrefix(line, start) })
}

// flat lists the fields of a value. Elements of a list are named by their names, others are one line.
func flat(at string, value any) (lines []string) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			lines = append(lines, flat(strings.TrimPrefix(at+"."+key, "."), value[key])...)
		}
		if len(value) > 0 {
			return lines
		}
	case []any:
		for _, element := range value {
			object, _ := element.(map[string]any)
			if name, named := object["name"].(string); named {
				object = maps.Clone(object)
				delete(object, "name")
				lines = append(lines, flat(fmt.Sprintf("%s[%s]", at, name), object)...)
			} else {
				lines = append(lines, flat(at+"[]", compact(element))...)
			}
		}
		return lines
	case string:
		return []string{at + ": " + strings.ReplaceAll(strings.TrimSpace(value), "\n", "\\n")}
	}
	return []string{at + ": " + compact(value)}
}

// compact is a value in one line.
func compact(value any) string {
	if text, is := value.(string); is {
		return text
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
