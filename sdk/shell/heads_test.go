package shell

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/heads"
)

// TestHeadsOfRandomContexts: the library reads the same by the heads and with jq.
func TestHeadsOfRandomContexts(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		var contexts []any
		for range 40 {
			contexts = append(contexts, randomContext(r))
		}
		file, err := json.Marshal(contexts)
		if err != nil {
			t.Fatal(err)
		}
		heads.Check(t, file)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func randomContext(r *rand.Rand) map[string]any {
	c := map[string]any{"binding": randomWord(r), "type": randomWord(r)}
	for _, key := range []string{"watchEvent", "groupName", "fromVersion", "toVersion"} {
		if r.IntN(4) == 0 {
			c[key] = randomWord(r)
		}
	}
	for _, key := range []string{"filterResult", "objects", "snapshots", "deleting", "review", "managedFields"} {
		if r.IntN(2) == 0 {
			c[key] = randomValue(r, 4)
		}
	}
	if r.IntN(2) == 0 {
		c["object"] = map[string]any{randomText(r): randomValue(r, 3),
			"metadata": map[string]any{randomText(r): randomValue(r, 3), "managedFields": 1}}
	}
	return c
}

// randomWord is a text without the marks of a head.
func randomWord(r *rand.Rand) string {
	return strings.NewReplacer("\x00", "", "\x1e", "", "\x1f", "").Replace(randomText(r))
}

var pieces = []string{"a", "binding", "managedFields", "0", "-1", " ", "\n", "\t", "\x01", "\x1e", "\x1f", "\x7f", "\u0085", "\u2028", "é",
	"😀", `"`, `\`, "'",
	"$x", "`", "*", "[", "]", "{", "}", ",", "<", "&", "/", "\x00", "%s", "!", "~", "=", strings.Repeat("long", 40)}

func randomText(r *rand.Rand) string {
	var text strings.Builder
	for range r.IntN(4) {
		text.WriteString(pieces[r.IntN(len(pieces))])
	}
	return text.String()
}

func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(12); {
	case n < 3 && depth > 0:
		m := map[string]any{}
		for range r.IntN(5) {
			m[randomText(r)] = randomValue(r, depth-1)
		}
		return m
	case n < 5 && depth > 0:
		list := []any{}
		for range r.IntN(5) {
			list = append(list, randomValue(r, depth-1))
		}
		return list
	case n < 6:
		return []any{nil, true, false}[r.IntN(3)]
	case n < 8:
		return json.Number([]string{"0", "-0", "7", "-7", "1.50", "1e3", "1E-2", "123456789012345", "1234567890123456",
			"100000000000000000000"}[r.IntN(10)])
	}
	return randomText(r)
}
