//go:build !linux

package chaos

import (
	"errors"
	"testing"
)

func diskFaults() []fault { return nil }

func mayMount(*testing.T) error { return errors.ErrUnsupported }
