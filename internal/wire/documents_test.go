package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// jsonWriter writes values as JSON, as some program does.
type jsonWriter struct {
	*rapid.T
	strings.Builder
	// foreign: with escapes, blanks and lengths that parsers of YAML reject.
	foreign bool
}

func (w *jsonWriter) pick(all ...string) { w.WriteString(rapid.SampledFrom(all).Draw(w.T, "blank")) }

func (w *jsonWriter) blank() {
	if w.pick("", "", " ", "\n", "\n  ", "\r\n "); w.foreign {
		w.pick("", "", "\t", "\n\t")
	}
}

func (w *jsonWriter) text(text string) {
	w.WriteByte('"')
	for _, r := range text {
		switch {
		case w.foreign && r == '/':
			w.WriteString(`\/`)
		case w.foreign && r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(w, `\u%04x\u%04X`, high, low)
		case r < ' ' || r == '"' || r == '\\' || !w.foreign && strings.ContainsRune("\u007f\u0085\u2028\u2029\ufeff", r):
			fmt.Fprintf(w, `\u%04x`, r)
		default:
			w.WriteRune(r)
		}
	}
	w.WriteByte('"')
}

func (w *jsonWriter) list(open, end string, n int, item func(i int)) {
	w.WriteString(open)
	for i := range n {
		if i > 0 {
			w.WriteByte(',')
		}
		w.blank()
		item(i)
	}
	w.blank()
	w.WriteString(end)
}

func (w *jsonWriter) value(value any) {
	switch value := value.(type) {
	case []any:
		w.list("[", "]", len(value), func(i int) { w.value(value[i]) })
	case map[string]any:
		keys := slices.Sorted(maps.Keys(value))
		w.list("{", "}", len(keys), func(i int) {
			w.text(keys[i])
			w.pick(":", " :", ": ", ":\n ")
			w.value(value[keys[i]])
		})
	case string:
		w.text(value)
	default:
		text, _ := json.Marshal(value)
		w.Write(text)
	}
}

// drawString draws a text with the letters that programs escape.
func drawString(t *rapid.T) string {
	return rapid.StringOfN(rapid.SampledFrom([]rune("a<:#-'é/🚀𝄞\"\\\n\t\u007f\u0085\u2028\ufeff\x01")), 0, 6, -1).Draw(t, "text")
}

func drawJSON(t *rapid.T, depth int) any {
	kinds := []string{"text", "number", "fraction", "true", "null", "list", "object"}
	if depth == 0 {
		kinds = kinds[:5]
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "text":
		return drawString(t)
	case "number":
		return float64(rapid.IntRange(-1e9, 1e9).Draw(t, "number"))
	case "fraction":
		return float64(rapid.IntRange(-1e6, 1e6).Draw(t, "number")) / 8
	case "true":
		return true
	case "null":
		return nil
	case "list":
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range list {
			list[i] = drawJSON(t, depth-1)
		}
		return list
	}
	return drawObject(t, depth-1)
}

func drawObject(t *rapid.T, depth int) map[string]any {
	object := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "length") {
		object[drawString(t)] = drawJSON(t, depth)
	}
	return object
}

// Where both parsers accept a text, the nodes of JSON are as those of the parser of YAML, with their places.
func TestNodesOfJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &jsonWriter{T: t}
		w.blank()
		w.value(drawObject(t, 3))
		text := w.String()
		var want yaml.Node
		if err := yaml.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		got, err := FirstDocument([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if a, b := shown(got), shown(&want); a != b {
			t.Fatalf("%q:\n%s\nwant\n%s", text, a, b)
		}
	})
}

func shown(n *yaml.Node) string {
	text := fmt.Sprintf("%d:%d %d %s %d %q\n", n.Line, n.Column, n.Kind, n.ShortTag(), n.Style, n.Value)
	for _, child := range n.Content {
		text += shown(child)
	}
	return text
}

// A text that is valid JSON is JSON: its escapes, tabs and long keys are, alone and beside other documents.
func TestJSONOfOtherPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &jsonWriter{T: t, foreign: true}
		var want []any
		for range rapid.IntRange(1, 3).Draw(t, "documents") {
			object := drawObject(t, 3)
			if rapid.Bool().Draw(t, "long key") {
				object[strings.Repeat("long", 300)] = "\U0001f680"
			}
			want = append(want, object)
			w.blank()
			w.pick("---\n", "--- ", "\n")
			w.value(object)
			w.WriteByte('\n')
		}
		w.pick("", "---\na: b\n", "# end\n")
		yamlFollows := strings.HasSuffix(w.String(), "a: b\n")
		if yamlFollows {
			want = append(want, map[string]any{"a": "b"})
		}
		var got []any
		for doc, err := range Documents([]byte(w.String())) {
			if err != nil {
				t.Fatalf("%q: %v", w, err)
			}
			text, err := YAMLToJSON(doc)
			if err != nil {
				t.Fatalf("%q: %v", w, err)
			}
			got = append(got, decoded(t, text))
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is %v, want %v", w, got, want)
		}
		text, err := FirstAsJSON([]byte(w.String()))
		if first := decoded(t, text); err != nil || !reflect.DeepEqual(first, want[0]) {
			t.Fatalf("%q begins with %v, error %v, want %v", w, first, err, want[0])
		}
	})
}

func decoded(t *rapid.T, text []byte) (value any) {
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// Wherever hooks write YAML or JSON, they may write what json.dumps of Python and json_encode of PHP do.
func TestEscapesInAllPlaces(t *testing.T) {
	const emoji, slash = `\ud83d\ude80`, `apps\/v1`
	config := `{"configVersion": "v1", "kubernetes": [{"name": "` + emoji + `", "apiVersion": "` + slash + `", "kind": "Deployment"}]}`
	h, warnings, err := ParseConfig("h.sh", "/h.sh", []byte(config), ConfigOptions{})
	if err != nil || len(warnings) > 0 || h.Kubernetes[0].Name != "🚀" || h.Kubernetes[0].APIVersion != "apps/v1" {
		t.Errorf("config: %+v, warnings %v, error %v", h.Kubernetes, warnings, err)
	}
	if r, err := ParseResult([]byte(`{"message": "`+emoji+` `+slash+`"}`), ResultRules{}); err != nil || r.Message != "🚀 apps/v1" {
		t.Errorf("result: %+v, error %v", r, err)
	}
	object := `{"apiVersion": "` + slash + `", "kind": "Deployment", "metadata": {"name": "a", "namespace": "b", "labels": {"x": "` +
		emoji + `"}}}`
	inString := func(text string) string { quoted, _ := json.Marshal(text); return string(quoted) }
	at := `"apiVersion": "` + slash + `", "kind": "Deployment", "namespace": "b", "name": "a"`
	for _, patch := range []string{
		`{"operation": "Create", "object": ` + object + `}`,
		`{"operation": "Create", "object": ` + inString(object) + `}`,
		"operation: Create\nobject: |\n  " + object,
		`{"operation": "MergePatch", ` + at + `, "mergePatch": ` + inString(`{"x": "`+emoji+`"}`) + `}`,
		`{"operation": "JSONPatch", ` + at + `, "jsonPatch": ` + inString(`[{"op": "add", "path": "\/x", "value": "`+emoji+`"}]`) + `}`,
		`{"operation": "Sync", "set": "s", "objects": [` + inString(object) + `]}`,
	} {
		for _, text := range []string{patch, "---\n" + patch, patch + "\n---\n" + patch} {
			patches, err := ParsePatches([]byte(text), jq.NewCompiler(jq.Options{}))
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			p := patches[0]
			sent := string(p.Object) + string(p.Body)
			if p.Operation == effect.Sync {
				sent = string(p.Set.Objects[0].Object)
			}
			var value any
			if err := json.Unmarshal([]byte(sent), &value); err != nil || !strings.Contains(fmt.Sprint(value), "🚀") {
				t.Errorf("%s: sends %s, error %v", text, sent, err)
			}
		}
	}
}
