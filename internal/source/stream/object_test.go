package stream

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// index returns the object of raw, which it copies.
func (x *indexer) index(raw []byte) (*Object, error) {
	o, layout, err := x.scan(raw)
	if err == nil {
		o.JSON = layout.appendTo(make([]byte, 0, layout.size(raw)), raw)
	}
	return o, err
}

func TestIndex(t *testing.T) {
	for _, test := range []struct {
		name, raw string
		want      Object
		wantError string
	}{
		{
			name: "metadata first, fields of the same names elsewhere",
			raw: `{"metadata":{"labels":{"name":"no"},"name":"yes","ownerReferences":[{"uid":"no","kind":"No","name":"no"}]},` +
				`"spec":{"metadata":{"name":"no"},"kind":"No"},"kind":"Yes","apiVersion":"v1"}`,
			want: Object{Key: "\x00yes", Name: "yes", Kind: "Yes"},
		},
		{
			name: "escapes in values that are indexed and in those that are not",
			raw: `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"w\u0065b\"\\","namespace":"sh\u006fp","annotations":{"a":"\n\u2028<&>",` +
				`"b":"\ud83d\ude00"}}}`,
			want: Object{Key: "shop\x00web\"\\", Namespace: "shop", Name: "web\"\\", Kind: "Pod"},
		},
		{name: "not an object", raw: `[]`, wantError: "not a JSON object"},
		{name: "a name of another type", raw: `{"kind":"Pod","metadata":{"name":7}}`, wantError: "found 7 where a string was expected"},
		{name: "cut off", raw: `{"kind":"Pod","metadata":{"name":"web"`, wantError: "EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			raw := []byte(test.raw)
			got, err := newIndexer(true).index(raw)
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Fatalf("got error %v, want one with %q", err, test.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(got.JSON) != test.raw {
				t.Errorf("the bytes changed:\n got %s\nwant %s", got.JSON, test.raw)
			}
			clear(raw)
			if string(got.JSON) != test.raw || cap(got.JSON) != len(test.raw) {
				t.Error("the object does not own memory of exactly its size")
			}
			got.JSON = nil
			if !reflect.DeepEqual(*got, test.want) {
				t.Errorf("got %+v\nwant %+v", *got, test.want)
			}
		})
	}
}

// An indexer is used again after an object that it could not read.
func TestIndexerForgets(t *testing.T) {
	x := newIndexer(false)
	first, err := x.index([]byte(`{"kind":"Pod","metadata":{"name":"a","namespace":"x","managedFields":[],"uid":"1"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.index([]byte(`{"kind":"Pod","metadata":{"name":`)); err == nil {
		t.Fatal("half an object was accepted")
	}
	second, err := x.index([]byte(`{"kind":"Pod","metadata":{"name":"b"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if second.Namespace != "" || second.UID != "" || string(second.JSON) != `{"kind":"Pod","metadata":{"name":"b"}}` {
		t.Errorf("something of %s is in %s", first.JSON, second.JSON)
	}
}

// FuzzIndex: accepted text is JSON afterwards, means the same but for managedFields, kind and apiVersion, and the index
// agrees with the object.
func FuzzIndex(f *testing.F) {
	for _, raw := range []string{
		samplePod(1),
		`{"metadata":{"name":"\u0061\ud800"},"kind":null}`,
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"creationTimestamp":null,"name":"a.b","resourceVersion":"10","uid":"u"}}`,
		"{ \"kind\" : \"Pod\" ,\n\t\"metadata\" : { \"name\" : \"web\" , \"uid\" : \"u\" } , \"apiVersion\" : \"v1\" }",
		"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{},\"spec\":{\"n\":12345678901234567890.10,\"e\":1e400,\"s\":\"\xff\",\"s\":2}}",
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","namespace":null,"uid":null,"annotations":null,"managedFields":null}}`,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}`, // a bookmark
		`{"metadata":{"name":"a","managedFields":[{"f":{}}]},"kind":"A"}`,
		`{"metadata":{"managedFields":[{"f":{}}],"name":"a"},"kind":"A"}`,
		`{"metadata":{"name":"a","managedFields":[],"uid":"u","namespace":"n"}}`,
		`{"metadata":{"managedFields":[1]},"apiVersion":"own/v1"}`,
		`{"metadata":{"name":"a"},"managedFields":1,"spec":{"metadata":{"managedFields":2}}}`,
		`{"metadata":{ "managedFields" : [] , "name":"a"}}`,
		`{"metadata":{"name":"a" , "managedFields" : [] }}`,
		`{"metadata":{"name":"a" , "managedFields" : [] , "uid":"u"}}`,
		`{"kind":null,"apiVersion":null}`, `{}`, `{ }`,
	} {
		f.Add([]byte(raw), true)
		f.Add([]byte(raw), false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, keepManagedFields bool) {
		x := newIndexer(keepManagedFields)
		x.fallbackKind, x.fallbackVersion = "Thing", "example.com/v1"
		// Only objects come this way: a decoder has cut them out of a list or a stream.
		if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
			_, _ = x.index(raw)
			return
		}
		if strings.Contains(string(raw), `\`) {
			return // in keys they hide a field from the index, as no API server does
		}
		o, err := x.index(raw)
		if err != nil {
			return
		}
		if !json.Valid(o.JSON) || len(o.JSON) != cap(o.JSON) {
			t.Fatalf("%s became %s: no JSON, or not in memory of its size", raw, o.JSON)
		}
		if hasTwins(raw) {
			return // the order of duplicates is undefined
		}
		var was, is map[string]any
		if err := json.Unmarshal(raw, &was); err != nil {
			return // a number that is too large
		}
		if err := json.Unmarshal(o.JSON, &is); err != nil {
			t.Fatal(err)
		}
		if _, ok := was["kind"]; !ok {
			was["kind"] = "Thing"
		}
		if _, ok := was["apiVersion"]; !ok {
			was["apiVersion"] = "example.com/v1"
		}
		metadata, _ := was["metadata"].(map[string]any)
		if metadata != nil && !keepManagedFields {
			delete(metadata, "managedFields")
		}
		if !reflect.DeepEqual(was, is) {
			t.Fatalf("%s became %s", raw, o.JSON)
		}
		if !utf8.Valid(raw) {
			return // encoding/json replaces what is wrong, we keep it
		}
		name, _ := metadata["name"].(string)
		version, _ := metadata["resourceVersion"].(string)
		namespace, _ := metadata["namespace"].(string)
		uid, _ := metadata["uid"].(string)
		kind, _ := is["kind"].(string)
		if o.Name != name || o.ResourceVersion != version || o.Namespace != namespace || o.UID != uid || o.Kind != cmp.Or(kind, "Thing") {
			t.Fatalf("%s was indexed as %+v", raw, o)
		}
	})
}

// hasTwins reports whether any object in text has a key twice.
func hasTwins(text []byte) bool {
	dec := json.NewDecoder(strings.NewReader(string(text)))
	type level struct {
		keys map[string]bool // nil in an array
		key  bool            // a key is next
	}
	var levels []level
	for {
		tok, err := dec.Token()
		if err != nil {
			return false
		}
		switch tok {
		case json.Delim('{'):
			levels = append(levels, level{map[string]bool{}, true})
			continue
		case json.Delim('['):
			levels = append(levels, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:len(levels)-1]
		default:
			if top := len(levels) - 1; top >= 0 && levels[top].key {
				if levels[top].keys[tok.(string)] {
					return true
				}
				levels[top].keys[tok.(string)], levels[top].key = true, false
				continue
			}
		}
		if top := len(levels) - 1; top >= 0 && levels[top].keys != nil {
			levels[top].key = true
		}
	}
}
