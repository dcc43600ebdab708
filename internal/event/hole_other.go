//go:build !linux

package event

import (
	"errors"
	"os"
)

func punch(*os.File, int64, int64) error { return errors.ErrUnsupported }
