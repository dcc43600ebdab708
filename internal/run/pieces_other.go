//go:build !linux

package run

import "os"

// contextFile is a plain file: here nothing is gained by writing pieces.
type contextFile struct{ *os.File }
