package recording

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// maxBytes bounds all recordings together. Files are counted as their blocks.
const (
	maxBytes = 32 << 20
	block    = 4 << 10
	// maxError bounds the error text of a recording.
	maxError = 16 << 10
)

// Options of a Recorder. Dir, Filters and Log are required.
type Options struct {
	// Dir is created with mode 0700, and removed by Close.
	Dir string
	// Default is the mode of hooks without one. With hook.RecordNone, nothing is recorded whatever hooks set.
	Default hook.Record
	Filters *jq.Compiler
	Log     *slog.Logger
}

// Recorder is the Companion of runs that keeps recordings in files.
type Recorder struct {
	opts  Options
	limit int64
	// writing is held while a run is recorded.
	writing sync.Mutex

	mu sync.Mutex // guards what follows
	// kept are in the order in which the runs ended, size is the sum of their sizes.
	kept []*file
	size int64
	// until is the end of the time in which all runs of a hook are recorded, by its name.
	until  map[string]time.Time
	closed bool
}

// file is a recording.
type file struct {
	hook, run string
	// last: only because it is the last failed run of its hook.
	last bool
	path string
	// length is the number of bytes, size the number in their blocks.
	length, size int64
}

// of reports whether f records a run, or the last attempt of a task.
func (f *file) of(run string) bool {
	task, _, _ := strings.Cut(f.run, "-")
	return f.run == run || task == run
}

// New returns a Recorder.
func New(o Options) (*Recorder, error) {
	if o.Default == "" {
		o.Default = hook.RecordFailures
	}
	if err := os.Mkdir(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of the recordings: %w", err)
	}
	return &Recorder{opts: o, limit: maxBytes, until: map[string]time.Time{}}, nil
}

// Close removes all recordings.
func (r *Recorder) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.writing.Lock() // the last one is written
	defer r.writing.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept, r.size = nil, 0
	return os.RemoveAll(r.opts.Dir)
}

// mode is what is recorded of a hook, and whether everything is for a while.
func (r *Recorder) mode(h *hook.Hook) (mode hook.Record, always bool) {
	if r.opts.Default == hook.RecordNone {
		return hook.RecordNone, false
	}
	mode = cmp.Or(h.Settings.Record, r.opts.Default)
	if mode != hook.RecordFailures {
		return mode, mode == hook.RecordAll
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return mode, time.Now().Before(r.until[h.Name])
}

// RecordAll records all runs of a hook until a time; false if nothing of the hook is recorded. A dry run only checks that.
func (r *Recorder) RecordAll(h *hook.Hook, until time.Time, dryRun bool) bool {
	if mode, _ := r.mode(h); mode == hook.RecordNone {
		return false
	}
	if !dryRun {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.until[h.Name] = until
	}
	return true
}

// Run is what a run has when it has ended.
type Run struct {
	Hook    *hook.Hook
	ID      string
	Attempt int
	// Events are what the run was for, without values.
	Events []string
	// Contexts is the file of binding contexts, and ContextsChanged reports that it is not as the operator has written it: whether what the
	// hook has put there has a Secret is unknown.
	Contexts        string
	ContextsChanged bool
	Outputs         workspace.Outputs
	// File is what the result file requests.
	File effect.Result
	// HookFailed reports that the process failed, Unread that a file of it could not be read, SecretCalls that it may have called kubectl on
	// Secrets.
	HookFailed  bool
	Unread      bool
	SecretCalls bool
	Exit, Error string
	// Output is the end of what the hook printed.
	Output string
}

// keepRun records a run. While another one is being recorded, it waits if all runs of the hook are recorded, and does nothing otherwise:
// runs that fail together must not wait for each other. It logs errors.
func (r *Recorder) keepRun(run Run) {
	_, always := r.mode(run.Hook)
	if always {
		r.writing.Lock()
	} else if !r.writing.TryLock() {
		return
	}
	defer r.writing.Unlock()
	if err := r.keep(&file{hook: run.Hook.Name, run: run.ID, last: !always}, run); err != nil {
		r.opts.Log.Warn("A run is not recorded", "hook", run.Hook.Name, "run", run.ID, "error", err.Error())
	}
}

// read returns the binding contexts of a run.
func (r *Recorder) read(run Run) ([]byte, error) {
	info, err := os.Lstat(run.Contexts)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(), run.ContextsChanged:
		return nil, errors.New("the hook has changed or replaced the file of its binding contexts")
	case run.Outputs.Large != nil:
		return nil, fmt.Errorf("its file of operations is large: %d bytes", run.Outputs.Large.Size())
	}
	size := info.Size()
	for _, text := range [][]byte{run.Outputs.Patch, run.Outputs.Metrics, run.Outputs.Admission, run.Outputs.Conversion, run.Outputs.HTTP} {
		size += int64(len(text))
	}
	if size > r.limit {
		return nil, tooLarge(size, r.limit)
	}
	return os.ReadFile(run.Contexts)
}

// keep writes a recording, and adds it to the others, instead of the last failed run of the hook.
func (r *Recorder) keep(f *file, run Run) error {
	contexts, err := r.read(run)
	if err != nil {
		return err
	}
	r.mu.Lock()
	closed := r.closed
	r.remove(func(other *file) bool { return other.last && f.last && other.hook == f.hook })
	r.mu.Unlock()
	if closed {
		return errors.New("the operator is shutting down")
	}
	to, err := r.open(f)
	if err != nil {
		return err
	}
	if err = r.write(to, contexts, run); err == nil {
		f.length, err = to.Seek(0, io.SeekCurrent)
	}
	if err = errors.Join(err, to.Close()); err == nil {
		err = r.add(f)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(f.path)))
	}
	return nil
}

// open makes the file of a recording, and sets its path.
func (r *Recorder) open(f *file) (*os.File, error) {
	f.path = filepath.Join(r.opts.Dir, f.run+".json")
	if err := os.MkdirAll(r.opts.Dir, 0o700); err != nil { // a cleaner of temporary files may have removed it
		return nil, err
	}
	return os.OpenFile(f.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func tooLarge(size, limit int64) error {
	return fmt.Errorf("it is larger than %d MiB, the limit of all recordings: %d bytes", limit>>20, size)
}

// write writes a recording. The contexts come first, and are not held a second time.
func (r *Recorder) write(to io.Writer, contexts []byte, run Run) error {
	reason, err := ofContexts(run.Hook, contexts)
	if err != nil {
		return err
	}
	found, addresses, secret := outcome(&run, r.opts.Filters)
	switch {
	case reason != "":
	case run.Unread:
		reason = unreadFile
	case secret:
		reason = secretOperations
	case run.SecretCalls:
		reason = secretCalls
	}
	rec := Recording{
		Version: Version, Hook: run.Hook.Name, Run: run.ID, Attempt: run.Attempt, Ended: time.Now().UTC(), WithoutValues: reason,
		Events: run.Events,
		Result: Result{Exit: run.Exit, Error: cut(run.Error, maxError), Output: lines(run.Output), Outcome: found},
	}
	version := fmt.Sprintf(`{"version":%d,`, Version)
	w := bufio.NewWriter(to)
	_, _ = w.WriteString(version)
	if reason == "" {
		_, _ = w.WriteString(`"contexts":`)
		_, _ = w.Write(contexts)
		_, _ = w.WriteString(",")
	} else {
		rec.Result = rec.Result.withoutValues(addresses)
	}
	rest, err := marshal(rec)
	if err != nil {
		return err
	}
	_, _ = w.Write(bytes.TrimPrefix(rest, []byte(version)))
	_, _ = w.WriteString("\n")
	return w.Flush() // it keeps the first error
}

func lines(output string) []string {
	if output == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(output, "\n"), "\n")
}

// add keeps a recording that is written, and removes others until all limits hold.
func (r *Recorder) add(f *file) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.size = (f.length + block - 1) / block * block
	if f.size > r.limit {
		return tooLarge(f.size, r.limit)
	}
	r.kept = append(r.kept, f)
	r.size += f.size
	for r.size > r.limit {
		oldest := r.kept[0]
		r.remove(func(other *file) bool { return other == oldest })
	}
	return nil
}

// remove removes the recordings that match.
func (r *Recorder) remove(match func(*file) bool) {
	r.kept = slices.DeleteFunc(r.kept, func(f *file) bool {
		if !match(f) {
			return false
		}
		r.size -= f.size
		if err := ignoreMissing(os.Remove(f.path)); err != nil {
			r.opts.Log.Warn("Cannot remove a recording", "run", f.run, "error", err.Error())
		}
		return true
	})
}

// Read returns the recording of a run, by its id or by the id of its task for the last attempt; nil if there is none.
func (r *Recorder) Read(run string) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range slices.Backward(r.kept) {
		if f.of(run) {
			text, err := os.ReadFile(f.path)
			return text, ignoreMissing(err)
		}
	}
	return nil, nil
}
