package dev

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/run/recording"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// AddCase adds a case for a recording, or for binding contexts, to a test file, which it creates if there is none. The case expects that
// the run succeeds. The recording is copied to the directory fixtures beside the file; AddCase returns the copy.
func AddCase(file, name, from string) (fixture string, err error) {
	if !strings.HasSuffix(file, testfile.Suffix) {
		return fixture, fmt.Errorf("%s is no test file: its name must end with %s", file, testfile.Suffix)
	}
	recordingText, err := os.ReadFile(from)
	if err != nil {
		return fixture, fmt.Errorf("cannot read the recording: %w", err)
	}
	_, contexts, err := recording.Open(recordingText)
	if err == nil {
		_, _, err = wire.ReadContexts(contexts)
	}
	if err != nil {
		return fixture, fmt.Errorf("%s: %w", from, err)
	}
	text, err := os.ReadFile(file)
	isNew := errors.Is(err, fs.ErrNotExist)
	if err != nil && !isNew {
		return fixture, fmt.Errorf("cannot read the test file: %w", err)
	}
	newText, err := testfile.Append(text, name, path.Join("fixtures", filepath.Base(from)))
	if err != nil {
		return fixture, fmt.Errorf("%s: %w", file, err)
	}
	if fixture, err = copyFixture(filepath.Join(filepath.Dir(file), "fixtures"), filepath.Base(from), recordingText); err != nil {
		return fixture, err
	}
	if isNew {
		err = create(file, newText, 0o644)
	} else {
		err = rewrite(file, text, newText)
	}
	if err != nil {
		return fixture, fmt.Errorf("cannot write the test file: %w", err)
	}
	return fixture, nil
}

// copyFixture writes a file unless it is there already.
func copyFixture(dir, name string, text []byte) (string, error) {
	at := filepath.Join(dir, name)
	there, err := os.ReadFile(at)
	switch {
	case err == nil && bytes.Equal(there, text):
		return at, nil
	case err == nil:
		return at, fmt.Errorf("%s exists and has other text, it is not overwritten: give the recording another name", at)
	case !errors.Is(err, fs.ErrNotExist):
		return at, fmt.Errorf("cannot copy the recording: %w", err)
	}
	if err := create(at, text, 0o644); err != nil {
		return at, fmt.Errorf("cannot copy the recording: %w", err)
	}
	return at, nil
}
