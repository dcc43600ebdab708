package pages

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Same compares JSON that a page shows with what is there: the same keys and the same values. Objects of the cluster are
// shortened on pages: below the keys object and review, only what is shown has to be there.
func Same(shown, got string) error { return compare(shown, got, comparer{}) }

// SameKeys is for answers whose values differ from one time to the next: keys and types have to be the same. Of a list, each
// item that is shown has to be like one that is there.
func SameKeys(shown, got string) error { return compare(shown, got, comparer{anyValue: true}) }

func compare(shown, got string, c comparer) error {
	var s, g any
	if err := json.Unmarshal([]byte(shown), &s); err != nil {
		return fmt.Errorf("what is shown is no JSON: %w", err)
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		return fmt.Errorf("what is there is no JSON: %w", err)
	}
	return c.value("", s, g)
}

type comparer struct{ anyValue, shortened bool }

func (c comparer) value(at string, shown, got any) error {
	switch s := shown.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			return c.object(at, s, g)
		}
	case []any:
		if g, ok := got.([]any); ok {
			return c.list(at, s, g)
		}
	case string:
		g, ok := got.(string)
		if s == "…" || ok && (c.anyValue || s == g || strings.Contains(s, "…") && Like(g, s)) {
			return nil
		}
	default:
		if shown == got || c.anyValue && shown != nil && fmt.Sprintf("%T", shown) == fmt.Sprintf("%T", got) {
			return nil
		}
	}
	return fmt.Errorf("%s: %v is shown, %v is there", at, shown, got)
}

func (c comparer) object(at string, shown, got map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(shown)) {
		g, ok := got[key]
		if !ok {
			return fmt.Errorf("%s.%s is shown, and not there", at, key)
		}
		below := c
		below.shortened = c.shortened || key == "object" || key == "review"
		if err := below.value(at+"."+key, shown[key], g); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := shown[key]; !ok && !c.shortened {
			return fmt.Errorf("%s.%s is there, and not shown", at, key)
		}
	}
	return nil
}

func (c comparer) list(at string, shown, got []any) error {
	if !c.anyValue && len(shown) != len(got) {
		return fmt.Errorf("%s: %d items are shown, %d are there", at, len(shown), len(got))
	}
	for i, s := range shown {
		candidates := got
		if !c.anyValue {
			candidates = got[i : i+1]
		}
		err := fmt.Errorf("%s: nothing is there", at)
		for _, g := range candidates {
			if err = c.value(fmt.Sprintf("%s[%d]", at, i), s, g); err == nil {
				break
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
