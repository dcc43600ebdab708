package recording

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
)

func in64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func quote(text string) string { b, _ := json.Marshal(text); return string(b) }

// wrap cuts a text into lines, as base64 does.
func wrap(text string, width int) (lines []string) {
	for len(text) > width {
		lines, text = append(lines, text[:width]), text[width:]
	}
	return append(lines, text)
}

var encodedRuns = regexp.MustCompile(`[A-Za-z0-9+/_-]{6,}`)

// has reports whether a text has a value, plain or in layers of base64.
func has(text, value string, layers int) bool {
	if strings.Contains(text, value) {
		return true
	}
	if layers == 0 {
		return false
	}
	for _, run := range encodedRuns.FindAllString(text, -1) {
		run = strings.NewReplacer("-", "+", "_", "/").Replace(run)
		for offset := range 4 {
			chars := run[offset:]
			decoded, _ := base64.RawStdEncoding.DecodeString(chars[:len(chars)-len(chars)%4])
			rest, _ := base64.RawStdEncoding.DecodeString(chars[len(chars)-len(chars)%4:])
			if has(string(decoded)+string(rest), value, layers-1) {
				return true
			}
		}
	}
	return false
}

// redactedText returns a recording, also as text.
func redactedText(t testing.TB, r *redactor, contexts string, result Result) (string, Recording) {
	t.Helper()
	d, err := r.begin(map[string]bool{"secrets": true}, []byte(contexts), &result)
	if err != nil {
		t.Fatal(err)
	}
	var w strings.Builder
	if err := d.copy(&w, []byte(contexts)); err != nil {
		t.Fatal(err)
	}
	rec := Recording{Version: Version, Result: result, Contexts: []byte(w.String())}
	text, err := marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), rec
}

func tree(t testing.TB, text string) (v any) {
	t.Helper()
	if err := unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

func trees(t testing.TB, texts ...string) (all []any) {
	for _, text := range texts {
		all = append(all, tree(t, text))
	}
	return all
}

const secretObject = `{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": "db", "namespace": "shop", "labels": {"app": "shop"}%s}, "data": {"password": %q}}`

// attacks put a value of a Secret into a run, each in another way.
func attacks(t testing.TB, value string) map[string]struct {
	contexts string
	result   Result
} {
	event := fmt.Sprintf(`[{"binding": "secrets", "type": "Event", "watchEvent": "Added", "object": %s}]`, fmt.Sprintf(secretObject, "", in64(value)))
	all := map[string]struct {
		contexts string
		result   Result
	}{}
	add := func(name, contexts string, result Result) {
		if contexts == "" {
			contexts = event
		}
		all[name] = struct {
			contexts string
			result   Result
		}{contexts, result}
	}
	output := func(name string, lines ...string) { add("output: "+name, "", Result{Output: lines}) }
	output("plain", "password is "+value+"!")
	output("adjacent", "x"+value+value+"y")
	output("beside base64", value+in64(value))
	output("base64 beside it", strings.TrimRight(in64(value+"x"), "=")+value)
	output("base64", in64(value))
	output("base64 with a line end", in64(value+"\n"))
	output("base64 of base64", in64(in64(value)))
	output("base64 of base64 of base64", in64(in64(in64(value))))
	output("base64 for URLs", "token="+base64.URLEncoding.EncodeToString([]byte("??>>"+value)))
	output("base64 without padding", base64.RawStdEncoding.EncodeToString([]byte(value)))
	output("base64 after letters", "path/"+in64(value)+"/more")
	output("two in one run of base64", "a"+in64("x"+value)+"/"+in64("yz"+value))
	output("basic authentication", "Authorization: Basic "+in64("admin:"+value))
	output("wrapped base64", wrap(in64(value), 76)...)
	output("base64 wrapped as PEM is", wrap(in64(value), 64)...)
	around := strings.Repeat("user=admin&", 4) + "&password=" + value + strings.Repeat("&more", 20) // the value is in two lines
	output("wrapped base64 with something around it", wrap(in64(around), 76)...)
	output("the same in 64 columns", append([]string{"-----BEGIN-----"}, append(wrap(in64(around[8:]), 64), "-----END-----")...)...)
	output("the same in JSON", quote(strings.Join(wrap(in64("xy"+around), 76), "\n")))
	output("lines", strings.Split(value, "\n")...)
	output("lines with spaces around", strings.Split("  "+strings.ReplaceAll(value, "\n", "  \r\n\t")+"  ", "\n")...)
	output("JSON", `{"password":`+quote(value)+`}`)
	output("JSON in ASCII", `{"password":"`+strings.NewReplacer("ü", `\u00fc`, "ß", `\u00df`, "😀", `\ud83d\ude00`).Replace(quotePlain(value))+`"}`)
	output("JSON in JSON", quote(`{"password":`+quote(value)+`}`))
	if !strings.Contains(value, "\n") && len(value) > 12 {
		output("shortened as jq does", `jq: error: string ("`+value[:11]+`...) cannot be parsed`)
	}
	add("error text", "", Result{Error: fmt.Sprintf("hook FAILED: %q is not valid", value)})
	add("metric", "", Result{Outcome: Outcome{Metrics: trees(t, `{"action": "set", "name": "m", "labels": {"l": `+quote(value)+`}}`)}})
	add("message of the result file", "", Result{Outcome: Outcome{File: tree(t, `{"message": `+quote("not "+value)+`}`)}})
	add("denial", "", Result{Outcome: Outcome{Admission: tree(t, `{"allowed": false, "message": `+quote(value)+`, "warnings": [`+quote("w "+value)+`]}`)}})
	operation := func(name, text string) {
		add("operation: "+name, `[{"binding": "pods", "type": "Event"}]`, Result{Output: []string{value, in64(value)}, Outcome: Outcome{Operations: trees(t, text)}})
	}
	operation("data", `{"operation": "Create", "object": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new"}, "data": {"a": `+quote(in64(value))+`}}}`)
	operation("stringData", `{"operation": "Create", "object": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new"}, "stringData": {"a": `+quote(value)+`}}}`)
	operation("label", `{"operation": "Create", "object": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new", "labels": {"a": `+quote(value)+`}}}}`)
	operation("merge patch", `{"operation": "MergePatch", "kind": "secret", "name": "new", "patch": {"stringData": {"a": `+quote(value)+`}}}`)
	operation("JSON patch", `{"operation": "JSONPatch", "kind": "secrets", "name": "new", "patch": [{"op": "add", "path": "/stringData/a", "value": `+quote(value)+`}]}`)
	operation("jq", `{"operation": "JQPatch", "kind": "Secret", "name": "new", "jqFilter": `+quote(".stringData.a = "+quote(value))+`}`)
	operation("condition", `{"operation": "Condition", "kind": "Secret", "name": "new", "type": "Ready", "status": "False", "message": `+quote(value)+`}`)
	operation("event", `{"operation": "Event", "kind": "Secret", "name": "new", "note": `+quote(value)+`}`)
	operation("set", `{"operation": "Sync", "kind": "Secret", "name": "owner", "objects": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new", "labels": {"a": `+quote(value)+`}}, "data": {"a": `+quote(in64(value))+`}}]}`)
	operation("list", `{"operation": "Create", "object": {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Secret", "stringData": {"a": `+quote(value)+`}}]}}`)
	context := func(name, contexts string) {
		add("context: "+name, contexts, Result{Output: []string{value, in64(value)}})
	}
	context("stringData", `[{"binding": "secrets", "type": "Event", "object": {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": `+quote(value)+`}}}]`)
	context("last applied", `[{"binding": "secrets", "type": "Event", "object": `+fmt.Sprintf(secretObject, `, "annotations": {"`+lastApplied+`": `+quote(`{"apiVersion":"v1","kind":"Secret","stringData":{"older":`+quote(value)+`}}`)+`}`, in64("another"))+`}]`)
	context("another annotation", `[{"binding": "secrets", "type": "Event", "object": `+fmt.Sprintf(secretObject, `, "annotations": {"copy": `+quote(`{"data":{"a":`+quote(in64(value))+`},"stringData":{"a":`+quote(value)+`}}`)+`}`, in64(value))+`}]`)
	context("filter result", `[{"binding": "secrets", "type": "Event", "filterResult": {"name": "db", "a": {"deep": [`+quote(value)+`]}}}]`)
	context("filter result that is a text", `[{"binding": "secrets", "type": "Event", "filterResult": `+quote(value)+`}]`)
	context("previous filter result", `[{"binding": "secrets", "type": "Event", "filterResult": {"a": 1}, "previousFilterResult": {"a": `+quote(value)+`}}]`)
	context("previous object", `[{"binding": "secrets", "type": "Event", "previousObject": {"data": {"a": `+quote(in64(value))+`}}}]`)
	context("a field that is new", `[{"binding": "secrets", "type": "Event", "copy": {"a": `+quote(value)+`}}]`)
	context("a new field of an item", `[{"binding": "secrets", "type": "Synchronization", "objects": [{"copy": [`+quote(value)+`]}]}]`)
	context("Synchronization", `[{"binding": "secrets", "type": "Synchronization", "objects": [{"object": `+fmt.Sprintf(secretObject, "", in64(value))+`, "filterResult": `+quote(value)+`}]}]`)
	context("deleting", `[{"binding": "secrets", "type": "Synchronization", "objects": [], "deleting": [{"object": `+fmt.Sprintf(secretObject, "", in64(value))+`, "filterResult": `+quote(value)+`}]}]`)
	context("what was before", `[{"binding": "secrets", "type": "Event", "watchEvent": "Modified", "object": `+fmt.Sprintf(secretObject, "", in64("another"))+`, "previousObject": `+fmt.Sprintf(secretObject, "", in64(value))+`, "previousFilterResult": `+quote("x"+value)+`}]`)
	context("snapshot in another binding", `[{"binding": "pods", "type": "Event", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"env": [{"name": "PASSWORD", "value": `+quote(value)+`}]}}, "snapshots": {"secrets": [{"filterResult": {"a": `+quote(value)+`}}]}}]`)
	context("snapshot of a group", `[{"binding": "pods", "type": "Group", "groupName": "g", "snapshots": {"pods": [{"filterResult": {"copy": `+quote("x"+value)+`}}], "secrets": [{"object": `+fmt.Sprintf(secretObject, "", in64(value))+`}]}}]`)
	context("review", `[{"binding": "check", "type": "Validating", "review": {"request": {"uid": "1", "kind": {"kind": "Secret"}, "object": `+fmt.Sprintf(secretObject, "", in64(value))+`, "oldObject": {"kind": "Secret", "stringData": {"a": `+quote("old "+value)+`}}}}}]`)
	context("malformed data", `[{"binding": "secrets", "type": "Event", "object": {"kind": "Secret", "data": [`+quote(value)+`]}}]`)
	context("object without kind", `[{"binding": "secrets", "type": "Event", "object": {"data": {"a": `+quote(in64(value))+`}}}]`)
	context("list of Secrets", `[{"binding": "check", "type": "Validating", "review": {"request": {"object": {"kind": "SecretList", "items": [{"data": {"a": `+quote(in64(value))+`}}]}}}}]`)
	add("mutation of a Secret", `[{"binding": "m", "type": "Mutating", "review": {"request": {"kind": {"kind": "Secret"}, "object": {"kind": "Secret"}}}}]`,
		Result{Output: []string{value}, Outcome: Outcome{Admission: tree(t, `{"allowed": true, "patch": [{"op": "add", "path": "/stringData/a", "value": `+quote(value)+`}]}`)}})
	http := func(name, request string) {
		add("HTTP: "+name, `[{"binding": "web", "type": "HTTP", "request": {"id": "1", "method": "POST", "path": "/things", `+request+`}}]`, Result{Output: []string{value}})
	}
	http("header", `"headers": {"X-Key": ["a", `+quote(value)+`]}`)
	http("query", `"query": {"token": [`+quote(value)+`]}`)
	http("body", `"body": `+quote(value))
	http("JSON", `"body": `+quote(`{"a":`+quote(value)+`}`)+`, "json": {"a": `+quote(value)+`}`)
	http("binary body", `"bodyBase64": `+quote(in64(value)))
	add("HTTP: answer", `[{"binding": "web", "type": "HTTP", "request": {"id": "1"}}]`, Result{Output: []string{value}, Outcome: Outcome{HTTP: tree(t, `{"status": 201, "headers": {"X": [`+quote(value)+`]}, "body": `+quote(value)+`}`)}})
	return all
}

// Line 6, without an operator: a value of a Secret is nowhere in a recording, whichever way it takes.
func TestRedact(t *testing.T) {
	pem := "-----BEGIN KEY-----\n" + strings.Join(wrap(strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", 8), 64), "\n") + "\n-----END KEY-----\n"
	for name, value := range map[string]string{
		"word": "hunter22", "with what is special in JSON and HTML": `p@ss"<word>&\1`, "letters beyond ASCII": "grün-geheim-ß😀", "number": "12345678",
		"lines": "line one\nsecond \"line\"\nthird", "key": pem, "long": strings.Repeat("0a1B2c3D4e", 30), "short": "k9#z",
	} {
		for attack, run := range attacks(t, value) {
			t.Run(name+"/"+attack, func(t *testing.T) {
				text, rec := redactedText(t, newRedactor(), run.contexts, run.result)
				// Also without line ends: wrapped base64 is decoded as a whole.
				shown := text + strings.Join(rec.Result.Output, "\n") + rec.Result.Error + "\n" + strings.ReplaceAll(strings.Join(rec.Result.Output, ""), `\n`, "")
				once := quote(value)[1 : len(quote(value))-1]
				forms := append(strings.Split(value, "\n"), value, strings.NewReplacer("ü", `\u00fc`, "ß", `\u00df`).Replace(value), "geheim", once, quote(once)[1:len(quote(once))-1], in64(value))
				for _, form := range append(forms, wrap(in64(value), 76)...) {
					if len(form) >= leastText && has(shown, form, 3) {
						t.Errorf("%q is in the recording:\n%s", form, text)
					}
				}
				if !strings.Contains(shown, "redacted-") && !strings.Contains(shown, in64("redacted-")[:11]) {
					t.Errorf("nothing is redacted:\n%s", text)
				}
			})
		}
	}
}

// What is no secret stays, and so does the identity of objects. A hook that decodes data still works.
func TestRedactKeeps(t *testing.T) {
	r := newRedactor()
	contexts := `[{"binding":"secrets","type":"Event","watchEvent":"Added","object":` + fmt.Sprintf(secretObject, "", in64("shop")) +
		`,"filterResult":{"name":"db","namespace":"shop-1","kind":"Secret","version":7,"set":true,"none":null}},` +
		`{"binding":"pods","type":"Event","watchEvent":"Modified","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"shop","namespace":"shop","labels":{"a":"shop"}},"spec":{"shop":{"n":12}}}}]`
	text, rec := redactedText(t, r, contexts, Result{Outcome: Outcome{Operations: trees(t,
		`{"operation":"MergePatch","kind":"Pod","namespace":"shop","name":"shop","patch":{"a":"blue"}}`,
		`{"operation":"JSONPatch","kind":"Secret","namespace":"shop","name":"db","patch":[{"op":"add","path":"/data/a","value":"c2hvcA=="}]}`)}})
	var got []struct {
		Object struct {
			Metadata struct {
				Name, Namespace string
				Labels          map[string]string
			}
			Data map[string]string
		}
		FilterResult map[string]any
	}
	if err := json.Unmarshal(rec.Contexts, &got); err != nil {
		t.Fatal(err)
	}
	decoded, err := base64.StdEncoding.DecodeString(got[0].Object.Data["password"])
	with := string(decoded)
	if err != nil || !redacted.MatchString(with) || got[1].Object.Metadata.Labels["a"] != with {
		t.Errorf("the value became %q (%v), its copy %q", with, err, got[1].Object.Metadata.Labels["a"])
	}
	if pod := got[1].Object.Metadata; pod.Name != "shop" || pod.Namespace != "shop" {
		t.Errorf("the Pod became %+v", pod)
	}
	filtered := got[0].FilterResult
	if filtered["name"] != "db" || filtered["namespace"] != with+"-1" || filtered["kind"] != "Secret" || !redacted.MatchString(fmt.Sprint(filtered["version"], filtered["set"])) || filtered["none"] != nil {
		t.Errorf("the filter result became %v", filtered)
	}
	for _, kept := range []string{
		`{"binding":"secrets","type":"Event","watchEvent":"Added"`, `"spec":{"shop":{"n":12}}`, `{"a":"blue"}`, `"namespace":"shop","operation":"MergePatch"`,
		`"op":"add","path":"/data/a","value":"` + in64(with) + `"`,
	} {
		if !strings.Contains(text, kept) {
			t.Errorf("%s is gone:\n%s", kept, text)
		}
	}
	again, _ := redactedText(t, r, contexts, Result{})
	if other, _ := redactedText(t, newRedactor(), contexts, Result{}); !strings.Contains(again, with) || strings.Contains(other, with) {
		t.Error("replacements are not those of a process")
	}
}

// Of values that overlap in a text, no part is left. A value that is a part of a replacement changes no replacement.
func TestRedactOverlaps(t *testing.T) {
	object := `[{"binding":"secrets","type":"Event","object":{"data":{"a":"` + in64("front-middle") + `","b":"` + in64("middle-back") + `","c":"` + in64("acted") + `"}}}]`
	_, rec := redactedText(t, newRedactor(), object, Result{Output: []string{"front-middle-back", in64(in64("<front-middle-back>"))}})
	for _, line := range rec.Result.Output {
		if has(line, "back", 2) || has(line, "front", 2) || !has(line, marker, 2) {
			t.Errorf("the line became %q", line)
		}
	}
}

// Nothing is decoded that has nothing to do with a Secret.
func TestRedactCopies(t *testing.T) {
	const contexts = `[{"binding":"pods","type":"Event","object":{"z":1,"a":1.50,"kind":"Pod"}}]`
	if _, rec := redactedText(t, newRedactor(), contexts, Result{}); strings.TrimSpace(string(rec.Contexts)) != contexts {
		t.Errorf("the contexts became %s", rec.Contexts)
	}
	for _, broken := range []string{``, `[`, `{}`, `[{"object": {}, "binding": "a"}]`, `[{"binding": "a", "objects": {}}]`, `[{"binding": 1}]`} {
		if _, err := newRedactor().begin(nil, []byte(broken), &Result{}); err == nil {
			t.Errorf("no error for %s", broken)
		}
	}
}

// FuzzRedact puts a value between other texts, plain, in base64 and in JSON.
func FuzzRedact(f *testing.F) {
	f.Add("hunter22", "a", "b")
	f.Add("xyxy", "xy", "xyxyxy")
	f.Add("QUJD\n", "/", "==")
	f.Add("0000", "00", "redacted-")
	f.Fuzz(func(t *testing.T, value, before, after string) {
		if len(value) < leastText || strings.Contains(value, "\n") || strings.ToValidUTF8(value, "") != value {
			t.Skip()
		}
		// A replacement and what is beside it can be the value by chance.
		if at := strings.IndexByte(value, 'r'); strings.ContainsRune("0123456789abcdef", rune(value[0])) || at >= 0 && strings.HasPrefix("redacted-", value[at:]) || strings.Contains("redacted-", value) {
			t.Skip()
		}
		whole := before + value + after
		result := Result{Output: []string{whole, in64(whole), before + in64(value) + after, quote(whole)}}
		_, rec := redactedText(t, newRedactor(), `[{"binding":"secrets","type":"Event","object":`+fmt.Sprintf(secretObject, "", in64(value))+`}]`, result)
		for i, line := range rec.Result.Output {
			if has(line, value, 2) {
				t.Errorf("line %d has the value: %q became %q", i, whole, line)
			}
		}
	})
}

// BenchmarkRedact redacts contexts of 1 MiB, with Secrets and without.
func BenchmarkRedact(b *testing.B) {
	pod := `{"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"default","labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"registry.example.com/web:1.25","env":[{"name":"A","value":"some value"}]}]}}}`
	pods := strings.Repeat(pod+",", 1<<20/len(pod)) + pod
	secrets := make([]string, 100)
	for i := range secrets {
		secrets[i] = fmt.Sprintf(`{"object":%s}`, fmt.Sprintf(secretObject, "", in64(fmt.Sprintf("value-%d-of-a-secret", i))))
	}
	for name, list := range map[string]string{"without": "", "with": strings.Join(secrets, ",")} {
		contexts := []byte(`[{"binding":"pods","type":"Synchronization","objects":[` + pods + `],"snapshots":{"secrets":[` + list + `]}}]`)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(contexts)))
			b.ReportAllocs()
			for b.Loop() {
				d, err := newRedactor().begin(map[string]bool{"secrets": true}, contexts, &Result{})
				if err == nil {
					err = d.copy(io.Discard, contexts)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
