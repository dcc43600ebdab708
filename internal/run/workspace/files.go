package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Files are those of one run.
type Files struct {
	dir                                                           string
	contexts, metrics, admission, conversion, http, patch, result string
	// heads are those of the contexts, for the shell library, which finds them by this name. Most runs have none.
	heads string
	// hasHeads reports that the file of heads was written.
	hasHeads bool
	// calls is made by the first call of kubectl, if at all.
	calls string
	// stdout and stderr are named pipes, if a worker serves the run.
	stdout, stderr string
	// own are variables that name other files of the hook.
	own []string
	// written is the file of contexts as WriteContexts has left it.
	written fileContent
}

// fileContent changes when a program writes to a file, or replaces it. To change the mode of the file is neither.
type fileContent struct {
	inode    uint64
	size     int64
	modified unix.Timespec
}

// contentOf returns the zero value for what is no regular file.
func contentOf(path string) (c fileContent) {
	var stat unix.Stat_t
	if unix.Lstat(path, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return c
	}
	return fileContent{stat.Ino, stat.Size, stat.Mtim}
}

func filesIn(dir string) *Files {
	in := func(name string) string { return filepath.Join(dir, name) }
	return &Files{
		dir: dir, contexts: in("binding-context.json"), heads: in("binding-context.heads"), metrics: in("metrics.json"),
		admission: in("admission-response.json"), conversion: in("conversion-response.json"), http: in("http-response.json"),
		patch: in("object-patch"), result: in("result"),
		calls: in("kubectl-calls"), stdout: in("stdout"), stderr: in("stderr"),
	}
}

// all are the contexts and then the files that hooks may write.
func (f *Files) all() []string {
	return []string{f.contexts, f.metrics, f.admission, f.conversion, f.http, f.patch, f.result}
}

// create makes the directory, and the files that hooks may write.
func (f *Files) create() error {
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		return err
	}
	for _, path := range f.all()[1:] {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}

// WriteContexts makes the file of binding contexts and lets write fill it. If that fails, there is no file.
func (f *Files) WriteContexts(write func(io.Writer) error) error {
	file, err := os.OpenFile(f.contexts, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot create the binding context file: %w", err)
	}
	if err := errors.Join(write(&contextFile{file}), file.Close()); err != nil {
		_ = os.Remove(f.contexts)
		return fmt.Errorf("cannot write the binding context file: %w", err)
	}
	f.written = contentOf(f.contexts)
	return nil
}

// WriteHeads makes the file of the heads of the contexts, which is never older than that of the contexts. If that fails, there is no file,
// and the shell library reads the contexts themselves.
func (f *Files) WriteHeads(heads []byte) {
	if heads == nil {
		return
	}
	f.hasHeads = true
	file, err := os.OpenFile(f.heads, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.Write(heads)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		_ = os.Remove(f.heads)
	}
}

// Contexts is the path of the file of binding contexts.
func (f *Files) Contexts() string { return f.contexts }

// ContextsChanged reports that the file of binding contexts is no longer the one that was written.
func (f *Files) ContextsChanged() bool { return contentOf(f.contexts) != f.written }

// contextFile has WritePieces where the system can do it.
type contextFile struct{ *os.File }

// remove removes the known files one by one: to let os.RemoveAll find them costs several times as much.
func (f *Files) remove() error {
	known := append(f.all(), f.calls)
	if f.hasHeads {
		known = append(known, f.heads)
	}
	for _, path := range known {
		_ = os.Remove(path) // it may be a directory by now
	}
	return removeBelow(filepath.Dir(f.dir), filepath.Base(f.dir))
}

// Own returns the variables that are equal for all runs of the hook.
func (f *Files) Own() []string { return f.own }

// Pipes are the paths of the named pipes for the output of a run that a worker serves.
func (f *Files) Pipes() (stdout, stderr string) { return f.stdout, f.stderr }

// Environment returns the variables that name the files of the run.
func (f *Files) Environment() []string {
	return []string{
		"BINDING_CONTEXT_PATH=" + f.contexts,
		"METRICS_PATH=" + f.metrics,
		"KUBERNETES_PATCH_PATH=" + f.patch,
		"VALIDATING_RESPONSE_PATH=" + f.admission,
		"ADMISSION_RESPONSE_PATH=" + f.admission,
		"CONVERSION_RESPONSE_PATH=" + f.conversion,
		"HTTP_RESPONSE_PATH=" + f.http,
		"RUN_RESULT_PATH=" + f.result,
	}
}

// Outputs is the content of the files that a hook wrote; nil stands for an empty file.
type Outputs struct {
	Metrics, Admission, Conversion, HTTP, Patch, Result []byte
}

// Outputs reads the files that a hook may have written. A missing one is an error, because the hook's intent is unknown.
func (f *Files) Outputs() (Outputs, error) {
	var out Outputs
	var errs []error
	for _, file := range [...]struct {
		variable, path string
		into           *[]byte
	}{
		{"METRICS_PATH", f.metrics, &out.Metrics},
		{"ADMISSION_RESPONSE_PATH", f.admission, &out.Admission},
		{"CONVERSION_RESPONSE_PATH", f.conversion, &out.Conversion},
		{"HTTP_RESPONSE_PATH", f.http, &out.HTTP},
		{"KUBERNETES_PATCH_PATH", f.patch, &out.Patch},
		{"RUN_RESULT_PATH", f.result, &out.Result},
	} {
		content, err := readOutput(file.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("the hook removed the file that $%s names: leave it empty instead", file.variable))
		case err != nil:
			errs = append(errs, fmt.Errorf("cannot read what the hook wrote to $%s: %w", file.variable, err))
		}
		*file.into = content
	}
	return out, errors.Join(errs...)
}

// maxOutput limits one file: the whole of it is in memory while it is checked.
const maxOutput = 256 << 20

// readOutput returns the content of a regular file, or nil if it is empty. Anything else that a hook may have put in its
// place, such as a pipe, could block the reader.
func readOutput(path string) ([]byte, error) {
	if info, err := os.Lstat(path); err != nil || info.Mode().IsRegular() && info.Size() == 0 {
		return nil, err // most hooks leave most files empty, and to open one costs more
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("it is no longer a file, but %s: write into the file that is there", kindOf(info.Mode()))
	case info.Size() > maxOutput:
		return nil, fmt.Errorf("it is %d bytes long, more than %d: hand back less in one run", info.Size(), maxOutput)
	case info.Size() == 0:
		return nil, nil
	}
	content := make([]byte, info.Size())
	n, err := io.ReadFull(f, content)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // a process that the hook left behind has truncated it
	}
	if n == 0 {
		return nil, err
	}
	return content[:n], err
}

// CallsFile is where the calls of kubectl by the run are recorded.
func (f *Files) CallsFile() string { return f.calls }

// maxCalls limits what Calls returns: 50,000 calls.
const maxCalls = 1 << 20

// Calls returns the beginning of CallsFile. It serves statistics only, so that it cannot be read is no error.
func (f *Files) Calls() []byte {
	if missing(f.calls) {
		return nil
	}
	file, err := os.OpenFile(f.calls, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	content, _ := io.ReadAll(io.LimitReader(file, maxCalls))
	return content
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something of the mode " + mode.String()
}

// safe is a hook's name as part of a file name: letters and digits, with a dash for whatever is between them.
func safe(hookName string) string {
	name := make([]byte, 0, min(len(hookName), 100))
	dash := false
	for i := 0; i < len(hookName) && len(name) < 100; i++ {
		c := hookName[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			if dash && len(name) > 0 {
				name = append(name, '-')
			}
			name, dash = append(name, c), false
		default:
			dash = true
		}
	}
	return string(name[:min(len(name), 100)])
}
