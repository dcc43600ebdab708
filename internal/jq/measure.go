package jq

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
)

// measure looks whether JSON can express a value, and how long its text is about. A filter can put the same value into
// another one many times over: that takes next to no memory, and its text would take more than there is.
func measure(v any) error {
	left := maxBytes
	return measureIn(v, &left, 0)
}

func measureIn(v any, left *int, depth int) error {
	size := 1
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return errors.New("the result has a number that JSON cannot express (nan or infinite)")
		}
	case string:
		size = len(v) + 2
	case json.Number:
		size = len(v)
	case *big.Int:
		size = v.BitLen() / 3
	}
	if *left -= size; *left < 0 {
		return fmt.Errorf("the result is more than %d bytes long: select less", maxBytes)
	}
	if depth > maxDepth {
		return fmt.Errorf("the result is nested more than %d deep: does the filter end?", maxDepth)
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := measureIn(e, left, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, e := range v {
			*left -= len(key) + 3
			if err := measureIn(e, left, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
